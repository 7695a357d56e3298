//! Updates of objects, and the fields that a write leaves unchanged.

use insula_kinds::{Value, defaults, prepare};
use serde_json::json;

use crate::{NOW, at, created, kind, object, updated};

#[test]
fn daemon_set_counts_template_changes() {
    let sets = kind("apps", "daemonsets");
    let counter = |set: &Value| {
        set["metadata"]["annotations"]["deprecated.daemonset.template.generation"].clone()
    };
    let set = created(sets, json!({"metadata": {"name": "d"}}));
    assert_eq!(counter(&set), "1");
    let same = updated(
        sets,
        None,
        &set,
        json!({"metadata": {"name": "d"}, "spec": {"minReadySeconds": 5}}),
    );
    assert_eq!(
        (counter(&same), at(&same, "metadata.generation")),
        (json!("1"), json!(2))
    );
    let template = json!({"spec": {"hostNetwork": true}});
    let changed = updated(sets, None, &set, json!({"spec": {"template": template}}));
    assert_eq!(
        (counter(&changed), at(&changed, "metadata.generation")),
        (json!("2"), json!(2))
    );
    let status = updated(
        sets,
        Some("status"),
        &set,
        json!({"spec": {"template": template}}),
    );
    assert_eq!(
        (counter(&status), at(&status, "metadata.generation")),
        (json!("1"), json!(1))
    );
}

#[test]
fn update_resets_fields_it_does_not_own() {
    let old = json!({
        "metadata": {
            "name": "a", "uid": "u", "labels": {"l": "old"}, "annotations": {"a": "old"},
            "finalizers": ["f/old"], "ownerReferences": [{"name": "old"}],
        },
        "spec": {"is": "old"},
        "status": {"is": "old"},
    });
    let new = json!({
        "metadata": {
            "name": "a", "labels": {"l": "new"}, "annotations": {"a": "new"},
            "finalizers": ["f/new"], "ownerReferences": [{"name": "new"}],
        },
        "spec": {"is": "new"},
        "status": {"is": "new"},
    });
    // Which of spec, status, labels, annotations and owners a write changes.
    let cases = [
        (
            "apps",
            "statefulsets",
            None,
            [true, false, true, true, true],
        ),
        (
            "apps",
            "statefulsets",
            Some("status"),
            [false, true, true, true, true],
        ),
        (
            "apps",
            "deployments",
            Some("status"),
            [false, true, false, true, true],
        ),
        ("", "pods", Some("status"), [false, true, true, true, false]),
        ("", "nodes", None, [true, false, true, true, true]),
        ("", "tenants", None, [true, false, true, true, true]),
        (
            "",
            "tenants",
            Some("finalize"),
            [true, false, true, true, true],
        ),
        (
            "networking.k8s.io",
            "servicecidrs",
            Some("status"),
            [false, true, false, false, false],
        ),
        (
            "apiregistration.k8s.io",
            "apiservices",
            Some("status"),
            [false, true, false, false, false],
        ),
        (
            "flowcontrol.apiserver.k8s.io",
            "flowschemas",
            Some("status"),
            [false, true, false, false, false],
        ),
        (
            "certificates.k8s.io",
            "certificatesigningrequests",
            None,
            [false, false, true, true, true],
        ),
        (
            "certificates.k8s.io",
            "certificatesigningrequests",
            Some("status"),
            [false, true, true, true, true],
        ),
        (
            "certificates.k8s.io",
            "certificatesigningrequests",
            Some("approval"),
            [false, false, true, true, true],
        ),
    ];
    for (group, resource, subresource, takes) in cases {
        let made = updated(kind(group, resource), subresource, &old, new.clone());
        let paths = [
            "spec.is",
            "status.is",
            "metadata.labels.l",
            "metadata.annotations.a",
            "metadata.ownerReferences.0.name",
        ];
        for (path, takes) in paths.into_iter().zip(takes) {
            let wanted = if takes { "new" } else { "old" };
            assert_eq!(at(&made, path), wanted, "{resource} {subresource:?} {path}");
        }
        assert_eq!(at(&made, "metadata.uid"), "u", "{resource} {subresource:?}");
    }
}

#[test]
fn tenant_spec_and_finalizers_are_updated_separately() {
    let old = json!({"metadata": {"name": "a"},
        "spec": {"finalizers": ["arktos"], "quota": {"objects": 1}}});
    let new = json!({"metadata": {"name": "a"},
        "spec": {"finalizers": [], "quota": {"objects": 2}}});
    let tenants = kind("", "tenants");
    let limited = updated(tenants, None, &old, new.clone());
    let wanted = json!({"finalizers": ["arktos"], "quota": {"objects": 2}});
    assert_eq!(limited["spec"], wanted);
    let let_go = updated(tenants, Some("finalize"), &old, new);
    assert_eq!(
        let_go["spec"],
        json!({"finalizers": [], "quota": {"objects": 1}})
    );
}

#[test]
fn update_keeps_server_owned_metadata() {
    let old = json!({"metadata": {
        "name": "a", "uid": "u", "creationTimestamp": NOW, "generation": 4,
        "deletionTimestamp": NOW, "deletionGracePeriodSeconds": 30,
    }});
    let maps = kind("", "configmaps");
    let bare = updated(maps, None, &old, json!({"metadata": {"name": "a"}}));
    assert_eq!(bare["metadata"], old["metadata"]);
    let wrong = json!({"metadata": {
        "name": "a", "uid": "other", "creationTimestamp": "1999-01-01T00:00:00Z",
        "generation": 9, "deletionTimestamp": "1999-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 1,
    }});
    let wrong = updated(maps, None, &old, wrong);
    // Invalid changes of immutable fields are left for validation to reject.
    assert_eq!(at(&wrong, "metadata.uid"), "other");
    assert_eq!(at(&wrong, "metadata.deletionGracePeriodSeconds"), 1);
    assert_eq!(at(&wrong, "metadata.creationTimestamp"), NOW);
    assert_eq!(at(&wrong, "metadata.deletionTimestamp"), NOW);
    assert_eq!(at(&wrong, "metadata.generation"), 4);
}

#[test]
fn generation_counts_spec_changes() {
    let old = |spec: Value| json!({"metadata": {"name": "a", "generation": 1}, "spec": spec});
    let cases = [
        // Equal values in different notations.
        (
            "apps",
            "replicasets",
            json!({"replicas": 1}),
            json!({"spec": {"minReadySeconds": 0}}),
            1,
        ),
        (
            "apps",
            "replicasets",
            json!({"replicas": 1}),
            json!({"spec": {"replicas": 2}}),
            2,
        ),
        (
            "apps",
            "replicasets",
            json!({"replicas": 1}),
            json!({"metadata": {"labels": {"a": "b"}}}),
            1,
        ),
        // Deployments also count annotations, and EndpointSlices labels.
        (
            "apps",
            "deployments",
            Value::Null,
            json!({"metadata": {"annotations": {"a": "b"}}}),
            2,
        ),
        (
            "discovery.k8s.io",
            "endpointslices",
            Value::Null,
            json!({"metadata": {"labels": {"a": "b"}}}),
            2,
        ),
        (
            "scheduling.k8s.io",
            "priorityclasses",
            Value::Null,
            json!({"description": "b"}),
            1,
        ),
        (
            "",
            "configmaps",
            Value::Null,
            json!({"data": {"a": "b"}}),
            1,
        ),
        (
            "storage.k8s.io",
            "csidrivers",
            Value::Null,
            json!({"spec": {"podInfoOnMount": true}}),
            2,
        ),
    ];
    for (group, resource, spec, new, wanted) in cases {
        let kind = kind(group, resource);
        let mut old = object(old(spec));
        defaults::apply(kind, &mut old);
        let made = updated(kind, None, &Value::Object(old), new);
        assert_eq!(at(&made, "metadata.generation"), wanted, "{resource}");
    }
}

#[test]
fn service_keeps_allocated_ips_and_ports() {
    let services = kind("", "services");
    let old = created(
        services,
        json!({"metadata": {"name": "s"}, "spec": {
            "type": "NodePort", "selector": {"a": "b"}, "ports": [{"port": 80, "name": "h"}],
        }}),
    );
    let new = json!({"spec": {
        "type": "NodePort", "selector": {"a": "c"},
        "ports": [{"port": 81, "name": "h"}, {"port": 82, "name": "i"}],
    }});
    let made = updated(services, None, &old, new);
    assert_eq!(made["spec"]["clusterIP"], "10.0.0.1");
    assert_eq!(made["spec"]["clusterIPs"], json!(["10.0.0.1"]));
    assert_eq!(made["spec"]["ipFamilies"], json!(["IPv4"]));
    assert_eq!(made["spec"]["ipFamilyPolicy"], "SingleStack");
    assert_eq!(at(&made, "spec.ports.0.nodePort"), 30001);
    assert_eq!(at(&made, "spec.ports.1.nodePort"), Value::Null);
    let mut made = object(made);
    let mut with = prepare::CreateContext {
        uid: "",
        now: NOW,
        ip_family: "IPv4",
        cluster_ip: &mut || panic!("it has an address"),
        node_port: &mut || 30007,
    };
    prepare::allocate(&mut made, &mut with);
    assert_eq!(at(&Value::Object(made), "spec.ports.1.nodePort"), 30007);
}

#[test]
fn service_type_change_releases_ips_and_ports() {
    let services = kind("", "services");
    let old = created(
        services,
        json!({"metadata": {"name": "s"}, "spec": {
            "type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": [{"port": 80}],
        }}),
    );
    let mut inside = old.clone();
    inside["spec"]["type"] = "ClusterIP".into();
    inside["status"] = json!({"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}});
    let inside = updated(services, None, &old, inside);
    for gone in [
        "externalTrafficPolicy",
        "healthCheckNodePort",
        "allocateLoadBalancerNodePorts",
    ] {
        assert_eq!(at(&inside, &format!("spec.{gone}")), Value::Null, "{gone}");
    }
    assert_eq!(at(&inside, "spec.ports.0.nodePort"), Value::Null);
    assert_eq!(inside["spec"]["clusterIP"], "10.0.0.1");
    let mut external = old.clone();
    external["spec"]["type"] = "ExternalName".into();
    let external = updated(services, None, &old, external);
    for gone in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        assert_eq!(
            at(&external, &format!("spec.{gone}")),
            Value::Null,
            "{gone}"
        );
    }
}

#[test]
fn secret_string_data_is_encoded_on_update() {
    let secrets = kind("", "secrets");
    let old = created(secrets, json!({"data": {"a": "eA=="}}));
    let new = json!({"data": {"a": "eA=="}, "stringData": {"a": "b", "c": "ü"}});
    let made = updated(secrets, None, &old, new);
    assert_eq!(made["data"], json!({"a": "Yg==", "c": "w7w="}));
    assert_eq!(at(&made, "stringData"), Value::Null);
}

#[test]
fn only_finalize_removes_namespace_finalizers() {
    let namespaces = kind("", "namespaces");
    let old = created(namespaces, json!({"metadata": {"name": "n"}}));
    let new = json!({"metadata": {"name": "n", "labels": {"kubernetes.io/metadata.name": "x"}}, "spec": {}});
    let made = updated(namespaces, None, &old, new.clone());
    assert_eq!(made["spec"]["finalizers"], json!(["kubernetes"]));
    assert_eq!(
        made["metadata"]["labels"]["kubernetes.io/metadata.name"],
        "n"
    );
    let made = updated(namespaces, Some("finalize"), &old, new);
    assert_eq!(at(&made, "spec.finalizers"), Value::Null);
}

#[test]
fn crd_update_keeps_all_stored_versions() {
    let definitions = kind("apiextensions.k8s.io", "customresourcedefinitions");
    let version = |name: &str| json!({"spec": {"versions": [{"name": name, "storage": true}]}});
    let old = created(definitions, version("v1"));
    assert_eq!(old["status"]["storedVersions"], json!(["v1"]));
    let made = updated(definitions, None, &old, version("v2"));
    assert_eq!(made["status"]["storedVersions"], json!(["v1", "v2"]));
}

#[test]
fn approvals_and_phases_get_timestamps() {
    let requests = kind("certificates.k8s.io", "certificatesigningrequests");
    let old = json!({"spec": {"a": 1}, "status": {"certificate": "YQ=="}});
    let approved = json!({"status": {"conditions": [{"type": "Approved", "status": "True"}]}});
    let mut made = object(updated(requests, Some("approval"), &old, approved));
    prepare::set_timestamps(
        requests,
        Some("approval"),
        old.as_object().unwrap(),
        &mut made,
        NOW,
    );
    let wanted = json!({"certificate": "YQ==", "conditions": [{
        "type": "Approved", "status": "True", "lastUpdateTime": NOW, "lastTransitionTime": NOW,
    }]});
    assert_eq!(made["status"], wanted);
    let volumes = kind("", "persistentvolumes");
    let old = json!({"status": {"phase": "Pending", "lastPhaseTransitionTime": "t1"}});
    for (phase, wanted) in [("Pending", "t1"), ("Bound", NOW)] {
        let new = json!({"status": {"phase": phase}});
        let mut made = object(updated(volumes, Some("status"), &old, new));
        prepare::set_timestamps(
            volumes,
            Some("status"),
            old.as_object().unwrap(),
            &mut made,
            NOW,
        );
        assert_eq!(made["status"]["lastPhaseTransitionTime"], wanted, "{phase}");
    }
}

#[test]
fn status_update_keeps_approval_conditions() {
    let requests = kind("certificates.k8s.io", "certificatesigningrequests");
    let old = json!({"status": {"conditions": [{"type": "Approved", "reason": "old"}]}});
    let new = json!({"status": {
        "certificate": "YQ==",
        "conditions": [{"type": "Approved", "reason": "new"}, {"type": "Failed"}],
    }});
    let made = updated(requests, Some("status"), &old, new);
    let wanted = json!([{"type": "Approved", "reason": "old"}, {"type": "Failed"}]);
    assert_eq!(made["status"]["conditions"], wanted);
    assert_eq!(made["status"]["certificate"], "YQ==");
}

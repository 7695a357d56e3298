//! What the server writes into objects that are created, updated, scaled and bound.

use insula_kinds::{Kind, Object, Value, defaults, kinds, prepare};
use serde_json::json;

const NOW: &str = "2026-01-02T03:04:05Z";

fn kind(group: &str, resource: &str) -> &'static Kind {
    let found = kinds().find(group, "v1", resource);
    kinds().get(found.unwrap_or_else(|| panic!("{resource} is served")))
}

fn object(value: Value) -> Object {
    match value {
        Value::Object(object) => object,
        other => panic!("{other} is no object"),
    }
}

fn created(kind: &Kind, value: Value) -> Value {
    let mut created = object(value);
    defaults::apply(kind, &mut created);
    let mut port = 30000;
    let mut with = prepare::Creation {
        uid: "u-1",
        now: NOW,
        cluster_ip: &mut || "10.0.0.1".to_owned(),
        node_port: &mut || {
            port += 1;
            port
        },
    };
    prepare::create(kind, &mut created, &mut with);
    Value::Object(created)
}

fn updated(kind: &Kind, subresource: Option<&str>, old: &Value, new: Value) -> Value {
    let mut new = object(new);
    defaults::apply(kind, &mut new);
    prepare::update(kind, subresource, old.as_object().unwrap(), &mut new);
    Value::Object(new)
}

/// What is at a path such as `spec.ports.0.nodePort`; null if nothing is.
fn at(value: &Value, path: &str) -> Value {
    let pointer = format!("/{}", path.replace('.', "/"));
    value.pointer(&pointer).cloned().unwrap_or_default()
}

#[test]
fn a_client_cannot_choose_what_only_the_server_knows() {
    let sent = json!({"metadata": {
        "name": "a", "namespace": "n", "uid": "mine", "creationTimestamp": "1999-01-01T00:00:00Z",
        "deletionTimestamp": "1999-01-01T00:00:00Z", "deletionGracePeriodSeconds": 3,
        "selfLink": "/a", "generation": 7,
    }});
    let map = created(kind("", "configmaps"), sent.clone());
    let wanted = json!({
        "name": "a", "namespace": "n", "uid": "u-1", "creationTimestamp": NOW, "generation": 7,
    });
    assert_eq!(map["metadata"], wanted);
    let class = created(kind("storage.k8s.io", "storageclasses"), sent);
    assert_eq!(at(&class, "metadata.namespace"), Value::Null);
}

#[test]
fn a_status_is_not_created_except_a_nodes() {
    let sent = json!({"metadata": {"name": "a"}, "status": {"replicas": 3, "phase": "Running"}});
    for (group, resource) in [
        ("apps", "deployments"),
        ("apps", "replicasets"),
        ("batch", "jobs"),
        ("", "services"),
        ("", "resourcequotas"),
        ("networking.k8s.io", "ingresses"),
    ] {
        let made = created(kind(group, resource), sent.clone());
        assert_eq!(at(&made, "status.replicas"), Value::Null, "{resource}");
    }
    let node = json!({"metadata": {"name": "a"}, "status": {"capacity": {"cpu": "2"}}});
    let node = created(kind("", "nodes"), node);
    assert_eq!(node["status"]["allocatable"], json!({"cpu": "2"}));
}

#[test]
fn namespaces_and_tenants_are_active_and_held_by_a_finalizer() {
    let sent = json!({"metadata": {"name": "a"}});
    let namespace = created(kind("", "namespaces"), sent.clone());
    assert_eq!(
        namespace["metadata"]["labels"],
        json!({"kubernetes.io/metadata.name": "a"})
    );
    assert_eq!(namespace["spec"]["finalizers"], json!(["kubernetes"]));
    assert_eq!(namespace["status"], json!({"phase": "Active"}));
    let tenant = created(kind("", "tenants"), sent);
    assert_eq!(
        tenant["spec"]["finalizers"],
        json!([prepare::TENANT_FINALIZER])
    );
    assert_eq!(prepare::TENANT_FINALIZER, "arktos");
    assert_eq!(tenant["status"], json!({"phase": "Active"}));
}

#[test]
fn a_pods_quality_follows_from_its_resources() {
    let both = json!({"cpu": "1", "memory": "1Gi"});
    let cases = [
        (json!([{"name": "c"}]), "BestEffort"),
        (
            json!([{"name": "c", "resources": {"limits": both}}]),
            "Guaranteed",
        ),
        (
            json!([{"name": "c", "resources": {"requests": both}}]),
            "Burstable",
        ),
        (
            json!([{"name": "c", "resources": {"limits": {"cpu": "1"}}}]),
            "Burstable",
        ),
        (
            json!([{"name": "c", "resources": {"limits": both}}, {"name": "d"}]),
            "Burstable",
        ),
        (
            json!([{"name": "c", "resources": {
                "limits": {"cpu": "1000m", "memory": "1Gi"}, "requests": {"cpu": "1"},
            }}]),
            "Guaranteed",
        ),
    ];
    for (containers, wanted) in cases {
        let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": containers}});
        let pod = created(kind("", "pods"), pod.clone());
        assert_eq!(
            pod["status"],
            json!({"phase": "Pending", "qosClass": wanted}),
            "{pod}"
        );
    }
}

#[test]
fn a_pod_keeps_its_own_tolerations_and_gates() {
    let pod = json!({"metadata": {"name": "p"}, "spec": {
        "containers": [{"name": "c"}],
        "tolerations": [{"operator": "Exists"}],
        "schedulingGates": [{"name": "g"}],
    }});
    let pod = created(kind("", "pods"), pod);
    assert_eq!(pod["spec"]["tolerations"], json!([{"operator": "Exists"}]));
    let gated = &pod["status"]["conditions"][0];
    assert_eq!(gated["reason"], "SchedulingGated");
    assert_eq!(gated["lastTransitionTime"], NOW);
}

#[test]
fn priority_comes_from_the_class_and_is_zero_without() {
    let pods = kind("", "pods");
    let mut pod = object(json!({"spec": {"containers": []}}));
    let high = prepare::Priority {
        class: "high",
        value: 1000,
        preemption: "Never",
    };
    prepare::admit_priority(&mut pod, high);
    let pod = created(pods, Value::Object(pod));
    assert_eq!(pod["spec"]["priority"], 1000);
    assert_eq!(pod["spec"]["priorityClassName"], "high");
    assert_eq!(pod["spec"]["preemptionPolicy"], "Never");
    let plain = created(pods, json!({"spec": {}}));
    assert_eq!(plain["spec"]["priority"], 0);
    assert_eq!(plain["spec"]["preemptionPolicy"], "PreemptLowerPriority");
    let named = created(pods, json!({"spec": {"priorityClassName": "later"}}));
    assert_eq!(at(&named, "spec.priority"), Value::Null);
}

#[test]
fn a_pod_without_an_account_runs_as_default() {
    let mut pod = object(json!({"spec": {}}));
    prepare::admit_service_account(&mut pod);
    let wanted = json!({"serviceAccountName": "default", "serviceAccount": "default"});
    assert_eq!(pod["spec"], wanted);
    let mut mirror = object(json!({
        "metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}, "spec": {},
    }));
    prepare::admit_service_account(&mut mirror);
    assert_eq!(mirror["spec"], json!({}));
}

#[test]
fn a_service_gets_addresses_and_ports_by_its_type() {
    let services = kind("", "services");
    let headless = created(services, json!({"spec": {"clusterIP": "None"}}));
    assert_eq!(headless["spec"]["clusterIPs"], json!(["None"]));
    assert_eq!(headless["spec"]["ipFamilyPolicy"], "RequireDualStack");
    assert_eq!(headless["spec"]["ipFamilies"], json!(["IPv4", "IPv6"]));
    let selecting = created(
        services,
        json!({"spec": {"clusterIP": "None", "selector": {"a": "b"}}}),
    );
    assert_eq!(selecting["spec"]["ipFamilyPolicy"], "SingleStack");
    assert_eq!(selecting["spec"]["ipFamilies"], json!(["IPv4"]));
    let six = created(services, json!({"spec": {"clusterIP": "fd00::1"}}));
    assert_eq!(six["spec"]["ipFamilies"], json!(["IPv6"]));
    let local = created(
        services,
        json!({"spec": {
            "type": "LoadBalancer",
            "externalTrafficPolicy": "Local",
            "ports": [
                {"port": 53, "protocol": "UDP", "name": "u"},
                {"port": 53, "name": "t"},
                {"port": 80, "name": "h", "nodePort": 31000},
            ],
        }}),
    );
    let ports: Vec<Value> = (0..3)
        .map(|n| at(&local, &format!("spec.ports.{n}.nodePort")))
        .collect();
    assert_eq!(ports, [json!(30001), json!(30001), json!(31000)]);
    assert_eq!(local["spec"]["healthCheckNodePort"], 30002);
    let portless = created(
        services,
        json!({"spec": {
            "type": "LoadBalancer", "allocateLoadBalancerNodePorts": false, "ports": [{"port": 1}],
        }}),
    );
    assert_eq!(at(&portless, "spec.ports.0.nodePort"), Value::Null);
}

#[test]
fn a_job_selects_by_its_identity_unless_by_hand() {
    let jobs = kind("batch", "jobs");
    let job = created(
        jobs,
        json!({"metadata": {"name": "j", "labels": {"a": "b"}}}),
    );
    assert_eq!(
        job["spec"]["selector"],
        json!({"matchLabels": {"batch.kubernetes.io/controller-uid": "u-1"}})
    );
    assert_eq!(job["metadata"]["labels"], json!({"a": "b"}));
    assert_eq!(at(&job, "spec.template.metadata.labels")["job-name"], "j");
    assert_eq!(job["spec"]["completions"], 1);
    let manual = created(
        jobs,
        json!({"spec": {"manualSelector": true, "parallelism": 2}}),
    );
    assert_eq!(at(&manual, "spec.selector"), Value::Null);
    assert_eq!(at(&manual, "spec.completions"), Value::Null);
}

#[test]
fn claims_name_their_source_in_both_fields() {
    let claims = kind("", "persistentvolumeclaims");
    let source = json!({"kind": "PersistentVolumeClaim", "name": "c"});
    let claim = created(claims, json!({"spec": {"dataSource": source}}));
    assert_eq!(claim["spec"]["dataSourceRef"], source);
    let claim = created(
        claims,
        json!({"spec": {"dataSourceRef": {"kind": "Any", "name": "x"}}}),
    );
    assert_eq!(
        claim["spec"]["dataSource"],
        json!({"kind": "Any", "name": "x"})
    );
    let claim = created(
        claims,
        json!({"spec": {"dataSource": {"kind": "Any", "name": "x"}}}),
    );
    assert_eq!(at(&claim, "spec.dataSource"), Value::Null);
    assert_eq!(
        claim["metadata"]["finalizers"],
        json!(["kubernetes.io/pvc-protection"])
    );
}

#[test]
fn a_local_api_service_is_available_at_once() {
    let service = created(
        kind("apiregistration.k8s.io", "apiservices"),
        json!({"spec": {}}),
    );
    let condition = &service["status"]["conditions"][0];
    assert_eq!(
        (&condition["type"], &condition["reason"]),
        (&json!("Available"), &json!("Local"))
    );
    assert_eq!(condition["lastTransitionTime"], NOW);
}

#[test]
fn a_daemon_set_counts_the_changes_of_its_template() {
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
fn a_write_leaves_alone_what_is_not_its_own() {
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
    // Which of spec, status, labels, annotations, owners a write takes.
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
        ("", "tenants", None, [false, false, true, true, true]),
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
fn metadata_of_the_server_survives_an_update() {
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
    // What is wrong and immutable is left for validation to refuse.
    assert_eq!(at(&wrong, "metadata.uid"), "other");
    assert_eq!(at(&wrong, "metadata.deletionGracePeriodSeconds"), 1);
    assert_eq!(at(&wrong, "metadata.creationTimestamp"), NOW);
    assert_eq!(at(&wrong, "metadata.deletionTimestamp"), NOW);
    assert_eq!(at(&wrong, "metadata.generation"), 4);
}

#[test]
fn the_generation_counts_changes_of_the_specification() {
    let old = |spec: Value| json!({"metadata": {"name": "a", "generation": 1}, "spec": spec});
    let cases = [
        // The same, however it is written.
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
        // Deployments count annotations, too, and slices of endpoints labels.
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
fn a_service_keeps_what_it_was_given() {
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
    let mut with = prepare::Creation {
        uid: "",
        now: NOW,
        cluster_ip: &mut || panic!("it has an address"),
        node_port: &mut || 30007,
    };
    prepare::allocate(&mut made, &mut with);
    assert_eq!(at(&Value::Object(made), "spec.ports.1.nodePort"), 30007);
}

#[test]
fn a_service_loses_what_its_new_type_does_not_need() {
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
fn a_secrets_text_becomes_bytes_on_update_too() {
    let secrets = kind("", "secrets");
    let old = created(secrets, json!({"data": {"a": "eA=="}}));
    let new = json!({"data": {"a": "eA=="}, "stringData": {"a": "b", "c": "ü"}});
    let made = updated(secrets, None, &old, new);
    assert_eq!(made["data"], json!({"a": "Yg==", "c": "w7w="}));
    assert_eq!(at(&made, "stringData"), Value::Null);
}

#[test]
fn only_finalize_takes_a_namespaces_finalizers_away() {
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
fn a_definition_remembers_every_version_that_was_stored() {
    let definitions = kind("apiextensions.k8s.io", "customresourcedefinitions");
    let version = |name: &str| json!({"spec": {"versions": [{"name": name, "storage": true}]}});
    let old = created(definitions, version("v1"));
    assert_eq!(old["status"]["storedVersions"], json!(["v1"]));
    let made = updated(definitions, None, &old, version("v2"));
    assert_eq!(made["status"]["storedVersions"], json!(["v1", "v2"]));
}

#[test]
fn approvals_and_phases_are_dated() {
    let requests = kind("certificates.k8s.io", "certificatesigningrequests");
    let old = json!({"spec": {"a": 1}, "status": {"certificate": "YQ=="}});
    let approved = json!({"status": {"conditions": [{"type": "Approved", "status": "True"}]}});
    let mut made = object(updated(requests, Some("approval"), &old, approved));
    prepare::date(
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
        prepare::date(
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
fn a_status_cannot_undo_an_approval() {
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

#[test]
fn a_scale_shows_replicas_and_the_selector_as_text() {
    let deployments = kind("apps", "deployments");
    let deployment = object(json!({
        "metadata": {"name": "d", "namespace": "n", "uid": "u", "resourceVersion": "7",
            "creationTimestamp": NOW, "labels": {"a": "b"}, "generation": 3},
        "spec": {"replicas": 2, "selector": {
            "matchLabels": {"app": "x"},
            "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["b", "a"]},
                {"key": "env", "operator": "Exists"},
                {"key": "old", "operator": "DoesNotExist"},
                {"key": "zone", "operator": "NotIn", "values": ["z"]},
            ],
        }},
        "status": {"replicas": 1},
    }));
    let scale = prepare::scale_of(deployments, &deployment).unwrap();
    let wanted = json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1",
        "metadata": {"name": "d", "namespace": "n", "uid": "u", "resourceVersion": "7",
            "creationTimestamp": NOW},
        "spec": {"replicas": 2},
        "status": {"replicas": 1, "selector": "app=x,env,!old,tier in (a,b),zone notin (z)"},
    });
    assert_eq!(Value::Object(scale), wanted);
    let mut scaled = deployment.clone();
    prepare::apply_scale(deployments, &mut scaled, 0);
    assert_eq!(scaled["spec"]["replicas"], 0);
    assert_eq!(scaled["metadata"]["generation"], 4);
    let none = prepare::scale_of(deployments, &scaled).unwrap();
    assert_eq!(none["spec"], json!({}));
    let controller = object(json!({"spec": {"replicas": 1, "selector": {"a": "b", "c": "d"}}}));
    let scale = prepare::scale_of(kind("", "replicationcontrollers"), &controller).unwrap();
    assert_eq!(
        scale["status"],
        json!({"replicas": 0, "selector": "a=b,c=d"})
    );
    assert_eq!(prepare::scale_of(kind("", "pods"), &controller), None);
}

#[test]
fn a_binding_gives_a_pod_its_node_labels_and_condition() {
    let mut pod = object(json!({
        "metadata": {"name": "p", "generation": 1, "labels": {"a": "1", "b": "1"}},
        "spec": {}, "status": {"phase": "Pending", "nominatedNodeName": "n0", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": "t0"},
        ]},
    }));
    let binding = object(json!({
        "metadata": {"name": "p", "labels": {"b": "2"}, "annotations": {"c": "3"}},
        "target": {"kind": "Node", "name": "n1"},
    }));
    prepare::bind(&mut pod, &binding, NOW);
    let wanted = json!({
        "metadata": {"name": "p", "generation": 1, "labels": {"a": "1", "b": "2"},
            "annotations": {"c": "3"}},
        "spec": {"nodeName": "n1"},
        "status": {"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": NOW},
        ]},
    });
    assert_eq!(Value::Object(pod), wanted);
}

#[test]
fn pods_are_extended_and_resized_by_their_subresources_only_so_far() {
    let pods = kind("", "pods");
    let old = created(
        pods,
        json!({"metadata": {"name": "p", "labels": {"a": "old"}}, "spec": {
            "containers": [{"name": "c", "image": "i:1"}],
        }}),
    );
    let mut new = old.clone();
    new["metadata"]["labels"]["a"] = "new".into();
    new["spec"]["containers"][0]["image"] = "i:2".into();
    new["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": "1"}});
    new["spec"]["ephemeralContainers"] = json!([{"name": "e", "image": "e:1"}]);
    let extended = updated(pods, Some("ephemeralcontainers"), &old, new.clone());
    assert_eq!(at(&extended, "spec.ephemeralContainers.0.name"), "e");
    assert_eq!(at(&extended, "spec.containers.0.image"), "i:1");
    assert_eq!(at(&extended, "metadata.labels.a"), "old");
    assert_eq!(at(&extended, "metadata.generation"), 2);
    let resized = updated(pods, Some("resize"), &old, new.clone());
    assert_eq!(at(&resized, "spec.containers.0.resources.limits.cpu"), "1");
    assert_eq!(at(&resized, "spec.containers.0.image"), "i:1");
    assert_eq!(at(&resized, "spec.ephemeralContainers"), Value::Null);
    new["spec"]["containers"] = json!([]);
    let refused = updated(pods, Some("resize"), &old, new);
    assert_eq!(at(&refused, "metadata.labels.a"), "new");
}

#[test]
fn a_pods_status_forgets_neither_quality_nor_generations() {
    let pods = kind("", "pods");
    let old = json!({"status": {
        "qosClass": "Burstable", "observedGeneration": 3,
        "conditions": [{"type": "Ready", "observedGeneration": 3}],
    }});
    let new =
        json!({"status": {"phase": "Running", "conditions": [{"type": "Ready"}, {"type": "New"}]}});
    let made = updated(pods, Some("status"), &old, new);
    let wanted = json!({
        "phase": "Running", "qosClass": "Burstable", "observedGeneration": 3,
        "conditions": [{"type": "Ready", "observedGeneration": 3}, {"type": "New"}],
    });
    assert_eq!(made["status"], wanted);
}

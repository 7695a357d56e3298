//! Creation of objects.

use insula_kinds::{Value, prepare};
use serde_json::json;

use crate::{NOW, at, created, kind};

#[test]
fn create_resets_server_owned_metadata() {
    let sent = json!({"metadata": {
        "name": "a", "namespace": "n", "uid": "mine", "creationTimestamp": "1999-01-01T00:00:00Z",
        "deletionTimestamp": "1999-01-01T00:00:00Z", "deletionGracePeriodSeconds": 3,
        "generation": 7,
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
fn lease_drops_coordinated_leader_election_fields() {
    let sent = json!({"metadata": {"name": "a"}, "spec": {
        "holderIdentity": "me", "strategy": "OldestEmulationVersion", "preferredHolder": "you",
    }});
    let lease = created(kind("coordination.k8s.io", "leases"), sent);
    assert_eq!(lease["spec"], json!({"holderIdentity": "me"}));
}

#[test]
fn create_drops_status_except_for_nodes() {
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
fn namespaces_and_tenants_are_created_active_with_finalizer() {
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
fn service_is_allocated_ips_and_ports_by_type() {
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
fn job_selects_by_its_uid_unless_selector_is_manual() {
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
fn claim_data_source_fields_are_kept_in_sync() {
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
fn local_api_service_is_created_available() {
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

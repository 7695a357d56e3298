use serde_json::json;

use super::*;

const DOWNGRADE: &str = "once it is used, the provider cannot be downgraded to a version without \
    this field, which would look for the hosts in the namespace of the object";

/// Returns a request for an object in namespace `team-a`.
fn request(version: &str, kind: &str, new: &Value, old: &Value) -> AdmissionRequest {
    let group = match kind.starts_with("IP") {
        true => "ipam.metal3.io",
        false => "infrastructure.cluster.x-k8s.io",
    };
    let operation = if old.is_null() { "CREATE" } else { "UPDATE" };
    serde_json::from_value(json!({
        "uid": "u", "operation": operation,
        "kind": {"group": group, "version": version, "kind": kind},
        "resource": {"group": group, "version": version, "resource": "r"},
        "namespace": "team-a", "name": "x",
        "object": new, "oldObject": old,
    }))
    .unwrap()
}

fn reviewed(kind: &str, new: &Value, old: &Value) -> AdmissionResponse {
    review(&request("v1beta2", kind, new, old))
}

fn warned(texts: &[&str]) -> AdmissionResponse {
    let texts = texts.iter().copied();
    texts.fold(AdmissionResponse::allow(), AdmissionResponse::with_warning)
}

#[test]
fn references_to_other_namespaces_are_refused() {
    let machine = json!({
        "userData": {"name": "s", "namespace": "team-b"},
        "metaData": {"name": "s", "namespace": ""},
        "networkData": {"name": "s", "namespace": "team-a"},
        "dataTemplate": {"name": "t", "namespace": "team-b"},
    });
    for (kind, spec, paths) in [
        (
            "Metal3Machine",
            machine.clone(),
            vec!["spec.userData", "spec.dataTemplate"],
        ),
        (
            "Metal3MachineTemplate",
            json!({"template": {"spec": machine}}),
            vec![
                "spec.template.spec.userData",
                "spec.template.spec.dataTemplate",
            ],
        ),
        (
            "Metal3DataClaim",
            json!({"template": {"name": "t", "namespace": "team-b"}}),
            vec!["spec.template"],
        ),
        (
            "Metal3Data",
            json!({
                "template": {"name": "t", "namespace": "team-a"},
                "claim": {"name": "c", "namespace": "team-b"},
                "metaData": {"name": "s", "namespace": "hosts"},
            }),
            vec!["spec.claim"],
        ),
        (
            "IPClaim",
            json!({"pool": {"name": "p", "namespace": "team-b"}}),
            vec!["spec.pool"],
        ),
        (
            "IPAddress",
            json!({"pool": {"name": "p", "namespace": "team-b"}, "claim": {"name": "c"}}),
            vec!["spec.pool"],
        ),
    ] {
        let object = json!({"metadata": {"name": "x"}, "spec": spec});
        let problems: Vec<_> = paths
            .iter()
            .map(|path| {
                format!("{path}.namespace: only the namespace of the object itself is allowed")
            })
            .collect();
        let expected = AdmissionResponse::deny_with(422, "Invalid", problems.join("; "));
        assert_eq!(reviewed(kind, &object, &Value::Null), expected, "{kind}");
        // An older object can still be changed in other fields.
        let mut changed = object.clone();
        changed["metadata"]["finalizers"] = json!([]);
        let allowed = AdmissionResponse::allow();
        assert_eq!(reviewed(kind, &changed, &object), allowed, "{kind}");
    }
}

#[test]
fn requested_address_of_a_claim_is_an_address() {
    let claim = |address: &str| {
        json!({
            "metadata": {"name": "c", "annotations": {"ipAddress": address}},
            "spec": {"pool": {"name": "p"}},
        })
    };
    for valid in ["192.0.2.7", "2001:db8::7", ""] {
        let response = reviewed("IPClaim", &claim(valid), &Value::Null);
        assert_eq!(response, AdmissionResponse::allow(), "{valid}");
    }
    let message = "metadata.annotations.ipAddress: must be an IP address";
    let refused = AdmissionResponse::deny_with(422, "Invalid", message);
    assert_eq!(
        reviewed("IPClaim", &claim("192.0.2"), &Value::Null),
        refused
    );
    let same = reviewed("IPClaim", &claim("192.0.2"), &claim("192.0.2"));
    assert_eq!(same, AdmissionResponse::allow());
}

#[test]
fn first_use_of_an_identity_is_warned_of_once() {
    let identity = json!({"name": "hosts"});
    for (kind, without, with, path) in [
        (
            "Metal3Cluster",
            json!({}),
            json!({"identityRef": identity}),
            "spec.identityRef",
        ),
        (
            "Metal3Machine",
            json!({}),
            json!({"identityRef": identity}),
            "spec.identityRef",
        ),
        (
            "Metal3ClusterTemplate",
            json!({"template": {"spec": {}}}),
            json!({"template": {"spec": {"identityRef": identity}}}),
            "spec.template.spec.identityRef",
        ),
        (
            "Metal3MachineTemplate",
            json!({"template": {"spec": {}}}),
            json!({"template": {"spec": {"identityRef": identity}}}),
            "spec.template.spec.identityRef",
        ),
    ] {
        let object = |spec: &Value| json!({"metadata": {"name": "x"}, "spec": spec});
        let (without, with) = (object(&without), object(&with));
        let text = format!("{path}: {DOWNGRADE}");
        for (new, old, expected) in [
            (&with, &Value::Null, warned(&[&text])),
            (&with, &without, warned(&[&text])),
            (&with, &with, warned(&[])),
            (&without, &Value::Null, warned(&[])),
            (&without, &with, warned(&[])),
        ] {
            assert_eq!(reviewed(kind, new, old), expected, "{kind} {new} {old}");
        }
    }
}

#[test]
fn machines_of_templates_are_not_warned_of() {
    let machine = |spec: Value| {
        let annotations = json!({"cluster.x-k8s.io/cloned-from-name": "t"});
        json!({"metadata": {"name": "m", "annotations": annotations}, "spec": spec})
    };
    let with = machine(json!({"identityRef": {"name": "hosts"}}));
    for old in [Value::Null, machine(json!({}))] {
        assert_eq!(reviewed("Metal3Machine", &with, &old), warned(&[]));
    }
}

#[test]
fn name_that_cluster_api_reserves_is_warned_of() {
    let reserved = "spec.identityRef.name: Cluster API reserves the Secret \"c-kubeconfig\" for \
        the kubeconfig of the workload cluster; store the kubeconfig for the hosts under another name";
    let downgrade = format!("spec.identityRef: {DOWNGRADE}");
    let spec = json!({"identityRef": {"name": "c-kubeconfig"}});
    let owner = |api_version: &str, kind: &str| json!([{"apiVersion": api_version, "kind": kind, "name": "c", "uid": "u"}]);
    for (kind, metadata, is_reserved) in [
        ("Metal3Cluster", json!({"name": "c"}), true),
        ("Metal3Cluster", json!({"name": "d"}), false),
        ("Metal3Machine", json!({"name": "c"}), false),
        (
            "Metal3Machine",
            json!({"name": "m", "labels": {"cluster.x-k8s.io/cluster-name": "c"}}),
            true,
        ),
        (
            "Metal3Cluster",
            json!({"name": "d", "ownerReferences": owner("cluster.x-k8s.io/v1beta1", "Cluster")}),
            true,
        ),
        (
            "Metal3Cluster",
            json!({"name": "d", "ownerReferences": owner("example.com/v1", "Cluster")}),
            false,
        ),
    ] {
        let object = json!({"metadata": metadata, "spec": spec});
        let texts = match is_reserved {
            true => vec![downgrade.as_str(), reserved],
            false => vec![downgrade.as_str()],
        };
        let expected = warned(&texts);
        assert_eq!(reviewed(kind, &object, &Value::Null), expected, "{object}");
        assert_eq!(reviewed(kind, &object, &object), warned(&[]), "{object}");
        // The label of the Cluster comes later.
        let before = json!({"metadata": {"name": "d"}, "spec": spec});
        let later: &[&str] = if is_reserved { &[reserved] } else { &[] };
        assert_eq!(reviewed(kind, &object, &before), warned(later), "{object}");
    }
}

#[test]
fn field_without_effect_is_warned_of_in_the_newer_version() {
    let template = json!({"metadata": {"name": "t"}, "spec": {"clusterName": "c"}});
    let kind = "Metal3DataTemplate";
    let warning = warned(&["spec.clusterName: has no effect"]);
    assert_eq!(reviewed(kind, &template, &Value::Null), warning);
    assert_eq!(reviewed(kind, &template, &template), warned(&[]));
    let older = review(&request("v1beta1", kind, &template, &Value::Null));
    assert_eq!(older, warned(&[]));
}

//! The rules for moves, without servers.

use insula_capi::relocation::{Movable, MoveRules};
use k8s_openapi::ByteString;
use kube::api::{DynamicObject, ObjectMeta};

use super::*;

const MARK: &str = "source/target";

fn object(value: Value) -> DynamicObject {
    serde_json::from_value(value).unwrap()
}

fn movable<'a>((group, kind): (&'a str, &'a str), object: &'a DynamicObject) -> Movable<'a> {
    Movable {
        group,
        kind,
        object,
    }
}

fn annotated(annotations: Value, spec: Value) -> DynamicObject {
    object(json!({
        "metadata": {"name": "x", "namespace": "a", "annotations": annotations}, "spec": spec,
    }))
}

#[test]
fn r36_host_of_another_namespace_needs_an_identity() {
    let machine = (GROUP, "Metal3Machine");
    for (annotations, spec, is_refused, host) in [
        (json!({}), json!({}), false, None),
        (json!({HOST_ANNOTATION: "a/h"}), json!({}), false, Some("h")),
        (json!({HOST_ANNOTATION: "b/h"}), json!({}), true, None),
        (json!({HOST_ANNOTATION: "h"}), json!({}), true, None),
        (
            json!({HOST_ANNOTATION: "b/h"}),
            json!({"identityRef": {"name": "i"}}),
            false,
            None,
        ),
        // The kubeconfig may lead to another server with such a namespace.
        (
            json!({HOST_ANNOTATION: "a/h"}),
            json!({"identityRef": {"name": "i"}}),
            false,
            None,
        ),
    ] {
        let object = annotated(annotations, spec);
        let movable = movable(machine, &object);
        assert_eq!(Metal3.obstacle(movable).is_some(), is_refused, "{object:?}");
        let needed = Metal3.needs(movable).into_iter();
        let needed: Vec<_> = needed.map(|one| (one.kind, one.name)).collect();
        let expected = host.map(|name| ("BareMetalHost", name.to_owned()));
        assert_eq!(needed, Vec::from_iter(expected));
    }
}

#[test]
fn r34_r36_host_that_others_use_stays() {
    let consumer = |namespace: &str| json!({"consumerRef": {"name": "m", "namespace": namespace}});
    for (annotations, spec, stays) in [
        (json!({}), json!({}), false),
        (json!({}), consumer("a"), false),
        (json!({}), consumer("b"), true),
        (json!({CLAIM_DIGEST: "d"}), consumer("a"), true),
    ] {
        let host = annotated(annotations, spec);
        assert_eq!(Metal3.stays(movable(HOST, &host)), stays, "{host:?}");
        let other = ("evil.example", "BareMetalHost");
        assert!(!Metal3.stays(movable(other, &host)));
    }
}

#[test]
fn r35_held_objects_are_paused_with_the_mark_and_resumed_only_then() {
    let status = json!({"provisioning": {"state": "available"}, "hardware": {"hostname": "x"}});
    let copy = status_copy(&serde_json::from_value(status.clone()).unwrap());
    for (kind, annotations, status, held, resumed) in [
        (
            HOST,
            json!({}),
            json!(null),
            json!({HOST_PAUSED: MARK}),
            None,
        ),
        (
            HOST,
            json!({}),
            status.clone(),
            json!({HOST_PAUSED: MARK, HOST_STATUS: copy}),
            None,
        ),
        // A pause of a user stays, but needs a copy of the status.
        (
            HOST,
            json!({HOST_PAUSED: ""}),
            status.clone(),
            json!({HOST_STATUS: copy}),
            None,
        ),
        (
            HOST,
            json!({HOST_PAUSED: MARK, HOST_STATUS: "{}"}),
            status,
            json!(null),
            Some(HOST_PAUSED),
        ),
        (POOL, json!({}), json!({}), json!({PAUSED: MARK}), None),
        (POOL, json!({PAUSED: ""}), json!({}), json!(null), None),
        (
            DATA_TEMPLATE,
            json!({PAUSED: MARK}),
            json!({}),
            json!(null),
            Some(PAUSED),
        ),
        (
            (GROUP, "Metal3Machine"),
            json!({}),
            json!({}),
            json!(null),
            None,
        ),
    ] {
        let mut object = annotated(annotations.clone(), json!({"online": true}));
        object.data["status"] = status;
        object.types = Some(kube::api::TypeMeta {
            api_version: "metal3.io/v1alpha1".to_owned(),
            kind: kind.1.to_owned(),
        });
        let movable = movable(kind, &object);
        let patch = Metal3.hold(movable, MARK).unwrap_or_default();
        assert_eq!(
            patch["metadata"]["annotations"], held,
            "{kind:?} {annotations}"
        );
        let patch = Metal3.resume(movable, MARK);
        let expected = resumed.map(|name| json!({"metadata": {"annotations": {name: null}}}));
        assert_eq!(patch, expected, "{kind:?} {annotations}");
        assert_eq!(Metal3.resume(movable, "other/move"), None);
    }
}

#[test]
fn host_between_two_states_is_not_moved() {
    for (state, expected) in [
        ("available", None),
        ("provisioned", None),
        ("inspecting", None),
        ("provisioning", Some("is being provisioned")),
        ("deprovisioning", Some("is being deprovisioned")),
    ] {
        let host = object(json!({
            "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
            "metadata": {"name": "h"}, "spec": {"online": true},
            "status": {"provisioning": {"state": state}},
        }));
        assert_eq!(Metal3.obstacle(movable(HOST, &host)), expected, "{state}");
    }
}

#[test]
fn secrets_of_users_and_kubeconfigs_are_copied() {
    let spec = json!({
        "identityRef": {"name": "hosts"}, "userData": {"name": "u"}, "networkData": {"name": "n"},
    });
    let template = json!({"template": {"spec": spec}});
    let recorded = json!({IDENTITY_ANNOTATION: r#"{"name":"recorded"}"#});
    for (kind, annotations, spec, expected) in [
        (
            "Metal3Machine",
            json!({}),
            spec.clone(),
            &["hosts", "u", "n"][..],
        ),
        (
            "Metal3MachineTemplate",
            json!({}),
            template,
            &["hosts", "u", "n"],
        ),
        (
            "Metal3Cluster",
            json!({}),
            json!({"identityRef": {"name": "c"}}),
            &["c"],
        ),
        (
            "Metal3Data",
            recorded,
            json!({"metaData": {"name": "m"}}),
            &["recorded"],
        ),
        ("Metal3DataTemplate", json!({}), json!({}), &[]),
    ] {
        let object = annotated(annotations, spec);
        let secrets = Metal3.secrets(movable((GROUP, kind), &object));
        assert_eq!(secrets, expected, "{kind}");
    }
}

#[test]
fn r34_address_of_a_kubeconfig_has_to_mean_the_same_at_the_target() {
    let refused = |server: &str| {
        Some(Unsuitable::Refused(format!(
            "names the server {server}, which is another one at the target: write an address into \
             it that works from there, or create a Secret of this name there first"
        )))
    };
    let doubtful = |server: &str| {
        let text = "which is the machine of the operator itself";
        Some(Unsuitable::Doubtful(format!(
            "names the server {server}, {text}"
        )))
    };
    let cluster = annotated(
        json!({}),
        json!({"identityRef": {"name": "i", "context": "b"}}),
    );
    let cluster = movable((GROUP, "Metal3Cluster"), &cluster);
    for (server, expected) in [
        ("hosts.example", None),
        ("10.0.0.1", None),
        ("svc.example", None),
        ("kubernetes.default.svc", refused("kubernetes.default.svc")),
        (
            "api.hosts.svc.cluster.local",
            refused("api.hosts.svc.cluster.local"),
        ),
        ("kubernetes", refused("kubernetes")),
        ("localhost", doubtful("localhost")),
        ("127.0.0.1", doubtful("127.0.0.1")),
    ] {
        // Only the context that is used counts.
        let kubeconfig = json!({
            "current-context": "a",
            "contexts": [
                {"name": "a", "context": {"cluster": "a", "user": "u"}},
                {"name": "b", "context": {"cluster": "b", "user": "u"}},
            ],
            "clusters": [
                {"name": "a", "cluster": {"server": "https://kubernetes.default.svc"}},
                {"name": "b", "cluster": {"server": format!("https://{server}:6443")}},
            ],
            "users": [{"name": "u", "user": {"token": "t"}}],
        });
        let content = ByteString(kubeconfig.to_string().into_bytes());
        let mut secret = Secret {
            metadata: ObjectMeta {
                name: Some("i".to_owned()),
                ..ObjectMeta::default()
            },
            data: Some([("kubeconfig".to_owned(), content)].into()),
            ..Secret::default()
        };
        assert_eq!(
            Metal3.unsuitable_secret(cluster, &secret),
            expected,
            "{server}"
        );
        secret.metadata.name = Some("other".to_owned());
        assert_eq!(Metal3.unsuitable_secret(cluster, &secret), None);
    }
}

#[test]
fn r35_health_check_needs_its_template_for_remediations() {
    let own = json!({"kind": "Metal3RemediationTemplate", "name": "restart"});
    let needs = |spec: Value| {
        let check = annotated(json!({}), spec);
        Metal3.needs(movable(("cluster.x-k8s.io", "MachineHealthCheck"), &check))
    };
    let expected = Needed {
        group: REMEDIATION_TEMPLATE.0,
        kind: REMEDIATION_TEMPLATE.1,
        name: "restart".to_owned(),
        sharing: Sharing::Copied,
    };
    for spec in [
        json!({"remediation": {"templateRef": own}}),
        json!({"remediationTemplate": own}),
    ] {
        assert_eq!(needs(spec), std::slice::from_ref(&expected));
    }
    let other = json!({"kind": "OtherTemplate", "name": "restart"});
    let other = json!({"remediation": {"templateRef": other}});
    assert_eq!(needs(other), []);
}

#[test]
fn r35_pool_stays_with_claims_of_cluster_api_that_are_not_moved() {
    let claim = |group: &str| {
        let pool = json!({"apiGroup": group, "kind": "IPPool", "name": "net"});
        annotated(json!({}), json!({ "poolRef": pool }))
    };
    let needs = |group: &str| {
        let claim = claim(group);
        Metal3.needs(movable(("ipam.cluster.x-k8s.io", "IPAddressClaim"), &claim))
    };
    let expected = Needed {
        group: POOL.0,
        kind: POOL.1,
        name: "net".to_owned(),
        sharing: Sharing::Refused,
    };
    assert_eq!(needs("ipam.metal3.io"), [expected]);
    assert_eq!(needs("ipam.example.com"), []);
}

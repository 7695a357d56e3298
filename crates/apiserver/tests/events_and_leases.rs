//! Events and leases: validation and defaults specific to these kinds.

use insula_testkit::server::{Client, TestServer};
use serde_json::{Value, json};

const CORE: &str = "/api/v1/namespaces/default/events";
const GROUP: &str = "/apis/events.k8s.io/v1/namespaces/default/events";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";

async fn client() -> (TestServer, Client) {
    let server = TestServer::start().await.expect("it starts");
    let client = server.tenant("t1").await.expect("it lets them in");
    (server, client)
}

fn core(name: &str) -> Value {
    json!({
        "metadata": {"name": name}, "reason": "Because", "message": "it ran", "type": "Normal",
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
    })
}

fn new(name: &str) -> Value {
    json!({
        "metadata": {"name": name}, "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "x.io/c", "reportingInstance": "i-1", "action": "Run",
        "reason": "Because", "type": "Normal", "note": "it ran",
        "regarding": {"kind": "Pod", "name": "p", "namespace": "default", "uid": "u-1",
            "apiVersion": "v1", "resourceVersion": "7", "fieldPath": "spec.containers{c}"},
    })
}

/// The object with one field replaced or removed.
fn with(mut object: Value, member: &str, value: Value) -> Value {
    match value {
        Value::Null => object
            .as_object_mut()
            .into_iter()
            .for_each(|object| drop(object.remove(member))),
        value => object[member] = value,
    }
    object
}

#[tokio::test]
async fn field_names_differ_between_core_and_events_group() {
    let (_server, client) = client().await;
    let mut sent = core("a");
    for (member, value) in [
        ("source", json!({"component": "tests", "host": "h"})),
        ("firstTimestamp", json!("2026-01-01T00:00:00Z")),
        ("lastTimestamp", json!("2026-01-01T00:00:05Z")),
        ("count", json!(3)),
        ("reportingComponent", json!("x.io/c")),
        ("reportingInstance", json!("i")),
    ] {
        sent[member] = value;
    }
    let created = client.post(CORE, &sent).await.unwrap();
    assert_eq!(created.status, 201, "{}", created.text());
    let shown = client.get(&format!("{GROUP}/a")).await.unwrap().json();
    for (old, now) in [
        ("involvedObject", "regarding"),
        ("message", "note"),
        ("source", "deprecatedSource"),
        ("firstTimestamp", "deprecatedFirstTimestamp"),
        ("lastTimestamp", "deprecatedLastTimestamp"),
        ("count", "deprecatedCount"),
        ("reportingComponent", "reportingController"),
        ("reportingInstance", "reportingInstance"),
    ] {
        assert_eq!(shown[now], sent[old], "{old}");
        assert!(old == now || shown[old].is_null(), "{old}");
    }
}

#[tokio::test]
async fn core_events_are_in_the_namespace_of_their_object() {
    let (_server, client) = client().await;
    let of = |namespace: &str| json!({"kind": "Pod", "name": "p", "namespace": namespace});
    for (namespace, regarding, refused) in [
        ("default", of("default"), None),
        ("default", of("t1"), Some("t1")),
        ("default", json!({"kind": "Node", "name": "n"}), None),
        (
            "kube-system",
            json!({"kind": "Node", "name": "n"}),
            Some(""),
        ),
        ("kube-system", of("kube-system"), None),
    ] {
        let path = format!("/api/v1/namespaces/{namespace}/events");
        let mut sent = with(core("x"), "involvedObject", regarding);
        sent["metadata"] = json!({"generateName": "x"});
        let answer = client.post(&path, &sent).await.unwrap();
        match refused {
            None => assert_eq!(answer.status, 201, "{}", answer.text()),
            Some(text) => {
                assert_eq!(answer.status, 422, "{}", answer.text());
                let end = format!(
                    "is invalid: involvedObject.namespace: Invalid value: \"{text}\": does not \
                     match event.namespace"
                );
                assert!(answer.message().ends_with(&end), "{}", answer.message());
            }
        }
    }
}

#[tokio::test]
async fn new_events_need_time_reporter_and_action() {
    let (_server, client) = client().await;
    let long = |length: usize| json!("x".repeat(length));
    for (member, value, why) in [
        ("eventTime", Value::Null, "eventTime: Required value"),
        (
            "reportingController",
            Value::Null,
            "reportingController: Required value",
        ),
        (
            "reportingInstance",
            long(129),
            "reportingInstance: Invalid value: \"\": can have at most 128 characters",
        ),
        (
            "reportingInstance",
            Value::Null,
            "reportingInstance: Required value",
        ),
        ("action", Value::Null, "action: Required value"),
        (
            "action",
            long(129),
            "action: Invalid value: \"\": can have at most 128 characters",
        ),
        ("reason", Value::Null, "reason: Required value"),
        (
            "reason",
            long(129),
            "reason: Invalid value: \"\": can have at most 128 characters",
        ),
        (
            "note",
            long(1025),
            "message: Invalid value: \"\": can have at most 1024 characters",
        ),
        (
            "type",
            Value::Null,
            "type: Invalid value: \"\": has invalid value: ",
        ),
        (
            "type",
            json!("Odd"),
            "type: Invalid value: \"\": has invalid value: Odd",
        ),
        (
            "deprecatedCount",
            json!(1),
            "count: Invalid value: \"\": needs to be unset",
        ),
        (
            "deprecatedSource",
            json!({"component": "c"}),
            "source: Invalid value: \"\": needs to be unset",
        ),
        (
            "series",
            json!({"count": 1, "lastObservedTime": "2026-01-01T00:00:00.000000Z"}),
            "series.count: Invalid value: \"\": should be at least 2",
        ),
    ] {
        let answer = client
            .post(GROUP, &with(new("e"), member, value))
            .await
            .unwrap();
        assert_eq!(answer.status, 422, "{member}: {}", answer.text());
        assert!(answer.message().contains(why), "{}", answer.message());
    }
    for (member, length) in [
        ("reportingInstance", 128),
        ("action", 128),
        ("reason", 128),
        ("note", 1024),
    ] {
        let mut sent = with(new("e"), member, long(length));
        sent["metadata"] = json!({"generateName": "e"});
        let answer = client.post(GROUP, &sent).await.unwrap();
        assert_eq!(answer.status, 201, "{member}: {}", answer.text());
    }
}

#[tokio::test]
async fn only_series_and_metadata_of_new_events_are_mutable() {
    let (_server, client) = client().await;
    assert_eq!(client.post(GROUP, &new("e")).await.unwrap().status, 201);
    let path = format!("{GROUP}/e");
    for (patch, field) in [
        (json!({"note": "another"}), "message"),
        (json!({"reason": "Other"}), "reason"),
        (json!({"type": "Warning"}), "type"),
        (json!({"action": "Walk"}), "action"),
        (json!({"regarding": {"name": "q"}}), "involvedObject"),
        (json!({"reportingInstance": "i-2"}), "reportingInstance"),
        (
            json!({"eventTime": "2026-01-01T00:00:01.000000Z"}),
            "eventTime",
        ),
    ] {
        let answer = client.patch(&path, "merge", &patch).await.unwrap();
        assert_eq!(answer.status, 422, "{patch}: {}", answer.text());
        let text = answer.message();
        assert!(
            text.contains(&format!("{field}: Invalid value: ")),
            "{text}"
        );
        assert!(text.contains("field is immutable"), "{text}");
    }
    let series = json!({
        "series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z"},
        "metadata": {"labels": {"a": "b"}},
    });
    let answer = client.patch(&path, "merge", &series).await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    // The core group allows every change.
    let answer = client
        .patch(
            &format!("{CORE}/e"),
            "merge",
            &json!({"message": "another", "count": 7}),
        )
        .await
        .unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(client.get(&path).await.unwrap().json()["note"], "another");
}

#[tokio::test]
async fn events_can_be_selected_by_their_object() {
    let (_server, client) = client().await;
    assert_eq!(client.post(GROUP, &new("new")).await.unwrap().status, 201);
    let mut old = core("old");
    old["source"] = json!({"component": "tests"});
    old["type"] = "Warning".into();
    old["involvedObject"]["kind"] = "Node".into();
    assert_eq!(client.post(CORE, &old).await.unwrap().status, 201);
    let selected = async |path: &str, selector: &str| {
        let list = client
            .get(&format!("{path}?fieldSelector={selector}"))
            .await
            .unwrap();
        assert_eq!(list.status, 200, "{selector}: {}", list.text());
        let items = list.json()["items"].as_array().cloned().unwrap_or_default();
        let names = items
            .iter()
            .map(|item| item["metadata"]["name"].as_str().unwrap().to_owned());
        names.collect::<Vec<_>>().join(",")
    };
    for (selector, names) in [
        ("involvedObject.kind=Pod", "new"),
        ("involvedObject.kind!=Pod", "old"),
        ("involvedObject.namespace=default", "new,old"),
        ("involvedObject.name=p", "new,old"),
        ("involvedObject.uid=u-1", "new"),
        ("involvedObject.apiVersion=v1", "new"),
        ("involvedObject.resourceVersion=7", "new"),
        ("involvedObject.fieldPath=spec.containers{c}", "new"),
        ("reason=Because,type=Warning", "old"),
        ("reportingComponent=x.io/c", "new"),
        ("source=tests", "old"),
        ("source=x.io/c", "new"),
        ("type=Normal", "new"),
        ("metadata.name=old", "old"),
    ] {
        let selector = selector.replace('{', "%7B").replace('}', "%7D");
        assert_eq!(selected(CORE, &selector).await, names, "{selector}");
    }
    for (selector, names) in [
        ("regarding.kind=Pod", "new"),
        ("regarding.uid=u-1", "new"),
        ("reportingController=x.io/c", "new"),
        ("type=Warning", "old"),
    ] {
        assert_eq!(selected(GROUP, selector).await, names, "{selector}");
    }
}

fn lease(spec: Value) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "l"}, "spec": spec,
    })
}

#[tokio::test]
async fn lease_times_keep_microseconds() {
    let (_server, client) = client().await;
    for (spec, why) in [
        (
            json!({"leaseDurationSeconds": 0}),
            "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
        ),
        (
            json!({"leaseDurationSeconds": -1}),
            "spec.leaseDurationSeconds: Invalid value: -1: must be greater than 0",
        ),
        (
            json!({"leaseTransitions": -1}),
            "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0",
        ),
    ] {
        let refused = client.post(LEASES, &lease(spec)).await.unwrap();
        assert_eq!(refused.status, 422, "{}", refused.text());
        let message = format!("Lease.coordination.k8s.io \"l\" is invalid: {why}");
        assert_eq!(refused.message(), message);
    }
    for time in [
        "2026-01-01T00:00:00.1Z",
        "2026-01-01T00:00:00Z",
        "2026-01-01",
    ] {
        let refused = client
            .post(LEASES, &lease(json!({"renewTime": time})))
            .await
            .unwrap();
        assert_eq!(refused.status, 400, "{}", refused.text());
        let start = "Lease in version \"v1\" cannot be handled as a Lease: parsing time";
        assert!(
            refused.message().starts_with(start),
            "{}",
            refused.message()
        );
    }
    let spec = json!({
        "holderIdentity": "me", "leaseDurationSeconds": 15, "leaseTransitions": 0,
        "acquireTime": "2026-01-01T00:00:00.000000Z", "renewTime": "2026-01-01T00:00:00.123456Z",
    });
    let created = client.post(LEASES, &lease(spec.clone())).await.unwrap();
    assert_eq!(created.status, 201, "{}", created.text());
    assert_eq!(created.json()["spec"], spec);
    // Another time zone denotes the same instant.
    let zone = json!({"spec": {"renewTime": "2026-01-01T02:00:00.123456+02:00"}});
    let patched = client
        .patch(&format!("{LEASES}/l"), "merge", &zone)
        .await
        .unwrap();
    assert_eq!(patched.json()["spec"], spec, "{}", patched.text());
}

#[tokio::test]
async fn put_creates_a_missing_lease() {
    let (_server, client) = client().await;
    let path = format!("{LEASES}/l");
    let sent = lease(json!({"holderIdentity": "me", "leaseDurationSeconds": 15}));
    let created = client.put(&path, &sent).await.unwrap();
    assert_eq!(created.status, 201, "{}", created.text());
    // An update must carry the resource version.
    let again = client.put(&path, &sent).await.unwrap();
    assert_eq!(again.status, 422, "{}", again.text());
    assert_eq!(
        again.message(),
        "leases.coordination.k8s.io \"l\" is invalid: metadata.resourceVersion: Invalid value: \
         0: must be specified for an update"
    );
    // An outdated resource version conflicts.
    let mut mine = created.json();
    mine["spec"]["holderIdentity"] = "you".into();
    assert_eq!(client.put(&path, &mine).await.unwrap().status, 200);
    let late = client.put(&path, &mine).await.unwrap();
    assert_eq!(late.status, 409);
    assert_eq!(
        late.message(),
        "Operation cannot be fulfilled on leases.coordination.k8s.io \"l\": the object has been \
         modified; please apply your changes to the latest version and try again"
    );
}

#[tokio::test]
async fn only_some_kinds_can_be_created_by_put() {
    let (_server, client) = client().await;
    let rbac = "rbac.authorization.k8s.io/v1";
    let core = "/api/v1/namespaces/default";
    let roles = "/apis/rbac.authorization.k8s.io/v1";
    for (path, object, code) in [
        (
            format!("{core}/endpoints/x"),
            json!({"apiVersion": "v1", "kind": "Endpoints"}),
            201,
        ),
        (
            format!("{core}/limitranges/x"),
            json!({"apiVersion": "v1", "kind": "LimitRange", "spec": {"limits": []}}),
            201,
        ),
        (
            format!("{core}/services/x"),
            json!({"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": 80}]}}),
            201,
        ),
        (
            format!("{roles}/namespaces/default/roles/x"),
            json!({"apiVersion": rbac, "kind": "Role", "rules": []}),
            201,
        ),
        (
            format!("{roles}/clusterroles/x"),
            json!({"apiVersion": rbac, "kind": "ClusterRole", "rules": []}),
            201,
        ),
        (
            format!("{core}/configmaps/x"),
            json!({"apiVersion": "v1", "kind": "ConfigMap"}),
            404,
        ),
        (
            format!("{core}/secrets/x"),
            json!({"apiVersion": "v1", "kind": "Secret"}),
            404,
        ),
        (
            format!("{core}/serviceaccounts/x"),
            json!({"apiVersion": "v1", "kind": "ServiceAccount"}),
            404,
        ),
        (
            "/api/v1/namespaces/x".to_owned(),
            json!({"apiVersion": "v1", "kind": "Namespace"}),
            404,
        ),
    ] {
        let mut object = object;
        object["metadata"] = json!({"name": "x"});
        let answer = client.put(&path, &object).await.unwrap();
        assert_eq!(answer.status, code, "{path}: {}", answer.text());
    }
}

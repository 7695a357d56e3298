//! Kinds served in two versions or groups from one storage, and certificate signing requests.

use crate::fixtures::{create, start_tenant};
use serde_json::{Value, json};

const V1: &str = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers";
const V2: &str = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";

#[tokio::test]
async fn autoscalers_are_served_in_both_versions() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let mut watch = client.watch(&format!("{V2}?watch=true")).await?;
    let old = create(
        &client,
        V1,
        json!({"metadata": {"name": "h"}, "spec": {"maxReplicas": 3,
            "targetCPUUtilizationPercentage": 50,
            "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}}}),
    )
    .await?;
    assert_eq!(old["apiVersion"], "autoscaling/v1");
    assert_eq!(old["spec"]["targetCPUUtilizationPercentage"], 50);
    let event = watch.next().await?.unwrap_or_default();
    assert_eq!(event["type"], "ADDED");
    assert_eq!(event["object"]["apiVersion"], "autoscaling/v2");
    let new = client.get(&format!("{V2}/h")).await?.json();
    assert_eq!(event["object"], new);
    assert_eq!(
        new["spec"]["metrics"],
        json!([{"type": "Resource", "resource": {"name": "cpu",
            "target": {"type": "Utilization", "averageUtilization": 50}}}])
    );
    assert_eq!(new["metadata"]["uid"], old["metadata"]["uid"]);
    let taken = client.post(V2, &new).await?;
    assert_eq!(taken.status, 500, "it has a resourceVersion");
    let patch = json!({"spec": {"targetCPUUtilizationPercentage": 70}});
    let answer = client.patch(&format!("{V1}/h"), "merge", &patch).await?;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let event = watch.next().await?.unwrap_or_default();
    assert_eq!(event["type"], "MODIFIED");
    let target = |object: &Value| {
        object["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"].clone()
    };
    assert_eq!(target(&event["object"]), 70);
    let mut new = client.get(&format!("{V2}/h")).await?.json();
    new["spec"]["maxReplicas"] = 9.into();
    let answer = client.put(&format!("{V2}/h"), &new).await?;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let event = watch.next().await?.unwrap_or_default();
    assert_eq!(event["object"]["spec"]["maxReplicas"], 9);
    let list = client.get(V1).await?.json();
    assert_eq!(list["apiVersion"], "autoscaling/v1");
    assert_eq!(list["items"][0]["spec"]["maxReplicas"], 9);
    assert_eq!(
        list["items"][0]["spec"]["targetCPUUtilizationPercentage"],
        70
    );
    let old = client.get(&format!("{V1}/h")).await?.json();
    let same = client.put(&format!("{V1}/h"), &old).await?.json();
    assert_eq!(same, old, "an update that changes nothing");
    assert_eq!(client.delete(&format!("{V1}/h")).await?.status, 200);
    assert_eq!(watch.next().await?.unwrap_or_default()["type"], "DELETED");
    Ok(())
}

const CORE: &str = "/api/v1/namespaces/default/events";
const GROUP: &str = "/apis/events.k8s.io/v1/namespaces/default/events";

#[tokio::test]
async fn events_are_served_in_both_groups() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let mut watch = client.watch(&format!("{CORE}?watch=true")).await?;
    let new = create(
        &client,
        GROUP,
        json!({"metadata": {"name": "e"}, "eventTime": "2026-01-01T00:00:00.000000Z",
            "reportingController": "x.io/c", "reportingInstance": "i-1", "action": "Run",
            "reason": "Because", "type": "Normal", "note": "it ran",
            "regarding": {"kind": "Pod", "name": "p", "namespace": "default"}}),
    )
    .await?;
    assert_eq!(new["apiVersion"], "events.k8s.io/v1");
    assert_eq!(new["note"], "it ran");
    let event = watch.next().await?.unwrap_or_default();
    let old = client.get(&format!("{CORE}/e")).await?.json();
    assert_eq!(event["object"], old);
    assert_eq!(old["apiVersion"], "v1");
    assert_eq!(old["message"], "it ran");
    assert_eq!(old["involvedObject"]["name"], "p");
    assert_eq!(old["reportingComponent"], "x.io/c");
    let old = create(
        &client,
        CORE,
        json!({"metadata": {"name": "f"}, "message": "again", "count": 3, "type": "Warning",
            "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"}}),
    )
    .await?;
    assert_eq!(old["message"], "again");
    let new = client.get(&format!("{GROUP}/f")).await?.json();
    assert_eq!(
        (&new["note"], &new["deprecatedCount"]),
        (&json!("again"), &json!(3))
    );
    let patch = json!({"count": 4});
    let answer = client.patch(&format!("{CORE}/f"), "merge", &patch).await?;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let list = client.get(GROUP).await?.json();
    assert_eq!(list["items"].as_array().map(Vec::len), Some(2));
    assert_eq!(list["items"][1]["deprecatedCount"], 4);
    let gone = client.delete(GROUP).await?.json();
    assert_eq!(gone["items"].as_array().map(Vec::len), Some(2));
    let left = client.get(CORE).await?.json();
    assert_eq!(left["items"], json!([]));
    Ok(())
}

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

/// A real signing request for `CN=user`.
const REQUEST: &str = include_str!("data/writes/request.pem");

#[tokio::test]
async fn signing_requests_record_the_caller() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let encoded = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, REQUEST);
    let sent = json!({"metadata": {"name": "c"}, "spec": {"request": encoded,
        "signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"],
        "username": "somebody-else", "groups": ["system:masters"], "uid": "x",
        "extra": {"a": ["b"]}}});
    let created = create(&client, REQUESTS, sent).await?;
    let spec = &created["spec"];
    assert_eq!(spec["username"], "admin");
    assert_eq!(spec["uid"], "1");
    assert_eq!(
        spec["groups"],
        json!(["system:authenticated"]),
        "a tenant's groups come from its credential"
    );
    assert_eq!(spec["extra"], json!({"insula.dev/tenant": ["t1"]}));
    let path = format!("{REQUESTS}/c");
    let mut forged = created.clone();
    forged["spec"]["username"] = "root".into();
    let answer = client.put(&path, &forged).await?;
    assert_eq!(answer.json()["spec"]["username"], "admin");
    let mut approved = created;
    approved["metadata"]["resourceVersion"] = "".into();
    approved["status"] = json!({"conditions": [{"type": "Approved", "status": "True",
        "reason": "Fine"}], "certificate": "bm90aGluZw=="});
    let plain = client.put(&path, &approved).await?.json();
    assert_eq!(plain["status"], json!({}), "only its own path approves");
    let answer = client.put(&format!("{path}/approval"), &approved).await?;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let status = answer.json()["status"].clone();
    assert_eq!(status["certificate"], Value::Null);
    assert_eq!(status["conditions"][0]["type"], "Approved");
    for time in ["lastUpdateTime", "lastTransitionTime"] {
        assert!(status["conditions"][0][time].is_string(), "{time}");
    }
    approved["status"] = json!({});
    let answer = client.put(&format!("{path}/approval"), &approved).await?;
    assert_eq!(answer.status, 422);
    assert!(
        answer.message().contains(
            "status.conditions: Forbidden: updates may not remove a condition of type \"Approved\""
        ),
        "{}",
        answer.message()
    );
    let certificate = json!({"status": {"certificate": "bm90aGluZw=="}});
    let answer = client
        .patch(&format!("{path}/status"), "merge", &certificate)
        .await?;
    assert_eq!(answer.status, 422, "{}", answer.text());
    assert!(
        answer
            .message()
            .contains("must contain at least one CERTIFICATE PEM block"),
        "{}",
        answer.message()
    );
    Ok(())
}

//! PATCH: the three formats, and concurrent writers.

use std::time::{Duration, Instant};

use crate::fixtures::assert_refused;
use http::Method;
use insula_testkit::server::{Answer, Client, TestServer};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const MAP: &str = "/api/v1/namespaces/default/configmaps/a";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/default/deployments/d";

async fn start_with_map() -> anyhow::Result<(TestServer, Client)> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    let map = json!({"metadata": {"name": "a"}, "data": {"k": "v"}});
    anyhow::ensure!(client.post(MAPS, &map).await?.status == 201);
    Ok((server, client))
}

async fn send(client: &Client, path: &str, format: &str, body: &str) -> anyhow::Result<Answer> {
    let format = format!("application/{format}-patch+json");
    let headers = [("content-type", format.as_str())];
    client
        .send(Method::PATCH, path, &headers, body.to_owned())
        .await
}

#[tokio::test]
async fn each_format_patches_the_object() -> anyhow::Result<()> {
    let (_server, client) = start_with_map().await?;
    for (format, patch, data) in [
        (
            "merge",
            json!({"data": {"m": "1", "k": null}}),
            json!({"m": "1"}),
        ),
        (
            "strategic-merge",
            json!({"data": {"s": "2"}}),
            json!({"m": "1", "s": "2"}),
        ),
        (
            "json",
            json!([{"op": "test", "path": "/data/s", "value": "2"},
                {"op": "move", "from": "/data/s", "path": "/data/j"},
                {"op": "replace", "path": "/data/new", "value": "3"}]),
            json!({"m": "1", "j": "2", "new": "3"}),
        ),
    ] {
        let answer = client.patch(MAP, format, &patch).await?;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.json()["data"], data);
        assert_eq!(client.get(MAP).await?.json(), answer.json());
    }
    Ok(())
}

#[tokio::test]
async fn no_op_patch_keeps_the_resource_version() -> anyhow::Result<()> {
    let (_server, client) = start_with_map().await?;
    let before = client.get(MAP).await?.json();
    for (format, body) in [
        ("merge", "{}"),
        ("strategic-merge", "{}"),
        ("json", "[]"),
        ("merge", r#"{"data":{"k":"v"}}"#),
    ] {
        let answer = send(&client, MAP, format, body).await?;
        assert_eq!((answer.status, answer.json()), (200, before.clone()));
    }
    Ok(())
}

#[tokio::test]
async fn malformed_patches_are_refused_with_kubernetes_messages() -> anyhow::Result<()> {
    let (_server, client) = start_with_map().await?;
    for (format, body, message) in [
        (
            "json",
            "{}",
            "error decoding patch: json: cannot unmarshal object into Go value of type \
             []handlers.jsonPatchOp",
        ),
        (
            "json",
            "[",
            "error decoding patch: unexpected end of JSON input",
        ),
        (
            "merge",
            "[]",
            "error decoding patch: json: cannot unmarshal array into Go value of type \
             map[string]interface {}",
        ),
        (
            "merge",
            r#"{"metadata":{"name":"b"}}"#,
            "the name of the object (b) does not match the name on the URL (a)",
        ),
        (
            "json",
            r#"[{"op":"replace","path":"/metadata/name","value":"b"}]"#,
            "the name of the object (b) does not match the name on the URL (a)",
        ),
        (
            "merge",
            r#"{"metadata":{"namespace":"b"}}"#,
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
    ] {
        let answer = send(&client, MAP, format, body).await?;
        assert_refused(&answer, 400, "BadRequest", message);
    }
    for body in [
        r#"[{"op":"test","path":"/data/k","value":"x"}]"#,
        r#"[{"op":"remove","path":"/data/none"}]"#,
        r#"[{"op":"add","path":"/none/of/this","value":"x"}]"#,
        r#"[{"op":"jump","path":"/data/k"}]"#,
    ] {
        let answer = send(&client, MAP, "json", body).await?;
        let message = "the server rejected our request due to an error in our request";
        assert_refused(&answer, 422, "Invalid", message);
        assert_eq!(answer.json()["details"], json!({}));
    }
    assert_eq!(client.get(MAP).await?.json()["data"], json!({"k": "v"}));
    Ok(())
}

#[tokio::test]
async fn unsupported_formats_and_options_are_refused() -> anyhow::Result<()> {
    let (_server, client) = start_with_map().await?;
    for content_type in ["application/json", "application/apply-patch+json", ""] {
        let headers = [("content-type", content_type)];
        let answer = client.send(Method::PATCH, MAP, &headers, "{}").await?;
        assert_refused(
            &answer,
            415,
            "UnsupportedMediaType",
            "415: Unsupported Media Type",
        );
    }
    let headers = [(
        "content-type",
        "application/merge-patch+json; charset=utf-8",
    )];
    let answer = client.send(Method::PATCH, MAP, &headers, "{}").await?;
    assert_eq!(answer.status, 200);
    let answer = send(&client, &format!("{MAP}?force=true"), "merge", "{}").await?;
    assert_refused(
        &answer,
        422,
        "Invalid",
        "PatchOptions.meta.k8s.io \"\" is invalid: force: Forbidden: may not be specified for \
         non-apply patch",
    );
    let missing = send(&client, &format!("{MAPS}/none"), "merge", "{}").await?;
    assert_refused(&missing, 404, "NotFound", "configmaps \"none\" not found");
    Ok(())
}

#[tokio::test]
async fn patch_result_must_decode() -> anyhow::Result<()> {
    let (_server, client) = start_with_map().await?;
    let answer = client
        .patch(MAP, "merge", &json!({"data": {"k": 5}}))
        .await?;
    assert_eq!(answer.status, 422, "{}", answer.text());
    let message = answer.message();
    assert!(
        message.starts_with(" \"\" is invalid: patch: Invalid value: \"{")
            && message.ends_with(
                "\": json: cannot unmarshal number into Go struct field ConfigMap.data of type \
                 string"
            ),
        "{message}"
    );
    assert_eq!(answer.json()["details"]["causes"][0]["field"], "patch");
    // Of a strategic merge patch the patch is quoted, not the object.
    let patch = json!({"data": {"k": 5}, "immutable": null});
    let answer = client.patch(MAP, "strategic-merge", &patch).await?;
    assert_eq!(answer.status, 422, "{}", answer.text());
    let begin = " \"\" is invalid: patch: Invalid value: \"map[data:map[k:5] immutable:<nil>]\": ";
    let message = answer.message();
    assert!(message.starts_with(begin), "{message}");
    assert_eq!(client.get(MAP).await?.json()["data"], json!({"k": "v"}));
    Ok(())
}

#[tokio::test]
async fn field_validation_applies_to_patches() -> anyhow::Result<()> {
    let (_server, client) = start_with_map().await?;
    let patch = json!({"bogus": 1, "data": {"x": "1"}});
    let strict = format!("{MAP}?fieldValidation=Strict");
    let answer = client.patch(&strict, "merge", &patch).await?;
    assert_eq!(answer.status, 422, "{}", answer.text());
    assert!(
        answer
            .message()
            .ends_with("\": strict decoding error: unknown field \"bogus\""),
        "{}",
        answer.message()
    );
    let answer = client.patch(MAP, "merge", &patch).await?;
    assert_eq!(answer.status, 200);
    assert_eq!(
        answer.header("warning"),
        r#"299 - "unknown field \"bogus\"""#
    );
    assert_eq!(answer.json()["bogus"], Value::Null);
    let ignore = format!("{MAP}?fieldValidation=Ignore");
    let answer = client.patch(&ignore, "merge", &patch).await?;
    assert_eq!((answer.status, answer.header("warning")), (200, ""));
    let body = r#"[{"op":"add","path":"/data/y","value":"1","value":"2","foo":3}]"#;
    let answer = send(&client, &strict, "json", body).await?;
    assert_eq!(answer.status, 422, "{}", answer.text());
    assert!(
        answer.message().ends_with(
            "strict decoding error: json patch duplicate field \"[0].value\", json patch unknown \
             field \"[0].foo\""
        ),
        "{}",
        answer.message()
    );
    Ok(())
}

#[tokio::test]
async fn patch_with_a_resource_version_is_conditional() -> anyhow::Result<()> {
    let (_server, client) = start_with_map().await?;
    let object = client.get(MAP).await?.json();
    let version = &object["metadata"]["resourceVersion"];
    let patch =
        |value: &str| json!({"metadata": {"resourceVersion": version}, "data": {"k": value}});
    assert_eq!(client.patch(MAP, "merge", &patch("1")).await?.status, 200);
    let answer = client.patch(MAP, "merge", &patch("2")).await?;
    assert_refused(
        &answer,
        409,
        "Conflict",
        "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please \
         apply your changes to the latest version and try again",
    );
    Ok(())
}

#[tokio::test]
async fn concurrent_patches_of_different_keys_do_not_conflict() -> anyhow::Result<()> {
    let (server, client) = start_with_map().await?;
    let mut tasks = tokio::task::JoinSet::new();
    for who in ["one", "other"] {
        let client = server.client("t1").await?;
        tasks.spawn(async move {
            for turn in 0..100 {
                let patch = json!({"data": {format!("{who}-{turn}"): "x"}});
                let answer = client.patch(MAP, "merge", &patch).await?;
                anyhow::ensure!(answer.status == 200, "{}", answer.text());
            }
            anyhow::Ok(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    let data = client.get(MAP).await?.json()["data"].clone();
    assert_eq!(data.as_object().map(serde_json::Map::len), Some(201));
    Ok(())
}

#[tokio::test]
async fn json_patch_is_limited_to_ten_thousand_operations() -> anyhow::Result<()> {
    let (_server, client) = start_with_map().await?;
    let operation = r#"{"op":"test","path":"/data/k","value":"v"}"#;
    let patch = |count: usize| format!("[{}]", vec![operation; count].join(","));
    let answer = send(&client, MAP, "json", &patch(10_000)).await?;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let answer = send(&client, MAP, "json", &patch(10_001)).await?;
    assert_refused(
        &answer,
        413,
        "RequestEntityTooLarge",
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got \
         10001",
    );
    Ok(())
}

/// Each operation copies the object into its own deepest field.
#[tokio::test]
async fn copy_operations_are_limited_in_depth_and_size() -> anyhow::Result<()> {
    let (_server, client) = start_with_map().await?;
    let mut deep = vec![json!({"op": "add", "path": "/data", "value": {"a": {}}})];
    let mut wide = vec![json!({"op": "add", "path": "/data", "value": {"a": "x".repeat(1000)}})];
    let mut path = "/data/a".to_owned();
    for turn in 0..18 {
        deep.push(json!({"op": "copy", "from": "/data", "path": path}));
        path = format!("{path}{}", path.trim_start_matches("/data"));
        wide.push(json!({"op": "copy", "from": "/data", "path": format!("/data/w{turn}")}));
    }
    for patch in [deep, wide] {
        let began = Instant::now();
        let answer = client.patch(MAP, "json", &Value::from(patch)).await?;
        assert_eq!(answer.status, 422, "{}", answer.text());
        assert!(began.elapsed() < Duration::from_secs(1));
    }
    assert_eq!(client.get(MAP).await?.json()["data"], json!({"k": "v"}));
    Ok(())
}

fn deployment() -> Value {
    json!({"metadata": {"name": "d"}, "spec": {
        "selector": {"matchLabels": {"app": "d"}},
        "template": {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [
            {"name": "c", "image": "i:1", "env": [{"name": "A", "value": "1"}]},
            {"name": "side", "image": "s:1"}]}}}})
}

#[tokio::test]
async fn strategic_merge_patch_merges_lists_by_key() -> anyhow::Result<()> {
    let (_server, client) = start_with_map().await?;
    assert_eq!(client.post(DEPLOYMENTS, &deployment()).await?.status, 201);
    // As `kubectl apply` sends it: the image changes, a variable is added and a container removed.
    let patch = json!({
        "metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}\n"}},
        "spec": {"replicas": 3, "template": {"spec": {
            "$setElementOrder/containers": [{"name": "c"}],
            "containers": [
                {"name": "c", "image": "i:2",
                    "$setElementOrder/env": [{"name": "A"}, {"name": "B"}],
                    "env": [{"name": "B", "value": "2"}]},
                {"$patch": "delete", "name": "side"}]}}}});
    let path =
        format!("{DEPLOYMENT}?fieldManager=kubectl-client-side-apply&fieldValidation=Strict");
    let answer = client.patch(&path, "strategic-merge", &patch).await?;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let object = answer.json();
    let containers = &object["spec"]["template"]["spec"]["containers"];
    assert_eq!(containers.as_array().map(Vec::len), Some(1));
    assert_eq!(containers[0]["image"], "i:2");
    assert_eq!(
        containers[0]["env"],
        json!([{"name": "A", "value": "1"}, {"name": "B", "value": "2"}])
    );
    assert_eq!(containers[0]["imagePullPolicy"], "IfNotPresent");
    assert_eq!(object["spec"]["replicas"], 3);
    assert_eq!(object["metadata"]["generation"], 2);
    let recreate = json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}});
    let answer = client
        .patch(DEPLOYMENT, "strategic-merge", &recreate)
        .await?;
    assert_eq!(
        answer.json()["spec"]["strategy"],
        json!({"type": "Recreate"}),
        "{}",
        answer.text()
    );
    Ok(())
}

#[tokio::test]
async fn invalid_strategic_merge_patches_are_refused_with_kubernetes_messages() -> anyhow::Result<()>
{
    let (_server, client) = start_with_map().await?;
    assert_eq!(client.post(DEPLOYMENTS, &deployment()).await?.status, 201);
    let containers = |items: Value| json!({"spec": {"template": {"spec": {"containers": items}}}});
    let answer = client
        .patch(
            DEPLOYMENT,
            "strategic-merge",
            &containers(json!([{"image": "new"}])),
        )
        .await?;
    assert_refused(
        &answer,
        500,
        "",
        "map: map[image:new] does not contain declared merge key: name",
    );
    let answer = client
        .patch(
            DEPLOYMENT,
            "strategic-merge",
            &json!({"spec": {"selector": {"matchLabels": {"$patch": "merge", "q": 1}}}}),
        )
        .await?;
    assert_refused(
        &answer,
        500,
        "",
        "unknown patch type: merge in map: map[$patch:merge q:1]",
    );
    Ok(())
}

#[tokio::test]
async fn status_patch_changes_the_status_only() -> anyhow::Result<()> {
    let (_server, client) = start_with_map().await?;
    assert_eq!(client.post(DEPLOYMENTS, &deployment()).await?.status, 201);
    let patch = json!({"status": {"replicas": 4}, "spec": {"replicas": 9}});
    let status = format!("{DEPLOYMENT}/status");
    let object = client.patch(&status, "merge", &patch).await?.json();
    assert_eq!(object["status"]["replicas"], 4);
    assert_eq!(object["spec"]["replicas"], 1);
    let object = client.patch(DEPLOYMENT, "merge", &patch).await?.json();
    assert_eq!(object["spec"]["replicas"], 9);
    let patch = json!({"status": {"replicas": 5}});
    let object = client.patch(DEPLOYMENT, "merge", &patch).await?.json();
    assert_eq!(object["status"]["replicas"], 4);
    Ok(())
}

#[tokio::test]
async fn removing_the_last_finalizer_by_patch_deletes_the_object() -> anyhow::Result<()> {
    let (_server, client) = start_with_map().await?;
    let finalizers = json!({"metadata": {"finalizers": ["x.io/y"]}});
    assert_eq!(client.patch(MAP, "merge", &finalizers).await?.status, 200);
    assert_eq!(client.delete(MAP).await?.status, 200);
    let none = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["x.io/y"]}});
    let answer = client.patch(MAP, "strategic-merge", &none).await?;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(client.get(MAP).await?.status, 404);
    Ok(())
}

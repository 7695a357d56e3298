//! Mutating webhooks.

use insula_testkit::webhook::{FakeWebhook, ReceivedRequest, Reply};
use serde_json::{Value, json};

use super::{
    MAPS, assert_refused, audited, configure, hook, map, start_tenant, tenant_with_webhook,
};

fn add(path: &str, value: Value) -> Reply {
    Reply::Patch(json!([{"op": "add", "path": path, "value": value}]))
}

#[tokio::test]
async fn patches_apply_to_creates_and_updates() -> anyhow::Result<()> {
    let webhook = FakeWebhook::start(add("/data/w", json!("1"))).await?;
    let (_server, client) = tenant_with_webhook("mutating", &webhook, json!({})).await?;
    let created = client.post(MAPS, &map("m")).await?.json();
    assert_eq!(created["data"], json!({"a": "b", "w": "1"}));
    webhook.answer(add("/data/w", json!("2")));
    let path = format!("{MAPS}/m");
    let merge = "merge";
    let patched = client
        .patch(&path, merge, &json!({"data": {"c": "d"}}))
        .await?
        .json();
    assert_eq!(patched["data"], json!({"a": "b", "c": "d", "w": "2"}));
    assert_eq!(client.get(&path).await?.json(), patched);
    Ok(())
}

#[tokio::test]
async fn patched_objects_are_decoded_defaulted_and_validated() -> anyhow::Result<()> {
    let webhook = FakeWebhook::start(add("/unknown", json!(1))).await?;
    let (_server, client) = tenant_with_webhook("mutating", &webhook, json!({})).await?;
    let created = client.post(MAPS, &map("m1")).await?.json();
    assert_eq!(created["unknown"], Value::Null);
    webhook.answer(add("/data", json!(7)));
    let answer = client.post(MAPS, &map("m2")).await?;
    let why = "Internal error occurred: json: cannot unmarshal number into Go struct field ConfigMap.data of type map[string]string";
    assert_refused(&answer, 500, "InternalError", why);
    webhook.answer(add("/data", json!({"a b": "c"})));
    let answer = client.post(MAPS, &map("m3")).await?;
    assert_eq!(answer.status, 422, "{}", answer.text());
    assert!(
        answer
            .message()
            .starts_with("ConfigMap \"m3\" is invalid: data[a b]: Invalid value")
    );
    // Webhooks cannot change server-owned metadata.
    webhook.answer(Reply::Patch(json!([
        {"op": "add", "path": "/metadata/uid", "value": "mine"},
        {"op": "add", "path": "/metadata/resourceVersion", "value": "7"},
        {"op": "add", "path": "/metadata/deletionTimestamp", "value": "2020-01-01T00:00:00Z"},
        {"op": "replace", "path": "/metadata/name", "value": "renamed"},
    ])));
    let created = client.post(MAPS, &map("m4")).await?;
    assert_eq!(created.status, 201, "{}", created.text());
    let created = created.json();
    assert_eq!(created["metadata"]["name"], "renamed");
    assert_ne!(created["metadata"]["uid"], "mine");
    assert_eq!(created["metadata"]["deletionTimestamp"], Value::Null);
    webhook.answer(Reply::Patch(json!([
        {"op": "replace", "path": "/metadata/namespace", "value": "kube-system"},
    ])));
    let answer = client.post(MAPS, &map("m5")).await?;
    let why =
        "the namespace of the provided object does not match the namespace sent on the request";
    assert_refused(&answer, 400, "BadRequest", why);
    Ok(())
}

#[tokio::test]
async fn invalid_patches_are_refused_despite_ignore() -> anyhow::Result<()> {
    let webhook =
        FakeWebhook::start(Reply::Patch(json!([{"op": "remove", "path": "/nope"}]))).await?;
    let ignore = json!({"failurePolicy": "Ignore"});
    let (_server, client) = tenant_with_webhook("mutating", &webhook, ignore).await?;
    let answer = client.post(MAPS, &map("m")).await?;
    let why = "Internal error occurred: error in remove for path: '/nope': Unable to remove nonexistent key: nope: missing value";
    assert_refused(&answer, 500, "InternalError", why);
    webhook.answer(Reply::Patch(json!({"op": "add"})));
    let answer = client.post(MAPS, &map("m")).await?;
    assert_eq!(
        answer.status,
        201,
        "what is no patch is ignored: {}",
        answer.text()
    );
    webhook.answer(add("/data/x", json!("y")));
    let answer = client.delete(&format!("{MAPS}/m")).await?;
    let why = "Internal error occurred: admission webhook \"w1.ex.io\" attempted to modify the object, which is not supported for this operation";
    assert_refused(&answer, 500, "InternalError", why);
    Ok(())
}

#[tokio::test]
async fn configurations_run_in_name_order_on_the_mutated_object() -> anyhow::Result<()> {
    let webhook = FakeWebhook::start(Reply::Allow).await?;
    webhook.script(|heard: &ReceivedRequest| {
        let who = heard.path.split('?').next().unwrap_or_default();
        let seen = heard.body["request"]["object"]["data"]["seen"]
            .as_str()
            .unwrap_or_default();
        add("/data/seen", json!(format!("{seen}{who}")))
    });
    let (_server, client) = start_tenant().await?;
    let at = |path: &str, name: &str| {
        hook(
            &webhook,
            name,
            json!({"clientConfig": webhook.client_config(path)}),
        )
    };
    configure(
        &client,
        "mutating",
        "b",
        &[at("/b1", "b1.ex.io"), at("/b2", "b2.ex.io")],
    )
    .await?;
    configure(&client, "mutating", "a", &[at("/a", "a.ex.io")]).await?;
    let created = client.post(MAPS, &map("m")).await?.json();
    assert_eq!(created["data"]["seen"], "/a/b1/b2");
    Ok(())
}

#[tokio::test]
async fn reinvocation_policy_is_honoured() -> anyhow::Result<()> {
    let (first, second) = (
        FakeWebhook::start(Reply::Allow).await?,
        FakeWebhook::start(add("/data/w", json!("1"))).await?,
    );
    let (server, log) = audited().await?;
    let client = server.tenant("t1").await?;
    let hooks = [
        hook(
            &first,
            "w1.ex.io",
            json!({"reinvocationPolicy": "IfNeeded"}),
        ),
        hook(&second, "w2.ex.io", json!({})),
    ];
    configure(&client, "mutating", "c1", &hooks).await?;
    let answer = client.post(MAPS, &map("m")).await?;
    assert_eq!((first.calls(), second.calls()), (2, 1));
    let again = &first.requests()[1].body["request"]["object"]["data"];
    assert_eq!(*again, json!({"a": "b", "w": "1"}));
    let event: Value = serde_json::from_str(&log.event(answer.header("audit-id")).await?)?;
    for (place, webhook, mutated) in [
        ("round_0_index_0", "w1.ex.io", false),
        ("round_0_index_1", "w2.ex.io", true),
        ("round_1_index_0", "w1.ex.io", false),
    ] {
        let message = &event["annotations"][format!("mutation.webhook.admission.k8s.io/{place}")];
        let message: Value = serde_json::from_str(message.as_str().unwrap())?;
        let expected = json!({"configuration": "c1", "webhook": webhook, "mutated": mutated});
        assert_eq!(message, expected, "{place}");
    }
    Ok(())
}

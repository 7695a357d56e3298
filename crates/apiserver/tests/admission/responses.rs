//! Webhook responses and their effect.

use insula_testkit::webhook::{FakeWebhook, Reply};
use serde_json::{Value, json};

use super::{MAPS, assert_refused, audited, configure, hook, map, tenant_with_webhook};

#[tokio::test]
async fn denials_carry_the_webhooks_message() -> anyhow::Result<()> {
    let webhook = FakeWebhook::start(Reply::Allow).await?;
    let (_server, client) = tenant_with_webhook("validating", &webhook, json!({})).await?;
    for (status, code, reason, message) in [
        (
            json!({"message": "nope because", "reason": "Gone", "code": 418}),
            418,
            "Gone",
            "admission webhook \"w1.ex.io\" denied the request: nope because",
        ),
        (
            Value::Null,
            400,
            "",
            "admission webhook \"w1.ex.io\" denied the request without explanation",
        ),
        (
            // A reason that the server itself uses stays marked as the webhook's.
            json!({"reason": "AlreadyExists", "code": 409}),
            409,
            "AlreadyExists",
            "admission webhook \"w1.ex.io\" denied the request: AlreadyExists",
        ),
    ] {
        webhook.answer(Reply::Deny(status));
        let before = webhook.calls();
        let answer = client
            .post(MAPS, &json!({"metadata": {"generateName": "m-"}}))
            .await?;
        assert_refused(&answer, code, reason, message);
        assert_eq!(webhook.calls(), before + 1);
    }
    assert_eq!(client.get(MAPS).await?.json()["items"], json!([]));
    Ok(())
}

#[tokio::test]
async fn failure_policy_refuses_or_ignores() -> anyhow::Result<()> {
    let mut webhook = FakeWebhook::start(Reply::Code(500)).await?;
    let (server, log) = audited().await?;
    let client = server.tenant("t1").await?;
    let hooks = [hook(&webhook, "w1.ex.io", json!({"timeoutSeconds": 1}))];
    configure(&client, "validating", "c1", &hooks).await?;
    let failed = "failed calling webhook \"w1.ex.io\": failed to call webhook: an error on the server (\"unknown\") has prevented the request from succeeding";
    let answer = client.post(MAPS, &map("m")).await?;
    assert_refused(
        &answer,
        500,
        "InternalError",
        &format!("Internal error occurred: {failed}"),
    );
    assert_eq!(
        answer.json()["details"]["causes"],
        json!([{"message": failed}])
    );
    webhook.answer(Reply::Silence);
    let answer = client.post(MAPS, &map("m")).await?;
    let url = webhook.url("/x?timeout=1s");
    let why = format!(
        "Internal error occurred: failed calling webhook \"w1.ex.io\": failed to call webhook: Post \"{url}\": context deadline exceeded"
    );
    assert_refused(&answer, 500, "InternalError", &why);
    webhook.stop().await;
    let answer = client.post(MAPS, &map("m")).await?;
    let at = webhook.address();
    let why = format!(
        "Internal error occurred: failed calling webhook \"w1.ex.io\": failed to call webhook: Post \"{url}\": dial tcp {at}: connect: connection refused"
    );
    assert_refused(&answer, 500, "InternalError", &why);
    let path = format!("{}/validatingwebhookconfigurations/c1", super::HOOKS);
    let ignore = json!([{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}]);
    let patched = client.patch(&path, "json", &ignore).await?;
    assert_eq!(patched.status, 200, "{}", patched.text());
    let answer = client.post(MAPS, &map("m")).await?;
    assert_eq!(answer.status, 201, "{}", answer.text());
    let event: Value = serde_json::from_str(&log.event(answer.header("audit-id")).await?)?;
    let key = "failed-open.validating.webhook.admission.k8s.io/round_0_index_0";
    assert_eq!(event["annotations"][key], "w1.ex.io");
    Ok(())
}

#[tokio::test]
async fn warnings_and_audit_annotations_are_kept_on_denial() -> anyhow::Result<()> {
    let webhook = FakeWebhook::start(Reply::Allow).await?;
    let (server, log) = audited().await?;
    let client = server.tenant("t1").await?;
    let hooks = [hook(&webhook, "w1.ex.io", json!({}))];
    configure(&client, "validating", "c1", &hooks).await?;
    for (allowed, code) in [(true, 201), (false, 400)] {
        webhook.answer(Reply::Response(json!({
            "allowed": allowed, "warnings": ["w one"],
            "auditAnnotations": {"k": "v"},
        })));
        let answer = client.post(MAPS, &map(&format!("m{code}"))).await?;
        assert_eq!(answer.status, code, "{}", answer.text());
        assert_eq!(answer.header("warning"), "299 - \"w one\"");
        let event: Value = serde_json::from_str(&log.event(answer.header("audit-id")).await?)?;
        assert_eq!(event["annotations"]["w1.ex.io/k"], "v");
    }
    Ok(())
}

#[tokio::test]
async fn validating_webhooks_are_called_in_parallel() -> anyhow::Result<()> {
    let (one, other) = (
        FakeWebhook::start(Reply::Silence).await?,
        FakeWebhook::start(Reply::Deny(json!({"message": "second"}))).await?,
    );
    let (_server, client) = super::start_tenant().await?;
    let patient = json!({"failurePolicy": "Ignore", "timeoutSeconds": 1});
    let hooks = [
        hook(&one, "w1.ex.io", patient),
        hook(&other, "w2.ex.io", json!({})),
    ];
    configure(&client, "validating", "c1", &hooks).await?;
    let answer = client.post(MAPS, &map("m")).await?;
    let why = "admission webhook \"w2.ex.io\" denied the request: second";
    assert_refused(&answer, 400, "", why);
    assert_eq!((one.calls(), other.calls()), (1, 1));
    Ok(())
}

#[tokio::test]
async fn missing_namespaces_are_reported_before_webhooks_are_called() -> anyhow::Result<()> {
    let webhook = FakeWebhook::start(Reply::Allow).await?;
    let (_server, client) = tenant_with_webhook("mutating", &webhook, json!({})).await?;
    let answer = client
        .post("/api/v1/namespaces/absent/configmaps", &map("m"))
        .await?;
    assert_refused(&answer, 404, "NotFound", "namespaces \"absent\" not found");
    assert_eq!(webhook.calls(), 0);
    Ok(())
}

//! CEL validation rules over HTTP.

use insula_testkit::server::{DEFINITIONS, TestServer};
use serde_json::{Value, json};

use super::samples::{create, foo_path, warnings};
use super::{FOOS, foo, foos};

/// A kind with an immutable color, ordered sizes and a status that needs a reason.
fn ruled() -> Value {
    let mut definition = foos();
    let version = &mut definition["spec"]["versions"][0];
    version["subresources"] = json!({"status": {}});
    let properties = &mut version["schema"]["openAPIV3Schema"]["properties"];
    properties["spec"] = json!({
        "type": "object",
        "properties": {
            "color": {
                "type": "string", "maxLength": 20,
                "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "immutable"}],
            },
            "low": {"type": "integer"},
            "high": {"type": "integer"},
        },
        "x-kubernetes-validations": [{
            "rule": "!has(self.low) || !has(self.high) || self.low <= self.high",
            "messageExpression": "has(self.color) ? 'too low for ' + self.color : 'too low'",
            "reason": "FieldValueForbidden",
            "fieldPath": ".low",
        }],
    });
    properties["status"] = json!({
        "type": "object",
        "properties": {"phase": {"type": "string", "maxLength": 20}},
        "x-kubernetes-validations": [{"rule": "self.phase != 'bad'"}],
    });
    definition
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_validate_creates_and_transitions() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = server.tenant("t1").await?;
    client.define(&ruled()).await?;
    create(
        &client,
        FOOS,
        &foo("a", json!({"color": "red", "low": 1, "high": 2})),
    )
    .await?;
    for (patch, why) in [
        (
            json!({"spec": {"color": "blue"}}),
            "spec.color: Invalid value: \"blue\": immutable",
        ),
        (
            json!({"spec": {"low": 3}}),
            "spec.low: Forbidden: too low for red",
        ),
        (
            json!({"spec": {"low": 3, "color": "x"}}),
            "[spec.low: Forbidden: too low for x, spec.color: Invalid value: \"x\": immutable]",
        ),
    ] {
        let refused = client.patch(&foo_path("a"), "merge", &patch).await?;
        assert_eq!(refused.status, 422, "{patch}: {}", refused.text());
        assert_eq!(
            refused.message(),
            format!("Foo.ex.io \"a\" is invalid: {why}"),
            "{patch}"
        );
    }
    // A new field has no `oldSelf`.
    let added = client
        .patch(&foo_path("a"), "merge", &json!({"spec": {"color": null}}))
        .await?;
    assert_eq!(added.status, 200, "{}", added.text());
    let added = client
        .patch(&foo_path("a"), "merge", &json!({"spec": {"color": "blue"}}))
        .await?;
    assert_eq!(added.status, 200, "{}", added.text());
    // A status update is validated by the status rules only.
    let status = format!("{}/status", foo_path("a"));
    let refused = client
        .patch(&status, "merge", &json!({"status": {"phase": "bad"}}))
        .await?;
    assert_eq!(
        refused.message(),
        "Foo.ex.io \"a\" is invalid: status: Invalid value: failed rule: self.phase != 'bad'"
    );
    let fine = client
        .patch(&status, "merge", &json!({"status": {"phase": "good"}}))
        .await?;
    assert_eq!(fine.status, 200, "{}", fine.text());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_are_ratcheted_for_unchanged_fields() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = server.tenant("t1").await?;
    let mut definition = foos();
    let spec =
        &mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    spec["properties"]["color"]["maxLength"] = 20.into();
    client.define(&definition).await?;
    create(&client, FOOS, &foo("x", json!({"color": "bad value"}))).await?;
    let path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/color";
    let rule = json!([{
        "op": "add", "path": format!("{path}/x-kubernetes-validations"),
        "value": [{"rule": "!self.contains('bad')", "message": "no bad"}],
    }]);
    let changed = client
        .patch(&format!("{DEFINITIONS}/foos.ex.io"), "json", &rule)
        .await?;
    assert_eq!(changed.status, 200, "{}", changed.text());
    // The new rule applies as soon as the server has seen it.
    let begun = std::time::Instant::now();
    let mut size = 7;
    let patched = loop {
        let patched = client
            .patch(&foo_path("x"), "merge", &json!({"spec": {"size": size}}))
            .await?;
        assert_eq!(patched.status, 200, "{}", patched.text());
        if !warnings(&patched).is_empty() {
            break patched;
        }
        anyhow::ensure!(begun.elapsed().as_secs() < 20, "no rule was seen");
        size += 1;
    };
    assert_eq!(
        warnings(&patched),
        [r#"299 - "spec.color: Invalid value: \"bad value\": no bad""#]
    );
    let refused = client
        .patch(
            &foo_path("x"),
            "merge",
            &json!({"spec": {"color": "bad too"}}),
        )
        .await?;
    assert_eq!(
        refused.message(),
        "Foo.ex.io \"x\" is invalid: spec.color: Invalid value: \"bad too\": no bad"
    );
    Ok(())
}

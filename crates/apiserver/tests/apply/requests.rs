//! Validation of apply requests.

use super::*;
use insula_testkit::server::TestServer;

#[tokio::test]
async fn field_manager_is_required() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let headers = [("content-type", "application/apply-patch+yaml")];
    let body = map(&json!({"k": "v"})).to_string();
    let answer = client.send(Method::PATCH, MAP, &headers, body).await?;
    assert_refused(
        &answer,
        422,
        "Invalid",
        "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for \
         apply patch",
    );
    Ok(())
}

#[tokio::test]
async fn applied_object_must_match_the_path() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let other = |version: &str, kind: &str| {
        let mut object = json!({"metadata": {"name": "m"}});
        if !version.is_empty() {
            object["apiVersion"] = version.into();
        }
        if !kind.is_empty() {
            object["kind"] = kind.into();
        }
        object
    };
    for (version, kind, said) in [
        ("v1", "Secret", "/v1, Kind=Secret"),
        ("", "", "/, Kind="),
        ("apps/v1", "ConfigMap", "apps/v1, Kind=ConfigMap"),
    ] {
        let answer = apply(&client, MAP, "me", &other(version, kind)).await?;
        let message = format!("invalid object type: {said}");
        assert_refused(&answer, 400, "BadRequest", &message);
    }
    let mut sent = map(&json!({}));
    sent["metadata"]["managedFields"] = json!([]);
    let answer = apply(&client, MAP, "me", &sent).await?;
    assert_refused(
        &answer,
        400,
        "BadRequest",
        "metadata.managedFields must be nil",
    );
    Ok(())
}

#[tokio::test]
async fn unknown_fields_are_refused() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let mut unknown = map(&json!({}));
    unknown["bogus"] = 1.into();
    let answer = apply(&client, MAP, "me", &unknown).await?;
    assert_refused(
        &answer,
        500,
        "",
        "failed to create typed patch object (/m; /v1, Kind=ConfigMap): .bogus: field not \
         declared in schema",
    );
    let answer = apply(&client, MAP, "me", &map(&json!({"k": 5}))).await?;
    assert_refused(
        &answer,
        500,
        "",
        "failed to create typed patch object (/m; /v1, Kind=ConfigMap): .data.k: expected \
         string, got &value.valueUnstructured{Value:5}",
    );
    let mut twice = minimal_deployment();
    let container = twice["template"]["spec"]["containers"][0].clone();
    twice["template"]["spec"]["containers"] = json!([container.clone(), container]);
    let answer = apply(&client, DEPLOYMENT, "me", &deployment(&twice)).await?;
    assert_refused(
        &answer,
        500,
        "",
        "failed to create typed patch object (/d; apps/v1, Kind=Deployment): \
         .spec.template.spec.containers: duplicate entries for key [name=\"c\"]",
    );
    Ok(())
}

#[tokio::test]
async fn yaml_is_accepted_and_duplicate_keys_are_reported() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let headers = [("content-type", "application/apply-patch+yaml")];
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: m\ndata:\n  a: one\n  a: two\n";
    let path = format!("{MAP}?fieldManager=me");
    let answer = client.send(Method::PATCH, &path, &headers, text).await?;
    assert_eq!(answer.status, 201, "{}", answer.text());
    let strict = format!("{path}&fieldValidation=Strict");
    let answer = client.send(Method::PATCH, &strict, &headers, text).await?;
    assert_eq!(answer.status, 400, "{}", answer.text());
    let answer = client.send(Method::PATCH, &path, &headers, "a: [").await?;
    assert_eq!(answer.status, 400, "{}", answer.text());
    assert!(answer.message().starts_with("error decoding YAML: "));
    Ok(())
}

#[tokio::test]
async fn resource_version_and_uid_are_preconditions() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let mut sent = map(&json!({"k": "v"}));
    sent["metadata"]["uid"] = "11111111-1111-1111-1111-111111111111".into();
    let answer = apply(&client, MAP, "me", &sent).await?;
    assert_eq!(answer.status, 409, "{}", answer.text());
    sent["metadata"] = json!({"name": "m", "resourceVersion": "7"});
    let answer = apply(&client, MAP, "me", &sent).await?;
    assert_eq!(answer.status, 201, "{}", answer.text());
    let answer = apply(&client, MAP, "me", &sent).await?;
    assert_eq!(answer.status, 409, "{}", answer.text());
    Ok(())
}

#[tokio::test]
async fn dry_run_stores_nothing() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let sent = map(&json!({"k": "v"}));
    let answer = apply(&client, MAP, "me&dryRun=All", &sent).await?;
    assert_eq!(answer.status, 201, "{}", answer.text());
    assert_eq!(answer.json()["data"], json!({"k": "v"}));
    assert_eq!(client.get(MAP).await?.status, 404);
    assert_eq!(apply(&client, MAP, "me", &sent).await?.status, 201);
    let before = client.get(MAP).await?.json();
    let other = map(&json!({"k": "w"}));
    let answer = apply(&client, MAP, "me&dryRun=All", &other).await?;
    assert_eq!(answer.json()["data"], json!({"k": "w"}));
    assert_eq!(client.get(MAP).await?.json(), before);
    Ok(())
}

#[tokio::test]
async fn creating_by_apply_needs_create_permission() -> anyhow::Result<()> {
    let server = TestServer::with_tokens("bob,bob,7,\"tenant:t1\"\n").await?;
    let (client, bob) = (server.tenant("t1").await?, server.client("bob").await?);
    let rule = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch", "get"]});
    client.grant("patches", "User:bob", &[rule]).await?;
    let sent = map(&json!({"k": "v"}));
    let answer = apply(&bob, MAP, "me", &sent).await?;
    assert_eq!(answer.status, 403, "{}", answer.text());
    assert_eq!(apply(&client, MAP, "me", &sent).await?.status, 201);
    let changed = map(&json!({"k": "w"}));
    assert_eq!(apply(&bob, MAP, "me", &changed).await?.status, 200);
    Ok(())
}

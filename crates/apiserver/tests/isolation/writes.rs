//! What a request body cannot change: an object's identity, its age and its space.

use http::Method;
use insula_testkit::server::{Answer, Client, TestServer};
use serde_json::{Value, json};

use super::principals::create;
use super::{MAPS, named};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

fn deployment() -> Value {
    json!({"metadata": {"name": "d"}, "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        },
    }})
}

/// Server-owned metadata fields and the values that a client tries to set.
fn forged_metadata() -> Vec<(&'static str, Value)> {
    vec![
        ("uid", json!("00000000-0000-0000-0000-000000000000")),
        ("creationTimestamp", json!("2000-01-01T00:00:00Z")),
        ("generation", json!(77)),
        (
            "selfLink",
            json!("/api/v1/tenants/t2/namespaces/default/configmaps/d"),
        ),
        ("tenant", json!("t2")),
        ("namespace", json!("kube-system")),
        ("deletionTimestamp", json!("2000-01-01T00:00:00Z")),
        ("deletionGracePeriodSeconds", json!(77)),
    ]
}

/// Every way to write one metadata field of the object at `path`.
async fn write_all(
    client: &Client,
    path: &str,
    member: &str,
    wish: &Value,
) -> anyhow::Result<Vec<Answer>> {
    let mut answers = Vec::new();
    let mut whole = client.get(path).await?.json();
    whole["metadata"][member] = wish.clone();
    if let Some(metadata) = whole["metadata"].as_object_mut() {
        metadata.remove("resourceVersion");
    }
    let patch = json!({"metadata": {member: wish}});
    let pointer = format!("/metadata/{member}");
    let operations = json!([{"op": "add", "path": pointer, "value": wish}]);
    for below in ["", "/status", "/scale"] {
        let path = format!("{path}{below}");
        answers.push(client.put(&path, &whole).await?);
        answers.push(client.patch(&path, "merge", &patch).await?);
        answers.push(client.patch(&path, "strategic-merge", &patch).await?);
        answers.push(client.patch(&path, "json", &operations).await?);
    }
    let headers = [("content-type", "application/apply-patch+yaml")];
    let applied = format!("{path}?fieldManager=me&force=true");
    let body = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {member: wish}});
    let body = body.to_string();
    answers.push(client.send(Method::PATCH, &applied, &headers, body).await?);
    Ok(answers)
}

#[tokio::test]
async fn i31_no_verb_writes_server_owned_metadata() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let tenant = server.tenant("t1").await?;
    let created = create(&tenant, DEPLOYMENTS, deployment()).await?;
    let path = format!("{DEPLOYMENTS}/d");
    for (member, wish) in forged_metadata() {
        for answer in write_all(&tenant, &path, member, &wish).await? {
            let known = [200, 400, 404, 409, 415, 422].contains(&answer.status);
            assert!(known, "{member}: {} {}", answer.status, answer.text());
            let shown = &answer.json()["metadata"][member];
            assert_ne!(*shown, wish, "{member}: {}", answer.text());
        }
        let now = tenant.get(&path).await?.json();
        let found = &now["metadata"][member];
        assert_eq!(*found, created["metadata"][member], "{member}: {now}");
    }
    // The same on create.
    for (number, (member, wish)) in forged_metadata().into_iter().enumerate() {
        let mut object = deployment();
        object["metadata"]["name"] = format!("new-{number}").into();
        object["metadata"][member] = wish.clone();
        let answer = tenant.post(DEPLOYMENTS, &object).await?;
        assert!([201, 400].contains(&answer.status), "{}", answer.text());
        assert_ne!(answer.json()["metadata"][member], wish, "{member}");
    }
    Ok(())
}

#[tokio::test]
async fn i32_generated_names_stay_in_the_callers_tenant() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let (one, other) = (server.tenant("t1").await?, server.tenant("t2").await?);
    let generated = json!({"metadata": {"generateName": "x-"}});
    for _ in 0..20 {
        for (client, tenant) in [(&one, "t1"), (&other, "t2")] {
            let created = create(client, MAPS, generated.clone()).await?;
            assert_eq!(created["metadata"]["tenant"], tenant);
        }
    }
    for (client, tenant) in [(&one, "t1"), (&other, "t2")] {
        let list = client.get(MAPS).await?.json();
        let items = list["items"].as_array().cloned().unwrap_or_default();
        assert_eq!(items.len(), 20);
        assert!(
            items
                .iter()
                .all(|item| item["metadata"]["tenant"] == tenant)
        );
    }
    Ok(())
}

#[tokio::test]
async fn i33_forged_managed_fields_are_discarded() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let tenant = server.tenant("t1").await?;
    let entry = |number: usize| {
        json!({"manager": format!("m-{number}"), "operation": "Apply", "apiVersion": "v1",
            "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {}}})
    };
    let mut object = named("x");
    object["metadata"]["managedFields"] = (0..10_000).map(entry).collect();
    let created = tenant.post(MAPS, &object).await?;
    assert_eq!(created.status, 201, "{}", created.text());
    assert!(created.body.len() < 1024, "{}", created.body.len());
    let path = format!("{MAPS}/x");
    for answer in [
        tenant.put(&path, &object).await?,
        tenant.patch(&path, "merge", &object).await?,
    ] {
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert!(answer.body.len() < 1024, "{}", answer.body.len());
    }
    Ok(())
}

#[tokio::test]
async fn i34_tenants_cannot_change_their_own_tenancy() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let (tenant, system) = (server.tenant("t1").await?, server.system().await?);
    let path = "/api/v1/tenants/t1";
    let before = system.get(path).await?;
    let patch = json!({"metadata": {"labels": {"tier": "gold"}, "finalizers": ["a/b"]}});
    // The quota and limits of the tenant are readable, and nothing is writable.
    for (path, readable) in [
        (path, 200),
        ("/api/v1/tenants/t1/status", 403),
        ("/tenants/t1/api/v1/tenants/t1", 200),
    ] {
        assert_eq!(
            tenant.patch(path, "merge", &patch).await?.status,
            403,
            "{path}"
        );
        assert_eq!(tenant.get(path).await?.status, readable, "{path}");
    }
    assert_eq!(tenant.delete(path).await?.status, 403);
    let finalize = format!("{path}/finalize");
    assert_eq!(tenant.put(&finalize, &before.json()).await?.status, 403);
    // An object may name its tenant as owner; that changes nothing about the tenant.
    let mut owned = named("x");
    owned["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "Tenant",
        "name": "t1", "uid": before.json()["metadata"]["uid"]}]);
    tenant.post(MAPS, &owned).await?;
    assert_eq!(system.get(path).await?.body, before.body);
    Ok(())
}

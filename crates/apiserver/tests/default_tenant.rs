//! The default tenant: the space of users with a credential that names no tenant.

use std::sync::Arc;

use insula_access::Subject;
use insula_apiserver::write::bootstrap_objects::ensure_tenant;
use insula_core::{Space, TenantName};
use insula_testkit::server::{Client, Engine, Setup, TestServer};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const WHO: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

fn setup(default: &str) -> anyhow::Result<Setup> {
    Ok(Setup {
        default_tenant: Some(Space::parse(default)?),
        tokens: "masters,root,8,\"system:masters\"\n".to_owned(),
        ..Setup::default()
    })
}

async fn start(default: &str) -> anyhow::Result<TestServer> {
    let server = TestServer::start_on(Engine::Memory, setup(default)?).await?;
    Ok(server.expect("memory is always there"))
}

/// The groups and the space that the server reports for the client.
async fn groups_and_space(client: &Client) -> anyhow::Result<(Value, Value)> {
    let answer = client.post(WHO, &json!({})).await?;
    anyhow::ensure!(answer.status == 201, "{}", answer.text());
    let user = answer.json()["status"]["userInfo"].clone();
    Ok((
        user["groups"].clone(),
        user["extra"]["insula.dev/tenant"][0].clone(),
    ))
}

#[tokio::test]
async fn missing_default_tenant_is_created() -> anyhow::Result<()> {
    let server = start("xxx").await?;
    let system = server.system().await?;
    let found = system.get("/api/v1/tenants/xxx").await?;
    assert_eq!(found.status, 200, "{}", found.text());
    assert_eq!(found.json()["status"]["phase"], "Active");
    let namespaces = system.get("/api/v1/tenants/xxx/namespaces").await?.json();
    assert_eq!(namespaces["items"].as_array().map(Vec::len), Some(3));
    let role = "/apis/rbac.authorization.k8s.io/v1/tenants/xxx/clusterroles/admin-role";
    assert_eq!(system.get(role).await?.status, 200);
    Ok(())
}

#[tokio::test]
async fn existing_default_tenant_is_unchanged() -> anyhow::Result<()> {
    let mut server = start("xxx").await?;
    let system = server.system().await?;
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    let before = system.patch("/api/v1/tenants/xxx", "merge", &label).await?;
    let store = Arc::clone(server.registry().store());
    let revision = store.revision().await?;
    server.stop().await;
    let server = TestServer::start_on_store(store, setup("xxx")?).await?;
    let after = server.system().await?.get("/api/v1/tenants/xxx").await?;
    assert_eq!(after.json(), before.json());
    assert_eq!(server.registry().store().revision().await?, revision);
    Ok(())
}

#[tokio::test]
async fn credentials_without_a_tenant_belong_to_the_default_tenant() -> anyhow::Result<()> {
    let server = start("xxx").await?;
    let stray = server.client("stray").await?;
    let refused = stray
        .post(MAPS, &json!({"metadata": {"name": "one"}}))
        .await?;
    assert_eq!(refused.status, 403, "{}", refused.text());
    let binding = json!({"metadata": {"name": "stray"},
        "subjects": [{"kind": "User", "name": "stray"}],
        "roleRef": {"kind": "ClusterRole", "name": "cluster-admin"}});
    let bindings = "/apis/rbac.authorization.k8s.io/v1/tenants/xxx/clusterrolebindings";
    let bound = server.system().await?.post(bindings, &binding).await?;
    assert_eq!(bound.status, 201, "{}", bound.text());
    let created = stray
        .post(MAPS, &json!({"metadata": {"name": "one"}}))
        .await?;
    assert_eq!(created.status, 201, "{}", created.text());
    let created = created.json();
    assert_eq!(created["metadata"]["tenant"], "xxx");
    let full = "/api/v1/tenants/xxx/namespaces/default/configmaps/one";
    assert_eq!(created["metadata"]["selfLink"], full);
    assert_eq!(stray.get(full).await?.status, 200);
    for path in [
        "/api/v1/tenants/t1/pods",
        "/api/v1/tenants/all/pods",
        "/api/v1/tenants",
    ] {
        assert_eq!(stray.get(path).await?.status, 403, "{path}");
    }
    // `system:masters` has no effect in a tenant.
    let (groups, space) = groups_and_space(&server.client("masters").await?).await?;
    assert_eq!(
        (groups, space),
        (json!(["system:authenticated"]), json!("xxx"))
    );
    let own = server.tenant("t1").await?;
    assert_eq!(own.get(&format!("{MAPS}/one")).await?.status, 404);
    let system = server.system().await?;
    assert_eq!(system.get(&format!("{MAPS}/one")).await?.status, 404);
    assert_eq!(system.get(full).await?.status, 200);
    let subject = Subject {
        user: "alice".to_owned(),
        groups: vec!["dev".to_owned()],
        tenant: None,
        tenant_uid: None,
    };
    let certified = server.client_with_certificate(&subject, "").await?;
    let (groups, space) = groups_and_space(&certified).await?;
    assert_eq!(groups, json!(["dev", "system:authenticated"]));
    assert_eq!(space, "xxx");
    Ok(())
}

#[tokio::test]
async fn default_tenant_may_be_the_system_space() -> anyhow::Result<()> {
    let server = start("system").await?;
    let masters = server.client("masters").await?;
    let (groups, space) = groups_and_space(&masters).await?;
    assert_eq!(groups, json!(["system:masters", "system:authenticated"]));
    assert_eq!(space, "system");
    let created = masters
        .post(MAPS, &json!({"metadata": {"name": "one"}}))
        .await?;
    assert_eq!(created.status, 201, "{}", created.text());
    let created = created.json();
    assert!(created["metadata"].get("tenant").is_none(), "{created}");
    assert_eq!(created["metadata"]["selfLink"], format!("{MAPS}/one"));
    assert_eq!(masters.get("/api/v1/tenants").await?.status, 200);
    assert_eq!(masters.get("/api/v1/tenants/all/pods").await?.status, 200);
    // A credential that names a tenant is still that tenant's.
    let own = server.tenant("t1").await?;
    assert_eq!(own.get("/api/v1/tenants").await?.status, 403);
    Ok(())
}

#[tokio::test]
async fn default_tenant_cannot_be_named_like_a_system_namespace() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let name = TenantName::parse("kube-public")?;
    let refused = ensure_tenant(server.registry(), &name).await;
    let message = refused.map_err(|refusal| refusal.message().to_owned());
    let why = "Operation cannot be fulfilled on tenants \"kube-public\": a namespace of the \
               system space has this name already, and tenants share their names with it; choose \
               another name";
    assert_eq!(message, Err(why.to_owned()));
    // An existing tenant of that name is no reason to refuse.
    let name = TenantName::parse("fine")?;
    assert_eq!(ensure_tenant(server.registry(), &name).await, Ok(()));
    assert_eq!(ensure_tenant(server.registry(), &name).await, Ok(()));
    Ok(())
}

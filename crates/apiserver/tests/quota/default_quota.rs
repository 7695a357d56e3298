//! The default quota of tenants, and what a tenant's users see of it.

use std::sync::Arc;

use insula_apiserver::registry::tenant_quota::TenantQuota;
use insula_core::Space;
use insula_store::Store;
use insula_store::memory::Memory;
use insula_testkit::server::{Client, Engine, Setup, TestServer};
use serde_json::{Value, json};

use crate::{ADVICE, MAPS, create, forbidden, map, race};

const TENANTS: &str = "/api/v1/tenants";
const OWN: &str = "/api/v1/tenants/t1";

fn setup(quota: Value) -> Setup {
    Setup {
        tenant_quota: TenantQuota::parse(&quota),
        ..Setup::default()
    }
}

async fn start(quota: Value) -> anyhow::Result<TestServer> {
    let started = TestServer::start_on(Engine::Memory, setup(quota)).await?;
    started.ok_or_else(|| anyhow::anyhow!("the server did not start"))
}

async fn update_quota(server: &TestServer, quota: Value) -> anyhow::Result<()> {
    let patch = json!({"spec": {"quota": quota}});
    let changed = server.system().await?.patch(OWN, "merge", &patch).await?;
    anyhow::ensure!(changed.status == 200, "{}", changed.text());
    Ok(())
}

fn used(server: &TestServer, name: &str) -> insula_cache::Usage {
    let space = Space::parse(name).unwrap();
    let state = server.registry().cache().space_state(&space);
    state.unwrap().usage()
}

fn sized(size: usize) -> Value {
    json!({"data": {"a": "x".repeat(size)}})
}

/// A tenant that was there before the default may shrink and stay as it is, but not grow.
#[tokio::test]
async fn default_applies_to_existing_tenants_above_it() -> anyhow::Result<()> {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let mut before = TestServer::start_on_store(Arc::clone(&store), Setup::default()).await?;
    let client = before.tenant("t1").await?;
    for name in ["c1", "c2"] {
        create(&client, MAPS, &map(name)).await?;
    }
    let path = format!("{MAPS}/c1");
    assert_eq!(client.patch(&path, "merge", &sized(900)).await?.status, 200);
    before.stop().await;
    let server = TestServer::start_on_store(store, setup(json!({"bytes": "1Ki"}))).await?;
    let client = server.client("t1").await?;
    let bytes = used(&server, "t1").bytes;
    assert!(bytes > 1024, "{bytes}");
    let refused = client.patch(&path, "merge", &sized(901)).await?;
    forbidden(
        &refused,
        &format!(
            "configmaps \"c1\" is forbidden: exceeded quota of tenant t1: requested: bytes=1, \
             used: bytes={bytes}, limited: bytes=1Ki{ADVICE}"
        ),
    );
    let same_size = json!({"data": {"a": "y".repeat(900)}});
    assert_eq!(client.patch(&path, "merge", &same_size).await?.status, 200);
    assert_eq!(client.patch(&path, "merge", &sized(10)).await?.status, 200);
    assert_eq!(client.delete(&path).await?.status, 200);
    assert_eq!(client.post(MAPS, &map("c3")).await?.status, 403);
    // A new tenant has the same default, and the system has none.
    let system = server.system().await?;
    let (tenant, namespaces) = (json!({"metadata": {"name": "t2"}}), "/api/v1/namespaces");
    create(&system, TENANTS, &tenant).await?;
    let other = server.client("t2").await?;
    assert_eq!(other.post(MAPS, &map("c")).await?.status, 403);
    let namespace = json!({"metadata": {"name": "n"}});
    create(&system, namespaces, &namespace).await?;
    Ok(())
}

#[tokio::test]
async fn fields_of_a_tenant_override_the_default() -> anyhow::Result<()> {
    let server = start(json!({"bytes": "1Ki", "namespaces": 3})).await?;
    let client = server.tenant("t1").await?;
    assert_eq!(client.post(MAPS, &map("c1")).await?.status, 403);
    update_quota(&server, json!({"bytes": "1Mi"})).await?;
    create(&client, MAPS, &map("c1")).await?;
    // The field that the tenant does not set is still the default.
    let namespace = json!({"metadata": {"name": "n"}});
    let refused = client.post("/api/v1/namespaces", &namespace).await?;
    forbidden(
        &refused,
        &format!(
            "namespaces \"n\" is forbidden: exceeded quota of tenant t1: requested: \
             namespaces=1, used: namespaces=3, limited: namespaces=3{ADVICE}"
        ),
    );
    update_quota(&server, json!({"unlimited": ["namespaces"]})).await?;
    create(&client, "/api/v1/namespaces", &namespace).await?;
    update_quota(&server, json!({"bytes": null, "unlimited": ["bytes"]})).await?;
    create(&client, MAPS, &map("c2")).await?;
    let another = json!({"metadata": {"name": "m"}});
    let refused = client.post("/api/v1/namespaces", &another).await?;
    assert_eq!(refused.status, 403, "{}", refused.text());
    // Without a quota of its own the tenant is back at the default.
    update_quota(&server, Value::Null).await?;
    assert_eq!(client.post(MAPS, &map("c3")).await?.status, 403);
    Ok(())
}

#[tokio::test]
async fn unlimited_fields_are_validated() -> anyhow::Result<()> {
    let server = start(json!({"bytes": "1Gi"})).await?;
    server.tenant("t1").await?;
    let system = server.system().await?;
    for (quota, why) in [
        (
            json!({"unlimited": ["pods"]}),
            "spec.quota.unlimited[0]: Unsupported value: \"pods\": supported values: \"bytes\", \
             \"customResourceDefinitions\", \"namespaces\", \"objects\"",
        ),
        (
            json!({"bytes": "1Gi", "unlimited": ["bytes"]}),
            "spec.quota.bytes: Forbidden: may not be set for a field in `unlimited`",
        ),
    ] {
        let patch = json!({"spec": {"quota": quota}});
        let answer = system.patch(OWN, "merge", &patch).await?;
        assert_eq!(answer.status, 422, "{}", answer.text());
        assert_eq!(answer.message(), format!("Tenant \"t1\" is invalid: {why}"));
    }
    Ok(())
}

fn fences(keys: Vec<String>) -> Vec<String> {
    let fences = keys.into_iter().filter(|key| key.contains("/fences/"));
    fences.collect()
}

/// Far from the limit, writes neither wait for each other nor write a fence.
#[tokio::test(flavor = "multi_thread")]
async fn writes_far_from_the_default_do_not_contend() -> anyhow::Result<()> {
    let server = start(json!({"bytes": "1Gi"})).await?;
    let client = server.tenant("t1").await?;
    let maps: Vec<Value> = (0..64).map(|n| map(&format!("c{n}"))).collect();
    assert_eq!(race(&[&client], MAPS, &maps, "").await?, 64);
    assert_eq!(fences(server.keys().await?), Vec::<String>::new());
    server
        .registry()
        .catch_up()
        .await
        .map_err(|error| anyhow::anyhow!("{error}"))?;
    // Near the limit there is a fence, and one winner.
    let bytes = used(&server, "t1").bytes;
    update_quota(&server, json!({"bytes": bytes + 6500})).await?;
    let large = |n| json!({"metadata": {"name": format!("l{n}")}, "data": sized(4000)["data"]});
    let maps: Vec<Value> = (0..64).map(large).collect();
    let refusal = format!(", limited: bytes={}{ADVICE}", bytes + 6500);
    assert_eq!(race(&[&client], MAPS, &maps, &refusal).await?, 1);
    assert_eq!(fences(server.keys().await?), ["/registry/insula/fences/t1"]);
    Ok(())
}

/// Two servers admit the last bytes exactly, also if neither has seen the other's writes.
#[tokio::test(flavor = "multi_thread")]
async fn default_is_exact_across_servers() -> anyhow::Result<()> {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let first = TestServer::start_on_store(Arc::clone(&store), Setup::default()).await?;
    first.tenant("t1").await?;
    first.registry().catch_up().await?;
    let most = used(&first, "t1").objects + 20;
    let limited = || setup(json!({"objects": most}));
    let one = TestServer::start_on_store(Arc::clone(&store), limited()).await?;
    let other = TestServer::start_on_store(Arc::clone(&store), limited()).await?;
    let clients = [&one.client("t1").await?, &other.client("t1").await?];
    let maps: Vec<Value> = (0..64).map(|n| map(&format!("c{n}"))).collect();
    let refusal = format!("limited: objects={most}{ADVICE}");
    assert_eq!(race(&clients, MAPS, &maps, &refusal).await?, 20);
    one.registry().catch_up().await?;
    assert_eq!(used(&one, "t1").objects, most);
    Ok(())
}

#[tokio::test]
async fn users_see_quota_usage_and_limits_of_their_own_tenant() -> anyhow::Result<()> {
    let server = start(json!({"bytes": "1Gi"})).await?;
    let client = server.tenant("t1").await?;
    server.tenant("t2").await?;
    let patch = json!({
        "metadata": {"labels": {"plan": "cheap"}, "annotations": {"owner": "sales"}},
        "spec": {"quota": {"objects": 100}},
    });
    let system = server.system().await?;
    assert_eq!(system.patch(OWN, "merge", &patch).await?.status, 200);
    create(&client, MAPS, &map("c")).await?;
    let usage = used(&server, "t1");
    let answer = client.get(OWN).await?;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let own = answer.json();
    let whole = system.get(OWN).await?.json();
    assert_eq!(
        (&own["kind"], &own["apiVersion"]),
        (&json!("Tenant"), &json!("v1"))
    );
    assert_eq!(own["metadata"]["uid"], whole["metadata"]["uid"]);
    let status = &own["status"];
    assert_eq!(status["quota"], json!({"objects": 100, "bytes": "1Gi"}));
    assert_eq!(status["usage"]["objects"], usage.objects);
    assert_eq!(status["usage"]["bytes"], usage.bytes.to_string());
    assert_eq!(status["limits"]["watches"], 10_000);
    assert_eq!(status["phase"], "Active");
    // What administrators of the system note on a tenant is theirs.
    for secret in ["plan", "sales", "finalizers", "managedFields"] {
        assert!(!answer.text().contains(secret), "{}", answer.text());
    }
    Ok(())
}

#[tokio::test]
async fn own_tenant_can_only_be_read_and_no_other() -> anyhow::Result<()> {
    let server = start(json!({"bytes": "1Gi"})).await?;
    let client = server.tenant("t1").await?;
    server.tenant("t2").await?;
    for path in [
        "/api/v1/tenants/t2",
        "/api/v1/tenants/ghost",
        "/api/v1/tenants/system",
        TENANTS,
        "/api/v1/tenants?fieldSelector=metadata.name%3Dt1",
        "/api/v1/tenants?watch=true&fieldSelector=metadata.name%3Dt1",
        "/api/v1/watch/tenants/t1",
        "/api/v1/tenants/t1/status",
    ] {
        let answer = client.get(path).await?;
        assert_eq!(answer.status, 403, "{path}: {}", answer.text());
    }
    let patch = json!({"spec": {"quota": {"unlimited": ["bytes"]}}});
    for path in [OWN, "/api/v1/tenants/t1/status"] {
        let changed = client.patch(path, "merge", &patch).await?;
        assert_eq!(changed.status, 403, "{}", changed.text());
    }
    assert_eq!(client.delete(OWN).await?.status, 403);
    Ok(())
}

/// Whether a review says that the caller may get the tenant.
async fn may_get(client: &Client, name: &str) -> anyhow::Result<Value> {
    let attributes = json!({"verb": "get", "resource": "tenants", "name": name});
    let review = json!({"spec": {"resourceAttributes": attributes}});
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let answer = client.post(path, &review).await?;
    anyhow::ensure!(answer.status == 201, "{}", answer.text());
    Ok(answer.json()["status"]["allowed"].clone())
}

/// A role of the tenant grants it, as any other resource.
#[tokio::test]
async fn users_without_a_role_do_not_see_their_tenant() -> anyhow::Result<()> {
    let tokens = "robot,robot,robot,tenant:t1\n";
    let setup = Setup {
        tokens: tokens.to_owned(),
        ..setup(json!({"bytes": "1Gi"}))
    };
    let server = TestServer::start_on(Engine::Memory, setup).await?.unwrap();
    let admin = server.tenant("t1").await?;
    let user = server.client("robot").await?;
    let refused = user.get(OWN).await?;
    forbidden(
        &refused,
        "tenants \"t1\" is forbidden: User \"robot\" cannot get resource \"tenants\" in API group \
         \"\" at the cluster scope",
    );
    assert_eq!(may_get(&user, "t1").await?, json!(false));
    assert_eq!(may_get(&admin, "t1").await?, json!(true));
    assert_eq!(may_get(&admin, "t2").await?, json!(false));
    let rules = json!([{"apiGroups": [""], "resources": ["tenants"], "verbs": ["get"]}]);
    let role = json!({"metadata": {"name": "quota-reader"}, "rules": rules});
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    create(&admin, &format!("{rbac}/clusterroles"), &role).await?;
    let binding = json!({"metadata": {"name": "quota-reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "quota-reader"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "robot"}]});
    create(&admin, &format!("{rbac}/clusterrolebindings"), &binding).await?;
    assert_eq!(user.get(OWN).await?.status, 200);
    assert_eq!(user.get("/api/v1/tenants/t2").await?.status, 403);
    Ok(())
}

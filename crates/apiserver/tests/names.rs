//! Names: reusable in any number of spaces, and never mapped to the same key twice.

use std::sync::Arc;

use crate::fixtures::named;
use insula_testkit::server::{Client, Engine, Setup, TestServer};
use serde_json::{Value, json};
use tokio::sync::Barrier;

const TENANTS: &str = "/api/v1/tenants";
const NAMESPACES: &str = "/api/v1/namespaces";

/// Deletes a namespace or tenant and does the work of its controller.
async fn remove(client: &Client, path: &str) -> anyhow::Result<()> {
    let deleted = client.delete(path).await?;
    anyhow::ensure!(deleted.status == 200, "{}", deleted.text());
    let mut object = client.get(path).await?.json();
    assert_eq!(object["status"]["phase"], "Terminating");
    object["spec"]["finalizers"] = json!([]);
    let done = client.put(&format!("{path}/finalize"), &object).await?;
    anyhow::ensure!(done.status == 200, "{}", done.text());
    anyhow::ensure!(client.get(path).await?.status == 404);
    Ok(())
}

/// Deletes a tenant with everything in its space.
async fn remove_tenant(server: &TestServer, name: &str) -> anyhow::Result<()> {
    let (system, path) = (server.system().await?, format!("{TENANTS}/{name}"));
    assert_eq!(system.delete(&path).await?.status, 200);
    let objects = system.get(&format!("{path}/namespaces")).await?.json();
    for object in objects["items"].as_array().into_iter().flatten() {
        let link = object["metadata"]["selfLink"].as_str().unwrap_or("");
        remove(&system, link).await?;
    }
    // The remaining objects, as the namespace controller would find them.
    for (group, resource) in [
        ("/api/v1", "serviceaccounts"),
        ("/api/v1", "configmaps"),
        ("/apis/rbac.authorization.k8s.io/v1", "clusterroles"),
        ("/apis/rbac.authorization.k8s.io/v1", "clusterrolebindings"),
    ] {
        let list = format!("{group}/tenants/{name}/{resource}");
        let objects = system.get(&list).await?.json();
        for object in objects["items"].as_array().into_iter().flatten() {
            let link = object["metadata"]["selfLink"].as_str().unwrap_or("");
            let everywhere =
                object["metadata"]["labels"]["kubernetes.io/bootstrapping"].is_string();
            let expected = if everywhere { 404 } else { 200 };
            assert_eq!(system.delete(link).await?.status, expected, "{link}");
        }
    }
    let mut object = system.get(&path).await?.json();
    object["spec"]["finalizers"] = json!([]);
    let done = system.put(&format!("{path}/finalize"), &object).await?;
    anyhow::ensure!(done.status == 200, "{}", done.text());
    Ok(())
}

#[tokio::test]
async fn tenants_and_the_system_can_use_the_same_names() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let clients = [
        server.system().await?,
        server.tenant("t1").await?,
        server.tenant("t2").await?,
    ];
    let pod = json!({
        "metadata": {"name": "same"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    let volume = json!({
        "metadata": {"name": "same"},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/tmp"},
        },
    });
    let role = json!({"metadata": {"name": "same"}, "rules": []});
    let objects = [
        ("/api/v1/namespaces", named("same")),
        ("/api/v1/namespaces/same/pods", pod),
        ("/api/v1/namespaces/same/configmaps", named("same")),
        ("/api/v1/namespaces/same/secrets", named("same")),
        ("/api/v1/persistentvolumes", volume),
        ("/apis/rbac.authorization.k8s.io/v1/clusterroles", role),
        (
            "/apis/storage.k8s.io/v1/storageclasses",
            json!({"metadata": {"name": "same"}, "provisioner": "p"}),
        ),
    ];
    let mut uids = Vec::new();
    for client in &clients {
        for (path, object) in &objects {
            let created = client.post(path, object).await?;
            assert_eq!(created.status, 201, "{path}: {}", created.text());
            uids.push(created.json()["metadata"]["uid"].to_string());
            let again = client.post(path, object).await?;
            assert_eq!(again.status, 409, "{path}: {}", again.text());
        }
    }
    uids.sort();
    uids.dedup();
    assert_eq!(uids.len(), clients.len() * objects.len());
    // Objects that one space deletes stay in the others.
    for (path, _) in objects.iter().skip(1) {
        let path = format!("{path}/same");
        assert_eq!(clients[1].delete(&path).await?.status, 200);
        let mut going = Vec::new();
        for client in &clients {
            let found = client.get(&path).await?;
            // Volumes are protected: they only get a deletion timestamp.
            let marked = found.json()["metadata"].get("deletionTimestamp").is_some();
            going.push(found.status == 404 || marked);
        }
        assert_eq!(going, [false, true, false], "{path}");
    }
    Ok(())
}

#[tokio::test]
async fn spaces_with_a_common_prefix_are_separate() -> anyhow::Result<()> {
    let tokens = "a,admin,1,\"tenant:a\"\na-b,admin,1,\"tenant:a-b\"\nab,admin,1,\"tenant:ab\"\n";
    let setup = Setup {
        tokens: tokens.to_owned(),
        ..Setup::default()
    };
    let server = TestServer::start_on(Engine::Memory, setup).await?;
    let server = server.expect("memory is always there");
    let path = "/api/v1/namespaces/default/configmaps";
    for name in ["a", "a-b", "ab"] {
        let client = server.tenant(name).await?;
        let created = client.post(path, &named(&format!("of-{name}"))).await?;
        assert_eq!(created.status, 201, "{}", created.text());
    }
    for name in ["a", "a-b", "ab"] {
        let client = server.client(name).await?;
        let revision = server.registry().store().revision().await?;
        for query in [
            String::new(),
            format!("?resourceVersion={revision}&resourceVersionMatch=Exact"),
        ] {
            let list = client.get(&format!("/api/v1/configmaps{query}")).await?;
            let list = list.json();
            let found: Vec<&Value> = list["items"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|item| &item["metadata"]["name"])
                .collect();
            assert_eq!(found, [&json!(format!("of-{name}"))]);
        }
    }
    Ok(())
}

#[tokio::test]
async fn tenants_and_system_namespaces_cannot_share_a_name() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let (system, user) = (server.system().await?, server.tenant("t1").await?);
    assert_eq!(system.post(NAMESPACES, &named("x")).await?.status, 201);
    let taken = system.post(TENANTS, &named("x")).await?;
    let why = "Operation cannot be fulfilled on tenants \"x\": a namespace of the system space \
               has this name already, and tenants share their names with it; choose another name";
    assert_eq!((taken.status, taken.message().as_str()), (409, why));
    let taken = system.post(NAMESPACES, &named("t1")).await?;
    let why = "Operation cannot be fulfilled on namespaces \"t1\": a tenant has this name \
               already, and system namespaces share their names with it; choose another name";
    assert_eq!((taken.status, taken.message().as_str()), (409, why));
    for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        assert_eq!(system.post(TENANTS, &named(name)).await?.status, 409);
    }
    assert_eq!(system.post(NAMESPACES, &named("system")).await?.status, 409);
    // Inside a tenant's space these names are free.
    for name in ["t1", "t2", "x", "system", "all"] {
        let created = user.post(NAMESPACES, &named(name)).await?;
        assert_eq!(created.status, 201, "{name}: {}", created.text());
    }
    assert_eq!(system.post(TENANTS, &named("t2")).await?.status, 201);
    // Once the winner is deleted, the name is free again.
    remove(&system, "/api/v1/namespaces/x").await?;
    assert_eq!(system.post(TENANTS, &named("x")).await?.status, 201);
    remove_tenant(&server, "x").await?;
    assert_eq!(system.post(NAMESPACES, &named("x")).await?.status, 201);
    Ok(())
}

#[tokio::test]
async fn restart_does_not_recreate_a_namespace_named_like_a_tenant() -> anyhow::Result<()> {
    let mut server = TestServer::start().await?;
    let system = server.system().await?;
    remove(&system, "/api/v1/namespaces/kube-node-lease").await?;
    let taken = system.post(TENANTS, &named("kube-node-lease")).await?;
    assert_eq!(taken.status, 201, "{}", taken.text());
    let store = Arc::clone(server.registry().store());
    server.stop().await;
    let server = TestServer::start_on_store(store, Setup::default()).await?;
    let system = server.system().await?;
    let namespace = system.get("/api/v1/namespaces/kube-node-lease").await?;
    assert_eq!(namespace.status, 404, "{}", namespace.text());
    Ok(())
}

async fn race(engine: Engine) -> anyhow::Result<()> {
    const PAIRS: usize = 200;
    let Some(server) = TestServer::start_on(engine, Setup::default()).await? else {
        return Ok(());
    };
    let (one, other) = (server.system().await?, server.system().await?);
    let start = Arc::new(Barrier::new(2 * PAIRS));
    let create = |client: &Client, path: &'static str, number: usize| {
        let (client, start) = (client.clone(), Arc::clone(&start));
        tokio::spawn(async move {
            start.wait().await;
            let created = client.post(path, &named(&format!("n{number}"))).await?;
            anyhow::Ok(created.status)
        })
    };
    let pairs: Vec<_> = (0..PAIRS)
        .map(|number| {
            let tenant = create(&one, TENANTS, number);
            (tenant, create(&other, NAMESPACES, number))
        })
        .collect();
    let mut tenants = 0;
    for (number, (tenant, namespace)) in pairs.into_iter().enumerate() {
        let mut won = [tenant.await??, namespace.await??];
        tenants += usize::from(won[0] == 201);
        let keys = [
            format!("/registry/tenants/n{number}"),
            format!("/registry/namespaces/n{number}"),
        ];
        let store = server.registry().store();
        for (key, status) in keys.into_iter().zip(won) {
            let found = store.get(&key.into()).await?.is_some();
            assert_eq!(found, status == 201, "{number}: {won:?}");
        }
        won.sort_unstable();
        assert_eq!(won, [201, 409], "{engine:?} {number}");
    }
    // Each winner has its dependent objects, and no loser has any.
    let keys = server.keys().await?;
    let furnished = |prefix: &str, segments: usize| {
        let of = keys.iter().filter(|key| key.starts_with(prefix));
        of.filter(|key| key.split('/').count() == segments).count()
    };
    assert_eq!(furnished("/registry/namespaces/n", 5), 3 * tenants);
    assert_eq!(
        furnished("/registry/serviceaccounts/n", 5),
        PAIRS - tenants,
        "accounts of system namespaces"
    );
    assert_eq!(furnished("/registry/serviceaccounts/n", 6), 3 * tenants);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_claims_of_a_name_have_one_winner_in_memory() -> anyhow::Result<()> {
    race(Engine::Memory).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_claims_of_a_name_have_one_winner_in_the_embedded_store() -> anyhow::Result<()> {
    race(Engine::Embedded).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_claims_of_a_name_have_one_winner_in_etcd() -> anyhow::Result<()> {
    race(Engine::Etcd).await
}

#[tokio::test]
async fn recreated_tenant_inherits_nothing() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let user = server.tenant("t1").await?;
    let path = "/api/v1/namespaces/default/configmaps";
    for name in ["secret-a", "secret-b"] {
        assert_eq!(user.post(path, &named(name)).await?.status, 201);
    }
    let page = user.get(&format!("{path}?limit=1")).await?.json();
    let token = page["metadata"]["continue"]
        .as_str()
        .unwrap_or("")
        .to_owned();
    let old = page["metadata"]["resourceVersion"].as_str().unwrap_or("");
    let mut watch = user
        .watch(&format!("{path}?watch=true&resourceVersion={old}"))
        .await?;
    let uid = server
        .system()
        .await?
        .get("/api/v1/tenants/t1")
        .await?
        .json();
    remove_tenant(&server, "t1").await?;
    let refused = user.get(path).await?;
    assert_eq!(refused.status, 403, "{}", refused.text());
    let user = server.tenant("t1").await?;
    let now = server
        .system()
        .await?
        .get("/api/v1/tenants/t1")
        .await?
        .json();
    assert_ne!(uid["metadata"]["uid"], now["metadata"]["uid"]);
    assert_eq!(user.post(path, &named("mine")).await?.status, 201);
    for query in [
        String::new(),
        format!("?resourceVersion={old}&resourceVersionMatch=Exact"),
        format!("?resourceVersion={old}&limit=5"),
        format!("?watch=true&timeoutSeconds=1&resourceVersion={old}"),
    ] {
        let found = user.get(&format!("{path}{query}")).await?;
        let old = found.text().contains("secret-");
        assert!(!old, "{query}: {} {}", found.status, found.text());
        assert!(
            [200, 410].contains(&found.status),
            "{query}: {}",
            found.text()
        );
    }
    // A continue token belongs to the list of one tenant, not to that of a successor.
    let continued = user
        .get(&format!("{path}?limit=5&continue={token}"))
        .await?;
    assert_eq!(continued.status, 400, "{}", continued.text());
    // The watch that was open saw the deletion and nothing after it.
    let mut kinds = Vec::new();
    while let Some(event) = watch.next().await? {
        kinds.push(event["type"].as_str().unwrap_or("").to_owned());
    }
    assert_eq!(kinds, ["DELETED", "DELETED", "ERROR"]);
    Ok(())
}

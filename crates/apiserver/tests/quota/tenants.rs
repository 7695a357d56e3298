//! Tenant quotas.

use std::sync::Arc;

use insula_core::Space;
use insula_store::Store;
use insula_store::memory::Memory;
use insula_testkit::server::{Client, DEFINITIONS, Engine, Setup, TestServer, definition};
use serde_json::{Value, json};

use crate::{ADVICE, MAPS, create, create_quota, forbidden, map, race};

const TENANTS: &str = "/api/v1/tenants";
const NAMESPACES: &str = "/api/v1/namespaces";

/// Concurrent creates for the last place.
const MANY: usize = 64;

async fn tenant(server: &TestServer, name: &str, quota: Value) -> anyhow::Result<Client> {
    let system = server.system().await?;
    let tenant = json!({"metadata": {"name": name}, "spec": {"quota": quota}});
    create(&system, TENANTS, &tenant).await?;
    server.client(name).await
}

/// A tenant with room for this many more objects, and its total limit.
async fn tenant_with_room(
    server: &TestServer,
    name: &str,
    room: u64,
) -> anyhow::Result<(Client, u64)> {
    let client = server.tenant(name).await?;
    let most = usage(server, name).await?.objects + room;
    update_quota(server, name, json!({"objects": most})).await?;
    Ok((client, most))
}

/// The message when the object limit is reached.
fn limit_message(tenant: &str, most: u64) -> String {
    format!(
        "exceeded quota of tenant {tenant}: requested: objects=1, used: objects={most}, \
         limited: objects={most}{ADVICE}"
    )
}

async fn update_quota(server: &TestServer, name: &str, quota: Value) -> anyhow::Result<()> {
    let patch = json!({"spec": {"quota": quota}});
    let path = format!("{TENANTS}/{name}");
    let changed = server.system().await?.patch(&path, "merge", &patch).await?;
    anyhow::ensure!(changed.status == 200, "{}", changed.text());
    Ok(())
}

/// The tenant's bytes and objects as counted by the server.
async fn usage(server: &TestServer, name: &str) -> anyhow::Result<insula_cache::Usage> {
    server.registry().catch_up().await?;
    let space = Space::parse(name)?;
    Ok(server
        .registry()
        .cache()
        .space_state(&space)
        .unwrap()
        .usage())
}

/// The same as counted in the store.
async fn stored(server: &TestServer, name: &str) -> anyhow::Result<(u64, u64)> {
    use insula_store::{At, KeyRange};
    let range = KeyRange::prefix(b"/registry/".to_vec());
    let page = server
        .registry()
        .store()
        .range(&range, At::Latest, None)
        .await?;
    let part = format!("/{name}/");
    let own = page.entries.iter().filter(|entry| {
        let key = String::from_utf8_lossy(&entry.key).into_owned();
        key.contains(&part)
    });
    Ok(own.fold((0, 0), |(count, bytes), entry| {
        (count + 1, bytes + entry.value.len() as u64)
    }))
}

#[tokio::test]
async fn exceeding_object_of_a_tenant_is_refused() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let (client, most) = tenant_with_room(&server, "t1", 2).await?;
    create(&client, MAPS, &map("c1")).await?;
    create(
        &client,
        "/api/v1/namespaces/kube-public/configmaps",
        &map("c2"),
    )
    .await?;
    let answer = client.post(MAPS, &map("c3")).await?;
    let why = limit_message("t1", most);
    forbidden(&answer, &format!("configmaps \"c3\" is forbidden: {why}"));
    // Deletion frees room at once; existing objects can be changed.
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    assert_eq!(
        client
            .patch(&format!("{MAPS}/c1"), "merge", &label)
            .await?
            .status,
        200
    );
    assert_eq!(client.delete(&format!("{MAPS}/c1")).await?.status, 200);
    create(&client, MAPS, &map("c3")).await?;
    Ok(())
}

#[tokio::test]
async fn namespace_needs_room_for_its_default_objects() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let other = server.tenant("t2").await?;
    let namespace = json!({"metadata": {"name": "n"}});
    let before = usage(&server, "t2").await?.objects;
    create(&other, NAMESPACES, &namespace).await?;
    let whole = usage(&server, "t2").await?.objects - before;
    assert!(whole > 1, "{whole}");
    let (client, most) = tenant_with_room(&server, "t1", whole - 1).await?;
    forbidden(
        &client.post(NAMESPACES, &namespace).await?,
        &format!(
            "namespaces \"n\" is forbidden: exceeded quota of tenant t1: requested: \
             objects={whole}, used: objects={}, limited: objects={most}{ADVICE}",
            most + 1 - whole
        ),
    );
    update_quota(&server, "t1", json!({"objects": most + 1})).await?;
    create(&client, NAMESPACES, &namespace).await?;
    Ok(())
}

#[tokio::test]
async fn counted_usage_matches_the_store() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = tenant(&server, "t1", json!({"objects": 1000})).await?;
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    client
        .define(&definition("example.com", "widgets", "Widget", schema))
        .await?;
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    for n in 0..5 {
        create(&client, MAPS, &map(&format!("c{n}"))).await?;
        let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget",
            "metadata": {"name": format!("w{n}")}, "spec": {"text": "x".repeat(n * 100)}});
        create(&client, widgets, &widget).await?;
    }
    create(&client, NAMESPACES, &json!({"metadata": {"name": "n"}})).await?;
    // A default role is stored once it is changed.
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    let role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/view";
    assert_eq!(client.patch(role, "merge", &label).await?.status, 200);
    let more = json!({"data": {"a": "b".repeat(500)}});
    assert_eq!(
        client
            .patch(&format!("{MAPS}/c1"), "merge", &more)
            .await?
            .status,
        200
    );
    assert_eq!(client.delete(&format!("{MAPS}/c2")).await?.status, 200);
    assert_eq!(client.delete(&format!("{widgets}/w2")).await?.status, 200);
    let counted = usage(&server, "t1").await?;
    assert_eq!(
        (counted.objects, counted.bytes),
        stored(&server, "t1").await?
    );
    assert_eq!((counted.namespaces, counted.definitions), (4, 1));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn last_place_of_a_tenant_has_one_winner() -> anyhow::Result<()> {
    for engine in [Engine::Memory, Engine::Embedded] {
        let server = TestServer::start_on(engine, Setup::default()).await?;
        let server = server.unwrap();
        let (client, most) = tenant_with_room(&server, "t1", 1).await?;
        // In namespaces that are independent of each other.
        let maps: Vec<Value> = (0..MANY / 2).map(|n| map(&format!("c{n}"))).collect();
        let elsewhere = MAPS.replace("default", "kube-public");
        let refusal = limit_message("t1", most);
        let clients = [&client];
        let (here, there) = tokio::join!(
            race(&clients, MAPS, &maps, &refusal),
            race(&clients, &elsewhere, &maps, &refusal),
        );
        assert_eq!(here? + there?, 1);
        assert_eq!(usage(&server, "t1").await?.objects, most);
        assert!(server.registry().namespace_locks().is_empty());
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn last_namespace_has_one_winner() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = tenant(&server, "t1", json!({"namespaces": 4})).await?;
    let namespaces = (0..MANY).map(|n| json!({"metadata": {"name": format!("n{n}")}}));
    let refusal = format!(
        "exceeded quota of tenant t1: requested: namespaces=1, used: namespaces=4, limited: \
         namespaces=4{ADVICE}"
    );
    let namespaces: Vec<Value> = namespaces.collect();
    assert_eq!(
        race(&[&client], NAMESPACES, &namespaces, &refusal).await?,
        1
    );
    // Only namespaces are limited.
    create(&client, MAPS, &map("c")).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn last_definition_has_one_winner() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = tenant(&server, "t1", json!({"customResourceDefinitions": 1})).await?;
    let schema = json!({"type": "object"});
    let definitions = (0..MANY).map(|n| {
        let (plural, kind) = (format!("widget{n}s"), format!("Widget{n}"));
        definition("example.com", &plural, &kind, schema.clone())
    });
    let refusal = format!(
        "exceeded quota of tenant t1: requested: customResourceDefinitions=1, used: \
         customResourceDefinitions=1, limited: customResourceDefinitions=1{ADVICE}"
    );
    let definitions: Vec<Value> = definitions.collect();
    assert_eq!(
        race(&[&client], DEFINITIONS, &definitions, &refusal).await?,
        1
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn last_bytes_have_one_winner() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    let big = |name: String| json!({"metadata": {"name": name}, "data": {"a": "x".repeat(4000)}});
    // Room for one and a half.
    let used = usage(&server, "t1").await?.bytes;
    update_quota(&server, "t1", json!({"bytes": (used + 6500).to_string()})).await?;
    let maps: Vec<Value> = (0..MANY).map(|n| big(format!("c{n}"))).collect();
    let refusal = format!(", limited: bytes={}{ADVICE}", used + 6500);
    assert_eq!(race(&[&client], MAPS, &maps, &refusal).await?, 1);
    assert!(usage(&server, "t1").await?.bytes <= used + 6500);
    Ok(())
}

#[tokio::test]
async fn growing_objects_need_bytes_and_shrinking_ones_do_not() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    let sized = |size: usize| json!({"data": {"a": "x".repeat(size)}});
    create(&client, MAPS, &map("c")).await?;
    let path = format!("{MAPS}/c");
    let used = usage(&server, "t1").await?.bytes;
    update_quota(&server, "t1", json!({"bytes": used + 1000})).await?;
    assert_eq!(client.patch(&path, "merge", &sized(500)).await?.status, 200);
    let now = usage(&server, "t1").await?.bytes;
    assert_eq!(now, used + 499);
    forbidden(
        &client.patch(&path, "merge", &sized(1100)).await?,
        &format!(
            "configmaps \"c\" is forbidden: exceeded quota of tenant t1: requested: bytes=600, \
             used: bytes={now}, limited: bytes={}{ADVICE}",
            used + 1000
        ),
    );
    // Below the current usage: growth is refused, shrinking is always allowed.
    update_quota(&server, "t1", json!({"bytes": "1Ki"})).await?;
    assert_eq!(client.patch(&path, "merge", &sized(501)).await?.status, 403);
    assert_eq!(client.patch(&path, "merge", &sized(400)).await?.status, 200);
    assert_eq!(client.delete(&path).await?.status, 200);
    assert_eq!(client.post(MAPS, &map("c")).await?.status, 403);
    // A removed quota limits nothing.
    update_quota(&server, "t1", json!(null)).await?;
    create(&client, MAPS, &map("c")).await?;
    Ok(())
}

#[tokio::test]
async fn dry_run_is_not_charged_to_the_tenant() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let (client, _) = tenant_with_room(&server, "t1", 1).await?;
    let dry = format!("{MAPS}?dryRun=All");
    for _ in 0..3 {
        assert_eq!(client.post(&dry, &map("c1")).await?.status, 201);
    }
    create(&client, MAPS, &map("c1")).await?;
    assert_eq!(client.post(&dry, &map("c2")).await?.status, 403);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_with_equal_quotas_are_independent() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let (one, most) = tenant_with_room(&server, "t1", 10).await?;
    let (other, as_many) = tenant_with_room(&server, "t2", 10).await?;
    assert_eq!(most, as_many);
    for client in [&one, &other] {
        create_quota(client, "q", json!({"configmaps": "50"})).await?;
    }
    let maps: Vec<Value> = (0..MANY).map(|n| map(&format!("c{n}"))).collect();
    let (first, second) = (limit_message("t1", most), limit_message("t2", most));
    let (ones, others) = ([&one], [&other]);
    let (first, second) = tokio::join!(
        race(&ones, MAPS, &maps, &first),
        race(&others, MAPS, &maps, &second),
    );
    // One place is taken by the quota's own object.
    assert_eq!((first?, second?), (9, 9));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn usage_is_the_same_on_every_server_and_after_restarts() -> anyhow::Result<()> {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let start = || TestServer::start_on_store(Arc::clone(&store), Setup::default());
    let first = start().await?;
    let (one, most) = tenant_with_room(&first, "t1", 20).await?;
    let mut second = start().await?;
    let refusal = limit_message("t1", most);
    let mut created = 0;
    for round in 0..3 {
        let other = second.client("t1").await?;
        let maps = (0..MANY).map(|n| map(&format!("c{round}-{n}")));
        let maps: Vec<Value> = maps.take(5 + round * 40).collect();
        created += race(&[&one, &other], MAPS, &maps, &refusal).await?;
        // Without a clean shutdown, as after a crash.
        second = start().await?;
    }
    assert_eq!(created, 20);
    assert_eq!(usage(&second, "t1").await?, usage(&first, "t1").await?);
    assert_eq!(usage(&second, "t1").await?.objects, most);
    Ok(())
}

#[tokio::test]
async fn fence_object_exists_only_with_a_quota() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let free = server.tenant("t2").await?;
    create(&free, MAPS, &map("c")).await?;
    let client = tenant(&server, "t1", json!({"objects": 100})).await?;
    create(&client, MAPS, &map("c")).await?;
    let fences = |keys: Vec<String>| -> Vec<String> {
        let fences = keys.into_iter().filter(|key| key.contains("/fences/"));
        fences.collect()
    };
    assert_eq!(fences(server.keys().await?), ["/registry/insula/fences/t1"]);
    let system = server.system().await?;
    let path = format!("{TENANTS}/t1");
    assert_eq!(system.delete(&path).await?.status, 200);
    system.until_gone(&path).await?;
    assert!(fences(server.keys().await?).is_empty());
    // A new tenant of the name starts without usage.
    let client = tenant(&server, "t1", json!({"customResourceDefinitions": 0})).await?;
    let schema = json!({"type": "object"});
    let widgets = definition("example.com", "widgets", "Widget", schema);
    assert_eq!(client.post(DEFINITIONS, &widgets).await?.status, 403);
    update_quota(&server, "t1", json!({"customResourceDefinitions": 1})).await?;
    create(&client, DEFINITIONS, &widgets).await?;
    Ok(())
}

#[tokio::test]
async fn only_the_system_sets_valid_tenant_quotas() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let system = server.system().await?;
    let client = server.tenant("t1").await?;
    let patch = json!({"spec": {"quota": {"objects": 5}}});
    assert_ne!(
        client
            .patch(&format!("{TENANTS}/t1"), "merge", &patch)
            .await?
            .status,
        200
    );
    for (quota, why) in [
        (
            json!({"objects": -1}),
            "spec.quota.objects: Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            json!({"bytes": "-1Ki"}),
            "spec.quota.bytes: Invalid value: \"-1Ki\": must be greater than or equal to 0",
        ),
        (
            json!({"bytes": "100m"}),
            "spec.quota.bytes: Invalid value: \"100m\": must be an integer",
        ),
    ] {
        let patch = json!({"spec": {"quota": quota}});
        let answer = system
            .patch(&format!("{TENANTS}/t1"), "merge", &patch)
            .await?;
        assert_eq!(answer.status, 422, "{}", answer.text());
        assert_eq!(answer.message(), format!("Tenant \"t1\" is invalid: {why}"));
    }
    let answer = system
        .patch(&format!("{TENANTS}/system"), "merge", &patch)
        .await?;
    assert_eq!(
        answer.message(),
        "Tenant \"system\" is invalid: spec.quota: Forbidden: the system space has no quota"
    );
    Ok(())
}

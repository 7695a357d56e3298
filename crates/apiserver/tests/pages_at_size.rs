//! Pages of many objects: what a page costs, and that lists in pages and watches converge.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::fixtures::revision;
use insula_core::{Layout, Place, ResourceName, Space};
use insula_store::{At, Key, KeyRange, Store, Transaction};
use insula_testkit::server::{Client, Engine, Setup, TestServer};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const ALL: &str = "/api/v1/tenants/all/configmaps";
const PAGE: usize = 500;

/// About a thousand writes a second.
const BURST: usize = 25;
const PAUSE: Duration = Duration::from_millis(25);

/// A page of 500 may visit so many: itself, and one to know that there are more.
const MAX_VISITED: u64 = 501;

fn key(tenant: &str, name: &str) -> String {
    let resource = ResourceName {
        group: "",
        resource: "configmaps",
    };
    let place = Place {
        space: Space::parse(tenant).expect("a name of a tenant"),
        namespace: Some("default"),
        name,
    };
    Layout::default().key(resource, &place)
}

fn value(tenant: &str, name: &str) -> String {
    let of = match tenant {
        "system" => String::new(),
        tenant => format!(r#""tenant":"{tenant}","#),
    };
    // The last two letters as a label.
    let part = &name[name.len() - 2..];
    format!(
        r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"{name}","namespace":"default",{of}"uid":"{tenant}-{name}","labels":{{"part":"{part}"}}}}}}"#
    )
}

/// Puts objects into the store, past the API server: by the thousand that is faster.
async fn fill(server: &TestServer, tenant: &str, count: usize) -> anyhow::Result<()> {
    let store = server.registry().store();
    for start in (0..count).step_by(100) {
        let mut transaction = Transaction::new();
        for number in start..count.min(start + 100) {
            let name = format!("m-{number:06}");
            transaction = transaction.put(key(tenant, &name), value(tenant, &name));
        }
        store.commit(transaction).await?;
    }
    let revision = store.revision().await?;
    server.registry().cache().await_applied(revision).await;
    Ok(())
}

/// A server with so many objects in `t1`.
async fn filled(engine: Engine, count: usize) -> anyhow::Result<Option<(TestServer, Client)>> {
    let Some(server) = TestServer::start_on(engine, Setup::default()).await? else {
        // The test kit has printed that the engine is skipped.
        return Ok(None);
    };
    let client = server.tenant("t1").await?;
    fill(&server, "t1", count).await?;
    Ok(Some((server, client)))
}

fn name(item: &Value) -> String {
    let metadata = &item["metadata"];
    let tenant = metadata["tenant"].as_str().unwrap_or("system");
    format!("{tenant} {}", metadata["name"].as_str().unwrap_or(""))
}

/// A list in pages, and what its pages cost.
struct Pages {
    names: Vec<String>,
    revision: u64,
    /// The most objects that a page visited.
    visited: u64,
}

/// Lists in pages of 500. `between` runs after each page.
async fn list(
    server: &TestServer,
    client: &Client,
    path: &str,
    mut between: impl AsyncFnMut(usize) -> anyhow::Result<()>,
) -> anyhow::Result<Pages> {
    let (mut names, mut next) = (Vec::new(), String::new());
    let (mut at, mut most) = (None, 0);
    let cache = server.registry().cache();
    for page in 0.. {
        let before = cache.visited();
        let answer = client.get(&format!("{path}?limit={PAGE}{next}")).await?;
        anyhow::ensure!(answer.status == 200, "page {page}: {}", answer.text());
        most = most.max(cache.visited() - before);
        let list = answer.json();
        let revision = revision(&list);
        anyhow::ensure!(*at.get_or_insert(revision) == revision, "page {page}");
        names.extend(list["items"].as_array().into_iter().flatten().map(name));
        between(page).await?;
        match list["metadata"]["continue"].as_str() {
            Some(token) => next = format!("&continue={token}"),
            None => break,
        }
    }
    Ok(Pages {
        names,
        revision: at.unwrap_or_default(),
        visited: most,
    })
}

async fn put_map(store: &Arc<dyn Store>, tenant: &str, name: &str) -> anyhow::Result<()> {
    let transaction = Transaction::new().put(key(tenant, name), value(tenant, name));
    store.commit(transaction).await?;
    Ok(())
}

fn expected(tenant: &str, count: usize) -> Vec<String> {
    (0..count)
        .map(|number| format!("{tenant} m-{number:06}"))
        .collect()
}

#[tokio::test]
async fn page_visits_its_own_objects_only_while_others_are_written() -> anyhow::Result<()> {
    let Some((server, client)) = filled(Engine::Memory, 100_000).await? else {
        return Ok(());
    };
    let wanted = expected("t1", 100_000);
    let found = list(&server, &client, MAPS, async |_| Ok(())).await?;
    assert_eq!((&found.names, found.visited), (&wanted, MAX_VISITED));
    let store = Arc::clone(server.registry().store());
    // Before and after each position of the list.
    let write = async |page: usize| {
        put_map(&store, "t1", &format!("a-{page}")).await?;
        put_map(&store, "t1", &format!("z-{page}")).await?;
        put_map(&store, "t1", &format!("m-{page:06}")).await
    };
    let found = list(&server, &client, MAPS, write).await?;
    assert_eq!((&found.names, found.visited), (&wanted, MAX_VISITED));
    Ok(())
}

/// Fills the system and three tenants with names that the store orders differently than text.
async fn filled_everywhere(engine: Engine, each: usize) -> anyhow::Result<Option<TestServer>> {
    let Some(server) = TestServer::start_on(engine, Setup::default()).await? else {
        return Ok(None);
    };
    let system = server.system().await?;
    for tenant in ["t1", "t1-b", "a"] {
        let object = json!({"metadata": {"name": tenant}});
        let created = system.post("/api/v1/tenants", &object).await?;
        anyhow::ensure!(created.status == 201, "{}", created.text());
    }
    for space in ["system", "t1", "t1-b", "a"] {
        fill(&server, space, each).await?;
    }
    Ok(Some(server))
}

fn expected_everywhere(each: usize) -> Vec<String> {
    let spaces = ["system", "a", "t1-b", "t1"];
    spaces
        .iter()
        .flat_map(|space| expected(space, each))
        .collect()
}

/// Retains the objects that `fill` made: every namespace has a CA bundle too.
fn own(names: &[String]) -> Vec<String> {
    let own = names.iter().filter(|name| name.contains(" m-0"));
    own.cloned().collect()
}

#[tokio::test]
async fn page_over_all_spaces_visits_its_own_objects_only() -> anyhow::Result<()> {
    let Some(server) = filled_everywhere(Engine::Memory, 10_000).await? else {
        return Ok(());
    };
    let system = server.system().await?;
    let wanted = expected_everywhere(10_000);
    let store = Arc::clone(server.registry().store());
    let write = async |page: usize| {
        put_map(&store, "a", &format!("a-{page}")).await?;
        put_map(&store, "system", &format!("z-{page}")).await?;
        put_map(&store, "t1-b", &format!("m-{page:06}")).await
    };
    let found = list(&server, &system, ALL, write).await?;
    assert_eq!((own(&found.names), found.visited), (wanted, MAX_VISITED));
    Ok(())
}

/// Begins more lists than the server keeps the snapshots of.
async fn drop_kept_lists(server: &TestServer, client: &Client, path: &str) -> anyhow::Result<()> {
    let store = Arc::clone(server.registry().store());
    for _ in 0..10 {
        put_map(&store, "t1", "zzz").await?;
        let answer = client.get(&format!("{path}?limit=1")).await?;
        anyhow::ensure!(answer.status == 200, "{}", answer.text());
    }
    Ok(())
}

async fn check_pages_from_the_store(engine: Engine) -> anyhow::Result<()> {
    let Some(server) = filled_everywhere(engine, 1_200).await? else {
        return Ok(());
    };
    let (system, tenant) = (server.system().await?, server.client("t1").await?);
    for (client, path, wanted) in [
        (&tenant, MAPS, expected("t1", 1_200)),
        (&system, MAPS, expected("system", 1_200)),
        (&system, ALL, expected_everywhere(1_200)),
        (
            &system,
            "/api/v1/tenants/all/namespaces/default/configmaps",
            expected_everywhere(1_200),
        ),
    ] {
        let drop_kept = async |_| drop_kept_lists(&server, client, path).await;
        let found = list(&server, client, path, drop_kept).await?;
        assert_eq!(own(&found.names), wanted, "{engine:?} {path}");
        // From the last object of the system to the first of a tenant, others are read too.
        assert!(
            found.visited < 2 * MAX_VISITED,
            "{engine:?} {path} {}",
            found.visited
        );
    }
    Ok(())
}

#[tokio::test]
async fn page_of_a_list_that_is_not_kept_reads_one_page_of_the_store() -> anyhow::Result<()> {
    for engine in [Engine::Memory, Engine::Embedded, Engine::Etcd] {
        check_pages_from_the_store(engine).await?;
    }
    Ok(())
}

/// Lists in pages and then watches from the list's revision, as reflectors do, while another
/// client writes all the time.
async fn check_convergence(engine: Engine) -> anyhow::Result<()> {
    let Some((server, client)) = filled(engine, 20_000).await? else {
        return Ok(());
    };
    let store = Arc::clone(server.registry().store());
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let writer = tokio::spawn(async move {
        let mut number = 0;
        while !stopped.load(Ordering::Relaxed) || number < 3_000 {
            let name = format!("m-{:06}", number * 7 % 20_500);
            match number % 5 {
                0 => {
                    let transaction = Transaction::new().delete(key("t1", &name));
                    store.commit(transaction).await?;
                }
                _ => put_map(&store, "t1", &name).await?,
            }
            number += 1;
            // A store in memory is otherwise faster than the cache that follows it.
            if number % BURST == 0 {
                tokio::time::sleep(PAUSE).await;
            }
        }
        put_map(&store, "t1", "zz-end").await
    });
    let found = list(&server, &client, MAPS, async |_| Ok(())).await?;
    let mut seen: BTreeMap<String, ()> =
        found.names.iter().cloned().map(|name| (name, ())).collect();
    let after = found.revision;
    let mut watch = client
        .watch(&format!("{MAPS}?watch=1&resourceVersion={after}"))
        .await?;
    stop.store(true, Ordering::Relaxed);
    loop {
        let event = watch.next().await?.unwrap_or_default();
        let name = name(&event["object"]);
        let known = match event["type"].as_str() {
            Some("ADDED") => seen.insert(name.clone(), ()).is_none(),
            Some("MODIFIED") => seen.contains_key(&name),
            Some("DELETED") => seen.remove(&name).is_some(),
            _ => anyhow::bail!("{event}"),
        };
        anyhow::ensure!(known, "{event}");
        if name == "t1 zz-end" {
            break;
        }
    }
    writer.await??;
    let now = list(&server, &client, MAPS, async |_| Ok(())).await?;
    assert_eq!(
        seen.into_keys().collect::<Vec<_>>(),
        now.names,
        "{engine:?}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn list_in_pages_and_watch_converge_while_another_client_writes() -> anyhow::Result<()> {
    for engine in [Engine::Memory, Engine::Embedded, Engine::Etcd] {
        check_convergence(engine).await?;
    }
    Ok(())
}

/// The system's space has no key prefix of its own: events of tenants are passed over.
#[tokio::test]
async fn watch_of_the_system_resumes_after_events_of_tenants() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let (system, _tenant) = (server.system().await?, server.tenant("t1").await?);
    let since = revision(&system.get(MAPS).await?.json());
    let store = Arc::clone(server.registry().store());
    for number in 0..5_000 {
        put_map(&store, "t1", &format!("m-{}", number % 10)).await?;
    }
    for number in 0..1_100 {
        put_map(&store, "system", &format!("s-{number:04}")).await?;
    }
    let path = format!("{MAPS}?watch=1&resourceVersion={since}");
    let mut watch = system.watch(&path).await?;
    for number in 0..1_100 {
        let event = watch.next().await?.unwrap_or_default();
        assert_eq!(event["type"], "ADDED", "{event}");
        assert_eq!(name(&event["object"]), format!("system s-{number:04}"));
    }
    Ok(())
}

/// Deletes a tenant and all its objects, the tenant last.
async fn remove_tenant(store: &Arc<dyn Store>, tenant: &str) -> anyhow::Result<()> {
    let page = store.range(&KeyRange::all(), At::Latest, None).await?;
    let inside = format!("/{tenant}/");
    let keys = page.entries.into_iter().map(|entry| entry.key);
    let keys: Vec<_> = keys
        .filter(|key| String::from_utf8_lossy(key).contains(&inside))
        .collect();
    for keys in keys.chunks(100) {
        let delete = |all: Transaction, key: &Key| all.delete(key.clone());
        let transaction = keys.iter().fold(Transaction::new(), delete);
        store.commit(transaction).await?;
    }
    let object = format!("/registry/tenants/{tenant}");
    store.commit(Transaction::new().delete(object)).await?;
    Ok(())
}

/// A watch that reads the store's history sees no event of the next tenant of the same name, and
/// a new watch none of the former.
#[tokio::test]
async fn watch_from_history_stays_with_its_tenant() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let first = server.tenant("t1").await?;
    let since = revision(&first.get(MAPS).await?.json());
    let store = Arc::clone(server.registry().store());
    for number in 0..1_100 {
        put_map(&store, "t1", &format!("former-{number:04}")).await?;
    }
    let sleeper = server.system().await?;
    let path =
        format!("/api/v1/tenants/t1/namespaces/default/configmaps?watch=1&resourceVersion={since}");
    let mut slow = sleeper.watch(&path).await?;
    remove_tenant(&store, "t1").await?;
    let second = server.tenant("t1").await?;
    for number in 0..1_100 {
        put_map(&store, "t1", &format!("next-{number:04}")).await?;
    }
    for event in slow.rest().await? {
        let name = name(&event["object"]);
        assert!(!name.contains("next-"), "{event}");
    }
    let mut watch = second
        .watch(&format!("{MAPS}?watch=1&resourceVersion={since}"))
        .await?;
    let event = watch.next().await?.unwrap_or_default();
    assert_eq!(event["object"]["code"], 410, "{event}");
    Ok(())
}

/// Lists with a query, and returns the names and the number of visited objects.
async fn select(
    server: &TestServer,
    client: &Client,
    path: &str,
) -> anyhow::Result<(Vec<String>, u64)> {
    let cache = server.registry().cache();
    let before = cache.visited();
    let answer = client.get(path).await?;
    anyhow::ensure!(answer.status == 200, "{}", answer.text());
    let list = answer.json();
    let items = list["items"].as_array().into_iter().flatten();
    Ok((items.map(name).collect(), cache.visited() - before))
}

#[tokio::test]
async fn label_that_is_often_selected_is_indexed() -> anyhow::Result<()> {
    let Some((server, client)) = filled(Engine::Memory, 5_000).await? else {
        return Ok(());
    };
    let store = Arc::clone(server.registry().store());
    let path = format!("{MAPS}?labelSelector=part%3D07");
    let wanted: Vec<_> = (0..50)
        .map(|n| format!("t1 m-{:06}", n * 100 + 7))
        .collect();
    for visited in [5_000, 5_000, 50, 50] {
        // Every tenant has a CA bundle beside them.
        let (names, found) = select(&server, &client, &path).await?;
        assert_eq!(names, wanted);
        assert!((visited..=visited + 1).contains(&found), "{found}");
    }
    // The index follows writes, and other selectors of the same label use it.
    put_map(&store, "t1", "new-07").await?;
    let delete = Transaction::new().delete(key("t1", "m-000007"));
    store.commit(delete).await?;
    let (names, visited) = select(&server, &client, &path).await?;
    let mut now = wanted[1..].to_vec();
    now.push("t1 new-07".to_owned());
    assert_eq!((names, visited), (now, 50));
    let none = format!("{MAPS}?labelSelector=part%3Dnone,other");
    assert_eq!(select(&server, &client, &none).await?, (vec![], 0));
    // Pages of an index are at one revision too.
    let page = format!("{path}&limit=30");
    let first = client.get(&page).await?.json();
    let token = first["metadata"]["continue"].as_str().unwrap_or_default();
    put_map(&store, "t1", "newer-07").await?;
    let (rest, visited) = select(&server, &client, &format!("{page}&continue={token}")).await?;
    assert_eq!((rest.len(), visited), (20, 20));
    Ok(())
}

#[tokio::test]
async fn label_that_is_often_selected_over_all_spaces_is_indexed() -> anyhow::Result<()> {
    let Some(server) = filled_everywhere(Engine::Memory, 1_100).await? else {
        return Ok(());
    };
    let system = server.system().await?;
    let path = format!("{ALL}?labelSelector=part%3D07");
    for visited in [4_000.., 4_000.., 0..] {
        let (names, found) = select(&server, &system, &path).await?;
        assert_eq!(names.len(), 44);
        assert!(visited.contains(&found), "{found}");
    }
    assert_eq!(select(&server, &system, &path).await?.1, 44);
    Ok(())
}

#[tokio::test]
async fn node_of_pods_that_is_often_selected_is_indexed() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    let store = Arc::clone(server.registry().store());
    for start in (0..2_000).step_by(100) {
        let mut transaction = Transaction::new();
        for number in start..start + 100 {
            let (name, node) = (format!("p-{number:04}"), number % 100);
            let value = format!(
                r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"{name}","namespace":"default","tenant":"t1","uid":"{name}"}},"spec":{{"nodeName":"n{node}"}},"status":{{"phase":"Running"}}}}"#
            );
            transaction = transaction.put(format!("/registry/pods/t1/default/{name}"), value);
        }
        store.commit(transaction).await?;
    }
    let path = "/api/v1/pods?fieldSelector=spec.nodeName%3Dn7,status.phase%3DRunning";
    for visited in [2_000, 2_000, 20] {
        let (names, found) = select(&server, &client, path).await?;
        assert_eq!((names.len(), found), (20, visited));
    }
    Ok(())
}

//! A store without room: which requests still work, what clients get, and what makes room again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::fixtures::{assert_refused, create, named};
use insula_store::embedded::{Embedded, Options};
use insula_testkit::disk::Disk;
use insula_testkit::server::{Client, Setup, TestServer};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const MESSAGE: &str = "the server's store is full: delete objects that are no longer needed, or \
                       ask the administrator of the server for more disk space; deletions, and \
                       updates that need no more room, still work";
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

/// A server with its store on a small disk.
async fn start(disk: &Disk) -> anyhow::Result<TestServer> {
    disk.set_capacity(40 << 20);
    let options = Options {
        segment_bytes: 0,
        memory_bytes: 1 << 20,
        cache_bytes: 1 << 20,
    };
    let store = Embedded::open(disk.path().join("store"), options).await?;
    TestServer::start_on_store(Arc::new(store), Setup::with_controllers()).await
}

/// Creates large objects until one is refused.
async fn fill(client: &Client) -> anyhow::Result<Vec<Value>> {
    let text = "x".repeat(200 << 10);
    let mut created = Vec::new();
    for n in 0..1000 {
        let map = json!({"metadata": {"name": format!("m{n}")}, "data": {"a": text}});
        let answer = client.post(MAPS, &map).await?;
        if answer.status != 201 {
            assert_refused(&answer, 507, "InsufficientStorage", MESSAGE);
            return Ok(created);
        }
        created.push(answer.json());
    }
    anyhow::bail!("the store takes more than the disk has")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleting_the_tenant_that_filled_the_store_makes_room() -> anyhow::Result<()> {
    let Some(disk) = Disk::mount() else {
        return Ok(());
    };
    let server = start(&disk).await?;
    let (system, noisy) = (server.system().await?, server.tenant("t1").await?);
    let neighbour = server.tenant("t2").await?;
    let mut kept = create(&neighbour, MAPS, named("kept")).await?;
    let mut held = named("held");
    held["metadata"]["finalizers"] = json!(["example.com/a"]);
    create(&noisy, MAPS, &held).await?;

    let verbose = |text: &'static str| {
        let system = &system;
        async move {
            let answer = system.get("/readyz?verbose").await?;
            anyhow::ensure!(answer.status == 200, "{}", answer.text());
            anyhow::ensure!(answer.text().contains(text), "{}", answer.text());
            anyhow::Ok(())
        }
    };
    verbose("[+]store ok\n").await?;
    let created = fill(&noisy).await?;
    assert!(created.len() > 20, "only {} fit", created.len());
    verbose("[+]store ok: disk space low, growing writes are refused\n").await?;
    let metrics = system.get("/metrics").await?.text();
    let metric = |name: &str| -> Option<u64> {
        let line = metrics.lines().find(|line| line.starts_with(name))?;
        line.rsplit(' ').next()?.parse().ok()
    };
    let free = metric("insula_store_free_bytes ");
    let reserved = metric("insula_store_reserved_bytes ");
    assert!(free < reserved && free > Some(4 << 20), "{metrics}");
    assert!(metric("insula_store_refused_writes_total ") >= Some(1));

    // The neighbour cannot create, but can change and delete what it has.
    let refused = neighbour.post(MAPS, &named("other")).await?;
    assert_refused(&refused, 507, "InsufficientStorage", MESSAGE);
    kept["data"] = json!({"a": "b"});
    let updated = neighbour.put(&format!("{MAPS}/kept"), &kept).await?;
    assert_eq!(updated.status, 200, "{}", updated.text());
    // An object that waits for its finalizer is marked, and goes when that is removed.
    let marked = noisy.delete(&format!("{MAPS}/held")).await?;
    assert!(marked.json()["metadata"]["deletionTimestamp"].is_string());
    let mut held = noisy.get(&format!("{MAPS}/held")).await?.json();
    held["metadata"]["finalizers"] = json!([]);
    let released = noisy.put(&format!("{MAPS}/held"), &held).await?;
    assert_eq!(released.status, 200, "{}", released.text());

    let deleted = system.delete("/api/v1/tenants/t1").await?;
    assert!(deleted.status < 300, "{}", deleted.text());
    let begun = Instant::now();
    while system.get("/api/v1/tenants/t1").await?.status != 404 {
        assert!(begun.elapsed() < WAIT_TIMEOUT, "the tenant stays");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let store = server.registry().store();
    store.compact(store.revision().await?).await?;
    let begun = Instant::now();
    loop {
        let answer = neighbour.post(MAPS, &named("other")).await?;
        if answer.status == 201 {
            break;
        }
        assert_refused(&answer, 507, "InsufficientStorage", MESSAGE);
        let space = store.disk_space();
        assert!(begun.elapsed() < WAIT_TIMEOUT, "no room: {space:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    verbose("[+]store ok\n").await?;
    Ok(())
}

/// A tenant that rewrites its objects fills the disk with their history, which no quota counts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn history_of_one_tenant_leaves_room_to_the_others() -> anyhow::Result<()> {
    let Some(disk) = Disk::mount() else {
        return Ok(());
    };
    let server = start(&disk).await?;
    let noisy = server.tenant("t1").await?;
    let neighbour = server.tenant("t2").await?;
    let map = |round: usize| {
        let text = format!("{round:08}").repeat(25 << 10);
        json!({"metadata": {"name": "large"}, "data": {"a": text}})
    };
    create(&noisy, MAPS, &map(0)).await?;
    create(&noisy, MAPS, named("other")).await?;
    let mut written = 0;
    let refused = loop {
        let answer = noisy
            .put(&format!("{MAPS}/large"), &map(written + 1))
            .await?;
        if answer.status != 200 {
            break answer;
        }
        written += 1;
        anyhow::ensure!(written < 1000, "the disk takes any number of versions");
    };
    assert_refused(
        &refused,
        429,
        "TooManyRequests",
        "the disk of the server is short of room, and recent changes of this tenant take more of \
         it than is left: their history is kept for five minutes; try again later, change large \
         objects less often, or ask the administrator of the server for more disk space",
    );
    assert_eq!(refused.json()["details"]["retryAfterSeconds"], 10);
    // 4 MiB are allowed in any case.
    assert!(written > 20, "{written}");
    let space = server.registry().store().disk_space();
    assert!(space.is_some_and(|space| !space.is_low), "{space:?}");

    // It can neither create nor change anything, but delete.
    let answer = noisy.post(MAPS, &named("more")).await?;
    assert_eq!(answer.status, 429, "{}", answer.text());
    let answer = noisy.delete(&format!("{MAPS}/other")).await?;
    assert_eq!(answer.status, 200, "{}", answer.text());
    // The neighbour has room for more than small objects.
    let large = create(&neighbour, MAPS, &map(0)).await?;
    assert_eq!(large["metadata"]["name"], "large");
    let answer = neighbour.put(&format!("{MAPS}/large"), &map(1)).await?;
    assert_eq!(answer.status, 200, "{}", answer.text());
    Ok(())
}

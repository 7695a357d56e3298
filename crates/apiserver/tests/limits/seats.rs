//! Flow control: concurrency limits per space, and fairness between spaces.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::Method;
use insula_apiserver::Limits;
use insula_apiserver::flow_control::Bound;
use insula_testkit::server::{Client, TestServer};
use serde_json::json;
use tokio::task::JoinSet;

use super::{MAPS, SHORT, await_metric, create_maps, metric, start};

/// A read that holds a seat for three seconds, waiting for a future revision.
const FUTURE: &str = "/api/v1/namespaces/default/configmaps/a?resourceVersion=1000000000";

/// The same for a list.
const FUTURE_LIST: &str = "/api/v1/configmaps?resourceVersion=1000000000";

const fn bound(total: u32, each: u32, queue: usize) -> Bound {
    Bound { total, each, queue }
}

fn begin(tasks: &mut JoinSet<u16>, client: &Client, path: &'static str) {
    let client = client.clone();
    tasks.spawn(async move { client.get(path).await.map_or(0, |answer| answer.status) });
}

#[tokio::test]
async fn full_queue_is_refused_while_other_tenants_are_served() -> anyhow::Result<()> {
    let limits = Limits {
        reads: bound(3, 1, 1),
        ..Limits::default()
    };
    let server = start(limits).await?;
    let (a, b) = (server.tenant("t1").await?, server.tenant("t2").await?);
    let system = server.system().await?;
    let mut waiting = JoinSet::new();
    begin(&mut waiting, &a, FUTURE);
    begin(&mut waiting, &a, FUTURE);
    await_metric(&system, "insula_seats_waiting{work=\"read\"}", 1).await?;
    let refused = a.get(MAPS).await?;
    assert_eq!(refused.status, 429);
    assert_eq!(refused.header("retry-after"), "1");
    assert_eq!(refused.header("content-type"), "text/plain; charset=utf-8");
    assert_eq!(
        refused.text(),
        "Too many requests, please try again later.\n"
    );
    assert_eq!(b.get(MAPS).await?.status, 200);
    assert_eq!(
        a.post(MAPS, &json!({"metadata": {"name": "w"}}))
            .await?
            .status,
        201
    );
    let refusals = metric(&system, "insula_seats_refused_total{work=\"read\"}").await?;
    assert_eq!(refusals, 1);
    while let Some(status) = waiting.join_next().await {
        assert_eq!(status?, 504);
    }
    Ok(())
}

#[tokio::test]
async fn queued_requests_time_out_with_retry_after() -> anyhow::Result<()> {
    let limits = Limits {
        reads: bound(2, 1, 10),
        queue_timeout: SHORT,
        ..Limits::default()
    };
    let server = start(limits).await?;
    let a = server.tenant("t1").await?;
    let system = server.system().await?;
    let mut waiting = JoinSet::new();
    begin(&mut waiting, &a, FUTURE);
    await_metric(&system, "insula_seats_in_use{work=\"read\"}", 2).await?;
    let refused = a.get(MAPS).await?;
    assert_eq!((refused.status, refused.header("retry-after")), (429, "1"));
    Ok(())
}

#[tokio::test]
async fn cancelled_requests_leave_the_queue() -> anyhow::Result<()> {
    let limits = Limits {
        reads: bound(2, 1, 10),
        ..Limits::default()
    };
    let server = start(limits).await?;
    let a = server.tenant("t1").await?;
    let system = server.system().await?;
    let mut waiting = JoinSet::new();
    for _ in 0..5 {
        begin(&mut waiting, &a, FUTURE);
    }
    await_metric(&system, "insula_seats_waiting{work=\"read\"}", 4).await?;
    waiting.shutdown().await;
    await_metric(&system, "insula_seats_waiting{work=\"read\"}", 0).await?;
    // Only the metrics request itself is left.
    await_metric(&system, "insula_seats_in_use{work=\"read\"}", 1).await
}

#[tokio::test]
async fn slow_bodies_use_their_own_spaces_limit_only() -> anyhow::Result<()> {
    let limits = Limits {
        bodies: bound(4, 2, 0),
        writes: bound(2, 1, 10),
        ..Limits::default()
    };
    let server = start(limits).await?;
    let b = server.tenant("t2").await?;
    server.tenant("t1").await?;
    let system = server.system().await?;
    let mut wire = super::http2::Wire::open(&server, &[]).await?;
    for _ in 0..2 {
        wire.request("POST", MAPS, super::http2::END_HEADERS)
            .await?;
    }
    // The first waits for a body of unknown length.
    await_metric(&system, "insula_seats_refused_total{work=\"body\"}", 1).await?;
    let map = json!({"metadata": {"name": "a"}});
    assert_eq!(b.post(MAPS, &map).await?.status, 201);
    assert_eq!(
        metric(&system, "insula_seats_in_use{work=\"write\"}").await?,
        0
    );
    Ok(())
}

#[tokio::test]
async fn watch_limit_is_per_tenant() -> anyhow::Result<()> {
    let limits = Limits {
        watches: bound(5, 2, 0),
        ..Limits::default()
    };
    let server = start(limits).await?;
    let (a, b) = (server.tenant("t1").await?, server.tenant("t2").await?);
    let system = server.system().await?;
    let path = format!("{MAPS}?watch=true");
    let first = a.watch(&path).await?;
    let _second = a.watch(&path).await?;
    let refused = a.get(&path).await?;
    assert_eq!((refused.status, refused.header("retry-after")), (429, "1"));
    assert_eq!(a.get(MAPS).await?.status, 200);
    for _ in 0..2 {
        let watch = b.watch(&path).await?;
        assert_eq!(watch.status, 200);
    }
    drop(first);
    await_metric(&system, "insula_seats_in_use{work=\"watch\"}", 1).await?;
    assert_eq!(a.watch(&path).await?.status, 200);
    Ok(())
}

/// Tenant A sends the same request on many connections, continuously.
struct Flood {
    served: Arc<AtomicUsize>,
    _tasks: JoinSet<()>,
}

const FLOOD: usize = 48;

impl Flood {
    /// Each of many clients runs `act` repeatedly, which returns the status code.
    fn begin<F>(clients: &[Client], act: fn(Client, usize) -> F) -> Self
    where
        F: Future<Output = anyhow::Result<u16>> + Send + 'static,
    {
        let served = Arc::new(AtomicUsize::new(0));
        let mut tasks = JoinSet::new();
        for number in 0..FLOOD {
            let client = clients[number % clients.len()].clone();
            let served = Arc::clone(&served);
            tasks.spawn(async move {
                for round in 0.. {
                    let act = act(client.clone(), number + round * FLOOD);
                    let Ok(status) = act.await else { return };
                    assert!(matches!(status, 200 | 201 | 429), "{status}");
                    served.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        Self {
            served,
            _tasks: tasks,
        }
    }

    fn served(&self) -> usize {
        self.served.load(Ordering::Relaxed)
    }

    /// The median number of the flood's requests that are served while `act` runs.
    async fn median_served_ahead<F>(&self, act: impl Fn() -> F) -> anyhow::Result<usize>
    where
        F: Future<Output = anyhow::Result<()>>,
    {
        let mut ahead = Vec::new();
        for _ in 0..11 {
            let before = self.served();
            act().await?;
            ahead.push(self.served() - before);
        }
        ahead.sort_unstable();
        Ok(ahead[ahead.len() / 2])
    }
}

async fn list(client: Client, _: usize) -> anyhow::Result<u16> {
    Ok(client.get(MAPS).await?.status)
}

async fn table(client: Client, _: usize) -> anyhow::Result<u16> {
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
    Ok(client.accept(MAPS, accept).await?.status)
}

async fn create(client: Client, number: usize) -> anyhow::Result<u16> {
    let map = json!({"metadata": {"name": format!("flood-{number}")}});
    Ok(client.post(MAPS, &map).await?.status)
}

async fn watch(client: Client, _: usize) -> anyhow::Result<u16> {
    let mut lines = client.watch(&format!("{MAPS}?watch=true")).await?;
    lines.next().await?;
    Ok(lines.status)
}

/// Tenant A with a large collection and many connections, and tenant B with a smaller one.
async fn neighbours() -> anyhow::Result<(TestServer, Vec<Client>, Client)> {
    let limits = Limits {
        heavy: bound(1, 1, 1000),
        ..Limits::default()
    };
    let server = start(limits).await?;
    let (a, b) = (server.tenant("t1").await?, server.tenant("t2").await?);
    create_maps(&a, 1000).await?;
    create_maps(&b, 200).await?;
    let mut clients = vec![a];
    for _ in 0..7 {
        clients.push(server.client("t1").await?);
    }
    Ok((server, clients, b))
}

/// Counts requests instead of time, since a busy machine is slow for both. With a FIFO queue, the
/// whole flood would be served before each request of B.
async fn assert_fair(flood: &Flood, b: &Client, of: &str) -> anyhow::Result<()> {
    let begun = async {
        while flood.served() < FLOOD {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(super::TIMEOUT, begun).await?;
    for path in [MAPS, "/api/v1/namespaces/default/configmaps/m1"] {
        let get = || async {
            let answer = b.get(path).await?;
            anyhow::ensure!(answer.status == 200, "{}", answer.status);
            Ok(())
        };
        let ahead = flood.median_served_ahead(get).await?;
        anyhow::ensure!(ahead <= FLOOD / 6, "{of}: {ahead} ran ahead of {path}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn list_flood_does_not_starve_another_tenant() -> anyhow::Result<()> {
    let (_server, clients, b) = neighbours().await?;
    let flood = Flood::begin(&clients, list);
    assert_fair(&flood, &b, "lists").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn table_flood_does_not_starve_another_tenant() -> anyhow::Result<()> {
    let (_server, clients, b) = neighbours().await?;
    let flood = Flood::begin(&clients, table);
    assert_fair(&flood, &b, "tables").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watch_start_flood_does_not_starve_another_tenant() -> anyhow::Result<()> {
    let (_server, clients, b) = neighbours().await?;
    let flood = Flood::begin(&clients, watch);
    assert_fair(&flood, &b, "watches").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn create_flood_does_not_cause_refusals_for_another_tenant() -> anyhow::Result<()> {
    let (_server, clients, b) = neighbours().await?;
    let flood = Flood::begin(&clients, create);
    for number in 0..20 {
        assert_eq!(create(b.clone(), number).await?, 201);
        assert_eq!(list(b.clone(), 0).await?, 200);
    }
    assert!(flood.served() > 0);
    Ok(())
}

/// A list that waited with its seat would hold the only one for three seconds.
#[tokio::test]
async fn lists_waiting_for_a_revision_do_not_block_others() -> anyhow::Result<()> {
    let (server, clients, b) = neighbours().await?;
    let system = server.system().await?;
    let mut waiting = JoinSet::new();
    for client in &clients {
        begin(&mut waiting, client, FUTURE_LIST);
    }
    // Plus the metrics request itself.
    await_metric(&system, "insula_seats_in_use{work=\"read\"}", 9).await?;
    assert_eq!(b.get(MAPS).await?.status, 200);
    assert_eq!(
        metric(&system, "insula_seats_in_use{work=\"read\"}").await?,
        9
    );
    while let Some(status) = waiting.join_next().await {
        assert_eq!(status?, 504);
    }
    Ok(())
}

#[tokio::test]
async fn large_responses_are_complete_under_load() -> anyhow::Result<()> {
    let limits = Limits {
        heavy: bound(1, 1, 1000),
        ..Limits::default()
    };
    let server = start(limits).await?;
    let (a, b) = (server.tenant("t1").await?, server.tenant("t2").await?);
    for client in [&a, &b] {
        create_maps(client, 1500).await?;
    }
    let mut tasks = JoinSet::new();
    for number in 0..8 {
        let client = if number % 2 == 0 {
            a.clone()
        } else {
            b.clone()
        };
        tasks.spawn(async move { client.get(MAPS).await });
    }
    while let Some(answer) = tasks.join_next().await {
        let answer = answer??;
        assert_eq!(
            answer.header("content-length"),
            answer.body.len().to_string()
        );
        let items = answer.json()["items"].as_array().map_or(0, Vec::len);
        assert_eq!(items, 1500);
    }
    // A watch that starts with the initial state.
    let mut lines = b.watch(&format!("{MAPS}?watch=true")).await?;
    for _ in 0..1500 {
        assert_eq!(lines.next().await?.unwrap()["type"], "ADDED");
    }
    let system = server.system().await?;
    await_metric(&system, "insula_seats_in_use{work=\"heavy_read\"}", 0).await
}

#[tokio::test]
async fn compressed_request_bodies_are_not_decompressed() -> anyhow::Result<()> {
    let server = start(Limits::default()).await?;
    let client = server.tenant("t1").await?;
    let mut bomb = GzEncoder::new(Vec::new(), Compression::best());
    std::io::Write::write_all(&mut bomb, &vec![b' '; 64 << 20])?;
    let headers = [
        ("content-type", "application/json"),
        ("content-encoding", "gzip"),
    ];
    let answer = client
        .send(Method::POST, MAPS, &headers, Bytes::from(bomb.finish()?))
        .await?;
    assert_eq!(answer.status, 400, "{}", answer.text());
    Ok(())
}

#[tokio::test]
async fn long_selectors_are_answered() -> anyhow::Result<()> {
    let server = start(Limits::default()).await?;
    let client = server.tenant("t1").await?;
    create_maps(&client, 20).await?;
    let many = |one: &str, count: usize| vec![one; count].join("%2C");
    for (selector, codes) in [
        (
            format!("labelSelector={}", many("a%3Db", 5_000)),
            [200, 200],
        ),
        (
            format!("labelSelector=a+in+({})", many("b", 10_000)),
            [200, 200],
        ),
        (
            format!("labelSelector=a%3D{}", "b".repeat(60_000)),
            [400, 400],
        ),
        (
            format!("fieldSelector={}", many("metadata.name%3Da", 2_500)),
            [200, 200],
        ),
        (
            format!("fieldSelector={}", many("x%3Dy", 5_000)),
            [400, 400],
        ),
    ] {
        let answer = client.get(&format!("{MAPS}?{selector}")).await?;
        assert!(codes.contains(&answer.status), "{}", answer.text());
    }
    let long = format!("{MAPS}?labelSelector={}", "b".repeat(100 << 10));
    // Longer than the header limit: either side may report it.
    if let Ok(answer) = server.client("t1").await?.get(&long).await {
        assert_eq!(answer.status, 431);
    }
    assert_eq!(client.get(MAPS).await?.status, 200);
    Ok(())
}

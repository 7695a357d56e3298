//! Limits per tenant: the defaults, overrides in the tenant's object that apply without a restart,
//! and the rate of requests.

use std::time::{Duration, Instant};

use insula_apiserver::Limits;
use insula_apiserver::flow_control::TenantLimits;
use insula_testkit::server::{Answer, Client, TestServer};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::http2::{DATA, Frame, Wire};
use super::{MAPS, TIMEOUT, await_metric, create_maps, metric, start};

const WATCH: &str = "/api/v1/namespaces/default/configmaps?watch=true";

/// A read that holds a seat for three seconds, waiting for a future revision.
const FUTURE: &str = "/api/v1/namespaces/default/configmaps/a?resourceVersion=1000000000";

fn defaults(limits: Value) -> Limits {
    Limits {
        tenants: TenantLimits::parse(&limits),
        ..Limits::default()
    }
}

/// Sets the limits of a tenant.
async fn limit(server: &TestServer, name: &str, limits: Value) -> anyhow::Result<Answer> {
    let patch = json!({"spec": {"limits": limits}});
    let path = format!("/api/v1/tenants/{name}");
    server.system().await?.patch(&path, "merge", &patch).await
}

async fn set_limits(server: &TestServer, name: &str, limits: Value) -> anyhow::Result<()> {
    let changed = limit(server, name, limits).await?;
    anyhow::ensure!(changed.status == 200, "{}", changed.text());
    Ok(())
}

#[track_caller]
fn assert_overloaded(answer: &Answer, seconds: &str) {
    assert_eq!(
        (answer.status, answer.header("retry-after")),
        (429, seconds),
        "{}",
        answer.text()
    );
    assert_eq!(answer.header("content-type"), "text/plain; charset=utf-8");
    assert_eq!(
        answer.text(),
        "Too many requests, please try again later.\n"
    );
}

#[tokio::test]
async fn watch_limit_of_a_tenant_is_raised_and_lowered_without_a_restart() -> anyhow::Result<()> {
    let server = start(defaults(json!({"watches": 1}))).await?;
    let (a, b) = (server.tenant("t1").await?, server.tenant("t2").await?);
    let system = server.system().await?;
    let _first = a.watch(WATCH).await?;
    assert_overloaded(&a.get(WATCH).await?, "1");
    set_limits(&server, "t1", json!({"watches": 3})).await?;
    let second = a.watch(WATCH).await?;
    let third = a.watch(WATCH).await?;
    assert_eq!((second.status, third.status), (200, 200));
    assert_overloaded(&a.get(WATCH).await?, "1");
    // Another tenant has the default, and the system the limit of the server.
    let _other = b.watch(WATCH).await?;
    assert_overloaded(&b.get(WATCH).await?, "1");
    let of_system = [system.watch(WATCH).await?, system.watch(WATCH).await?];
    assert_eq!(of_system.each_ref().map(|watch| watch.status), [200, 200]);
    // A lower limit ends no watch, and refuses new ones until enough have ended.
    set_limits(&server, "t1", json!({"watches": 2})).await?;
    let open = "insula_seats_in_use{work=\"watch\"}";
    assert_eq!(metric(&system, open).await?, 6);
    drop(second);
    await_metric(&system, open, 5).await?;
    assert_overloaded(&a.get(WATCH).await?, "1");
    drop(third);
    await_metric(&system, open, 4).await?;
    assert_eq!(a.watch(WATCH).await?.status, 200);
    // Without limits of its own the tenant is back at the default.
    set_limits(&server, "t1", Value::Null).await?;
    assert_overloaded(&a.get(WATCH).await?, "1");
    Ok(())
}

#[tokio::test]
async fn seats_of_a_tenant_are_limited_by_its_object() -> anyhow::Result<()> {
    let limits = Limits {
        reads: insula_apiserver::flow_control::Bound {
            total: 100,
            each: 50,
            queue: 0,
        },
        ..Limits::default()
    };
    let server = start(limits).await?;
    let (a, b) = (server.tenant("t1").await?, server.tenant("t2").await?);
    let system = server.system().await?;
    set_limits(&server, "t1", json!({"reads": 1})).await?;
    let mut waiting = JoinSet::new();
    let hold = |waiting: &mut JoinSet<u16>, client: &Client| {
        let client = client.clone();
        waiting.spawn(async move { client.get(FUTURE).await.map_or(0, |answer| answer.status) });
    };
    let in_use = "insula_seats_in_use{work=\"read\"}";
    hold(&mut waiting, &a);
    // The request for the metrics has a seat, too.
    await_metric(&system, in_use, 2).await?;
    assert_overloaded(&a.get(MAPS).await?, "1");
    hold(&mut waiting, &b);
    await_metric(&system, in_use, 3).await?;
    assert_eq!(b.get(MAPS).await?.status, 200);
    set_limits(&server, "t1", json!({"reads": 2})).await?;
    assert_eq!(a.get(MAPS).await?.status, 200);
    while let Some(status) = waiting.join_next().await {
        assert_eq!(status?, 504);
    }
    Ok(())
}

#[tokio::test]
async fn connections_of_a_tenant_are_limited_by_its_object() -> anyhow::Result<()> {
    let server = start(defaults(json!({"connections": 1}))).await?;
    let a = server.tenant("t1").await?;
    assert_eq!(a.get(MAPS).await?.status, 200);
    let second = server.client("t1").await?;
    assert_overloaded(&second.get(MAPS).await?, "1");
    let b = server.tenant("t2").await?;
    assert_eq!(b.get(MAPS).await?.status, 200);
    set_limits(&server, "t1", json!({"connections": 2})).await?;
    assert_eq!(second.get(MAPS).await?.status, 200);
    set_limits(&server, "t1", json!({"connections": 1})).await?;
    // Both connections stay, and a third is refused.
    assert_eq!(a.get(MAPS).await?.status, 200);
    assert_eq!(second.get(MAPS).await?.status, 200);
    let third = server.client("t1").await?;
    assert_overloaded(&third.get(MAPS).await?, "1");
    Ok(())
}

#[tokio::test]
async fn limits_are_validated() -> anyhow::Result<()> {
    let server = start(Limits::default()).await?;
    server.tenant("t1").await?;
    for (limits, why) in [
        (
            json!({"watches": 0}),
            "spec.limits.watches: Invalid value: 0: must be greater than zero",
        ),
        (
            json!({"requestsPerSecond": -1}),
            "spec.limits.requestsPerSecond: Invalid value: -1: must be greater than zero",
        ),
        (
            json!({"unsentBytes": "0"}),
            "spec.limits.unsentBytes: Invalid value: \"0\": must be greater than zero",
        ),
        (
            json!({"requestBytes": "100m"}),
            "spec.limits.requestBytes: Invalid value: \"100m\": must be an integer",
        ),
    ] {
        let answer = limit(&server, "t1", limits).await?;
        assert_eq!(answer.status, 422, "{}", answer.text());
        assert_eq!(answer.message(), format!("Tenant \"t1\" is invalid: {why}"));
    }
    let answer = limit(&server, "system", json!({"watches": 1})).await?;
    assert_eq!(
        answer.message(),
        "Tenant \"system\" is invalid: spec.limits: Forbidden: the system space has the limits of \
         the server"
    );
    Ok(())
}

/// Limits in a tenant's object are in effect when the server starts.
#[tokio::test]
async fn limits_survive_a_restart_and_end_with_the_tenant() -> anyhow::Result<()> {
    use insula_store::{Store, memory::Memory};
    use insula_testkit::server::Setup;
    let store: std::sync::Arc<dyn Store> = std::sync::Arc::new(Memory::new());
    let mut first = TestServer::start_on_store(store.clone(), Setup::default()).await?;
    first.tenant("t1").await?;
    set_limits(&first, "t1", json!({"watches": 1})).await?;
    first.stop().await;
    let server = TestServer::start_on_store(store, Setup::with_controllers()).await?;
    let a = server.client("t1").await?;
    let watch = a.watch(WATCH).await?;
    assert_overloaded(&a.get(WATCH).await?, "1");
    drop(watch);
    let system = server.system().await?;
    let path = "/api/v1/tenants/t1";
    assert_eq!(system.delete(path).await?.status, 200);
    system.until_gone(path).await?;
    let a = server.tenant("t1").await?;
    let both = [a.watch(WATCH).await?, a.watch(WATCH).await?];
    assert_eq!(both.each_ref().map(|watch| watch.status), [200, 200]);
    Ok(())
}

#[tokio::test]
async fn rate_of_a_tenant_is_limited_and_its_neighbour_unaffected() -> anyhow::Result<()> {
    let rate = json!({"requestsPerSecond": 1, "burst": 5});
    let server = start(defaults(rate)).await?;
    let (a, b) = (server.tenant("t1").await?, server.tenant("t2").await?);
    let system = server.system().await?;
    let mut served = 0;
    let refused = loop {
        let answer = a.get(MAPS).await?;
        match answer.status {
            200 => served += 1,
            _ => break answer,
        }
    };
    // More only if the machine took seconds for five requests.
    assert!((5..15).contains(&served), "{served}");
    assert_overloaded(&refused, "1");
    assert_eq!(b.get(MAPS).await?.status, 200);
    for _ in 0..20 {
        assert_eq!(system.get(MAPS).await?.status, 200);
    }
    assert!(metric(&system, "insula_rate_limited_total").await? >= 1);
    let of_tenant = "insula_space_rate_limited_total{space=\"t1\"}";
    assert!(metric(&system, of_tenant).await? >= 1);
    // Raised without a restart.
    set_limits(
        &server,
        "t1",
        json!({"requestsPerSecond": 1000, "burst": 1000}),
    )
    .await?;
    let mut retries = 0;
    for _ in 0..20 {
        retries += get_with_retries(&a).await?;
    }
    assert!(retries <= 1, "{retries}");
    Ok(())
}

/// A body is neither received nor parsed for a request that exceeds the rate.
#[tokio::test]
async fn rate_is_charged_before_the_body() -> anyhow::Result<()> {
    let server = start(defaults(json!({"requestsPerSecond": 1, "burst": 1}))).await?;
    let a = server.tenant("t1").await?;
    let system = server.system().await?;
    let invalid = json!({"metadata": {"name": 7}});
    loop {
        let answer = a.post(MAPS, &invalid).await?;
        if answer.status == 429 {
            break;
        }
        assert_eq!(answer.status, 400, "{}", answer.text());
    }
    assert_eq!(
        metric(&system, "insula_seats_in_use{work=\"body\"}").await?,
        0
    );
    Ok(())
}

/// A list of many objects counts as ten requests.
#[tokio::test]
async fn heavy_reads_count_as_ten_requests() -> anyhow::Result<()> {
    let server = start(Limits::default()).await?;
    let a = server.tenant("t1").await?;
    create_maps(&a, 100).await?;
    set_limits(&server, "t1", json!({"requestsPerSecond": 1, "burst": 19})).await?;
    assert_eq!(a.get(MAPS).await?.status, 200);
    let refused = a.get(MAPS).await?;
    assert_eq!(refused.status, 429);
    let seconds: u32 = refused.header("retry-after").parse()?;
    assert!((1..=2).contains(&seconds), "{seconds}");
    // What is left is enough for small reads.
    assert_eq!(a.get(&format!("{MAPS}/m1")).await?.status, 200);
    Ok(())
}

/// Sends a request as client-go does: again after the seconds that a refusal names.
async fn get_with_retries(client: &Client) -> anyhow::Result<usize> {
    for retries in 0..10 {
        let answer = client.get(MAPS).await?;
        if answer.status == 200 {
            return Ok(retries);
        }
        assert_eq!(answer.status, 429, "{}", answer.text());
        let seconds = answer.header("retry-after").parse()?;
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }
    anyhow::bail!("not served after ten attempts")
}

#[tokio::test]
async fn client_that_honours_retry_after_gets_through() -> anyhow::Result<()> {
    let server = start(defaults(json!({"requestsPerSecond": 20, "burst": 10}))).await?;
    let a = server.tenant("t1").await?;
    let began = Instant::now();
    let mut requests = JoinSet::new();
    for _ in 0..50 {
        let client = a.clone();
        requests.spawn(async move { get_with_retries(&client).await });
    }
    let mut retries = 0;
    while let Some(done) = requests.join_next().await {
        retries += done??;
    }
    assert!(retries >= 1, "{retries}");
    // 50 requests at 20 a second, of which 10 are in the burst.
    assert!(began.elapsed() >= Duration::from_millis(1900));
    assert!(began.elapsed() < TIMEOUT);
    Ok(())
}

#[tokio::test]
async fn large_list_is_served_to_a_tenant_with_a_small_burst() -> anyhow::Result<()> {
    let server = start(defaults(json!({"requestsPerSecond": 100, "burst": 5}))).await?;
    let a = server.tenant("t1").await?;
    set_limits(
        &server,
        "t1",
        json!({"requestsPerSecond": 100_000, "burst": 100_000}),
    )
    .await?;
    create_maps(&a, 100).await?;
    set_limits(&server, "t1", json!({"requestsPerSecond": 100, "burst": 5})).await?;
    assert!(get_with_retries(&a).await? <= 2);
    Ok(())
}

/// A client that goes on regardless is kept waiting: its connection is served in turns with
/// pauses.
#[tokio::test]
async fn client_that_ignores_refusals_is_slowed_down() -> anyhow::Result<()> {
    let server = start(Limits {
        refusals_per_second: 1,
        ..defaults(json!({"requestsPerSecond": 1, "burst": 5}))
    })
    .await?;
    server.tenant("t1").await?;
    let system = server.system().await?;
    let mut wire = Wire::open(&server, &[]).await?;
    let began = Instant::now();
    for _ in 0..60 {
        wire.get(MAPS).await?;
    }
    for answered in 0..60 {
        let ended = wire.find(Frame::ends_stream).await?;
        let frame = ended.ok_or_else(|| anyhow::anyhow!("closed after {answered} answers"))?;
        assert_eq!(frame.kind, DATA, "{answered}");
    }
    // Sixteen are accepted at a time, so some are answered before the first refusal. Of the
    // others, four are accepted every 250 ms.
    assert!(began.elapsed() >= Duration::from_secs(1), "{began:?}");
    let refused = metric(&system, "insula_rate_limited_total").await?;
    assert!((50..=55).contains(&refused), "{refused}");
    // Neighbours and watches go on, and later the client does too.
    let b = server.tenant("t2").await?;
    assert_eq!(b.get(MAPS).await?.status, 200);
    let raised = json!({"requestsPerSecond": 10_000, "burst": 10_000});
    set_limits(&server, "t1", raised).await?;
    let served = async {
        loop {
            wire.get(MAPS).await?;
            let ended = wire.find(Frame::ends_stream).await?;
            if ended.is_some_and(|frame| frame.kind == DATA) {
                return anyhow::Ok(());
            }
        }
    };
    tokio::time::timeout(TIMEOUT, served).await?
}

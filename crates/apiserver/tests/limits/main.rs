//! Limits and flow control: overload by one tenant does not affect the others.

mod connections;
mod decoded;
mod floods;
mod http2;
mod seats;
mod tenants;
mod unread;

use std::time::Duration;

use futures_util::{TryStreamExt, stream};
use insula_apiserver::Limits;
use insula_testkit::server::{Client, Engine, Setup, TestServer};
use serde_json::json;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// The deadline of every wait.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Short enough to wait for, long enough for a busy machine.
const SHORT: Duration = Duration::from_millis(500);

async fn start(limits: Limits) -> anyhow::Result<TestServer> {
    let setup = Setup {
        limits: Some(limits),
        ..Setup::default()
    };
    let started = TestServer::start_on(Engine::Memory, setup).await?;
    started.ok_or_else(|| anyhow::anyhow!("the server did not start"))
}

/// The value of a metric.
async fn metric(system: &Client, name: &str) -> anyhow::Result<u64> {
    let text = system.get("/metrics").await?.text();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.ok_or_else(|| anyhow::anyhow!("{name} is not in\n{text}"))?;
    Ok(number.trim().parse()?)
}

/// Waits until a metric has this value.
async fn await_metric(system: &Client, name: &str, wanted: u64) -> anyhow::Result<()> {
    let reached = async {
        while metric(system, name).await? != wanted {
            tokio::task::yield_now().await;
        }
        anyhow::Ok(())
    };
    let reached = tokio::time::timeout(TIMEOUT, reached).await;
    reached.map_err(|_| anyhow::anyhow!("{name} did not become {wanted}"))?
}

/// Creates this many objects of about a kilobyte each.
async fn create_maps(client: &Client, count: usize) -> anyhow::Result<()> {
    let text = &"x".repeat(1000);
    let numbers = stream::iter((0..count).map(anyhow::Ok));
    numbers
        .try_for_each_concurrent(32, |number| async move {
            let map = json!({"metadata": {"name": format!("m{number}")}, "data": {"k": text}});
            let created = client.post(MAPS, &map).await?;
            anyhow::ensure!(created.status == 201, "{}", created.text());
            Ok(())
        })
        .await
}

//! Many tenants at once.

use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use insula_broker::tenant::Phase;
use kube::api::ListParams;
use tokio::time::Instant;

use crate::world::{World, eventually, phase_of};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_tenants_at_once_are_provisioned() -> anyhow::Result<()> {
    const COUNT: usize = 100;
    let world = World::new().await?;
    let running = world.start();
    let begin = Instant::now();
    stream::iter(0..COUNT)
        .map(|number| {
            let world = &world;
            async move { world.create(&format!("t{number}")).await }
        })
        .buffer_unordered(16)
        .try_collect::<Vec<_>>()
        .await?;
    eventually(async || {
        let tenants = world.tenants().list(&ListParams::default()).await?;
        let ready = tenants
            .iter()
            .filter(|tenant| phase_of(tenant) == Some(Phase::Provisioned));
        Ok((ready.count() == COUNT).then_some(()))
    })
    .await?;
    let took = begin.elapsed();
    // Unoptimised, beside everything else; what is promised is measured elsewhere.
    assert!(took < Duration::from_secs(40), "{took:?}");
    tracing::info!(?took, "a hundred tenants");
    running.stop().await
}

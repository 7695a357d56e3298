//! Many concurrent tenants.

use futures_util::{StreamExt, TryStreamExt, stream};
use insula_broker::tenant::Phase;
use kube::api::ListParams;
use tokio::time::Instant;

use crate::network::{Chaos, Fate};
use crate::world::{World, eventually, phase_of};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hundred_concurrent_tenants_are_provisioned() -> anyhow::Result<()> {
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
    // Unoptimized, in parallel with other tests; performance is measured elsewhere.
    tracing::info!(took = ?begin.elapsed(), "a hundred tenants");
    running.stop().await
}

#[tokio::test]
async fn blocked_tenant_does_not_delay_others() -> anyhow::Result<()> {
    let world = World::new().await?;
    let chaos = Chaos::new(|_, request| match request.uri().path().contains("stuck") {
        true => Fate::Hang,
        false => Fate::Pass,
    });
    let _running = world.start_as("patient", chaos.around(&world.operator));
    for number in 0..8 {
        world.create(&format!("stuck-{number}")).await?;
    }
    for number in 0..8 {
        let id = format!("quick-{number}");
        world.create(&id).await?;
        world.phase(&id, Phase::Provisioned).await?;
    }
    Ok(())
}

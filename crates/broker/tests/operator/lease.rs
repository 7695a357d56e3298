//! Leader election.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use insula_broker::names::AXON;
use insula_broker::tenant::Phase;
use insula_operator::health::Health;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use tokio::time::{Instant, sleep};

use crate::network::{Chaos, Fate};
use crate::world::{Running, TIMES, World, eventually, named, put};

async fn until_leads(health: &Health) -> anyhow::Result<()> {
    eventually(async || Ok(health.is_leader().then_some(()))).await
}

async fn holder(leases: &Api<Lease>) -> anyhow::Result<Option<String>> {
    let lease = leases.get_opt(AXON).await?;
    Ok(lease
        .and_then(|lease| lease.spec)
        .and_then(|spec| spec.holder_identity))
}

/// Observes two operators, and records whether both ever worked.
fn both(first: &Running, second: &Running) -> (Arc<AtomicBool>, tokio::task::JoinHandle<()>) {
    let both = Arc::new(AtomicBool::new(false));
    let (seen, healths) = (
        Arc::clone(&both),
        [Arc::clone(&first.health), Arc::clone(&second.health)],
    );
    let task = tokio::spawn(async move {
        loop {
            if healths.iter().all(|health| health.is_leader()) {
                seen.store(true, Ordering::SeqCst);
            }
            sleep(Duration::from_millis(1)).await;
        }
    });
    (both, task)
}

#[tokio::test]
async fn r9_second_operator_takes_over_at_once_when_the_first_stops() -> anyhow::Result<()> {
    let world = World::new().await?;
    let first = world.start_as("first", world.operator.clone());
    until_leads(&first.health).await?;
    let second = world.start_as("second", world.operator.clone());
    let (both, watch) = both(&first, &second);
    eventually(async || Ok(second.health.is_ready().then_some(()))).await?;
    world.create("acme").await?;
    world.phase("acme", Phase::Provisioned).await?;
    assert!(first.health.is_leader() && !second.health.is_leader());
    let leases: Api<Lease> = Api::namespaced(world.admin.clone(), AXON);
    assert!(holder(&leases).await?.unwrap().starts_with("first_"));

    let begin = Instant::now();
    first.stop().await?;
    until_leads(&second.health).await?;
    assert!(begin.elapsed() < TIMES.duration, "{:?}", begin.elapsed());
    world.create("later").await?;
    world.phase("later", Phase::Provisioned).await?;
    let lease = leases.get(AXON).await?.spec.unwrap();
    assert!(lease.holder_identity.unwrap().starts_with("second_"));
    assert_eq!(lease.lease_transitions, Some(1));
    second.stop().await?;
    assert_eq!(holder(&leases).await?.as_deref(), Some(""));
    assert!(!both.load(Ordering::SeqCst), "both worked");
    watch.abort();
    Ok(())
}

#[tokio::test]
async fn r9_operator_without_lease_stops_before_another_starts() -> anyhow::Result<()> {
    let world = World::new().await?;
    let cut = Arc::new(AtomicBool::new(false));
    let is_cut = Arc::clone(&cut);
    let chaos = Chaos::new(move |_, request| {
        let lease = request.uri().path().contains("/leases");
        match lease && is_cut.load(Ordering::SeqCst) {
            true => Fate::Hang,
            false => Fate::Pass,
        }
    });
    let first = world.start_as("first", chaos.around(&world.operator));
    until_leads(&first.health).await?;
    let second = world.start_as("second", world.operator.clone());
    let (both, watch) = both(&first, &second);
    cut.store(true, Ordering::SeqCst);
    until_leads(&second.health).await?;
    assert!(!first.health.is_leader());
    assert!(!both.load(Ordering::SeqCst), "both worked");
    world.create("acme").await?;
    world.phase("acme", Phase::Provisioned).await?;
    // It comes back and waits for the lease.
    cut.store(false, Ordering::SeqCst);
    second.stop().await?;
    until_leads(&first.health).await?;
    watch.abort();
    Ok(())
}

#[tokio::test]
async fn r9_clock_of_the_lease_holder_is_ignored() -> anyhow::Result<()> {
    for skew in [-86_400_i64, 86_400] {
        let world = World::new().await?;
        let mut lease = named::<Lease>(AXON);
        let theirs = Timestamp::from_second(Timestamp::now().as_second() + skew)?;
        lease.spec = Some(LeaseSpec {
            holder_identity: Some("dead".to_owned()),
            lease_duration_seconds: Some(1),
            renew_time: Some(MicroTime(theirs)),
            ..LeaseSpec::default()
        });
        put(&Api::namespaced(world.admin.clone(), AXON), &lease).await?;
        let begin = Instant::now();
        let running = world.start();
        until_leads(&running.health).await?;
        let took = begin.elapsed();
        assert!(
            took >= Duration::from_secs(1),
            "it was still fresh: {took:?}"
        );
        assert!(took < Duration::from_secs(20), "{took:?}");
        running.stop().await?;
    }
    Ok(())
}

#[tokio::test]
async fn operator_may_start_before_its_deployment() -> anyhow::Result<()> {
    let server = insula_testkit::server::TestServer::start_with_controllers().await?;
    let early = crate::world::client(&server, "system").await?;
    let running = Running::new(early, crate::world::settings("early"));
    assert!(!running.health.is_ready() && !running.health.is_leader());
    let world = World::over(server, crate::world::Spaces::NotAllowed).await?;
    world.create("acme").await?;
    world.phase("acme", Phase::Provisioned).await?;
    running.stop().await
}

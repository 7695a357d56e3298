//! A vCenter that does not answer affects no other.
//!
//! There are sixty clusters of three teams, one of them a tenant, half of them on a healthy
//! vCenter and half on one that hangs. The operator's timeouts are hours, so all progress in
//! these tests is made while it waits.

#[path = "../world/world.rs"]
mod world;

use std::time::{Duration, Instant};

use insula_identity::session;
use insula_testkit::vcenter::{Door, FakeVCenter};
use serde_json::{Value, json};

use crate::world::{SESSIONS, Space, World, eventually};

/// The namespace of each team, and the space if it is a tenant.
const TEAMS: [(&str, Option<&str>); 3] = [("a", None), ("b", None), ("a", Some("t1"))];
/// The number of clusters of each team on each vCenter.
const EACH: usize = 10;
/// Longer than any test.
const HOURS: Duration = Duration::from_secs(7200);
const WELL: &str = "well";
const ILL: &str = "ill";

/// Two vCenters, and the clusters of all teams.
struct Field {
    world: World,
    well: FakeVCenter,
    ill: FakeVCenter,
}

impl Field {
    async fn new() -> anyhow::Result<Self> {
        let field = Self {
            world: World::new().await?,
            well: FakeVCenter::start(&[("a", "pw"), ("b", "pw")]).await?,
            ill: FakeVCenter::start(&[("a", "pw"), ("b", "pw")]).await?,
        };
        let server = |vcenter: &FakeVCenter| json!({"address": vcenter.address(), "thumbprint": vcenter.thumbprint_sha256()});
        let servers = json!([server(&field.well), server(&field.ill)]);
        for (team, space) in TEAMS {
            let space = field.world.space(space);
            space.namespace(team, json!({})).await?;
            space.shared(team, (team, "pw"), servers.clone()).await?;
            for (of, vcenter) in [(WELL, &field.well), (ILL, &field.ill)] {
                for name in names(of) {
                    let reference = json!({"kind": "VSphereClusterIdentity", "name": team});
                    let spec = json!({"server": vcenter.address(), "identityRef": reference});
                    space.cluster(team, &name, spec).await?;
                }
            }
        }
        Ok(field)
    }

    fn clusters(&self, of: &str) -> Vec<(Space, &'static str, String)> {
        let team = |(team, space): (&'static str, Option<&str>)| {
            let space = self.world.space(space);
            let names = names(of).into_iter();
            names.map(move |name| (space.clone(), team, name))
        };
        TEAMS.into_iter().flat_map(team).collect()
    }

    /// Waits until all clusters of a vCenter have this reason for their current generation.
    async fn are(&self, of: &str, reason: &str) -> anyhow::Result<()> {
        for (space, team, name) in self.clusters(of) {
            space.is(team, &name, reason).await?;
        }
        Ok(())
    }

    /// Changes all clusters of a vCenter, which triggers their reconciliation.
    async fn touch(&self, of: &str, stamp: &str) -> anyhow::Result<()> {
        self.touch_every(1, of, stamp).await
    }

    /// Changes every n-th of them.
    async fn touch_every(&self, nth: usize, of: &str, stamp: &str) -> anyhow::Result<()> {
        for (space, team, name) in self.clusters(of).into_iter().step_by(nth) {
            let endpoint = json!({"host": stamp, "port": 6443});
            let patch: Value = json!({"spec": {"controlPlaneEndpoint": endpoint}});
            space.change(team, &name, patch).await?;
        }
        Ok(())
    }

    /// Runs the operator with this timeout for vCenters.
    fn start(&self, patience: Duration, check_after: Duration) -> world::Running {
        let mut settings = self.world.settings();
        settings.vcenter_patience = patience;
        settings.sessions = session::Settings {
            patience,
            check_after,
            ..SESSIONS
        };
        self.world.start_with(settings)
    }
}

fn names(of: &str) -> Vec<String> {
    (0..EACH).map(|n| format!("{of}-{n}")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c6_a_vcenter_that_hangs_at_login_delays_no_other_and_recovers() -> anyhow::Result<()> {
    let field = Field::new().await?;
    field.ill.hang("Login");
    let _running = field.start(HOURS, SESSIONS.check_after);
    field.are(WELL, "Available").await?;
    let hangs = |ill: &FakeVCenter| ill.called("Login") > 0;
    field.ill.wait_for("the login", hangs).await?;
    field.touch(ILL, "meanwhile").await?;
    field.touch(WELL, "meanwhile").await?;
    field.are(WELL, "Available").await?;
    // One connection finds out for all.
    assert_eq!((field.ill.called("Login"), field.ill.connections()), (1, 1));
    assert_eq!(field.well.logins().len(), TEAMS.len());
    field.ill.resume().await;
    field.are(ILL, "Available").await?;
    assert_eq!(field.ill.logins().len(), TEAMS.len());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c6_a_vcenter_that_hangs_in_mid_session_delays_no_other_and_recovers() -> anyhow::Result<()>
{
    let field = Field::new().await?;
    let _running = field.start(HOURS, Duration::from_millis(200));
    field.are(WELL, "Available").await?;
    field.are(ILL, "Available").await?;
    let before = field.ill.connections();
    field.ill.hang("*");
    field.ill.door(Door::Silent).await;
    let asked = |field: &Field| field.ill.calls().len() + field.ill.connections();
    let (quiet, mut round) = (asked(&field), 0);
    // Idle sessions are checked, and the check hangs.
    eventually(async || {
        round += 1;
        let stamp = format!("round-{round}");
        field.touch_every(EACH, ILL, &stamp).await?;
        Ok((asked(&field) > quiet).then_some(()))
    })
    .await?;
    field.touch(ILL, "meanwhile").await?;
    field.touch(WELL, "meanwhile").await?;
    field.are(WELL, "Available").await?;
    let hanging = field.ill.open_connections();
    // The concurrent calls, and one for each session that was idle when the vCenter began to hang.
    let most = SESSIONS.at_once + TEAMS.len();
    assert!(hanging <= most, "{hanging} connections hang");
    let more = field.ill.connections() - before;
    assert!(more <= most, "{more} connections were made in vain");
    field.ill.resume().await;
    field.are(ILL, "Available").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c6_a_vcenter_that_is_not_there_is_told_of_and_tried_rarely_until_it_is()
-> anyhow::Result<()> {
    let field = Field::new().await?;
    field.ill.door(Door::HangUp).await;
    let _running = field.start(Duration::from_secs(5), SESSIONS.check_after);
    for door in [Door::HangUp, Door::Closed] {
        field.ill.door(door).await;
        field.ill.clear_log();
        let began = Instant::now();
        let stamp = format!("{door:?}").to_lowercase();
        field.touch(ILL, &stamp).await?;
        field.touch(WELL, &stamp).await?;
        field.are(WELL, "Available").await?;
        field.are(ILL, "VCenterUnreachable").await?;
        let tried = field.ill.connections();
        // The backoff starts short and grows to a second.
        let most = 4 + began.elapsed().as_secs() * 2;
        assert!(
            tried as u64 <= most,
            "{door:?}: {tried} connections, {most} are fine"
        );
    }
    field.ill.resume().await;
    field.are(ILL, "Available").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c6_forty_vcenters_of_a_tenant_that_let_in_and_hang_stop_nobody_else() -> anyhow::Result<()>
{
    let field = Field::new().await?;
    let tenant = field.world.space(Some("t2"));
    tenant.namespace("evil", json!({})).await?;
    let mut evil = Vec::new();
    for at in 0..40 {
        let vcenter = FakeVCenter::start(&[("a", "pw")]).await?;
        vcenter.hang("RetrievePropertiesEx");
        let name = format!("evil-{at}");
        tenant.account("evil", &name, ("a", "pw")).await?;
        let spec = json!({
            "server": vcenter.address(), "thumbprint": vcenter.thumbprint_sha256(),
            "identityRef": {"kind": "Secret", "name": name},
        });
        tenant.cluster("evil", &name, spec).await?;
        evil.push(vcenter);
    }
    let _running = field.start(HOURS, SESSIONS.check_after);
    let sum = |of: fn(&FakeVCenter) -> usize| evil.iter().map(of).sum::<usize>();
    let hanging = || sum(|evil| evil.called("RetrievePropertiesEx"));
    let let_in = || sum(|evil| evil.logins().len());
    eventually(async || Ok((let_in() == 40).then_some(()))).await?;
    eventually(async || Ok((hanging() == 8).then_some(()))).await?;
    field.are(WELL, "Available").await?;
    field.touch(WELL, "meanwhile").await?;
    field.are(WELL, "Available").await?;
    assert_eq!(hanging(), 8);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r1_whoever_hangs_when_it_is_time_to_stop_keeps_no_session_open() -> anyhow::Result<()> {
    let field = Field::new().await?;
    field.ill.hang("RetrievePropertiesEx");
    let mut settings = field.world.settings();
    settings.vcenter_patience = HOURS;
    settings.sessions.patience = HOURS;
    settings.closing = Duration::from_millis(200);
    let running = field.world.start_with(settings);
    field.are(WELL, "Available").await?;
    let hangs = |ill: &FakeVCenter| ill.called("RetrievePropertiesEx") > 0;
    field.ill.wait_for("somebody who hangs", hangs).await?;
    assert_eq!(field.well.open_sessions().len(), TEAMS.len());
    let told = Instant::now();
    running.stop().await?;
    assert!(
        told.elapsed() < Duration::from_secs(10),
        "{:?}",
        told.elapsed()
    );
    assert_eq!(field.well.open_sessions().len(), 0);
    assert_eq!(field.ill.open_sessions().len(), 0);
    Ok(())
}

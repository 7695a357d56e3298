//! A vCenter that does not answer affects no other.
//!
//! There are sixty clusters of three teams, one of them a tenant, half of them on a healthy
//! vCenter and half on one that hangs. The operator's timeouts are hours, so all progress in
//! these tests is made while it waits.

#[path = "../world/world.rs"]
mod world;

use std::time::{Duration, Instant};

use insula_identity::session;
use insula_testkit::vcenter::{ConnectionMode, FakeVCenter};
use serde_json::{Value, json};

use crate::world::{SESSIONS, Space, World, eventually};

/// The namespace of each team, and the space if it is a tenant.
const TEAMS: [(&str, Option<&str>); 3] = [("a", None), ("b", None), ("a", Some("t1"))];
/// The number of clusters of each team on each vCenter.
const CLUSTERS_PER_TEAM: usize = 10;
/// Longer than any test.
const HOURS: Duration = Duration::from_secs(7200);
const HEALTHY: &str = "healthy";
const HANGING: &str = "hanging";

/// Two vCenters, and the clusters of all teams.
struct Fixture {
    world: World,
    healthy: FakeVCenter,
    hanging: FakeVCenter,
}

impl Fixture {
    async fn new() -> anyhow::Result<Self> {
        let fixture = Self {
            world: World::new().await?,
            healthy: FakeVCenter::start(&[("a", "pw"), ("b", "pw")]).await?,
            hanging: FakeVCenter::start(&[("a", "pw"), ("b", "pw")]).await?,
        };
        let server = |vcenter: &FakeVCenter| json!({"address": vcenter.address(), "thumbprint": vcenter.thumbprint_sha256()});
        let servers = json!([server(&fixture.healthy), server(&fixture.hanging)]);
        for (team, space) in TEAMS {
            let space = fixture.world.space(space);
            space.namespace(team, json!({})).await?;
            space.shared(team, (team, "pw"), servers.clone()).await?;
            for (of, vcenter) in [(HEALTHY, &fixture.healthy), (HANGING, &fixture.hanging)] {
                for name in names(of) {
                    let reference = json!({"kind": "VSphereClusterIdentity", "name": team});
                    let spec = json!({"server": vcenter.address(), "identityRef": reference});
                    space.cluster(team, &name, spec).await?;
                }
            }
        }
        Ok(fixture)
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
    async fn wait_for_reason(&self, of: &str, reason: &str) -> anyhow::Result<()> {
        for (space, team, name) in self.clusters(of) {
            space.wait_for_reason(team, &name, reason).await?;
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
    fn start(&self, timeout: Duration, check_after: Duration) -> world::Running {
        let mut settings = self.world.settings();
        settings.shell.sessions = session::Settings {
            request_timeout: timeout,
            check_after,
            ..SESSIONS
        };
        self.world.start_with(settings)
    }
}

fn names(of: &str) -> Vec<String> {
    (0..CLUSTERS_PER_TEAM)
        .map(|n| format!("{of}-{n}"))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c6_vcenter_hanging_at_login_delays_no_other_and_recovers() -> anyhow::Result<()> {
    let fixture = Fixture::new().await?;
    fixture.hanging.hang("Login");
    let _running = fixture.start(HOURS, SESSIONS.check_after);
    fixture.wait_for_reason(HEALTHY, "Available").await?;
    let hangs = |hanging: &FakeVCenter| hanging.called("Login") > 0;
    fixture.hanging.wait_for("the login", hangs).await?;
    fixture.touch(HANGING, "meanwhile").await?;
    fixture.touch(HEALTHY, "meanwhile").await?;
    fixture.wait_for_reason(HEALTHY, "Available").await?;
    // One connection finds out for all.
    assert_eq!(
        (
            fixture.hanging.called("Login"),
            fixture.hanging.connections()
        ),
        (1, 1)
    );
    assert_eq!(fixture.healthy.logins().len(), TEAMS.len());
    fixture.hanging.resume().await;
    fixture.wait_for_reason(HANGING, "Available").await?;
    assert_eq!(fixture.hanging.logins().len(), TEAMS.len());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c6_vcenter_hanging_mid_session_delays_no_other_and_recovers() -> anyhow::Result<()> {
    let fixture = Fixture::new().await?;
    let _running = fixture.start(HOURS, Duration::from_millis(200));
    fixture.wait_for_reason(HEALTHY, "Available").await?;
    fixture.wait_for_reason(HANGING, "Available").await?;
    let before = fixture.hanging.connections();
    fixture.hanging.hang("*");
    fixture
        .hanging
        .set_connection_mode(ConnectionMode::Silent)
        .await;
    let asked = |fixture: &Fixture| fixture.hanging.calls().len() + fixture.hanging.connections();
    let (quiet, mut round) = (asked(&fixture), 0);
    // Idle sessions are checked, and the check hangs.
    eventually(async || {
        round += 1;
        let stamp = format!("round-{round}");
        fixture
            .touch_every(CLUSTERS_PER_TEAM, HANGING, &stamp)
            .await?;
        Ok((asked(&fixture) > quiet).then_some(()))
    })
    .await?;
    fixture.touch(HANGING, "meanwhile").await?;
    fixture.touch(HEALTHY, "meanwhile").await?;
    fixture.wait_for_reason(HEALTHY, "Available").await?;
    let hanging = fixture.hanging.open_connections();
    // The concurrent calls, and one for each session that was idle when the vCenter began to hang.
    let most = SESSIONS.concurrency.per_endpoint + TEAMS.len();
    assert!(hanging <= most, "{hanging} connections hang");
    let more = fixture.hanging.connections() - before;
    assert!(more <= most, "{more} connections were made in vain");
    fixture.hanging.resume().await;
    fixture.wait_for_reason(HANGING, "Available").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c6_absent_vcenter_is_reported_and_retried_rarely() -> anyhow::Result<()> {
    let fixture = Fixture::new().await?;
    fixture
        .hanging
        .set_connection_mode(ConnectionMode::HangUp)
        .await;
    let _running = fixture.start(Duration::from_secs(5), SESSIONS.check_after);
    for door in [ConnectionMode::HangUp, ConnectionMode::Closed] {
        fixture.hanging.set_connection_mode(door).await;
        fixture.hanging.clear_log();
        let began = Instant::now();
        let stamp = format!("{door:?}").to_lowercase();
        fixture.touch(HANGING, &stamp).await?;
        fixture.touch(HEALTHY, &stamp).await?;
        fixture.wait_for_reason(HEALTHY, "Available").await?;
        fixture
            .wait_for_reason(HANGING, "VCenterUnreachable")
            .await?;
        let tried = fixture.hanging.connections();
        // The backoff starts short and grows to a second.
        let most = 4 + began.elapsed().as_secs() * 2;
        assert!(
            tried as u64 <= most,
            "{door:?}: {tried} connections, {most} are fine"
        );
    }
    fixture.hanging.resume().await;
    fixture.wait_for_reason(HANGING, "Available").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c6_forty_hanging_vcenters_of_one_tenant_delay_no_other() -> anyhow::Result<()> {
    let fixture = Fixture::new().await?;
    let tenant = fixture.world.space(Some("t2"));
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
    let _running = fixture.start(HOURS, SESSIONS.check_after);
    let sum = |of: fn(&FakeVCenter) -> usize| evil.iter().map(of).sum::<usize>();
    let hanging = || sum(|evil| evil.called("RetrievePropertiesEx"));
    let let_in = || sum(|evil| evil.logins().len());
    eventually(async || Ok((let_in() == 40).then_some(()))).await?;
    eventually(async || Ok((hanging() == 8).then_some(()))).await?;
    fixture.wait_for_reason(HEALTHY, "Available").await?;
    fixture.touch(HEALTHY, "meanwhile").await?;
    fixture.wait_for_reason(HEALTHY, "Available").await?;
    assert_eq!(hanging(), 8);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r1_shutdown_closes_sessions_despite_a_hanging_vcenter() -> anyhow::Result<()> {
    let fixture = Fixture::new().await?;
    fixture.hanging.hang("RetrievePropertiesEx");
    let mut settings = fixture.world.settings();
    settings.shell.sessions.request_timeout = HOURS;
    settings.shell.shutdown_timeout = Duration::from_millis(200);
    let running = fixture.world.start_with(settings);
    fixture.wait_for_reason(HEALTHY, "Available").await?;
    let hangs = |hanging: &FakeVCenter| hanging.called("RetrievePropertiesEx") > 0;
    fixture.hanging.wait_for("a hanging call", hangs).await?;
    assert_eq!(fixture.healthy.open_sessions().len(), TEAMS.len());
    let told = Instant::now();
    running.stop().await?;
    assert!(
        told.elapsed() < Duration::from_secs(10),
        "{:?}",
        told.elapsed()
    );
    assert_eq!(fixture.healthy.open_sessions().len(), 0);
    assert_eq!(fixture.hanging.open_sessions().len(), 0);
    Ok(())
}

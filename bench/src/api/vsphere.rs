//! Clusters on vCenters: the time until many are available after the operator starts, its
//! resources, and the effect of a hanging vCenter on the clusters of another.

mod states;
mod teams;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bytes::Bytes;
use http::{Method, StatusCode};
use insula_testkit::vcenter::{ConnectionMode, FakeVCenter};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use self::states::ClusterStates;
use self::teams::{Cluster, Teams};
use super::client::{Client, Sender};
use super::load::{WAIT_TIMEOUT, all};
use super::server::{Process, Program, Server};
use crate::figures::{Figures, Quantiles};
use crate::machine;
use crate::report::progress;

/// The number of clusters of each vCenter that are changed at the same time.
const AT_ONCE: usize = 4;
/// The interval between two changes of a cluster, which leaves the machine mostly idle.
const PACE: Duration = Duration::from_millis(50);
/// The operator's timeout of a vCenter: it passes several times while one hangs, so that
/// retries are measured, too.
const TIMEOUT: &str = "3s";
/// The prefixes of the figures before and during the hang.
const BEFORE: &str = "before";
const DURING: &str = "during";

#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub clusters: usize,
    /// Accounts, each with a namespace of its own, on both vCenters.
    pub identities: usize,
    /// The time in which clusters are changed, before one vCenter hangs and while it does.
    pub window: Duration,
}

/// Measures with two vCenters in this process, and the operator in its own.
pub async fn measure(program: &Program, size: Size) -> Result<Figures> {
    progress(&format!("{} clusters on two vCenters", size.clusters));
    let server = program.start()?;
    let client = server.subject.connect(AT_ONCE * 2).await?;
    let vcenters = vcenters(size.identities).await?;
    let teams = Teams::new(size, &vcenters);
    teams.create(program, &server, &client).await?;
    let mut states = ClusterStates::watch(&client).await?;
    server.subject.wait_until_idle().await?;
    let (operator, started) = start(program, &server, &mut states, size).await?;
    let logins: usize = vcenters.iter().map(|vcenter| vcenter.logins().len()).sum();
    let started = started.with("logins", logins as f64);
    let [well, ill] = [teams.at(&vcenters[0]), teams.at(&vcenters[1])];
    progress("one vCenter hangs");
    let before = touched(&client, &states, [&well, &ill], size.window, BEFORE).await?;
    hang(&vcenters[1]).await;
    let during = touched(&client, &states, [&well, &ill], size.window, DURING).await?;
    let ratio = during.p99.as_secs_f64() / before.p99.as_secs_f64().max(f64::MIN_POSITIVE);
    let figures = started
        .times(BEFORE, before)
        .times(DURING, during)
        .with("ratio", ratio)
        .with("held open", vcenters[1].open_connections() as f64);
    drop(operator);
    server.stop()?;
    Ok(figures.under("vsphere"))
}

/// Starts two vCenters with the same accounts.
async fn vcenters(identities: usize) -> Result<[FakeVCenter; 2]> {
    let accounts: Vec<_> = (0..identities).map(teams::account).collect();
    let accounts: Vec<_> = accounts
        .iter()
        .map(|account| (account.as_str(), teams::PASSWORD))
        .collect();
    Ok([
        FakeVCenter::start(&accounts).await?,
        FakeVCenter::start(&accounts).await?,
    ])
}

/// Measures from the start of the operator until the last cluster is available.
async fn start(
    program: &Program,
    server: &Server,
    states: &mut ClusterStates,
    size: Size,
) -> Result<(Process, Figures)> {
    let begun = Instant::now();
    let child = Command::new(&program.path)
        .args(["operator", "vsphere", "--vcenter-timeout", TIMEOUT])
        .args(["--allow-address", "127.0.0.0/8"])
        .arg("--kubeconfig")
        .arg(server.kubeconfig())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let operator = Process::of(child.context("cannot start the operator")?);
    states.available(size.clusters).await?;
    let steady = begun.elapsed();
    server.subject.wait_until_idle().await?;
    let figures = Figures::default()
        .with("steady", steady.as_secs_f64())
        .with("cpu", machine::cpu_time(operator.id())?.as_secs_f64())
        .with("resident", machine::resident(operator.id())? as f64)
        .with("most", machine::most_resident(operator.id())? as f64);
    Ok((operator, figures))
}

/// Makes a vCenter hang: it accepts connections and sends nothing, also on open ones.
async fn hang(vcenter: &FakeVCenter) {
    vcenter.hang("*");
    vcenter.set_connection_mode(ConnectionMode::Silent).await;
}

/// Changes clusters of both vCenters, and measures the time until those of the first are
/// reconciled. Those of the second need another session than before, so that they wait while it
/// hangs.
async fn touched(
    client: &Client,
    states: &ClusterStates,
    [well, ill]: [&[Cluster]; 2],
    window: Duration,
    what: &str,
) -> Result<Quantiles> {
    let mut workers = JoinSet::new();
    for worker in 0..AT_ONCE {
        let mine = |all: &[Cluster]| {
            let mine = all.iter().skip(worker).step_by(AT_ONCE);
            mine.cloned().collect::<Vec<_>>()
        };
        let touch = Touch {
            sender: client.sender(worker)?,
            states: states.clone(),
            what: what.to_owned(),
        };
        workers.spawn(touch.all(mine(well), mine(ill), window));
    }
    let times = tokio::time::timeout(WAIT_TIMEOUT, all(workers)).await;
    Ok(Quantiles::of(times.context("clusters are not looked at")??))
}

/// A client that changes clusters.
struct Touch {
    sender: Sender,
    states: ClusterStates,
    what: String,
}

impl Touch {
    async fn all(
        mut self,
        well: Vec<Cluster>,
        ill: Vec<Cluster>,
        window: Duration,
    ) -> Result<Vec<Duration>> {
        let mut times = Vec::new();
        let mut ticks = tokio::time::interval(PACE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let until = Instant::now() + window;
        for (n, (cluster, other)) in well.iter().cycle().zip(ill.iter().cycle()).enumerate() {
            ticks.tick().await;
            if Instant::now() >= until {
                break;
            }
            let stamp = format!("{}-{n}", self.what);
            // Not awaited: while its vCenter hangs, this cluster is not reconciled.
            let body = other.touched(&stamp, self.what == DURING);
            self.send(other, body).await?;
            let begun = Instant::now();
            self.send(cluster, cluster.touched(&stamp, false)).await?;
            self.states.looked_at(&cluster.name, &stamp).await?;
            times.push(begun.elapsed());
        }
        Ok(times)
    }

    async fn send(&self, cluster: &Cluster, body: Bytes) -> Result<()> {
        let request = self
            .sender
            .prepare(Method::PATCH, &cluster.path(), Some(body))?;
        self.sender.send(request).await?.expect(StatusCode::OK)
    }
}

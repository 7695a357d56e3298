//! Machines on bare-metal hosts: the time until each has a host after the operator starts, and
//! the operator's resources.
//!
//! The hosts are in pools of an API server of their own, and each team reaches one pool with its
//! kubeconfig. No Bare Metal Operator runs: the hosts stay available, and are claimed once.

mod pools;
mod teams;

use std::collections::HashMap;
use std::collections::HashSet;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::client::Client;
use super::object_states::ObjectStates;
use super::server::{Process, Program, Server};
use crate::figures::Figures;
use crate::machine;
use crate::report::progress;

const MACHINES: &str = "/apis/infrastructure.cluster.x-k8s.io/v1beta2/metal3machines";

#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Machines, and hosts.
    pub machines: usize,
    /// Pools of hosts, each with a kubeconfig and a cluster of its own.
    pub pools: usize,
}

/// Measures with two servers, and the operator in its own process.
pub async fn measure(program: &Program, size: Size) -> Result<Figures> {
    let Size { machines, pools } = size;
    progress(&format!("{machines} machines on hosts of {pools} pools"));
    let (management, hosts) = (program.start()?, program.start()?);
    let at_hosts = hosts.subject.connect(8).await?;
    let kubeconfigs = pools::create(program, &hosts, &at_hosts, size).await?;
    let client = management.subject.connect(8).await?;
    teams::create(program, &management, &client, size, &kubeconfigs).await?;
    let mut states = ObjectStates::watch(&client, MACHINES, host_of_machine).await?;
    management.subject.wait_until_idle().await?;
    hosts.subject.wait_until_idle().await?;
    let (operator, figures) = start(program, &management, &hosts, &mut states, machines).await?;
    let watches = open_watches(&at_hosts).await?;
    expect_one_machine_each(&at_hosts, machines).await?;
    drop(operator);
    management.stop()?;
    hosts.stop()?;
    Ok(figures.with("watches", watches).under("metal3"))
}

/// Measures from the start of the operator until the last machine has its host.
async fn start(
    program: &Program,
    management: &Server,
    hosts: &Server,
    states: &mut ObjectStates<Option<String>>,
    machines: usize,
) -> Result<(Process, Figures)> {
    let begun = Instant::now();
    let child = Command::new(&program.path)
        .args(["operator", "metal3", "--allow-address", "127.0.0.0/8"])
        .arg("--kubeconfig")
        .arg(management.kubeconfig())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let operator = Process::of(child.context("cannot start the operator")?);
    let all = states.wait_until(|states| states.values().flatten().count() >= machines);
    all.await?;
    let associated = begun.elapsed();
    let different = states.read(distinct);
    ensure!(
        different == machines,
        "{machines} machines have {different} hosts"
    );
    management.subject.wait_until_idle().await?;
    hosts.subject.wait_until_idle().await?;
    let figures = Figures::default()
        .with("associated", associated.as_secs_f64())
        .with("cpu", machine::cpu_time(operator.id())?.as_secs_f64())
        .with("resident", machine::resident(operator.id())? as f64)
        .with("most", machine::most_resident(operator.id())? as f64);
    Ok((operator, figures))
}

/// Returns the host that a machine names.
fn host_of_machine(machine: &Value) -> Option<String> {
    let named = machine["metadata"]["annotations"]["metal3.io/BareMetalHost"].as_str();
    named.map(str::to_owned)
}

/// Returns the machine that a host names.
fn machine_of_host(host: &Value) -> Option<String> {
    let consumer = &host["spec"]["consumerRef"];
    let name = consumer["name"].as_str()?;
    Some(format!("{}/{name}", consumer["namespace"]))
}

/// Returns the number of different values.
fn distinct(states: &HashMap<String, Option<String>>) -> usize {
    states.values().flatten().collect::<HashSet<_>>().len()
}

/// Fails unless each host is used by one machine, and each machine uses one host.
async fn expect_one_machine_each(client: &Client, machines: usize) -> Result<()> {
    let mut hosts = ObjectStates::watch(client, pools::HOSTS, machine_of_host).await?;
    hosts.wait_until(|hosts| hosts.len() >= machines).await?;
    let different = hosts.read(distinct);
    ensure!(
        different == machines,
        "hosts are used by {different} of {machines} machines"
    );
    Ok(())
}

/// Returns the number of watches that a server has open.
async fn open_watches(client: &Client) -> Result<f64> {
    let metrics = String::from_utf8(client.body("/metrics").await?)?;
    let mut lines = metrics.lines();
    let count = lines.find_map(|line| line.strip_prefix("insula_seats_in_use{work=\"watch\"} "));
    Ok(count.context("no metric of watches")?.parse()?)
}

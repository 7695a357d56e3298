//! An operator that is killed at any write of a remediation, also to the servers of the hosts and of
//! the workload cluster, leaves the same state as one that is not.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::Context as _;
use futures_util::future::try_join_all;
use insula_capi::{Cluster, Machine};
use insula_metal3::kinds::machine::Metal3Machine;
use insula_metal3::kinds::remediation::Metal3Remediation;
use insula_testkit::server::Relay;
use kube::{Client, ResourceExt};
use serde_json::json;

use crate::case::{Case, Mode, expire, has_request, is_on, phase_of, remediate, retries};
use crate::world::{
    KillPoint, KillRecord, Running, Side, eventually, killing_client, killing_relay, settings,
};

/// A remediation with an operator that is killed, and a successor.
struct Life<'a> {
    case: &'a Case,
    /// The namespace; its machine and host have the same name.
    name: &'a str,
    operator: Option<Running>,
    record: Arc<KillRecord>,
    relays: Vec<Relay>,
}

impl Life<'_> {
    fn start(&mut self, client: Client) {
        let mut settings = settings();
        settings.shell.tenants = false;
        settings.shell.namespaces = BTreeSet::from([self.name.to_owned()]);
        self.operator = Some(Running::new(client, settings));
    }

    /// Waits, and replaces the operator when it is killed.
    async fn wait<T>(&mut self, wait: impl AsyncFn() -> anyhow::Result<T>) -> anyhow::Result<T> {
        let record = Arc::clone(&self.record);
        tokio::select! {
            done = wait() => return done,
            () = record.killed.notified() => {}
        }
        self.operator.take().context("an operator")?.kill().await;
        self.record.ignore();
        self.start(self.case.scene.management().client.clone());
        wait().await
    }

    /// Waits until the remediation is in a phase with nothing left to undo.
    async fn phase(&mut self, phase: &str, count: Option<i32>) -> anyhow::Result<()> {
        let (management, name) = (self.case.scene.management(), self.name);
        self.wait(async || {
            management
                .wait_until(name, name, |one: &Metal3Remediation| {
                    phase_of(one) == phase && retries(one) == count && one.finalizers().is_empty()
                })
                .await
        })
        .await?;
        let (space, pool) = self.case.hosts_of(name);
        space
            .wait_until(pool, name, |host| is_on(host) && !has_request(host))
            .await?;
        let taints = self.case.taints(name).await?;
        anyhow::ensure!(taints.is_empty(), "{taints:?}");
        Ok(())
    }

    /// Creates the cluster, with kubeconfigs that lead to relays.
    async fn prepare(&mut self) -> anyhow::Result<()> {
        let (case, name) = (self.case, self.name);
        let (scene, management) = (&case.scene, case.scene.management());
        management.namespace(name).await?;
        let selector = json!({"hostSelector": {"matchLabels": {"for": name}}});
        case.cluster(name, selector).await?;
        let mut file = scene.workload.kubeconfig();
        let relay = killing_relay(&scene.workload.server, &mut file, &self.record).await?;
        self.relays.push(relay);
        let text = file.to_string();
        management
            .replace_secret(name, "c-kubeconfig", &[("value", &text)])
            .await?;
        if case.mode == Mode::Identity {
            let hosts = &scene.world.hosts;
            let mut file = hosts.kubeconfig("user-a", "pool-a")?;
            let relay = killing_relay(&hosts.server, &mut file, &self.record).await?;
            self.relays.push(relay);
            let text = file.to_string();
            management
                .replace_secret(name, "hosts", &[("kubeconfig", &text)])
                .await?;
        }
        Ok(())
    }

    async fn live(&mut self) -> anyhow::Result<()> {
        let (case, name) = (self.case, self.name);
        let management = case.scene.management();
        self.prepare().await?;
        self.start(management.client.clone());
        case.machine(name, name, name, name).await?;
        self.operator.take().context("an operator")?.kill().await;

        self.record.watch();
        self.start(killing_client(&management.client, name, &self.record));
        remediate(management, name, name).await?;
        self.phase("Waiting", None).await?;
        expire(management, name, name).await?;
        self.phase("Waiting", Some(1)).await?;
        expire(management, name, name).await?;
        self.phase("Deleting machine", Some(1)).await?;
        let (space, pool) = case.hosts_of(name);
        let host: insula_metal3::kinds::host::BareMetalHost = space.api(pool).get(name).await?;
        anyhow::ensure!(host.annotations().contains_key("capm3.metal3.io/unhealthy"));
        management.delete::<Machine>(name, name).await?;
        self.wait(async || {
            management
                .wait_until_gone::<Metal3Machine>(name, name)
                .await?;
            management
                .wait_until_gone::<Metal3Remediation>(name, name)
                .await
        })
        .await?;
        eventually(async || {
            let host: insula_metal3::kinds::host::BareMetalHost = space.api(pool).get(name).await?;
            Ok(host.spec.consumer_ref.is_none().then_some(()))
        })
        .await?;
        // It is of no more interest, and costs the controllers time.
        let pause = json!({"spec": {"paused": true}});
        management.patch::<Cluster>(name, "c", pause).await?;
        Ok(())
    }
}

async fn live(case: &Case, name: &str, at: Option<KillPoint>) -> anyhow::Result<Arc<KillRecord>> {
    let mut life = Life {
        case,
        name,
        operator: None,
        record: KillRecord::new(at),
        relays: Vec::new(),
    };
    life.live().await.with_context(|| name.to_owned())?;
    Ok(life.record)
}

/// Kills the operator before each of its writes to servers of kubeconfigs, and before each
/// `step`-th one to the management cluster.
async fn kill_at_writes(mode: Mode, step: usize, outside: &[&str]) -> anyhow::Result<()> {
    let mut case = Case::start(mode).await?;
    if let Some(running) = case.scene.running.take() {
        running.stop().await?;
    }
    let whole = live(&case, "never", None).await?;
    let found = whole.outside();
    anyhow::ensure!(found.iter().eq(outside), "{found:?}");
    let points = whole.points(step);
    anyhow::ensure!(points.len() > 10, "{points:?}");
    let mut cut = BTreeSet::new();
    for points in points.chunks(4) {
        let cases = points.iter().map(|(side, nth)| {
            let name = format!("{side:?}-{nth}").to_lowercase();
            let (case, at) = (&case, Some((*side, *nth)));
            async move { live(case, &name, at).await }
        });
        let lived = try_join_all(cases).await?;
        cut.extend(lived.iter().filter_map(|record| record.cut()));
    }
    let cut = cut
        .into_iter()
        .filter(|(side, _)| *side == Side::Kubeconfig);
    let cut: Vec<_> = cut.map(|(_, write)| write).collect();
    anyhow::ensure!(cut == outside, "{cut:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn m10_operator_killed_at_any_write_restarts_a_local_host() -> anyhow::Result<()> {
    kill_at_writes(Mode::InCluster, 3, &["PATCH nodes"]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn m10_operator_killed_at_any_write_restarts_a_remote_host() -> anyhow::Result<()> {
    let outside = ["DELETE secrets", "PATCH baremetalhosts", "PATCH nodes"];
    kill_at_writes(Mode::Identity, 3, &outside).await
}

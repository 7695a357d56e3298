//! An operator that is killed at any write of a remediation leaves the same state as one that is
//! not.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::Context as _;
use futures_util::future::try_join_all;
use insula_capi::Machine;
use insula_metal3::kinds::machine::Metal3Machine;
use insula_metal3::kinds::remediation::Metal3Remediation;
use kube::{Client, ResourceExt};
use serde_json::json;

use crate::case::{Case, Mode, expire, has_request, is_on, phase_of, remediate, retries};
use crate::world::{KillRecord, Running, eventually, killing_client, settings};

/// A remediation with an operator that is killed, and a successor.
struct Life<'a> {
    case: &'a Case,
    /// The namespace; its machine and host have the same name.
    name: &'a str,
    operator: Option<Running>,
    record: Arc<KillRecord>,
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

    async fn live(&mut self, at: usize) -> anyhow::Result<usize> {
        let (case, name) = (self.case, self.name);
        let management = case.scene.management();
        management.namespace(name).await?;
        let selector = json!({"hostSelector": {"matchLabels": {"for": name}}});
        case.cluster(name, selector).await?;
        self.start(management.client.clone());
        case.machine(name, name, name, name).await?;
        self.operator.take().context("an operator")?.kill().await;

        self.start(killing_client(&management.client, name, at, &self.record));
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
        Ok(self.record.writes())
    }
}

async fn live(case: &Case, name: &str, at: usize) -> anyhow::Result<usize> {
    let mut life = Life {
        case,
        name,
        operator: None,
        record: Arc::default(),
    };
    life.live(at).await.with_context(|| name.to_owned())
}

/// Kills the operator before each of its writes.
async fn kill_at_any_write(mode: Mode, at_least: usize) -> anyhow::Result<()> {
    let mut case = Case::start(mode).await?;
    if let Some(running) = case.scene.running.take() {
        running.stop().await?;
    }
    let writes = live(&case, "never", usize::MAX).await?;
    anyhow::ensure!(writes >= at_least, "only {writes} writes");
    for first in (1..=writes).step_by(4) {
        let cases = (first..=writes.min(first + 3)).map(|at| {
            let case = &case;
            async move { live(case, &format!("before-{at}"), at).await }
        });
        try_join_all(cases).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn m10_operator_killed_at_any_write_restarts_a_local_host() -> anyhow::Result<()> {
    kill_at_any_write(Mode::InCluster, 20).await
}

#[tokio::test(flavor = "multi_thread")]
async fn m10_operator_killed_at_any_write_restarts_a_remote_host() -> anyhow::Result<()> {
    kill_at_any_write(Mode::Identity, 12).await
}

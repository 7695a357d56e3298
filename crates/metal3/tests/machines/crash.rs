//! An operator that is killed at any write, also to the servers of the hosts and of the workload
//! cluster, gives a machine exactly one host, and leaves nothing behind after the machine is
//! deleted.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::Context as _;
use futures_util::future::try_join_all;
use insula_capi::{Cluster, Machine};
use insula_metal3::kinds::data::Metal3Data;
use insula_metal3::kinds::data_claim::Metal3DataClaim;
use insula_metal3::kinds::host::BareMetalHost;
use insula_metal3::kinds::machine::Metal3Machine;
use insula_testkit::server::Relay;
use kube::api::ListParams;
use kube::{Client, ResourceExt};
use serde_json::json;

use crate::scene::{Scene, hosts_in_management, identity, secrets};
use crate::world::{
    KillPoint, KillRecord, Running, Side, Space, eventually, killing_client, killing_relay,
    settings,
};

/// Where the hosts of a machine are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hosts {
    /// In the namespace of the machine: their changes are writes of the operator too.
    Local,
    /// At another server.
    Remote,
}

/// A machine with an operator that is killed, and a successor.
struct Life<'a> {
    scene: &'a Scene,
    hosts: Hosts,
    /// The namespace, the machine, and the label of its hosts.
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
        self.start(self.scene.management().client.clone());
        wait().await
    }

    fn pool(&self) -> (&Space, &str) {
        match self.hosts {
            Hosts::Local => (self.scene.management(), self.name),
            Hosts::Remote => (&self.scene.world.hosts, "pool-a"),
        }
    }

    /// Returns the consumers of its hosts.
    async fn consumers(&self) -> anyhow::Result<Vec<String>> {
        let (space, pool) = self.pool();
        let all = space.consumers(pool).await?.into_iter();
        let prefix = format!("{}-", self.name);
        let of_life = all.filter(|(host, _)| host.starts_with(&prefix));
        let mut consumers: Vec<_> = of_life.map(|(_, consumer)| consumer).collect();
        consumers.sort();
        Ok(consumers)
    }

    async fn prepare(&mut self) -> anyhow::Result<()> {
        let (scene, name) = (self.scene, self.name);
        let management = scene.management();
        management.namespace(name).await?;
        for number in 0..2 {
            let host = format!("{name}-h{number}");
            let (space, pool) = self.pool();
            space.host(pool, &host, json!({"life": name})).await?;
            let found: BareMetalHost = space.api(pool).get(&host).await?;
            let labels = json!({"metal3.io/uuid": found.uid()});
            scene.workload.node(&host, labels).await?;
        }
        let cluster = match self.hosts {
            Hosts::Local => json!({}),
            Hosts::Remote => {
                let hosts = &scene.world.hosts;
                let mut file = hosts.kubeconfig("user-a", "pool-a")?;
                let relay = killing_relay(&hosts.server, &mut file, &self.record).await?;
                self.relays.push(relay);
                management.identity(name, "hosts", &file).await?;
                identity("hosts")
            }
        };
        management
            .put(&json!({
                "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2",
                "kind": "Metal3DataTemplate",
                "metadata": {"name": "nodes", "namespace": name},
                "spec": {"metaData": {"strings": [{"key": "k", "value": "v"}]}},
            }))
            .await?;
        let machine = json!({
            "hostSelector": {"matchLabels": {"life": name}}, "dataTemplate": {"name": "nodes"},
        });
        scene.cluster(name, "c", cluster, machine).await?;
        let mut file = scene.workload.kubeconfig();
        let relay = killing_relay(&scene.workload.server, &mut file, &self.record).await?;
        self.relays.push(relay);
        let text = file.to_string();
        management
            .replace_secret(name, "c-kubeconfig", &[("value", &text)])
            .await
    }

    async fn live(&mut self) -> anyhow::Result<()> {
        let (scene, name) = (self.scene, self.name);
        let management = scene.management();
        self.prepare().await?;
        self.record.watch();
        self.start(killing_client(&management.client, name, &self.record));
        management.machine(name, "c", name, "workers").await?;
        self.wait(async || scene.provisioned(name, name).await)
            .await?;
        let expected = [String::new(), format!("Metal3Machine {name}/{name}")];
        let found = self.consumers().await?;
        anyhow::ensure!(found == expected, "{found:?}");
        self.wait(async || {
            management
                .wait_until(name, name, |machine: &Machine| {
                    machine.node_name().is_some()
                })
                .await
        })
        .await?;
        management.delete::<Machine>(name, name).await?;
        self.wait(async || {
            management
                .wait_until_gone::<Metal3Machine>(name, name)
                .await
        })
        .await?;
        let found = self.consumers().await?;
        anyhow::ensure!(found == ["", ""], "{found:?}");
        let (claims, data) = (
            management.api::<Metal3DataClaim>(name),
            management.api::<Metal3Data>(name),
        );
        self.wait(async || {
            eventually(async || {
                let all = ListParams::default();
                let left =
                    claims.list(&all).await?.items.len() + data.list(&all).await?.items.len();
                Ok((left == 0).then_some(()))
            })
            .await
        })
        .await?;
        let (space, pool) = self.pool();
        let suffixes = ["userdata", "metadata", "networkdata"];
        let mut left = secrets(space, pool).await?;
        left.retain(|one| suffixes.iter().any(|it| *one == format!("{name}-{it}")));
        // Those of the own namespace go with the data.
        let is_local = self.hosts == Hosts::Local;
        anyhow::ensure!(is_local || left.is_empty(), "{left:?}");
        // It is of no more interest, and costs the controllers time.
        let pause = json!({"spec": {"paused": true}});
        management.patch::<Cluster>(name, "c", pause).await?;
        Ok(())
    }
}

async fn live(
    scene: &Scene,
    hosts: Hosts,
    name: &str,
    at: Option<KillPoint>,
) -> anyhow::Result<Arc<KillRecord>> {
    let mut life = Life {
        scene,
        hosts,
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
async fn kill_at_writes(hosts: Hosts, step: usize, outside: &[&str]) -> anyhow::Result<()> {
    let mut scene = Scene::start().await?;
    if let Some(running) = scene.running.take() {
        running.stop().await?;
    }
    let _bare_metal = match hosts {
        Hosts::Local => Some(hosts_in_management(scene.management()).await?),
        Hosts::Remote => None,
    };
    let whole = live(&scene, hosts, "never", None).await?;
    let found = whole.outside();
    anyhow::ensure!(found.iter().eq(outside), "{found:?}");
    let points = whole.points(step);
    anyhow::ensure!(points.len() > 10, "{points:?}");
    let mut cut = BTreeSet::new();
    for points in points.chunks(4) {
        let cases = points.iter().map(|(side, nth)| {
            let name = format!("{side:?}-{nth}").to_lowercase();
            let (scene, at) = (&scene, Some((*side, *nth)));
            async move { live(scene, hosts, &name, at).await }
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
async fn operator_killed_at_any_write_gives_one_local_host_and_releases_it() -> anyhow::Result<()> {
    kill_at_writes(Hosts::Local, 3, &["PATCH nodes"]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_killed_at_any_write_gives_one_remote_host_and_releases_it() -> anyhow::Result<()>
{
    let outside = [
        "DELETE secrets",
        "PATCH baremetalhosts",
        "PATCH nodes",
        "POST secrets",
    ];
    kill_at_writes(Hosts::Remote, 3, &outside).await
}

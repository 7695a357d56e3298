//! Two management clusters, each with an operator, and helpers for moves between them.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use insula_capi::{Cluster, Machine};
use insula_metal3::inspect::Metal3;
use insula_metal3::ipam::kinds::{IPAddress, IPClaim, IPPool};
use insula_metal3::kinds::cluster::Metal3Cluster;
use insula_metal3::kinds::data::Metal3Data;
use insula_metal3::kinds::data_claim::Metal3DataClaim;
use insula_metal3::kinds::data_template::Metal3DataTemplate;
use insula_metal3::kinds::host::BareMetalHost;
use insula_metal3::kinds::machine::{Metal3Machine, Metal3MachineTemplate};
use insula_metal3::kinds::remediation::Metal3RemediationTemplate;
use insula_operator::report::Report;
use insula_relocate::{Error, Moved, Settings, relocate};
use insula_testkit::capi;
use k8s_openapi::api::core::v1::Secret;
use kube::api::ListParams;
use kube::{Client, Resource, ResourceExt};
use serde_json::{Value, json};

use crate::world::{Management, Running, Space, Workload, log_to_test, settings};

const CAPI: &str = "cluster.x-k8s.io/v1beta2";
pub const BLOCK_MOVE: &str = "clusterctl.cluster.x-k8s.io/block-move";
pub const PAUSED: &str = "baremetalhost.metal3.io/paused";

/// Two management clusters with operators, and the nodes of a workload cluster.
pub struct Scene {
    pub source: Management,
    pub target: Management,
    pub workload: Workload,
    _operators: [Running; 2],
}

impl Scene {
    pub async fn start() -> anyhow::Result<Self> {
        log_to_test();
        let (source, target) = tokio::try_join!(Management::start(), Management::start())?;
        let workload = Workload::start().await?;
        target.core.use_workload(workload.plain.clone());
        let operators = [&source, &target].map(|side| {
            let client = side.operator.clone();
            Running::new(client, settings())
        });
        Ok(Self {
            source,
            target,
            workload,
            _operators: operators,
        })
    }

    /// Creates a cluster `c` in namespace `team-a` of the source, with rendered data and addresses
    /// of a pool, and waits until its machines have nodes. The spec is that of the Metal3Cluster;
    /// the hosts are those of a namespace of the other space.
    pub async fn cluster(
        &self,
        spec: Value,
        machines: &[&str],
        hosts: (&Space, &str),
    ) -> anyhow::Result<()> {
        self.cluster_in("team-a", spec, machines, hosts).await
    }

    /// The same in another namespace.
    pub async fn cluster_in(
        &self,
        namespace: &str,
        spec: Value,
        machines: &[&str],
        hosts: (&Space, &str),
    ) -> anyhow::Result<()> {
        self.source.cluster(namespace, "c", spec).await?;
        let workload = &self.workload;
        self.source.workload(namespace, "c", workload).await?;
        create_data(&self.source, namespace).await?;
        for name in machines {
            self.source.machine(namespace, "c", name, "nodes").await?;
        }
        for name in machines {
            provision(&self.source, (namespace, name), hosts, workload).await?;
        }
        adopt(&self.source, namespace, "c").await
    }

    /// Moves everything of namespace `team-a`.
    pub async fn relocate(&self) -> Result<(Moved, Lines), Error> {
        let clients = (&self.source.client, &self.target.client);
        relocate_between(clients, &move_settings("team-a")).await
    }
}

/// Moves what the settings select.
pub async fn relocate_between(
    (source, target): (&Client, &Client),
    settings: &Settings,
) -> Result<(Moved, Lines), Error> {
    let lines = Lines::default();
    let moved = relocate(source, target, settings, &lines).await?;
    Ok((moved, lines))
}

pub fn move_settings(namespace: &str) -> Settings {
    Settings {
        timeout: Duration::from_secs(30),
        poll_interval: Duration::from_millis(100),
        ..Settings::new(namespace, &[&Metal3])
    }
}

/// Creates templates for machines with rendered data, and a pool of addresses. The pool names no
/// cluster, so that nothing but the move pauses it.
pub async fn create_data(space: &Space, namespace: &str) -> anyhow::Result<()> {
    let metadata = |name: &str| json!({"name": name, "namespace": namespace});
    space
        .put(&json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "Metal3DataTemplate",
            "metadata": metadata("data"),
            "spec": {"metaData": {
                "indexes": [{"key": "index"}],
                "ipAddressesFromPool": [{"key": "ip", "name": "net"}],
            }},
        }))
        .await?;
    space
        .put(&json!({
            "apiVersion": "ipam.metal3.io/v1alpha1", "kind": "IPPool",
            "metadata": metadata("net"),
            "spec": {
                "namePrefix": "net", "prefix": 24,
                "pools": [{"start": "10.0.0.1", "end": "10.0.0.9"}],
            },
        }))
        .await?;
    let template = json!({"dataTemplate": {"name": "data"}});
    space.template(namespace, "nodes", template).await
}

/// Waits until a machine has a host, creates its node, and waits until the Machine has that.
pub async fn provision(
    space: &Space,
    (namespace, name): (&str, &str),
    (hosts, pool): (&Space, &str),
    workload: &Workload,
) -> anyhow::Result<()> {
    let machine: Metal3Machine = space
        .wait_until(namespace, name, |machine: &Metal3Machine| {
            host_of(machine).is_some()
        })
        .await?;
    let host = host_of(&machine).unwrap();
    let host: BareMetalHost = hosts.api(pool).get(&host).await?;
    let node = format!("{namespace}-{name}");
    let label = json!({"metal3.io/uuid": host.uid()});
    workload.node(&node, label).await?;
    space
        .wait_until(namespace, name, |machine: &Machine| {
            json!(machine.status)["nodeRef"]["name"] == node.as_str()
        })
        .await?;
    Ok(())
}

/// Returns the name of a machine's host.
pub fn host_of(machine: &Metal3Machine) -> Option<String> {
    let annotation = machine.annotations().get("metal3.io/BareMetalHost")?;
    Some(annotation.split_once('/')?.1.to_owned())
}

/// Sets the owners that Cluster API's controllers set, and that the control plane is initialized.
pub async fn adopt(space: &Space, namespace: &str, cluster: &str) -> anyhow::Result<()> {
    let owner = |kind: &str, object: &dyn Fn() -> (String, Option<String>)| {
        let (name, uid) = object();
        json!([{"apiVersion": CAPI, "kind": kind, "name": name, "uid": uid}])
    };
    let found: Cluster = space.api(namespace).get(cluster).await?;
    let by_cluster = owner("Cluster", &|| (found.name_any(), found.uid()));
    let owned = |owners: &Value| json!({"metadata": {"ownerReferences": owners}});
    let machines = space.api::<Machine>(namespace);
    let machines = machines.list(&ListParams::default()).await?.items;
    let is_member = |machine: &&Machine| machine.spec.cluster_name == cluster;
    for machine in machines.iter().filter(is_member) {
        let by_machine = owner("Machine", &|| (machine.name_any(), machine.uid()));
        let bootstrap = format!("{}-bootstrap", machine.name_any());
        let name = machine.name_any();
        space
            .patch::<Machine>(namespace, &name, owned(&by_cluster))
            .await?;
        space
            .patch::<Secret>(namespace, &bootstrap, owned(&by_machine))
            .await?;
    }
    space
        .patch::<Metal3MachineTemplate>(namespace, "nodes", owned(&by_cluster))
        .await?;
    initialize(space, namespace, cluster).await
}

/// Defines MachineHealthChecks at both servers, and creates one of each cluster of `team-a`. They
/// name the same template for remediations.
pub async fn health_checks(scene: &Scene, clusters: &[&str]) -> anyhow::Result<()> {
    for side in [&scene.source, &scene.target] {
        side.plain.install(&[capi::health_checks()]).await?;
    }
    let (source, ours) = (&scene.source, "infrastructure.cluster.x-k8s.io/v1beta2");
    source
        .put(&json!({
            "apiVersion": ours, "kind": "Metal3RemediationTemplate",
            "metadata": {"name": "restart", "namespace": "team-a"},
            "spec": {"template": {"spec": {"strategy": {"type": "Reboot"}}}},
        }))
        .await?;
    for cluster in clusters {
        let owner: Cluster = source.api("team-a").get(cluster).await?;
        let owner = json!([{
            "apiVersion": CAPI, "kind": "Cluster", "name": cluster, "uid": owner.uid(),
        }]);
        source
            .put(&json!({
                "apiVersion": CAPI, "kind": "MachineHealthCheck",
                "metadata": {
                    "name": format!("{cluster}-check"), "namespace": "team-a",
                    "ownerReferences": owner,
                },
                "spec": {"clusterName": cluster, "remediation": {"templateRef": {
                    "apiVersion": ours, "kind": "Metal3RemediationTemplate", "name": "restart",
                }}},
            }))
            .await?;
    }
    Ok(())
}

/// Reports that the control plane of a cluster is initialized.
pub async fn initialize(space: &Space, namespace: &str, cluster: &str) -> anyhow::Result<()> {
    let initialized = json!({"status": {
        "initialization": {"controlPlaneInitialized": true},
        "conditions": [{
            "type": "ControlPlaneInitialized", "status": "True", "reason": "Initialized",
            "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
        }],
    }});
    let clusters = space.api::<Cluster>(namespace);
    let parameters = kube::api::PatchParams::default();
    let patch = kube::api::Patch::Merge(initialized);
    clusters.patch_status(cluster, &parameters, &patch).await?;
    Ok(())
}

/// Returns the names of all objects of a namespace that belong to clusters or hosts, with kinds.
pub async fn inventory(space: &Space, namespace: &str) -> anyhow::Result<Vec<String>> {
    let mut all = Vec::new();
    names::<Cluster>(space, namespace, &mut all).await?;
    names::<Machine>(space, namespace, &mut all).await?;
    names::<Metal3Cluster>(space, namespace, &mut all).await?;
    names::<Metal3Machine>(space, namespace, &mut all).await?;
    names::<Metal3MachineTemplate>(space, namespace, &mut all).await?;
    names::<Metal3DataTemplate>(space, namespace, &mut all).await?;
    names::<Metal3RemediationTemplate>(space, namespace, &mut all).await?;
    names::<Metal3DataClaim>(space, namespace, &mut all).await?;
    names::<Metal3Data>(space, namespace, &mut all).await?;
    names::<IPPool>(space, namespace, &mut all).await?;
    names::<IPClaim>(space, namespace, &mut all).await?;
    names::<IPAddress>(space, namespace, &mut all).await?;
    names::<Secret>(space, namespace, &mut all).await?;
    // Not every management cluster has hosts.
    names::<BareMetalHost>(space, namespace, &mut all)
        .await
        .ok();
    all.sort();
    Ok(all)
}

async fn names<K>(space: &Space, namespace: &str, all: &mut Vec<String>) -> anyhow::Result<()>
where
    K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
{
    let listed = space
        .api::<K>(namespace)
        .list(&ListParams::default())
        .await?;
    let names = listed.items.iter().map(ResourceExt::name_any);
    all.extend(names.map(|name| format!("{} {name}", K::kind(&()))));
    Ok(())
}

/// What a move must not change: the host of each machine, its index and address, the data that it
/// was provisioned with, and its provider ID.
#[derive(Debug, PartialEq, Eq)]
pub struct Identity {
    pub hosts: BTreeMap<String, String>,
    pub provider_ids: BTreeMap<String, String>,
    pub indexes: BTreeMap<String, String>,
    pub addresses: BTreeMap<String, String>,
}

impl Identity {
    pub async fn of(space: &Space, namespace: &str) -> anyhow::Result<Self> {
        let parameters = ListParams::default();
        let machines = space.api::<Metal3Machine>(namespace);
        let machines = machines.list(&parameters).await?.items;
        let of_machines = |value: &dyn Fn(&Metal3Machine) -> Option<String>| {
            let all = machines.iter();
            all.map(|one| (one.name_any(), value(one).unwrap_or_default()))
                .collect()
        };
        let data = space.api::<Metal3Data>(namespace).list(&parameters).await?;
        let data = data.items.into_iter().map(|one| {
            let claim = one.spec.claim.as_ref().map(|claim| claim.name.clone());
            (claim.unwrap_or_default(), one.name_any())
        });
        let addresses = space.api::<IPAddress>(namespace).list(&parameters).await?;
        let addresses = addresses.items.into_iter().map(|one| {
            let claim = one.spec.claim.name.clone();
            (claim.unwrap_or_default(), one.spec.address)
        });
        Ok(Self {
            hosts: of_machines(&host_of),
            provider_ids: of_machines(&|one| one.spec.provider_id.clone()),
            indexes: data.collect(),
            addresses: addresses.collect(),
        })
    }
}

/// Waits until a machine is ready, and returns it.
pub async fn ready(space: &Space, namespace: &str, name: &str) -> anyhow::Result<Metal3Machine> {
    let is_ready = |machine: &Metal3Machine| {
        let status = machine.status.as_ref();
        let initialization = status.and_then(|status| status.initialization.as_ref());
        initialization.is_some_and(|it| it.provisioned == Some(true))
            && crate::world::condition(machine, "Ready").is_some_and(|it| it[0] == "True")
    };
    space.wait_until(namespace, name, is_ready).await
}

/// The lines that a move reported.
#[derive(Default)]
pub struct Lines(Mutex<Vec<String>>);

impl Lines {
    /// Returns the warnings.
    pub fn warnings(&self) -> Vec<String> {
        let all = self.0.lock().unwrap();
        let warnings = all.iter().filter_map(|line| line.strip_prefix("! "));
        warnings.map(str::to_owned).collect()
    }

    fn add(&self, sign: &str, what: &str) {
        self.0.lock().unwrap().push(format!("{sign} {what}"));
    }
}

impl Report for Lines {
    fn begin(&self, what: &str) {
        self.add("-", what);
    }
    fn done(&self, what: &str) {
        self.add("+", what);
    }
    fn warn(&self, what: &str) {
        self.add("!", what);
    }
}

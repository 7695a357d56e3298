//! A machine with a host and a node, and its remediation.

use insula_capi::Machine;
use insula_metal3::kinds::host::BareMetalHost;
use insula_metal3::kinds::remediation::Metal3Remediation;
use insula_metal3::names::REBOOT_PREFIX;
use insula_testkit::bare_metal::FakeBareMetalOperator;
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use crate::scene::{Scene, hosts_in_management, identity};
use crate::world::{Space, eventually};

/// The condition that asks the owner of a Machine to replace it.
const OWNER_REMEDIATED: &str = "OwnerRemediated";

/// Where the hosts are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// In the namespace of the machine.
    InCluster,
    /// At another server, which a kubeconfig reaches.
    Identity,
}

impl Mode {
    pub const ALL: [Self; 2] = [Self::InCluster, Self::Identity];
}

/// Machines of the cluster `c` in the namespace `team-a`.
pub struct Case {
    pub scene: Scene,
    pub mode: Mode,
    local: Option<FakeBareMetalOperator>,
}

impl Case {
    /// Starts servers and operator, with a cluster without machines.
    pub async fn start(mode: Mode) -> anyhow::Result<Self> {
        let scene = Scene::start().await?;
        let local = match mode {
            Mode::InCluster => Some(hosts_in_management(scene.management()).await?),
            Mode::Identity => None,
        };
        let case = Self { scene, mode, local };
        case.cluster("team-a", json!({})).await?;
        Ok(case)
    }

    /// Starts with machine `m0` on host `h0` with node `n0`.
    pub async fn with_machine(mode: Mode) -> anyhow::Result<Self> {
        let case = Self::start(mode).await?;
        case.machine("team-a", "m0", "h0", "n0").await?;
        Ok(case)
    }

    /// Creates the cluster `c` of a namespace; the spec is that of its machines.
    pub async fn cluster(&self, namespace: &str, machine: Value) -> anyhow::Result<()> {
        let spec = match self.mode {
            Mode::InCluster => json!({}),
            Mode::Identity => {
                let world = &self.scene.world;
                world
                    .identity(namespace, "hosts", ("user-a", "pool-a"))
                    .await?;
                identity("hosts")
            }
        };
        self.scene.cluster(namespace, "c", spec, machine).await
    }

    /// Creates a host, a machine on it, and a node of it.
    pub async fn machine(
        &self,
        namespace: &str,
        machine: &str,
        host: &str,
        node: &str,
    ) -> anyhow::Result<()> {
        let (space, pool) = self.hosts_of(namespace);
        space.host(pool, host, json!({"for": machine})).await?;
        let found: BareMetalHost = space.api(pool).get(host).await?;
        let labels = json!({"metal3.io/uuid": found.uid(), "kept": "yes"});
        self.scene.workload.node(node, labels).await?;
        let management = self.scene.management();
        management
            .machine(namespace, "c", machine, "workers")
            .await?;
        self.scene.provisioned(namespace, machine).await?;
        management
            .wait_until(namespace, machine, |machine: &Machine| {
                machine.node_name() == Some(node)
            })
            .await?;
        Ok(())
    }

    /// Returns the space of the hosts, and their namespace.
    pub fn hosts_of<'a>(&'a self, namespace: &'a str) -> (&'a Space, &'a str) {
        match self.mode {
            Mode::InCluster => (self.scene.management(), namespace),
            Mode::Identity => (&self.scene.world.hosts, "pool-a"),
        }
    }

    pub fn bare_metal(&self) -> &FakeBareMetalOperator {
        let remote = &self.scene.world.hosts.bare_metal;
        self.local.as_ref().unwrap_or(remote)
    }

    /// Returns how the Bare Metal Operator names a host.
    pub fn host_key(&self, host: &str) -> String {
        format!("{}/{host}", self.hosts_of("team-a").1)
    }

    pub async fn host(&self, name: &str) -> anyhow::Result<BareMetalHost> {
        let (space, pool) = self.hosts_of("team-a");
        Ok(space.api(pool).get(name).await?)
    }

    pub async fn wait_for_host(
        &self,
        name: &str,
        is_so: impl Fn(&BareMetalHost) -> bool,
    ) -> anyhow::Result<BareMetalHost> {
        let (space, pool) = self.hosts_of("team-a");
        space.wait_until(pool, name, is_so).await
    }

    pub async fn patch_host(&self, name: &str, patch: Value) -> anyhow::Result<()> {
        let (space, pool) = self.hosts_of("team-a");
        let patched: BareMetalHost = space.patch(pool, name, patch).await?;
        drop(patched);
        Ok(())
    }

    /// Creates a remediation of a machine of `team-a`.
    pub async fn remediate(&self, machine: &str) -> anyhow::Result<()> {
        remediate(self.scene.management(), "team-a", machine).await
    }

    /// Waits until the remediation of `m0` is in a phase and satisfies a predicate.
    pub async fn wait_for_phase(
        &self,
        phase: &str,
        is_so: impl Fn(&Metal3Remediation) -> bool,
    ) -> anyhow::Result<Metal3Remediation> {
        let management = self.scene.management();
        management
            .wait_until("team-a", "m0", |one: &Metal3Remediation| {
                phase_of(one) == phase && is_so(one)
            })
            .await
    }

    /// Lets the remediation look at the node again now, instead of after some seconds.
    pub async fn touch(&self) -> anyhow::Result<()> {
        let value = uuid_text();
        let patch = json!({"metadata": {"annotations": {"test/touched": value}}});
        let management = self.scene.management();
        let touched: Metal3Remediation = management.patch("team-a", "m0", patch).await?;
        drop(touched);
        Ok(())
    }

    /// Lets the time of the present phase be over.
    pub async fn expire(&self) -> anyhow::Result<()> {
        expire(self.scene.management(), "team-a", "m0").await
    }

    /// Creates a pod on a node, which keeps the node from being drained.
    pub async fn pod_on(&self, node: &str) -> anyhow::Result<()> {
        let container = json!({"name": "c", "image": "i"});
        let pod = json!({
            "metadata": {"name": "p"}, "spec": {"nodeName": node, "containers": [container]},
        });
        let plain = &self.scene.workload.plain;
        let path = "/api/v1/namespaces/default/pods";
        eventually(async || {
            // The service account of the namespace is created by a controller.
            let made = plain.post(path, &pod).await?;
            anyhow::ensure!(matches!(made.status, 201 | 403), "{}", made.text());
            Ok((made.status == 201).then_some(()))
        })
        .await
    }

    /// Deletes the pod as Kubernetes does for a node that is out of service.
    pub async fn evict(&self) -> anyhow::Result<()> {
        let path = "/api/v1/namespaces/default/pods/p?gracePeriodSeconds=0";
        let gone = self.scene.workload.plain.delete(path).await?;
        anyhow::ensure!(gone.status == 200, "{}", gone.text());
        Ok(())
    }

    /// Returns the keys of a node's taints.
    pub async fn taints(&self, node: &str) -> anyhow::Result<Vec<String>> {
        let node = self.scene.workload.get_node(node).await?;
        let taints = node["spec"]["taints"].as_array().cloned();
        let keys = taints.unwrap_or_default().into_iter();
        let keys = keys.filter_map(|taint| Some(taint["key"].as_str()?.to_owned()));
        // Controllers of the server may add others.
        Ok(keys.filter(|key| key == OUT_OF_SERVICE).collect())
    }

    /// Waits until a node has these out-of-service taints.
    pub async fn wait_for_taints(&self, node: &str, expected: &[&str]) -> anyhow::Result<()> {
        eventually(async || Ok((self.taints(node).await? == expected).then_some(()))).await
    }
}

pub const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// Creates a remediation of a machine, as a MachineHealthCheck does.
pub async fn remediate(space: &Space, namespace: &str, machine: &str) -> anyhow::Result<()> {
    let owner: Machine = space.api(namespace).get(machine).await?;
    let remediation = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "Metal3Remediation",
        "metadata": {
            "name": machine, "namespace": namespace,
            "labels": {"cluster.x-k8s.io/cluster-name": "c"},
            "ownerReferences": [{
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "name": machine,
                "uid": owner.uid(),
            }],
        },
        "spec": {"strategy": {"type": "Reboot", "retryLimit": 1, "timeoutSeconds": 100}},
    });
    space.put(&remediation).await.map(drop)
}

/// Lets the time of a remediation's present phase be over.
pub async fn expire(space: &Space, namespace: &str, name: &str) -> anyhow::Result<()> {
    let api: Api<Metal3Remediation> = space.api(namespace);
    let patch = json!({"status": {"lastRemediated": "2020-01-01T00:00:00Z"}});
    let parameters = PatchParams::default();
    api.patch_status(name, &parameters, &Patch::Merge(patch))
        .await?;
    Ok(())
}

pub fn phase_of(remediation: &Metal3Remediation) -> &str {
    let status = remediation.status.as_ref();
    let phase = status.and_then(|status| status.phase.as_deref());
    phase.unwrap_or_default()
}

pub fn retries(remediation: &Metal3Remediation) -> Option<i32> {
    remediation.status.as_ref()?.retry_count
}

/// Returns whether a remediation keeps a host switched off.
pub fn has_request(host: &BareMetalHost) -> bool {
    let mut names = host.annotations().keys();
    names.any(|name| name.starts_with(REBOOT_PREFIX))
}

pub fn is_on(host: &BareMetalHost) -> bool {
    host.status.as_ref().is_some_and(|status| status.powered_on)
}

/// Returns the reason of the condition of a Machine that asks its owner to replace it, in the form
/// of both contracts.
pub async fn owner_asked(space: &Space, machine: &str) -> anyhow::Result<[Value; 2]> {
    let client = space.client.clone();
    let resource = kube::api::ApiResource::erase::<Machine>(&());
    let machines: Api<kube::api::DynamicObject> = Api::namespaced_with(client, "team-a", &resource);
    let machine = machines.get(machine).await?.data;
    let reason = |conditions: &Value| {
        let mut all = conditions.as_array().into_iter().flatten();
        let found = all.find(|one| one["type"] == OWNER_REMEDIATED && one["status"] == "False");
        found.map_or(Value::Null, |found| found["reason"].clone())
    };
    let status = &machine["status"];
    Ok([
        reason(&status["conditions"]),
        reason(&status["deprecated"]["v1beta1"]["conditions"]),
    ])
}

fn uuid_text() -> String {
    let now = std::time::SystemTime::now();
    let since = now.duration_since(std::time::UNIX_EPOCH);
    since.unwrap_or_default().as_nanos().to_string()
}

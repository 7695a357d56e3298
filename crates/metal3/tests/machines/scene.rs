//! What tests of machines share.

use insula_metal3::kinds::host::BareMetalHost;
use insula_metal3::kinds::machine::Metal3Machine;
use insula_metal3::names::HOST_ANNOTATION;
use insula_metal3::pool::rights::host_access;
use insula_testkit::bare_metal::FakeBareMetalOperator;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::world::{Entry, Management, Running, Space, Workload, World, condition, kubeconfig};

/// The condition about the host of a machine.
pub const HOST: &str = "AssociateBareMetalHost";
/// The condition about the Secrets of a machine.
pub const META_DATA: &str = "AssociateMetal3MachineMetaData";

/// Three servers and a running operator.
pub struct Scene {
    pub world: World,
    pub workload: Workload,
    pub running: Option<Running>,
}

impl Scene {
    pub async fn start() -> anyhow::Result<Self> {
        let mut scene = Self::start_without_operator().await?;
        scene.running = Some(scene.world.start());
        Ok(scene)
    }

    pub async fn start_without_operator() -> anyhow::Result<Self> {
        let world = World::new().await?;
        let workload = Workload::start().await?;
        Ok(Self {
            world,
            workload,
            running: None,
        })
    }

    pub fn management(&self) -> &Management {
        &self.world.management
    }

    /// Creates a cluster with a template `workers`, and the kubeconfig of its workload cluster. The
    /// specs are those of the Metal3Cluster and of the machines.
    pub async fn cluster(
        &self,
        namespace: &str,
        name: &str,
        spec: Value,
        machine: Value,
    ) -> anyhow::Result<()> {
        let management = self.management();
        management.cluster(namespace, name, spec).await?;
        management.workload(namespace, name, &self.workload).await?;
        management.template(namespace, "workers", machine).await
    }

    /// Creates a cluster `c` whose hosts are those of a user in a pool.
    pub async fn cluster_on(
        &self,
        namespace: &str,
        (user, pool): (&str, &str),
    ) -> anyhow::Result<()> {
        self.world
            .identity(namespace, "hosts", (user, pool))
            .await?;
        self.cluster(namespace, "c", identity("hosts"), json!({}))
            .await
    }

    /// Creates machines of the cluster `c`.
    pub async fn machines(&self, namespace: &str, names: &[&str]) -> anyhow::Result<()> {
        for name in names {
            self.management()
                .machine(namespace, "c", name, "workers")
                .await?;
        }
        Ok(())
    }

    /// Waits until a machine is provisioned, and returns it.
    pub async fn provisioned(&self, namespace: &str, name: &str) -> anyhow::Result<Metal3Machine> {
        self.management()
            .wait_until(namespace, name, is_provisioned)
            .await
    }

    /// Waits until the host condition of a machine is false for this reason, and returns the
    /// message.
    pub async fn host_problem(
        &self,
        namespace: &str,
        name: &str,
        reason: &str,
    ) -> anyhow::Result<String> {
        let expected = ("False", reason);
        let machine: Metal3Machine = self
            .management()
            .wait_for_condition(namespace, name, HOST, expected)
            .await?;
        Ok(condition(&machine, HOST).unwrap()[2].to_owned())
    }

    /// Returns the host of a machine, `namespace/name`.
    pub async fn host_of(&self, namespace: &str, name: &str) -> anyhow::Result<String> {
        let machines = self.management().api::<Metal3Machine>(namespace);
        let machine = machines.get(name).await?;
        Ok(annotation(&machine).unwrap_or_default())
    }
}

/// Returns the spec of a cluster or machine with this identity.
pub fn identity(name: &str) -> Value {
    json!({"identityRef": {"name": name}})
}

/// Returns the annotation of a machine that names its host.
pub fn annotation(machine: &Metal3Machine) -> Option<String> {
    machine.annotations().get(HOST_ANNOTATION).cloned()
}

pub fn is_provisioned(machine: &Metal3Machine) -> bool {
    let status = machine.status.as_ref();
    let initialization = status.and_then(|status| status.initialization.as_ref());
    initialization.is_some_and(|it| it.provisioned == Some(true))
}

/// Returns the names of Secrets of a namespace, without those that hosts and accounts have.
pub async fn secrets(space: &Space, namespace: &str) -> anyhow::Result<Vec<String>> {
    let all = space.api::<Secret>(namespace);
    let all = all.list(&ListParams::default()).await?.items;
    let names = all.iter().map(ResourceExt::name_any);
    Ok(names.filter(|name| !name.ends_with("-bmc")).collect())
}

/// Serves hosts on the management cluster too, with a Bare Metal Operator.
pub async fn hosts_in_management(management: &Management) -> anyhow::Result<FakeBareMetalOperator> {
    management.serve_hosts().await
}

/// Returns a kubeconfig for the hosts of a namespace of the management cluster.
pub async fn kubeconfig_of(management: &Management, namespace: &str) -> anyhow::Result<Value> {
    let plain = &management.plain;
    let accounts = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
    let account = json!({"metadata": {"name": "hosts"}});
    plain.post(&accounts, &account).await?;
    let rules = host_access();
    let rules = rules.iter().map(serde_json::to_value);
    let rules = rules.collect::<Result<Vec<_>, _>>()?;
    let subject = format!("ServiceAccount:{namespace}/hosts");
    plain.grant_in(namespace, "hosts", &subject, &rules).await?;
    let issued = plain
        .post(&format!("{accounts}/hosts/token"), &json!({"spec": {}}))
        .await?;
    let issued = issued.json();
    let token = issued["status"]["token"].as_str().unwrap();
    Ok(kubeconfig(
        &management.server,
        &[Entry::new("hosts", token, namespace)],
    ))
}

/// Returns the names of a host's three Secrets with their namespaces.
pub fn host_secrets(host: &BareMetalHost) -> [Option<(String, String)>; 3] {
    let spec = &host.spec;
    [&spec.user_data, &spec.meta_data, &spec.network_data].map(|reference| {
        let reference = reference.clone()?;
        Some((reference.namespace?, reference.name?))
    })
}

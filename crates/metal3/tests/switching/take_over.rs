//! The operator starts where Metal3's own provider has stopped.

use insula_capi::{Cluster as CapiCluster, Machine};
use insula_metal3::ipam::kinds::{IPAddress, IPClaim, IPPool};
use insula_metal3::kinds::cluster::Metal3Cluster;
use insula_metal3::kinds::data::Metal3Data;
use insula_metal3::kinds::data_claim::Metal3DataClaim;
use insula_metal3::kinds::host::BareMetalHost;
use insula_metal3::kinds::machine::Metal3Machine;
use insula_metal3::names::{LEASE, NAMESPACE as OPERATOR_NAMESPACE};
use insula_metal3::operator::Settings;
use insula_operator::provider;
use insula_testkit::bare_metal::{FakeBareMetalOperator, State};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::definitions::{self, Release};
use crate::upstream::{Cluster, IdForm, NAMESPACE};
use crate::world::{Management, Running, Workload, condition, log_to_test, settings};

const FORMER: Cluster = Cluster {
    name: "former",
    machine: "m0",
    host: "h0",
    version: "v1beta1",
    id: IdForm::Uid,
    address: 42,
};
const LATEST: Cluster = Cluster {
    name: "latest",
    machine: "m1",
    host: "h1",
    version: "v1beta2",
    id: IdForm::Names,
    address: 43,
};
const CLUSTERS: [Cluster; 2] = [FORMER, LATEST];
const HOST: &str = "AssociateBareMetalHost";
const PAUSED: &str = "baremetalhost.metal3.io/paused";

/// A management cluster that Metal3's own provider has left.
struct Left {
    management: Management,
    workload: Workload,
    bare_metal: FakeBareMetalOperator,
}

impl Left {
    async fn start() -> anyhow::Result<Self> {
        log_to_test();
        let former = definitions::manifests_with(Release::Former);
        let management = Management::start_with(&former).await?;
        let workload = Workload::start().await?;
        let bare_metal = management.serve_hosts().await?;
        FORMER.leave(&management, &workload).await?;
        let latest = definitions::of(Release::Latest);
        definitions::apply(&management, &latest).await?;
        LATEST.leave(&management, &workload).await?;
        management.host(NAMESPACE, "spare", json!({})).await?;
        management
            .put(&json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": {"name": LEASE, "namespace": OPERATOR_NAMESPACE},
                "spec": {
                    "holderIdentity": "capm3-controller-manager-5d8_c1", "leaseDurationSeconds": 2,
                    "acquireTime": "2026-01-02T03:04:05.000000Z",
                    "renewTime": "2026-01-02T03:04:05.000000Z", "leaseTransitions": 3,
                },
            }))
            .await?;
        Ok(Self {
            management,
            workload,
            bare_metal,
        })
    }

    /// Applies the definitions of this operator, and starts it.
    async fn switch(&self) -> anyhow::Result<Running> {
        definitions::apply(&self.management, &definitions::own()).await?;
        self.remove_owners().await?;
        Ok(self.start_operator())
    }

    /// Removes machines from the owners of hosts, as an administrator has to where only accounts
    /// that can delete an object may change its owners.
    async fn remove_owners(&self) -> anyhow::Result<()> {
        for cluster in &CLUSTERS {
            let none = json!({"metadata": {"ownerReferences": null}});
            self.management
                .patch::<BareMetalHost>(NAMESPACE, cluster.host, none)
                .await?;
        }
        Ok(())
    }

    fn start_operator(&self) -> Running {
        let settings = settings();
        let settings = Settings {
            shell: provider::Settings {
                leader_elect: true,
                tenants: false,
                ..settings.shell
            },
            ..settings
        };
        Running::new(self.management.operator.clone(), settings)
    }

    /// Returns everything of a cluster that must stay the same.
    async fn lasting(&self, cluster: &Cluster) -> anyhow::Result<Value> {
        let space = &self.management;
        let machine: Metal3Machine = space.api(NAMESPACE).get(cluster.machine).await?;
        let host: BareMetalHost = space.api(NAMESPACE).get(cluster.host).await?;
        let data: Metal3Data = space.api(NAMESPACE).get(&cluster.data()).await?;
        let pool: IPPool = space.api(NAMESPACE).get(&cluster.pool()).await?;
        let claim: IPClaim = space.api(NAMESPACE).get(&cluster.claim()).await?;
        let address: IPAddress = space.api(NAMESPACE).get(&cluster.address_name()).await?;
        let mut secrets = Vec::new();
        for name in cluster.secrets() {
            let secret: Secret = space.api(NAMESPACE).get(&name).await?;
            secrets.push(json!([name, secret.metadata.uid, secret.data]));
        }
        let node = self.workload.get_node(cluster.machine).await?;
        let path = self
            .bare_metal
            .path(&format!("{NAMESPACE}/{}", cluster.host));
        Ok(json!({
            "machine": [machine.metadata.uid, machine.annotations(), machine.finalizers()],
            "machineSpec": machine.spec,
            "host": [host.metadata.uid, host.spec, path.iter().map(|it| it.as_str()).collect::<Vec<_>>()],
            "data": [data.metadata.uid, data.spec, data.finalizers()],
            "pool": [pool.metadata.uid, pool.spec, pool.status.map(|status| status.indexes)],
            "claim": [claim.metadata.uid, claim.status, claim.finalizers()],
            "address": [address.metadata.uid, address.spec, address.finalizers()],
            "secrets": secrets,
            "node": [node["metadata"]["uid"], node["spec"]["providerID"]],
        }))
    }

    async fn ready(&self, cluster: &Cluster) -> anyhow::Result<()> {
        let space = &self.management;
        let ready = ("True", "Ready");
        space
            .wait_for_condition::<Metal3Cluster>(NAMESPACE, cluster.name, "Ready", ready)
            .await?;
        space
            .wait_for_condition::<Metal3Machine>(NAMESPACE, cluster.machine, "Ready", ready)
            .await?;
        Ok(())
    }

    async fn host(&self, name: &str) -> anyhow::Result<BareMetalHost> {
        Ok(self.management.api(NAMESPACE).get(name).await?)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn machines_of_the_other_provider_keep_their_hosts_and_data() -> anyhow::Result<()> {
    let left = Left::start().await?;
    let mut before = Vec::new();
    for cluster in &CLUSTERS {
        before.push(left.lasting(cluster).await?);
    }
    let spare = left.host("spare").await?;
    let _running = left.switch().await?;
    for (cluster, before) in CLUSTERS.iter().zip(before) {
        left.ready(cluster).await?;
        assert_eq!(left.lasting(cluster).await?, before, "{}", cluster.name);
        let host = left.host(cluster.host).await?;
        assert_eq!(host.owner_references(), [], "{}", cluster.name);
    }
    let unused = left.host("spare").await?;
    assert_eq!(unused.resource_version(), spare.resource_version());
    assert_eq!(
        definitions::stored_versions(&left.management, "metal3machines").await?,
        json!(["v1beta1", "v1beta2"])
    );
    let lease: Lease = left.management.api(OPERATOR_NAMESPACE).get(LEASE).await?;
    let lease = lease.spec.unwrap();
    let holder = lease.holder_identity.unwrap();
    assert!(
        !holder.starts_with("capm3-controller-manager-5d8"),
        "{holder}"
    );
    assert_eq!(lease.lease_transitions, Some(4));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn machines_of_the_other_provider_are_deleted_with_all_that_they_have() -> anyhow::Result<()>
{
    let left = Left::start().await?;
    let space = &left.management;
    let _running = left.switch().await?;
    for cluster in &CLUSTERS {
        left.ready(cluster).await?;
        let host = left.host(cluster.host).await?;
        space.delete::<Machine>(NAMESPACE, cluster.machine).await?;
        space
            .wait_until_gone::<Metal3Machine>(NAMESPACE, cluster.machine)
            .await?;
        space
            .wait_until_gone::<Metal3DataClaim>(NAMESPACE, cluster.machine)
            .await?;
        space
            .wait_until_gone::<Metal3Data>(NAMESPACE, &cluster.data())
            .await?;
        space
            .wait_until_gone::<IPClaim>(NAMESPACE, &cluster.claim())
            .await?;
        space
            .wait_until_gone::<IPAddress>(NAMESPACE, &cluster.address_name())
            .await?;
        let [metadata, network, _] = cluster.secrets();
        // The garbage collector has looked at what the machine owned when these are gone.
        space
            .wait_until_gone::<Secret>(NAMESPACE, &metadata)
            .await?;
        space.wait_until_gone::<Secret>(NAMESPACE, &network).await?;
        let released = space
            .wait_for_host(NAMESPACE, cluster.host, "available")
            .await?;
        assert_eq!(released.metadata.uid, host.metadata.uid);
        assert_eq!(released.metadata.deletion_timestamp, None);
        assert_eq!(released.spec.consumer_ref, None);
        assert!(
            !released
                .labels()
                .contains_key("cluster.x-k8s.io/cluster-name")
        );
        let path = left
            .bare_metal
            .path(&format!("{NAMESPACE}/{}", cluster.host));
        let provisioned = path.iter().filter(|state| **state == State::Provisioned);
        assert_eq!(provisioned.count(), 1, "{path:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn host_that_its_machine_owns_is_not_deleted_with_it() -> anyhow::Result<()> {
    let left = Left::start().await?;
    let space = &left.management;
    definitions::apply(space, &definitions::own()).await?;
    let _running = left.start_operator();
    left.ready(&LATEST).await?;
    let machine: Metal3Machine = space.api(NAMESPACE).get(LATEST.machine).await?;
    let message = "BareMetalHost team-a/h1 would be deleted with the machine, which is in its \
                   metadata.ownerReferences: remove it there";
    assert_eq!(condition(&machine, HOST).unwrap()[2], message);
    space.delete::<Machine>(NAMESPACE, LATEST.machine).await?;
    let reason = ("False", "BareMetalHostOwnedByMachine");
    let machine: Metal3Machine = space
        .wait_for_condition(NAMESPACE, LATEST.machine, HOST, reason)
        .await?;
    assert_eq!(condition(&machine, HOST).unwrap()[2], message);
    let host = left.host(LATEST.host).await?;
    assert!(host.spec.image.is_some(), "{host:#?}");
    left.remove_owners().await?;
    space
        .wait_until_gone::<Metal3Machine>(NAMESPACE, LATEST.machine)
        .await?;
    let released = space
        .wait_for_host(NAMESPACE, LATEST.host, "available")
        .await?;
    assert_eq!(released.uid(), host.uid());
    assert_eq!(released.metadata.deletion_timestamp, None);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn pause_of_the_other_provider_is_kept_until_its_cluster_continues() -> anyhow::Result<()> {
    let left = Left::start().await?;
    let space = &left.management;
    let pause = |paused: bool| json!({"spec": {"paused": paused}});
    let name = LATEST.name;
    space
        .patch::<CapiCluster>(NAMESPACE, name, pause(true))
        .await?;
    let host = left.host(LATEST.host).await?;
    let mut status = json!(host.status);
    status.as_object_mut().unwrap().remove("hardware");
    let annotations = json!({"metadata": {"annotations": {
        PAUSED: "metal3.io/capm3", "baremetalhost.metal3.io/status": status.to_string(),
        "clusterctl.cluster.x-k8s.io/block-move": null,
    }}});
    space
        .patch::<BareMetalHost>(NAMESPACE, LATEST.host, annotations)
        .await?;
    let before = left.lasting(&LATEST).await?;
    let _running = left.switch().await?;
    space
        .wait_for_condition::<Metal3Machine>(
            NAMESPACE,
            LATEST.machine,
            "Paused",
            ("True", "Paused"),
        )
        .await?;
    let paused = left.host(LATEST.host).await?;
    assert_eq!(paused.annotations()[PAUSED], "metal3.io/capm3");
    space
        .patch::<CapiCluster>(NAMESPACE, name, pause(false))
        .await?;
    left.ready(&LATEST).await?;
    let resumed = left.host(LATEST.host).await?;
    assert!(!resumed.annotations().contains_key(PAUSED));
    assert_eq!(left.lasting(&LATEST).await?, before);
    Ok(())
}

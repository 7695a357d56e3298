//! One space, and helpers that create objects in it.

use std::fmt::Debug;

use anyhow::Context as _;
use insula_capi as capi;
use insula_vsphere::kinds::{
    VSphereCluster, VSphereClusterIdentity, VSphereDeploymentZone, VSphereFailureDomain,
};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::eventually;

/// The namespace with the Secrets of identities.
pub const HOME: &str = "capv-system";
const GROUP: &str = "infrastructure.cluster.x-k8s.io/v1beta2";

/// One space, with the rights of its administrator.
#[derive(Clone)]
pub struct Space {
    pub client: Client,
}

impl Space {
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// Returns a client for a cluster-scoped kind.
    pub fn all<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = ()>,
    {
        Api::all(self.client.clone())
    }

    /// Returns a client for a namespaced kind.
    pub fn inside<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), namespace)
    }

    pub async fn namespace(&self, name: &str, labels: Value) -> anyhow::Result<Namespace> {
        let object = json!({"metadata": {"name": name, "labels": labels}});
        create(&self.all(), object).await
    }

    /// Creates a Secret with these texts.
    pub async fn secret(
        &self,
        namespace: &str,
        name: &str,
        texts: &[(&str, &str)],
    ) -> anyhow::Result<Secret> {
        let texts: serde_json::Map<_, _> = texts
            .iter()
            .map(|(key, text)| ((*key).to_owned(), json!(text)))
            .collect();
        let object = json!({"metadata": {"name": name}, "stringData": texts});
        create(&self.inside(namespace), object).await
    }

    /// Creates a Secret with an account.
    pub async fn account(
        &self,
        namespace: &str,
        name: &str,
        (account, password): (&str, &str),
    ) -> anyhow::Result<Secret> {
        let texts = [("username", account), ("password", password)];
        self.secret(namespace, name, &texts).await
    }

    /// Changes the password in a Secret.
    pub async fn rotate(&self, namespace: &str, name: &str, password: &str) -> anyhow::Result<()> {
        let patch = json!({"stringData": {"password": password}});
        patched(&self.inside::<Secret>(namespace), name, patch).await
    }

    pub async fn identity(
        &self,
        name: &str,
        spec: Value,
    ) -> anyhow::Result<VSphereClusterIdentity> {
        create(&self.all(), of("VSphereClusterIdentity", name, spec)).await
    }

    /// Creates an identity with a Secret of its name, for all namespaces, at these servers.
    pub async fn shared(
        &self,
        name: &str,
        account: (&str, &str),
        servers: Value,
    ) -> anyhow::Result<VSphereClusterIdentity> {
        self.account(HOME, name, account).await?;
        let spec = json!({
            "secretName": name, "allowedNamespaces": {}, "allowedServers": servers,
        });
        self.identity(name, spec).await
    }

    /// Creates a cluster without an owner.
    pub async fn cluster(
        &self,
        namespace: &str,
        name: &str,
        spec: Value,
    ) -> anyhow::Result<VSphereCluster> {
        create(&self.inside(namespace), of("VSphereCluster", name, spec)).await
    }

    /// Creates a cluster that a Cluster of its name owns.
    pub async fn owned(
        &self,
        namespace: &str,
        name: &str,
        spec: Value,
    ) -> anyhow::Result<VSphereCluster> {
        let reference = json!({
            "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "VSphereCluster", "name": name,
        });
        let object = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"name": name}, "spec": {"infrastructureRef": reference},
        });
        let owner: capi::Cluster = create(&self.inside(namespace), object).await?;
        let mut object = of("VSphereCluster", name, spec);
        object["metadata"]["labels"] = json!({"cluster.x-k8s.io/cluster-name": name});
        object["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "name": name, "uid": owner.uid(),
        }]);
        create(&self.inside(namespace), object).await
    }

    pub async fn zone(&self, name: &str, spec: Value) -> anyhow::Result<VSphereDeploymentZone> {
        create(&self.all(), of("VSphereDeploymentZone", name, spec)).await
    }

    pub async fn domain(
        &self,
        name: &str,
        topology: Value,
    ) -> anyhow::Result<VSphereFailureDomain> {
        let part = |kind: &str| json!({"name": kind, "type": "Datacenter", "tagCategory": kind});
        let spec = json!({
            "region": part("region"), "zone": part("zone"), "topology": topology,
        });
        create(&self.all(), of("VSphereFailureDomain", name, spec)).await
    }

    /// Patches a cluster.
    pub async fn change(&self, namespace: &str, name: &str, patch: Value) -> anyhow::Result<()> {
        patched(&self.inside::<VSphereCluster>(namespace), name, patch).await
    }

    /// Patches an identity.
    pub async fn change_identity(&self, name: &str, patch: Value) -> anyhow::Result<()> {
        patched(&self.all::<VSphereClusterIdentity>(), name, patch).await
    }

    /// Waits until the vCenter condition of a cluster has this reason.
    pub async fn wait_for_reason(
        &self,
        namespace: &str,
        name: &str,
        reason: &str,
    ) -> anyhow::Result<VSphereCluster> {
        self.wait_for_cluster(namespace, name, |cluster| {
            let told = condition(conditions(cluster), "VCenterAvailable");
            let as_seen = cluster.metadata.generation;
            told.is_some_and(|told| told.reason == reason && told.observed_generation == as_seen)
        })
        .await
        .with_context(|| format!("{namespace}/{name} is not {reason}"))
    }

    /// Waits until a predicate holds for a cluster.
    pub async fn wait_for_cluster(
        &self,
        namespace: &str,
        name: &str,
        is_so: impl Fn(&VSphereCluster) -> bool,
    ) -> anyhow::Result<VSphereCluster> {
        until(&self.inside(namespace), name, is_so).await
    }

    /// Waits until the condition of an identity has this reason.
    pub async fn wait_for_identity_reason(
        &self,
        name: &str,
        reason: &str,
    ) -> anyhow::Result<VSphereClusterIdentity> {
        until(&self.all(), name, |identity: &VSphereClusterIdentity| {
            let status = identity.status.as_ref();
            let told = status.and_then(|status| condition(&status.conditions, "Available"));
            let as_seen = identity.metadata.generation;
            told.is_some_and(|told| told.reason == reason && told.observed_generation == as_seen)
        })
        .await
        .with_context(|| format!("identity {name} is not {reason}"))
    }

    /// Waits for an event about an object with this reason.
    pub async fn event(&self, namespace: &str, name: &str, reason: &str) -> anyhow::Result<Event> {
        let events: Api<Event> = self.inside(namespace);
        let found = eventually(async || {
            let listed = events.list(&Default::default()).await?;
            Ok(listed.items.into_iter().find(|event| {
                let regarding = event.regarding.as_ref();
                let named = regarding.and_then(|regarding| regarding.name.as_deref());
                named == Some(name) && event.reason.as_deref() == Some(reason)
            }))
        });
        found
            .await
            .with_context(|| format!("no event {reason} about {name}"))
    }
}

/// Returns the conditions of a cluster.
pub fn conditions(cluster: &VSphereCluster) -> &[Condition] {
    cluster
        .status
        .as_ref()
        .map_or(&[], |status| &status.conditions)
}

/// Returns the condition of that type.
pub fn condition<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|told| told.type_ == kind)
}

/// Waits until a predicate holds for an object.
pub async fn until<K>(api: &Api<K>, name: &str, is_so: impl Fn(&K) -> bool) -> anyhow::Result<K>
where
    K: Clone + Debug + DeserializeOwned,
{
    let mut last = None;
    let found = eventually(async || {
        let object = api.get_opt(name).await?;
        last.clone_from(&object);
        Ok(object.filter(&is_so))
    })
    .await;
    found.with_context(|| format!("it is {last:#?}"))
}

/// Waits until an object is gone.
pub async fn gone<K>(api: &Api<K>, name: &str) -> anyhow::Result<()>
where
    K: Clone + Debug + DeserializeOwned,
{
    let mut last = None;
    let found = eventually(async || {
        last = api.get_opt(name).await?;
        Ok(last.is_none().then_some(()))
    })
    .await;
    found.with_context(|| format!("{name} is not gone: {last:#?}"))
}

/// Deletes an object.
pub async fn delete<K>(api: &Api<K>, name: &str) -> anyhow::Result<()>
where
    K: Clone + Debug + DeserializeOwned,
{
    api.delete(name, &DeleteParams::default()).await?;
    Ok(())
}

/// Patches an object.
pub async fn patched<K>(api: &Api<K>, name: &str, patch: Value) -> anyhow::Result<()>
where
    K: Clone + Debug + DeserializeOwned,
{
    let parameters = PatchParams::default();
    let done = api.patch(name, &parameters, &Patch::Merge(patch)).await;
    done.with_context(|| format!("change {name}"))?;
    Ok(())
}

/// Creates an object.
pub async fn create<K>(api: &Api<K>, object: Value) -> anyhow::Result<K>
where
    K: Resource + Clone + Debug + Serialize + DeserializeOwned,
{
    let told = object.to_string();
    let object: K = serde_json::from_value(object).context("is no such object")?;
    let made = api.create(&PostParams::default(), &object).await;
    made.with_context(|| told)
}

fn of(kind: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": GROUP, "kind": kind, "metadata": {"name": name}, "spec": spec})
}

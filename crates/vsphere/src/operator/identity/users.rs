//! Who uses an identity, read anew.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DynamicObject, ListParams, PartialObjectMeta};
use kube::{Api, Client, ResourceExt};
use serde_json::Value;

use crate::kinds::{
    VSphereCluster, VSphereClusterIdentity, VSphereDeploymentZone, VSphereMachine, VSphereVM,
};
use crate::names::CLUSTER_LABEL;
use crate::operator::cluster::owner_of;
use crate::operator::context::{Context, Dependency};
use crate::operator::key::Key;
use crate::operator::read::{all_of, metadata_of};

/// The zones of its space that name an identity, and the clusters that do and may, or have
/// machines that were made with it, in order. Who only names it does not keep it.
pub(super) async fn of(
    context: &Context,
    key: &Key,
    identity: &VSphereClusterIdentity,
    depends: &mut BTreeSet<Dependency>,
) -> Result<Vec<String>, kube::Error> {
    let client = context.client(key.space.as_deref());
    let zones = all_of::<VSphereDeploymentZone>(&client).await?;
    let zones = zones.iter().filter(|zone| is_named(zone, &key.name));
    let mut users: Vec<_> = zones
        .map(|zone| format!("VSphereDeploymentZone {}", zone.name_any()))
        .collect();
    let clusters = all_of::<VSphereCluster>(&client).await?;
    let mut allowed = Allowed {
        context,
        key,
        client,
        identity,
        known: BTreeMap::new(),
    };
    for cluster in clusters
        .iter()
        .filter(|cluster| is_named(cluster, &key.name))
    {
        let namespace = cluster.namespace().unwrap_or_default();
        if allowed.is(&namespace, depends).await?
            || allowed.has_machines(&namespace, cluster, depends).await?
        {
            users.push(format!("VSphereCluster {namespace}/{}", cluster.name_any()));
        }
    }
    users.sort();
    Ok(users)
}

/// Which namespaces may use an identity now.
struct Allowed<'a> {
    context: &'a Context,
    key: &'a Key,
    client: Client,
    identity: &'a VSphereClusterIdentity,
    known: BTreeMap<String, bool>,
}

impl Allowed<'_> {
    async fn is(
        &mut self,
        namespace: &str,
        depends: &mut BTreeSet<Dependency>,
    ) -> Result<bool, kube::Error> {
        let Some(allowed) = &self.identity.spec.allowed_namespaces else {
            return Ok(false);
        };
        if allowed.check().is_ok() && allowed.allows_all() {
            return Ok(true);
        }
        if let Some(known) = self.known.get(namespace) {
            return Ok(*known);
        }
        let on = Dependency::Namespace {
            space: self.key.space.clone(),
            name: namespace.to_owned(),
        };
        self.context.note(self.key, depends, on);
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let found = metadata_of(&namespaces, namespace).await?;
        let labels = found.as_ref().map(ResourceExt::labels);
        let is = labels.is_some_and(|labels| matches!(allowed.allows(labels), Ok(true)));
        self.known.insert(namespace.to_owned(), is);
        Ok(is)
    }

    /// Whether a cluster has machines, which cannot be cleaned up without it.
    async fn has_machines(
        &self,
        namespace: &str,
        cluster: &DynamicObject,
        depends: &mut BTreeSet<Dependency>,
    ) -> Result<bool, kube::Error> {
        let label = cluster.labels().get(CLUSTER_LABEL).map(String::as_str);
        let own = cluster.name_any();
        let name = owner_of(cluster).or(label).unwrap_or(&own);
        let on = Dependency::Members {
            space: self.key.space.clone(),
            namespace: namespace.to_owned(),
            cluster: name.to_owned(),
        };
        self.context.note(self.key, depends, on);
        let one = ListParams::default()
            .labels(&format!("{CLUSTER_LABEL}={name}"))
            .limit(1);
        let machines: Api<PartialObjectMeta<VSphereMachine>> =
            Api::namespaced(self.client.clone(), namespace);
        if !machines.list(&one).await?.items.is_empty() {
            return Ok(true);
        }
        let vms: Api<PartialObjectMeta<VSphereVM>> =
            Api::namespaced(self.client.clone(), namespace);
        Ok(!vms.list(&one).await?.items.is_empty())
    }
}

/// Whether an object names an identity, whatever else it says.
fn is_named(object: &DynamicObject, name: &str) -> bool {
    let reference = &object.data["spec"]["identityRef"];
    let text = |key: &str| reference.get(key).and_then(Value::as_str);
    text("kind") == Some("VSphereClusterIdentity") && text("name") == Some(name)
}

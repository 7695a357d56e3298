//! The users of an identity, read from the API server.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::kinds::{
    VSphereCluster, VSphereClusterIdentity, VSphereDeploymentZone, VSphereMachine, VSphereVM,
};
use crate::names::CLUSTER_LABEL;
use crate::operator::cluster::owner_of;
use crate::operator::context::{Context, Dependency};
use crate::operator::key::Key;
use crate::operator::read::{get_named_metadata, list_each};

/// Returns, sorted, the zones that reference an identity and the clusters that reference it and
/// may use it or have machines. A cluster that only references it does not keep it.
pub(super) async fn of(
    context: &Context,
    key: &Key,
    identity: &VSphereClusterIdentity,
    depends: &mut BTreeSet<Dependency>,
) -> Result<Vec<String>, kube::Error> {
    let client = context.client(key.space.as_deref());
    let mut users = list_each::<VSphereDeploymentZone, _>(&client, |zone| {
        let names = references_identity(&zone, &key.name);
        names.then(|| format!("VSphereDeploymentZone {}", zone.name_any()))
    })
    .await?;
    let clusters = list_each::<VSphereCluster, _>(&client, |cluster| {
        references_identity(&cluster, &key.name).then(|| Referrer::of(&cluster))
    })
    .await?;
    let mut lookup = UserLookup {
        context,
        key,
        client,
        identity,
        allowed_by_namespace: BTreeMap::new(),
        cluster_labels: BTreeMap::new(),
    };
    for cluster in clusters {
        if lookup.is_allowed(&cluster.namespace, depends).await?
            || lookup.has_machines(&cluster, depends).await?
        {
            users.push(format!(
                "VSphereCluster {}/{}",
                cluster.namespace, cluster.name
            ));
        }
    }
    users.sort();
    Ok(users)
}

/// A cluster that references an identity.
struct Referrer {
    namespace: String,
    name: String,
    /// The value of the cluster label of its machines.
    cluster: String,
}

impl Referrer {
    fn of(cluster: &DynamicObject) -> Self {
        let name = cluster.name_any();
        let label = cluster.labels().get(CLUSTER_LABEL).map(String::as_str);
        Self {
            namespace: cluster.namespace().unwrap_or_default(),
            cluster: owner_of(cluster).or(label).unwrap_or(&name).to_owned(),
            name,
        }
    }
}

/// Caches which namespaces may use an identity, and which clusters have machines.
struct UserLookup<'a> {
    context: &'a Context,
    key: &'a Key,
    client: Client,
    identity: &'a VSphereClusterIdentity,
    allowed_by_namespace: BTreeMap<String, bool>,
    /// The values of the cluster label of machines, by namespace.
    cluster_labels: BTreeMap<String, BTreeSet<String>>,
}

impl UserLookup<'_> {
    async fn is_allowed(
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
        if let Some(allowed_by_namespace) = self.allowed_by_namespace.get(namespace) {
            return Ok(*allowed_by_namespace);
        }
        let on = Dependency::Namespace {
            space: self.key.space.clone(),
            name: namespace.to_owned(),
        };
        self.context.depend_on(self.key, depends, on);
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let found = get_named_metadata(&namespaces, namespace).await?;
        let labels = found.as_ref().map(ResourceExt::labels);
        let is = labels.is_some_and(|labels| matches!(allowed.allows(labels), Ok(true)));
        self.allowed_by_namespace.insert(namespace.to_owned(), is);
        Ok(is)
    }

    /// Returns whether a cluster has machines, which cannot be cleaned up without the identity.
    /// Each namespace is listed once, however many clusters it has.
    async fn has_machines(
        &mut self,
        referrer: &Referrer,
        depends: &mut BTreeSet<Dependency>,
    ) -> Result<bool, kube::Error> {
        let on = Dependency::Members {
            space: self.key.space.clone(),
            namespace: referrer.namespace.clone(),
            cluster: referrer.cluster.clone(),
        };
        self.context.depend_on(self.key, depends, on);
        if !self.cluster_labels.contains_key(&referrer.namespace) {
            let mut labels = self.labels::<VSphereMachine>(&referrer.namespace).await?;
            labels.append(&mut self.labels::<VSphereVM>(&referrer.namespace).await?);
            self.cluster_labels
                .insert(referrer.namespace.clone(), labels);
        }
        let labels = self.cluster_labels.get(&referrer.namespace);
        Ok(labels.is_some_and(|labels| labels.contains(&referrer.cluster)))
    }

    /// Returns the values of the cluster label in a namespace.
    async fn labels<K>(&self, namespace: &str) -> Result<BTreeSet<String>, kube::Error>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
        K: Clone + Debug + DeserializeOwned,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), namespace);
        let labelled = ListParams::default().labels(CLUSTER_LABEL);
        let listed = api.list_metadata(&labelled).await?;
        let labels = listed.items.iter().map(|one| one.labels());
        let labels = labels.filter_map(|labels| labels.get(CLUSTER_LABEL).cloned());
        Ok(labels.collect())
    }
}

/// Returns whether an object references an identity; other fields may be invalid.
fn references_identity(object: &DynamicObject, name: &str) -> bool {
    let reference = &object.data["spec"]["identityRef"];
    let text = |key: &str| reference.get(key).and_then(Value::as_str);
    text("kind") == Some("VSphereClusterIdentity") && text("name") == Some(name)
}

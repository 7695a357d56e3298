//! The kinds that are moved, as defined by an API server.

use insula_capi::relocation::MoveRules;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, ListParams};
use kube::{Api, Client, ResourceExt};

use crate::error::Error;
use crate::names::{ADDONS, CAPI, INSTALLED, INVENTORY, MOVE, MOVE_HIERARCHY, PROVIDER};

/// A kind of object.
#[derive(Clone, Debug)]
pub struct Kind {
    /// Its resource, in the version that is stored.
    pub resource: ApiResource,
    /// Whether its objects are namespaced.
    pub namespaced: bool,
    /// Whether its objects are moved on their own account, without an owner that is moved.
    pub root: bool,
    /// Whether its objects are copied after the clusters: the rules of a provider name the kind.
    pub follows_clusters: bool,
    /// All served versions.
    pub served: Vec<String>,
}

impl Kind {
    /// The kind of Secrets.
    pub fn secrets() -> Self {
        Self::built_in(ApiResource::erase::<Secret>(&()))
    }

    /// The kind of ConfigMaps.
    pub fn config_maps() -> Self {
        Self::built_in(ApiResource::erase::<ConfigMap>(&()))
    }

    fn built_in(resource: ApiResource) -> Self {
        Self {
            served: vec![resource.version.clone()],
            resource,
            namespaced: true,
            root: false,
            follows_clusters: false,
        }
    }

    /// Returns the kind that a definition defines, if it belongs to Cluster API or a provider.
    fn of(definition: &CustomResourceDefinition, providers: &[&dyn MoveRules]) -> Option<Self> {
        let spec = &definition.spec;
        let labels = definition.labels();
        let group = spec.group.as_str();
        let named = (group, spec.names.kind.as_str());
        let follows_clusters = spec.scope == "Namespaced"
            && providers.iter().any(|rules| rules.kinds().contains(&named));
        let provider =
            follows_clusters || labels.contains_key(INSTALLED) || labels.contains_key(PROVIDER);
        let of_cluster_api = group == CAPI || group.ends_with(".cluster.x-k8s.io");
        if group == INVENTORY || !(provider || of_cluster_api) {
            return None;
        }
        let stored = spec.versions.iter().find(|version| version.storage)?;
        let served = spec.versions.iter().filter(|version| version.served);
        let resource = ApiResource {
            group: group.to_owned(),
            version: stored.name.clone(),
            api_version: format!("{group}/{}", stored.name),
            kind: spec.names.kind.clone(),
            plural: spec.names.plural.clone(),
        };
        let labelled = labels.contains_key(MOVE) || labels.contains_key(MOVE_HIERARCHY);
        Some(Self {
            namespaced: spec.scope == "Namespaced",
            root: labelled || follows_clusters || starts_hierarchy(group, &resource.kind),
            follows_clusters,
            served: served.map(|version| version.name.clone()).collect(),
            resource,
        })
    }
}

/// Returns whether a kind is moved without a label on its definition.
fn starts_hierarchy(group: &str, kind: &str) -> bool {
    matches!(
        (group, kind),
        (CAPI, "Cluster" | "ClusterClass") | (ADDONS, "ClusterResourceSet")
    )
}

/// Lists all kinds of Cluster API and its providers.
pub async fn discover(
    client: &Client,
    role: &str,
    providers: &[&dyn MoveRules],
) -> Result<Vec<Kind>, Error> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let attempted = format!("list the definitions of kinds at the {role}");
    let found = definitions.list(&ListParams::default()).await;
    let found = found.map_err(Error::failed_to(attempted))?;
    let found = found.items.iter();
    Ok(found.filter_map(|one| Kind::of(one, providers)).collect())
}

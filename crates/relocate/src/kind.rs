//! The kinds that are moved, as an API server defines them.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, ListParams};
use kube::{Api, Client, ResourceExt};

use crate::error::Error;
use crate::names::{ADDONS, CAPI, INSTALLED, INVENTORY, MOVE, MOVE_HIERARCHY, PROVIDER};

/// A kind.
#[derive(Clone, Debug)]
pub struct Kind {
    /// What it is called, in the version that is stored.
    pub resource: ApiResource,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
    /// Whether its objects are moved by themselves.
    pub root: bool,
    /// Every version that is served.
    pub served: Vec<String>,
}

impl Kind {
    /// Secrets.
    pub fn secrets() -> Self {
        Self::built_in(ApiResource::erase::<Secret>(&()))
    }

    /// Config maps.
    pub fn config_maps() -> Self {
        Self::built_in(ApiResource::erase::<ConfigMap>(&()))
    }

    fn built_in(resource: ApiResource) -> Self {
        Self {
            served: vec![resource.version.clone()],
            resource,
            namespaced: true,
            root: false,
        }
    }

    /// What a definition defines, if it is Cluster API's or a provider's.
    fn of(definition: &CustomResourceDefinition) -> Option<Self> {
        let spec = &definition.spec;
        let labels = definition.labels();
        let provider = labels.contains_key(INSTALLED) || labels.contains_key(PROVIDER);
        let group = spec.group.as_str();
        let family = group == CAPI || group.ends_with(".cluster.x-k8s.io");
        if group == INVENTORY || !(provider || family) {
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
            root: labelled || starts_hierarchy(group, &resource.kind),
            served: served.map(|version| version.name.clone()).collect(),
            resource,
        })
    }
}

/// The kinds that are moved, whether they are labelled or not.
fn starts_hierarchy(group: &str, kind: &str) -> bool {
    matches!(
        (group, kind),
        (CAPI, "Cluster" | "ClusterClass") | (ADDONS, "ClusterResourceSet")
    )
}

/// All kinds of Cluster API and its providers that there are.
pub async fn discover(client: &Client, place: &str) -> Result<Vec<Kind>, Error> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let attempted = format!("list the definitions of kinds at the {place}");
    let found = definitions.list(&ListParams::default()).await;
    let found = found.map_err(Error::when(attempted))?;
    Ok(found.items.iter().filter_map(Kind::of).collect())
}

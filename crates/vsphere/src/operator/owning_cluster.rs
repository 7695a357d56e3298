//! The Cluster and VSphereCluster that an object belongs to. An object without a cluster gets no
//! credential, not even the operator's.

use std::collections::BTreeSet;

use kube::Api;

use super::context::{Context, Dependency};
use super::key::Key;
use super::read;
use crate::capi::{Cluster, ContractReference};
use crate::kinds::VSphereCluster;
use crate::names::{CLUSTER_LABEL, GROUP};

/// The clusters that an object belongs to.
pub(super) struct OwningCluster {
    /// The Cluster.
    pub cluster: Option<Cluster>,
    /// The VSphereCluster, or why there is none.
    pub infrastructure: Result<VSphereCluster, NoCluster>,
}

/// Why an object belongs to no cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NoCluster {
    pub reason: &'static str,
    pub message: String,
}

impl NoCluster {
    fn not_found(message: String) -> Self {
        let reason = "ClusterNotFound";
        Self { reason, message }
    }

    fn no_infrastructure(message: String) -> Self {
        let reason = "VSphereClusterNotFound";
        Self { reason, message }
    }
}

/// Reads the clusters of an object from the name of its Cluster.
pub(super) async fn of(
    context: &Context,
    key: &Key,
    named: Option<&str>,
    depends: &mut BTreeSet<Dependency>,
) -> Result<OwningCluster, kube::Error> {
    let alone = |no_cluster| OwningCluster {
        cluster: None,
        infrastructure: Err(no_cluster),
    };
    let (Some(name), Some(namespace)) = (named, key.namespace.as_deref()) else {
        return Ok(alone(NoCluster::not_found(format!(
            "it has no label {CLUSTER_LABEL}, so it belongs to no cluster"
        ))));
    };
    let owner = Dependency::Owner {
        space: key.space.clone(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    };
    context.depend_on(key, depends, owner);
    let client = context.client(key.space.as_deref());
    let clusters: Api<Cluster> = Api::namespaced(client.clone(), namespace);
    let Some(cluster) = read::get_named(&clusters, name).await? else {
        return Ok(alone(NoCluster::not_found(format!(
            "there is no Cluster {name:?}"
        ))));
    };
    let infrastructure = match reference(&cluster) {
        Err(no_cluster) => Err(no_cluster),
        Ok(reference) => {
            let ours: Api<VSphereCluster> = Api::namespaced(client, namespace);
            let on = Dependency::VSphereCluster {
                space: key.space.clone(),
                namespace: namespace.to_owned(),
                name: reference.name.clone(),
            };
            context.depend_on(key, depends, on);
            let missing = || {
                let name = &reference.name;
                NoCluster::no_infrastructure(format!("there is no VSphereCluster {name:?}"))
            };
            read::get_named(&ours, &reference.name)
                .await?
                .ok_or_else(missing)
        }
    };
    Ok(OwningCluster {
        cluster: Some(cluster),
        infrastructure,
    })
}

/// Returns the reference of a Cluster to its VSphereCluster. A Cluster of another provider may
/// have the name of an unrelated VSphereCluster, so the reference decides and not the name.
pub(crate) fn reference(cluster: &Cluster) -> Result<&ContractReference, NoCluster> {
    let name = cluster.metadata.name.as_deref().unwrap_or_default();
    let Some(reference) = &cluster.spec.infrastructure_ref else {
        return Err(NoCluster::no_infrastructure(format!(
            "Cluster {name:?} has no infrastructureRef yet"
        )));
    };
    if reference.api_group != GROUP || reference.kind != "VSphereCluster" {
        let (group, kind) = (&reference.api_group, &reference.kind);
        return Err(NoCluster::no_infrastructure(format!(
            "Cluster {name:?} references a {kind} of {group}, not a VSphereCluster of {GROUP}"
        )));
    }
    Ok(reference)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capi::ClusterSpec;

    #[test]
    fn fr5_cluster_is_found_by_its_reference_and_not_by_name() {
        let on = |group: &str, kind: &str| {
            Some(ContractReference {
                api_group: group.to_owned(),
                kind: kind.to_owned(),
                name: "prod".to_owned(),
            })
        };
        for (reference_given, expected) in [
            (on(GROUP, "VSphereCluster"), Ok("prod")),
            (
                on("evil.example", "VSphereCluster"),
                Err(
                    "Cluster \"c\" references a VSphereCluster of evil.example, not a VSphereCluster \
                     of infrastructure.cluster.x-k8s.io",
                ),
            ),
            (
                on(GROUP, "AWSCluster"),
                Err(
                    "Cluster \"c\" references a AWSCluster of infrastructure.cluster.x-k8s.io, not \
                     a VSphereCluster of infrastructure.cluster.x-k8s.io",
                ),
            ),
            (None, Err("Cluster \"c\" has no infrastructureRef yet")),
        ] {
            let spec = ClusterSpec {
                infrastructure_ref: reference_given,
                ..ClusterSpec::default()
            };
            let cluster = Cluster::new("c", spec);
            let found = reference(&cluster).map(|reference| reference.name.as_str());
            let expected =
                expected.map_err(|message| NoCluster::no_infrastructure(message.to_owned()));
            assert_eq!(found, expected);
        }
    }
}

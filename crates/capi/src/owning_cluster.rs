//! The Cluster that an object belongs to, and its infrastructure. An object without a cluster gets
//! no credential, not even the operator's.

use std::fmt::Debug;

use insula_operator::provider::explain::{self, Objects};
use insula_operator::provider::{Provider, Reconciliation};
use k8s_openapi::NamespaceResourceScope;
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;

use crate::kinds::{Cluster, ContractReference};
use crate::names::CLUSTER_LABEL;

/// The clusters that an object belongs to.
pub struct OwningCluster<I> {
    /// The Cluster.
    pub cluster: Option<Cluster>,
    /// Its infrastructure, or why there is none.
    pub infrastructure: Result<I, NoCluster>,
}

/// Why an object belongs to no cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoCluster {
    /// The reason, one word.
    pub reason: String,
    /// A sentence.
    pub message: String,
}

impl NoCluster {
    /// Returns a reason of the provider's own.
    pub fn new(reason: impl Into<String>, message: String) -> Self {
        let reason = reason.into();
        Self { reason, message }
    }

    fn not_found(message: String) -> Self {
        Self::new("ClusterNotFound", message)
    }

    fn no_infrastructure(kind: &str, message: String) -> Self {
        Self::new(format!("{kind}NotFound"), message)
    }
}

/// Reads the clusters of an object from the name of its Cluster; `I` is the kind of the
/// provider's infrastructure clusters.
///
/// # Errors
///
/// If a request fails.
pub async fn read<P, I>(
    of: &Reconciliation<'_, P>,
    named: Option<&str>,
) -> Result<OwningCluster<I>, kube::Error>
where
    P: Provider,
    I: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    I: Clone + Debug + DeserializeOwned,
{
    let alone = |no_cluster| OwningCluster {
        cluster: None,
        infrastructure: Err(no_cluster),
    };
    let Some(name) = named.filter(|_| of.key.namespace.is_some()) else {
        return Ok(alone(NoCluster::not_found(format!(
            "it has no label {CLUSTER_LABEL}, so it belongs to no cluster"
        ))));
    };
    let Some(cluster) = of.read::<Cluster>(name).await? else {
        return Ok(alone(NoCluster::not_found(format!(
            "there is no Cluster {name:?}"
        ))));
    };
    let infrastructure = match reference::<I>(&cluster) {
        Err(no_cluster) => Err(no_cluster),
        Ok(ContractReference { name, .. }) => {
            let kind = I::kind(&());
            let missing =
                || NoCluster::no_infrastructure(&kind, format!("there is no {kind} {name:?}"));
            of.read::<I>(name).await?.ok_or_else(missing)
        }
    };
    Ok(OwningCluster {
        cluster: Some(cluster),
        infrastructure,
    })
}

/// Reads the infrastructure cluster that an object belongs to by its label, with the rights of a
/// caller that asks for an explanation. The inner error says why there is none.
///
/// # Errors
///
/// If an object cannot be read.
pub async fn of_member<I>(
    objects: &Objects<'_>,
    member: &impl Resource,
) -> Result<Result<I, String>, explain::Error>
where
    I: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    I: Clone + Debug + DeserializeOwned,
{
    let Some(name) = member.labels().get(CLUSTER_LABEL) else {
        return Ok(Err(format!("it has no label {CLUSTER_LABEL}")));
    };
    let missing = |what| Ok(Err(format!("there is no {what}")));
    let cluster: Cluster = match objects.read(name).await {
        Err(explain::Error::NotFound(what)) => return missing(what),
        read => read?,
    };
    match reference::<I>(&cluster) {
        Err(no_cluster) => Ok(Err(no_cluster.message)),
        Ok(reference) => match objects.read(&reference.name).await {
            Err(explain::Error::NotFound(what)) => missing(what),
            read => read.map(Ok),
        },
    }
}

/// Returns the reference of a Cluster to its infrastructure. A Cluster of another provider may have
/// the name of an unrelated infrastructure cluster, so the reference decides and not the name.
///
/// # Errors
///
/// If it has none, or one to another kind.
pub fn reference<I>(cluster: &Cluster) -> Result<&ContractReference, NoCluster>
where
    I: Resource<DynamicType = ()>,
{
    let (wanted, wanted_group) = (I::kind(&()), I::group(&()));
    let missing = |message| Err(NoCluster::no_infrastructure(&wanted, message));
    let name = cluster.metadata.name.as_deref().unwrap_or_default();
    let Some(reference) = &cluster.spec.infrastructure_ref else {
        return missing(format!("Cluster {name:?} has no infrastructureRef yet"));
    };
    let ContractReference {
        api_group, kind, ..
    } = reference;
    if *api_group != wanted_group || *kind != wanted {
        return missing(format!(
            "Cluster {name:?} references a {kind} of {api_group}, not a {wanted} of {wanted_group}"
        ));
    }
    // Version v1beta1 can name another namespace. Objects of that one are not the Cluster's to use.
    let (there, here) = (&reference.namespace, &cluster.metadata.namespace);
    if there.is_some() && there != here {
        return missing(format!(
            "Cluster {name:?} references a {kind} of another namespace"
        ));
    }
    Ok(reference)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::{ClusterSpec, Machine};
    use crate::names::GROUP;

    #[test]
    fn fr5_cluster_is_found_by_its_reference_and_not_by_name() {
        let on = |group: &str, kind: &str| {
            Some(ContractReference {
                api_group: group.to_owned(),
                kind: kind.to_owned(),
                name: "prod".to_owned(),
                namespace: None,
            })
        };
        let inside = |namespace: &str| {
            let reference: Option<ContractReference> = on(GROUP, "Machine");
            reference.map(|reference| ContractReference {
                namespace: Some(namespace.to_owned()),
                ..reference
            })
        };
        for (reference_given, expected) in [
            (on(GROUP, "Machine"), Ok("prod")),
            (
                on("evil.example", "Machine"),
                Err(
                    "Cluster \"c\" references a Machine of evil.example, not a Machine of \
                     cluster.x-k8s.io",
                ),
            ),
            (
                on(GROUP, "AWSCluster"),
                Err(
                    "Cluster \"c\" references a AWSCluster of cluster.x-k8s.io, not a Machine of \
                     cluster.x-k8s.io",
                ),
            ),
            (inside("team"), Ok("prod")),
            (
                inside("other"),
                Err("Cluster \"c\" references a Machine of another namespace"),
            ),
            (None, Err("Cluster \"c\" has no infrastructureRef yet")),
        ] {
            let spec = ClusterSpec {
                infrastructure_ref: reference_given,
                ..ClusterSpec::default()
            };
            let mut cluster = Cluster::new("c", spec);
            cluster.metadata.namespace = Some("team".to_owned());
            let found = reference::<Machine>(&cluster).map(|reference| reference.name.as_str());
            let expected = expected
                .map_err(|message| NoCluster::no_infrastructure("Machine", message.to_owned()));
            assert_eq!(found, expected);
        }
    }
}

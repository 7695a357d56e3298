//! The objects on the cluster that leaves.

use std::time::Duration;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{Namespace, Pod, Secret};
use kube::api::{ListParams, PartialObjectMeta};
use kube::core::DynamicObject;
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::broker::delete;
use crate::error::Error;
use crate::join::{CREATED_BY, service_discovery, submariner};
use crate::lookup;
use crate::names::{BROKER_SECRET, OPERATOR_NAMESPACE, PSK, SERVICE_DISCOVERY, SUBMARINER};

const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Deletes the object that connects the cluster, and waits until it is gone: Submariner's
/// operator removes the data plane meanwhile.
pub(super) async fn disconnect(member: &Client, timeout: Duration) -> Result<(), Error> {
    let deadline = Instant::now() + timeout;
    for (kind, name) in [
        (submariner(), SUBMARINER),
        (service_discovery(), SERVICE_DISCOVERY),
    ] {
        let objects: Api<DynamicObject> =
            Api::namespaced_with(member.clone(), OPERATOR_NAMESPACE, &kind);
        let attempted = format!("delete {} {name}", kind.kind);
        let read = async || {
            let found = lookup::get(&objects, name).await;
            found.map_err(Error::when(attempted.as_str()))
        };
        if read().await?.is_none() {
            continue;
        }
        delete(&objects, name).await?;
        while let Some(found) = read().await? {
            if Instant::now() >= deadline {
                return Err(Error::TimedOut {
                    what: format!("deleting {} {name}", kind.kind),
                    after: timeout,
                    why: Some(format!(
                        "its finalizers are {}",
                        found.finalizers().join(", ")
                    )),
                });
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
    Ok(())
}

/// Deletes the Secrets of the join, and the namespace if the join created it and nothing runs
/// in it. The definitions stay: an operator of the distribution may need them.
pub(super) async fn remove_credentials(member: &Client, timeout: Duration) -> Result<(), Error> {
    let namespaces: Api<Namespace> = Api::all(member.clone());
    let found = namespaces.get_opt(OPERATOR_NAMESPACE).await;
    let attempted = format!("read namespace {OPERATOR_NAMESPACE}");
    let Some(namespace) = found.map_err(Error::when(attempted))? else {
        return Ok(());
    };
    let secrets: Api<Secret> = Api::namespaced(member.clone(), OPERATOR_NAMESPACE);
    for name in [BROKER_SECRET, PSK] {
        delete(&secrets, name).await?;
    }
    let (key, value) = CREATED_BY;
    let is_ours = namespace.annotations().get(key).map(String::as_str) == Some(value);
    match is_ours && is_idle(member).await {
        true => delete_namespace(&namespaces, timeout).await,
        false => Ok(()),
    }
}

/// Deletes the operator's namespace and waits until it is gone, so that the cluster can join
/// again.
async fn delete_namespace(namespaces: &Api<Namespace>, timeout: Duration) -> Result<(), Error> {
    delete(namespaces, OPERATOR_NAMESPACE).await?;
    let deadline = Instant::now() + timeout;
    loop {
        let found = namespaces.get_opt(OPERATOR_NAMESPACE).await;
        let attempted = format!("read namespace {OPERATOR_NAMESPACE}");
        if found.map_err(Error::when(attempted))?.is_none() {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(Error::TimedOut {
                what: format!("deleting namespace {OPERATOR_NAMESPACE}"),
                after: timeout,
                why: Some("an object in it has a finalizer".to_owned()),
            });
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Returns whether nothing runs in the operator's namespace. If this cannot be read, something
/// may run.
async fn is_idle(member: &Client) -> bool {
    has_none::<Deployment>(member).await
        && has_none::<DaemonSet>(member).await
        && has_none::<Pod>(member).await
}

async fn has_none<K>(member: &Client) -> bool
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    K: Clone + std::fmt::Debug + DeserializeOwned,
{
    let api: Api<PartialObjectMeta<K>> = Api::namespaced(member.clone(), OPERATOR_NAMESPACE);
    let listed = api.list(&ListParams::default().limit(1)).await;
    listed.is_ok_and(|listed| listed.items.is_empty())
}

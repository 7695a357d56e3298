//! The objects of a member at the broker.

use insula_operator::managed;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::api::{DeleteParams, ListParams};
use kube::core::DynamicObject;
use kube::{Api, Client, ResourceExt};

use super::UnjoinSettings;
use crate::cluster_id::ClusterId;
use crate::error::Error;
use crate::globalnet::{Allocations, CLUSTERSET_IP_INFO, GLOBALNET_INFO};
use crate::join::{cluster_uid_of, published, role_binding_name};
use crate::{lookup, token};

/// The label with the cluster that published an EndpointSlice.
const SOURCE_CLUSTER: &str = "multicluster.kubernetes.io/source-cluster";
/// The prefix of the service accounts of clusters.
const ACCOUNT_PREFIX: &str = "cluster-";

/// Checks that the broker can be reached and accepts the token.
pub(super) async fn check_access(broker: &Client, settings: &UnjoinSettings) -> Result<(), Error> {
    let listed = accounts(broker, &settings.namespace)
        .list(&ListParams::default().limit(1))
        .await;
    let attempted = format!("use the broker at {}", settings.url);
    listed.map(drop).map_err(Error::when(attempted))
}

/// Returns the service account of a cluster.
pub(super) async fn account(
    broker: &Client,
    namespace: &str,
    id: &ClusterId,
) -> Result<Option<ServiceAccount>, Error> {
    let found = accounts(broker, namespace).get_opt(&id.account()).await;
    found.map_err(Error::when(format!(
        "read service account {}",
        id.account()
    )))
}

/// Returns the IDs with service accounts that were created for the cluster with this UID.
pub(super) async fn accounts_of_cluster(
    broker: &Client,
    namespace: &str,
    uid: Option<&str>,
) -> Result<Vec<ClusterId>, Error> {
    let Some(uid) = uid else {
        return Ok(Vec::new());
    };
    let accounts = accounts(broker, namespace);
    let listed = accounts.list(&ListParams::default()).await;
    let listed = listed.map_err(Error::when("list service accounts"))?;
    let ours = listed
        .items
        .iter()
        .filter(|account| cluster_uid_of(account) == Some(uid));
    let ids = ours.filter_map(|account| {
        let name = account.name_any();
        name.strip_prefix(ACCOUNT_PREFIX)?.parse().ok()
    });
    Ok(ids.collect())
}

/// Removes everything that the broker has of a cluster: its rights first, its account last.
pub(super) async fn remove(broker: &Client, namespace: &str, id: &ClusterId) -> Result<(), Error> {
    let bindings: Api<RoleBinding> = Api::namespaced(broker.clone(), namespace);
    delete(&bindings, &role_binding_name(id)).await?;
    remove_published(broker, namespace, id).await?;
    for name in [GLOBALNET_INFO, CLUSTERSET_IP_INFO] {
        release_addresses(broker, namespace, name, id).await?;
    }
    let secrets: Api<Secret> = Api::namespaced(broker.clone(), namespace);
    let only_tokens = ListParams::default().fields(&format!("type={}", token::TYPE));
    let listed = secrets.list(&only_tokens).await;
    for secret in listed.map_err(Error::when("list the tokens of clusters"))? {
        if token::is_for(&secret, &id.account()) {
            delete(&secrets, &secret.name_any()).await?;
        }
    }
    delete(&accounts(broker, namespace), &id.account()).await
}

/// Removes the objects that the cluster published.
async fn remove_published(broker: &Client, namespace: &str, id: &ClusterId) -> Result<(), Error> {
    let endpoints = published(broker, namespace, "Endpoint", "endpoints");
    for endpoint in list_served(&endpoints, "endpoints").await? {
        if endpoint.data["spec"]["cluster_id"] == id.as_str() {
            delete(&endpoints, &endpoint.name_any()).await?;
        }
    }
    let slices: Api<EndpointSlice> = Api::namespaced(broker.clone(), namespace);
    let of_cluster = ListParams::default().labels(&format!("{SOURCE_CLUSTER}={id}"));
    let listed = slices.list(&of_cluster).await;
    for slice in listed.map_err(Error::when("list endpoint slices"))? {
        delete(&slices, &slice.name_any()).await?;
    }
    let clusters = published(broker, namespace, "Cluster", "clusters");
    let found = lookup::get(&clusters, id.as_str()).await;
    match found.map_err(Error::when(format!("look for cluster {id}")))? {
        Some(_) => delete(&clusters, id.as_str()).await,
        None => Ok(()),
    }
}

/// Returns all objects of a kind; none if it is not served.
async fn list_served(api: &Api<DynamicObject>, plural: &str) -> Result<Vec<DynamicObject>, Error> {
    match api.list(&ListParams::default()).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
        listed => {
            let listed = listed.map_err(Error::when(format!("list {plural}")))?;
            Ok(listed.items)
        }
    }
}

/// Removes the cluster from the ConfigMap of an address range.
async fn release_addresses(
    broker: &Client,
    namespace: &str,
    name: &str,
    id: &ClusterId,
) -> Result<(), Error> {
    let maps: Api<ConfigMap> = Api::namespaced(broker.clone(), namespace);
    let attempted = format!("release the addresses of cluster {id} in ConfigMap {name}");
    let found = maps.get_opt(name).await;
    let Some(found) = found.map_err(Error::when(attempted.as_str()))? else {
        return Ok(());
    };
    // A malformed one is reported, and not taken for empty.
    Allocations::read(&found)?;
    let released = managed::ensure_by(&maps, &found, |_, found: &ConfigMap| {
        let Ok(mut allocations) = Allocations::read(found) else {
            return managed::Drift::InSync;
        };
        if !allocations.release(id.as_str()) {
            return managed::Drift::InSync;
        }
        let mut updated = found.clone();
        allocations.write(&mut updated);
        managed::Drift::Replace(Box::new(updated))
    });
    released.await.map(drop).map_err(Error::when(attempted))
}

/// Deletes an object; one that is gone is no error.
pub(super) async fn delete<K>(api: &Api<K>, name: &str) -> Result<(), Error>
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    match api.delete(name, &DeleteParams::default()).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        deleted => {
            let deleted = deleted.map_err(Error::when(format!("delete {name}")));
            deleted.map(drop)
        }
    }
}

fn accounts(broker: &Client, namespace: &str) -> Api<ServiceAccount> {
    Api::namespaced(broker.clone(), namespace)
}

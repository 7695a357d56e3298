//! The objects of a member on the broker: service account, permissions and token.

use insula_operator::managed;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::api::{ListParams, ObjectMeta, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client, ResourceExt};

use super::settings::JoinSettings;
use crate::cluster_id::ClusterId;
use crate::error::Error;
use crate::globalnet::{Allocations, CLUSTERSET_IP_INFO, GLOBALNET_INFO};
use crate::manifests::{self, account_subject, metadata};
use crate::{lookup, names, token};

/// The annotation on a member's service account that identifies the cluster. Another cluster
/// that joins under the same ID is refused, even before the first one has published its
/// Cluster object.
const CLUSTER_UID: &str = "axon.submariner.io/cluster-uid";
/// The maximum number of attempts on write conflicts.
const MAX_ATTEMPTS: usize = 8;

/// Checks that the broker can be reached and accepts the token. A broker without the kind has
/// no clusters.
pub(super) async fn check_access(broker: &Client, settings: &JoinSettings) -> Result<(), Error> {
    let listed = published(broker, &settings.info.namespace, "Cluster", "clusters")
        .list(&ListParams::default().limit(1))
        .await;
    match listed {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => {
            let url = &settings.info.url;
            Err(Error::when(format!("use the broker at {url}"))(error))
        }
        Ok(_) => Ok(()),
    }
}

/// The service account of the cluster's ID, which is not known to be another cluster's.
pub(super) enum ExistingAccount {
    /// There is none.
    Absent,
    /// It belongs to this cluster.
    Ours(ServiceAccount),
    /// It has no annotation, as those created by other programs.
    Unmarked(ServiceAccount),
}

impl ExistingAccount {
    /// Returns whether it is the account with this UID.
    pub(super) fn is(&self, uid: &str) -> bool {
        match self {
            Self::Absent => false,
            Self::Ours(account) | Self::Unmarked(account) => {
                account.metadata.uid.as_deref() == Some(uid)
            }
        }
    }
}

/// Returns the service account of the cluster's ID; fails if it is another cluster's.
pub(super) async fn existing_account(
    broker: &Client,
    settings: &JoinSettings,
    cluster_uid: Option<&str>,
) -> Result<ExistingAccount, Error> {
    let (id, namespace) = (&settings.cluster_id, &settings.info.namespace);
    Ok(match find(&accounts(broker, namespace), id).await? {
        None => ExistingAccount::Absent,
        Some(account) => match is_known_as_ours(&account, id, cluster_uid)? {
            true => ExistingAccount::Ours(account),
            false => ExistingAccount::Unmarked(account),
        },
    })
}

/// Checks that the ID is free, by the objects that clusters publish. Addresses alone may be
/// from an interrupted join; together with an unmarked account they belong to another cluster.
pub(super) async fn check_id_is_free(
    broker: &Client,
    settings: &JoinSettings,
    existing_account: &ExistingAccount,
) -> Result<(), Error> {
    let (id, namespace) = (&settings.cluster_id, &settings.info.namespace);
    let is_taken = has(&published(broker, namespace, "Cluster", "clusters"), id).await?
        || has_endpoint(broker, settings).await?
        || (matches!(existing_account, ExistingAccount::Unmarked(_))
            && has_addresses(broker, settings).await?);
    match is_taken {
        true => Err(Error::ClusterIdTaken(id.clone())),
        false => Ok(()),
    }
}

/// Returns whether the broker has an Endpoint of a cluster with this ID.
async fn has_endpoint(broker: &Client, settings: &JoinSettings) -> Result<bool, Error> {
    let (id, namespace) = (&settings.cluster_id, &settings.info.namespace);
    let endpoints = published(broker, namespace, "Endpoint", "endpoints");
    let listed = match endpoints.list(&ListParams::default()).await {
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(false),
        listed => listed.map_err(Error::when(format!("look for endpoints of cluster {id}")))?,
    };
    let mut endpoints = listed.items.iter();
    Ok(endpoints.any(|endpoint| endpoint.data["spec"]["cluster_id"] == id.as_str()))
}

/// Returns whether a cluster with this ID has addresses.
async fn has_addresses(broker: &Client, settings: &JoinSettings) -> Result<bool, Error> {
    let (id, namespace) = (&settings.cluster_id, &settings.info.namespace);
    let maps: Api<ConfigMap> = Api::namespaced(broker.clone(), namespace);
    for name in [GLOBALNET_INFO, CLUSTERSET_IP_INFO] {
        let found = maps.get_opt(name).await;
        let found = found.map_err(Error::when(format!("read ConfigMap {name}")))?;
        let allocations = found.as_ref().map(Allocations::read).transpose()?;
        if allocations.is_some_and(|allocations| allocations.of(id.as_str()).is_some()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Makes the cluster a member and returns the Secret with its token.
pub(super) async fn admit(
    broker: &Client,
    settings: &JoinSettings,
    cluster_uid: Option<&str>,
) -> Result<Secret, Error> {
    let (id, namespace) = (&settings.cluster_id, &settings.info.namespace);
    let account = ensure_account(&accounts(broker, namespace), id, cluster_uid).await?;
    let bindings: Api<RoleBinding> = Api::namespaced(broker.clone(), namespace);
    let bound = managed::ensure(&bindings, &binding(id, namespace)).await;
    bound.map_err(|error| match error {
        // A caller without permission to bind gets the same answer for a missing role.
        kube::Error::Api(status) if status.is_not_found() => Error::NoBroker {
            namespace: namespace.clone(),
            missing: format!("Role {}", names::CLUSTER),
        },
        error => Error::when(format!("give cluster {id} its rights"))(error),
    })?;
    let secrets: Api<Secret> = Api::namespaced(broker.clone(), namespace);
    token::ensure_for(&secrets, &account, settings.token_timeout).await
}

/// Creates the service account, or claims an existing one for this cluster.
async fn ensure_account(
    accounts: &Api<ServiceAccount>,
    id: &ClusterId,
    cluster_uid: Option<&str>,
) -> Result<ServiceAccount, Error> {
    let mut attempts = MAX_ATTEMPTS;
    loop {
        attempts -= 1;
        let written = match find(accounts, id).await? {
            None => {
                let wanted = account(id, cluster_uid);
                accounts.create(&PostParams::default(), &wanted).await
            }
            Some(found) => {
                let is_marked = is_known_as_ours(&found, id, cluster_uid)?;
                let (false, Some(cluster_uid)) = (is_marked, cluster_uid) else {
                    return Ok(found);
                };
                let mut ours = found;
                let mark = (CLUSTER_UID.to_owned(), cluster_uid.to_owned());
                ours.annotations_mut().extend([mark]);
                let name = id.account();
                accounts.replace(&name, &PostParams::default(), &ours).await
            }
        };
        match written {
            Ok(account) => return Ok(account),
            Err(kube::Error::Api(status)) if attempts > 0 && status.code == 409 => {}
            Err(error) => {
                let attempted = format!("create service account {}", id.account());
                return Err(Error::when(attempted)(error));
            }
        }
    }
}

/// Returns whether an account is known to be this cluster's; fails if it is another's. One
/// without the annotation was created before the annotation existed.
fn is_known_as_ours(
    account: &ServiceAccount,
    id: &ClusterId,
    cluster_uid: Option<&str>,
) -> Result<bool, Error> {
    match (cluster_uid_of(account), cluster_uid) {
        (Some(mark), Some(cluster_uid)) if mark != cluster_uid => {
            Err(Error::ClusterIdTaken(id.clone()))
        }
        (mark, cluster_uid) => Ok(mark.is_some() && cluster_uid.is_some()),
    }
}

fn account(id: &ClusterId, cluster_uid: Option<&str>) -> ServiceAccount {
    let mark = cluster_uid.map(|cluster_uid| (CLUSTER_UID.to_owned(), cluster_uid.to_owned()));
    manifests::account(ObjectMeta {
        annotations: mark.map(|mark| [mark].into()),
        ..metadata(&id.account(), None)
    })
}

/// Returns the name of the RoleBinding with the permissions of a cluster.
pub(crate) fn role_binding_name(id: &ClusterId) -> String {
    format!("{}-{}", id.account(), names::CLUSTER)
}

/// Returns the UID of the cluster that a service account was created for, if it is known.
pub(crate) fn cluster_uid_of(account: &ServiceAccount) -> Option<&str> {
    account.annotations().get(CLUSTER_UID).map(String::as_str)
}

fn binding(id: &ClusterId, namespace: &str) -> RoleBinding {
    let account = id.account();
    let metadata = metadata(&role_binding_name(id), None);
    let member = account_subject(&account, namespace);
    manifests::binding(metadata, names::CLUSTER, vec![member])
}

fn accounts(broker: &Client, namespace: &str) -> Api<ServiceAccount> {
    Api::namespaced(broker.clone(), namespace)
}

async fn find(
    accounts: &Api<ServiceAccount>,
    id: &ClusterId,
) -> Result<Option<ServiceAccount>, Error> {
    let found = accounts.get_opt(&id.account()).await;
    let attempted = format!("read service account {}", id.account());
    found.map_err(Error::when(attempted))
}

/// Returns the API of the objects that clusters publish.
pub(crate) fn published(
    client: &Client,
    namespace: &str,
    kind: &str,
    plural: &str,
) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("submariner.io", "v1", kind);
    let kind = ApiResource::from_gvk_with_plural(&kind, plural);
    Api::namespaced_with(client.clone(), namespace, &kind)
}

async fn has(clusters: &Api<DynamicObject>, id: &ClusterId) -> Result<bool, Error> {
    let found = lookup::get(clusters, id.as_str()).await;
    let found = found.map_err(Error::when(format!("look for cluster {id}")))?;
    Ok(found.is_some())
}

//! Removal of a cluster from its ClusterSet: the reverse of `join`.
//!
//! The member's own object goes first, so that Submariner's operator can disconnect the
//! cluster with credentials that still work. At the broker the service account goes last,
//! because it records which cluster has the ID: an interrupted removal is simply run again.

mod broker;
mod member;

use std::time::Duration;

use kube::{Client, ResourceExt};

use crate::cluster_id::ClusterId;
use crate::error::Error;
use crate::join::{cluster_uid, cluster_uid_of, is_same, membership, own_account};
use crate::report::Report;

/// The clients of a removal.
pub struct UnjoinClients {
    /// The broker, with the administrator's credentials from the file.
    pub broker: Client,
    /// The member, with administrator rights; `None` if the cluster no longer exists.
    pub member: Option<Client>,
}

/// The settings of a removal.
#[derive(Clone, Debug)]
pub struct UnjoinSettings {
    /// The broker's URL, from the file.
    pub url: String,
    /// The broker's namespace.
    pub namespace: String,
    /// The ID of the cluster; found by its membership if `None`.
    pub cluster_id: Option<ClusterId>,
    /// How long Submariner's operator may take to disconnect the cluster.
    pub timeout: Duration,
}

/// A removal that was checked and not begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    /// The ID of the cluster in the ClusterSet; `None` if the broker does not know the cluster.
    pub cluster_id: Option<ClusterId>,
    /// The broker's namespace.
    pub namespace: String,
}

/// Determines which cluster leaves the ClusterSet. Nothing is changed.
///
/// # Errors
///
/// If the cluster is a member of another ClusterSet, if the ID belongs to another cluster, or
/// if the broker or the cluster cannot be read.
pub async fn check(clients: &UnjoinClients, settings: &UnjoinSettings) -> Result<Removal, Error> {
    broker::check_access(&clients.broker, settings).await?;
    let cluster_id = match (&clients.member, &settings.cluster_id) {
        (Some(member), _) => id_of_member(&clients.broker, member, settings).await?,
        (None, Some(id)) => Some(id.clone()),
        (None, None) => return Err(Error::invalid("a cluster that is gone needs --clusterid")),
    };
    Ok(Removal {
        cluster_id,
        namespace: settings.namespace.clone(),
    })
}

/// Removes the cluster: its objects on the cluster itself and at the broker. Objects that are
/// already gone are no error.
///
/// # Errors
///
/// [`Error::TimedOut`] if Submariner's operator does not disconnect the cluster; any error of
/// the servers.
pub async fn unjoin(
    clients: &UnjoinClients,
    settings: &UnjoinSettings,
    removal: &Removal,
    report: &dyn Report,
) -> Result<(), Error> {
    if let Some(member) = &clients.member {
        report.begin("Disconnecting the cluster");
        member::disconnect(member, settings.timeout).await?;
        report.done("Disconnected the cluster");
    }
    if let Some(id) = &removal.cluster_id {
        report.begin("Removing the cluster from the Broker");
        broker::remove(&clients.broker, &settings.namespace, id).await?;
        report.done("Removed the cluster from the Broker");
    }
    if let Some(member) = &clients.member {
        report.begin("Removing the credentials from the cluster");
        member::remove_credentials(member, settings.timeout).await?;
        report.done("Removed the credentials from the cluster");
    }
    Ok(())
}

/// Returns the ID of a cluster that exists, by what it records about itself, else by what the
/// broker records about it.
async fn id_of_member(
    broker: &Client,
    member: &Client,
    settings: &UnjoinSettings,
) -> Result<Option<ClusterId>, Error> {
    let uid = cluster_uid(member).await?;
    let Some(membership) = membership(member).await? else {
        return id_at_broker(broker, uid.as_deref(), settings).await;
    };
    let namespace = membership.field("brokerK8sRemoteNamespace");
    let joined_id = membership.field("clusterID");
    let namespace = namespace.unwrap_or(&settings.namespace).to_owned();
    let asked = settings.cluster_id.as_ref().map(ClusterId::as_str);
    let Some(joined_id) = joined_id.or(asked) else {
        return Err(unknown_id());
    };
    let other = || Error::NotThisClusterSet {
        cluster_id: joined_id.to_owned(),
        namespace: namespace.clone(),
    };
    if namespace != settings.namespace || asked.is_some_and(|asked| asked != joined_id) {
        return Err(other());
    }
    let id: ClusterId = joined_id.parse().map_err(|_| unknown_id())?;
    let account = broker::account(broker, &settings.namespace, &id).await?;
    let server = membership.field("brokerK8sApiServer");
    if server.is_some_and(|server| !is_same(server, &settings.url)) {
        // Another address of the same broker, or another broker: the account tells.
        let own = own_account(member, &membership).await?;
        let here = account.as_ref().and_then(ResourceExt::uid);
        if own.is_none() || own != here {
            return Err(other());
        }
    }
    match account.as_ref().and_then(cluster_uid_of) {
        Some(mark) if uid.as_deref().is_some_and(|uid| uid != mark) => {
            Err(Error::ClusterIdTaken(id))
        }
        _ => Ok(Some(id)),
    }
}

/// Returns the ID of a cluster that has no membership of its own any more: that of the service
/// account that was created for it.
async fn id_at_broker(
    broker: &Client,
    uid: Option<&str>,
    settings: &UnjoinSettings,
) -> Result<Option<ClusterId>, Error> {
    let marked = broker::accounts_of_cluster(broker, &settings.namespace, uid).await?;
    match (marked.as_slice(), &settings.cluster_id) {
        (marked, Some(asked)) if marked.contains(asked) => Ok(Some(asked.clone())),
        (_, Some(asked)) => {
            match broker::account(broker, &settings.namespace, asked).await? {
                // Whether it is this cluster's is not known.
                Some(_) => Err(Error::invalid_with_hint(
                    format!("this cluster is not a member, and is not known to be {asked}"),
                    "if cluster ID and file are right, --broker-only removes the cluster from the broker",
                )),
                None => Ok(Some(asked.clone())),
            }
        }
        ([], None) => Ok(None),
        ([only], None) => Ok(Some(only.clone())),
        (_, None) => Err(unknown_id()),
    }
}

fn unknown_id() -> Error {
    Error::invalid_with_hint(
        "the ID of this cluster in its ClusterSet is not known",
        "give it with --clusterid",
    )
}

//! Joining of a cluster to a broker.
//!
//! On the broker the cluster gets addresses and a service account with the member role; on the
//! cluster itself the objects are stored that Submariner's operator needs to connect it. That
//! operator is not deployed here: it comes with the cluster's distribution.
//!
//! Every step is idempotent: a cluster that has joined keeps what it has.

mod addresses;
mod admit;
mod kinds;
mod member;
mod settings;
mod spec;

use kube::Client;

use self::addresses::Addresses;
use self::admit::ExistingAccount;
use self::member::MembershipState;
use crate::cluster_id::ClusterId;
use crate::error::Error;
use crate::report::Report;

pub(crate) use admit::{cluster_uid_of, published, role_binding_name};
pub(crate) use member::{
    CREATED_BY, Membership, cluster_uid, is_same, membership, own_account, service_discovery,
    submariner,
};
pub use settings::JoinSettings;

/// The clients of a join.
pub struct JoinClients {
    /// The broker, with the administrator's credentials from the file.
    pub broker: Client,
    /// The joining cluster, with administrator rights.
    pub joining: Client,
}

/// The result of a join.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The cluster's ID in the ClusterSet.
    pub cluster_id: ClusterId,
    /// The broker's namespace.
    pub namespace: String,
    /// Its global addresses, if any.
    pub global_cidr: Option<String>,
    /// The range of its services' ClusterSet IPs, if any.
    pub clusterset_ip_cidr: Option<String>,
}

/// Joins a cluster to a ClusterSet.
///
/// # Errors
///
/// If the broker cannot be reached or is incomplete, if the addresses are exhausted, if
/// another cluster has the ID, or if this cluster is a member of another ClusterSet.
pub async fn join(
    clusters: &JoinClients,
    settings: &JoinSettings,
    report: &dyn Report,
) -> Result<Joined, Error> {
    let (broker, joining) = (&clusters.broker, &clusters.joining);
    addresses::validate(settings)?;
    report.begin("Gathering relevant information from Broker");
    admit::check_access(broker, settings).await?;
    let cluster_uid = member::cluster_uid(joining).await?;
    let membership_state = member::membership_state(joining, settings).await?;
    let existing_account =
        admit::existing_account(broker, settings, cluster_uid.as_deref()).await?;
    check_may_join(
        broker,
        settings,
        membership_state,
        &existing_account,
        report,
    )
    .await?;
    report.done("Gathered relevant information from Broker");
    let addresses = allocate(broker, settings, report).await?;

    report.begin("Preparing the cluster");
    kinds::ensure(joining).await?;
    member::ensure_namespace(joining).await?;
    report.done("Prepared the cluster");

    report.begin("Creating SA for cluster");
    let account = admit::admit(broker, settings, cluster_uid.as_deref()).await?;
    report.done("Created SA for cluster");

    report.begin("Connecting to Broker");
    member::store(joining, settings, &account, &addresses).await?;
    report.done("Connected to Broker: the Submariner operator of your distribution picks this up");
    Ok(Joined {
        cluster_id: settings.cluster_id.clone(),
        namespace: settings.info.namespace.clone(),
        global_cidr: addresses.global,
        clusterset_ip_cidr: addresses.clusterset.map(|given| given.cidr),
    })
}

/// Checks that the cluster may have the ID: it already has it, or the ID is free. A member of
/// another ClusterSet is refused.
async fn check_may_join(
    broker: &Client,
    settings: &JoinSettings,
    membership_state: MembershipState,
    existing_account: &ExistingAccount,
    report: &dyn Report,
) -> Result<(), Error> {
    match (membership_state, existing_account) {
        (MembershipState::Member, _) | (MembershipState::NotJoined, ExistingAccount::Ours(_)) => {
            Ok(())
        }
        (MembershipState::NotJoined, existing_account) => {
            admit::check_id_is_free(broker, settings, existing_account).await
        }
        (MembershipState::Elsewhere { server, account }, existing_account) => {
            let is_same = match account {
                Some(account) => existing_account.is(&account),
                None => matches!(existing_account, ExistingAccount::Ours(_)),
            };
            if !is_same {
                return Err(Error::JoinedElsewhere {
                    cluster_id: settings.cluster_id.to_string(),
                    server,
                });
            }
            let now = spec::without_scheme(&settings.info.url);
            report.warn(&format!(
                "The cluster has joined through {server}; from now on it uses {now}"
            ));
            Ok(())
        }
    }
}

async fn allocate(
    broker: &Client,
    settings: &JoinSettings,
    report: &dyn Report,
) -> Result<Addresses, Error> {
    report.begin("Allocating addresses");
    let addresses = Addresses {
        global: addresses::global(broker, settings, report).await?,
        clusterset: addresses::clusterset(broker, settings, report).await?,
    };
    report.done(&match &addresses.global {
        Some(global) => format!("Allocated global CIDR {global}"),
        None => "No global addresses are needed".to_owned(),
    });
    Ok(addresses)
}

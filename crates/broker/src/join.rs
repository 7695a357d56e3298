//! Joining of a cluster to a broker.
//!
//! On the broker the cluster gets addresses and a service account with the member role; on the
//! cluster itself the objects are stored that Submariner's operator needs to connect it. That
//! operator is not deployed here: it comes with the cluster's distribution.
//!
//! Every step is idempotent: a cluster that has joined keeps what it has.

mod addresses;
mod admit;
mod cluster_id;
mod kinds;
mod member;
mod spec;

use std::time::Duration;

use kube::Client;

use self::admit::ExistingAccount;
use self::member::MembershipState;
use crate::cidr::Cidr;
use crate::component::{CONNECTIVITY, SERVICE_DISCOVERY};
use crate::error::Error;
use crate::info::JoinInfo;
use crate::report::Report;
use crate::token;

pub use cluster_id::{ClusterId, NotAnId};
pub(crate) use member::{Membership, membership};
pub use member::{NAMESPACE, SERVICE_DISCOVERY_OBJECT, SUBMARINER_OBJECT};

/// The clients of a join.
pub struct JoinClients {
    /// The broker, with the administrator's credentials from the file.
    pub broker: Client,
    /// The joining cluster, with administrator rights.
    pub joining: Client,
}

/// The settings of a join.
#[derive(Clone, Debug)]
pub struct JoinSettings {
    /// The content of the file.
    pub info: JoinInfo,
    /// The cluster's ID in the ClusterSet.
    pub cluster_id: ClusterId,
    /// The pod CIDR; discovered by the operator if not given.
    pub cluster_cidr: Option<String>,
    /// The service CIDR; discovered by the operator if not given.
    pub service_cidr: Option<String>,
    /// Whether it gets global addresses, if the ClusterSet has them.
    pub globalnet: bool,
    /// The number of global addresses.
    pub globalnet_cluster_size: Option<u32>,
    /// The specific range of global addresses.
    pub globalnet_cidr: Option<Cidr>,
    /// Whether its services get ClusterSet IPs by default, if that differs from the broker's
    /// setting.
    pub clusterset_ip: Option<bool>,
    /// The specific range of ClusterSet IPs.
    pub clusterset_ip_cidr: Option<Cidr>,
    /// Whether NAT between the clusters is possible.
    pub nat: bool,
    /// The cable driver, if not the operator's default.
    pub cable_driver: Option<String>,
    /// Custom domains instead of those in the file.
    pub custom_domains: Vec<String>,
    /// Whether the broker's certificate is verified.
    pub check_broker_certificate: bool,
    /// How long a token may take to be issued.
    pub token_timeout: Duration,
}

impl JoinSettings {
    /// Returns the default settings.
    pub fn new(info: JoinInfo, cluster_id: ClusterId) -> Self {
        Self {
            info,
            cluster_id,
            cluster_cidr: None,
            service_cidr: None,
            globalnet: true,
            globalnet_cluster_size: None,
            globalnet_cidr: None,
            clusterset_ip: None,
            clusterset_ip_cidr: None,
            nat: true,
            cable_driver: None,
            custom_domains: Vec::new(),
            check_broker_certificate: true,
            token_timeout: token::TIMEOUT,
        }
    }

    fn has_connectivity(&self) -> bool {
        self.info.components.contains(CONNECTIVITY)
    }

    fn has_service_discovery(&self) -> bool {
        self.info.components.contains(SERVICE_DISCOVERY)
    }
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

/// The addresses that a cluster was allocated.
#[derive(Default)]
struct Addresses {
    global: Option<String>,
    clusterset: Option<addresses::Clusterset>,
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
    let existing_account = admit::existing_account(broker, settings, cluster_uid.as_deref()).await?;
    check_may_join(broker, settings, membership_state, &existing_account, report).await?;
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
        (MembershipState::Member, _) | (MembershipState::NotJoined, ExistingAccount::Ours(_)) => Ok(()),
        (MembershipState::NotJoined, existing_account) => admit::check_id_is_free(broker, settings, existing_account).await,
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

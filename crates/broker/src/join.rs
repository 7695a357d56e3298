//! A cluster joins a broker.
//!
//! On the broker it gets addresses, and an account with the rights of a member; on the
//! cluster itself stands what Submariner's operator needs to connect it. That operator is
//! not ours to deploy: the one of the cluster's distribution picks it up.
//!
//! Everything may be done again: a cluster that has joined keeps what it has.

mod addresses;
mod admit;
mod cluster_id;
mod kinds;
mod member;
mod spec;

use std::time::Duration;

use kube::Client;

use self::admit::Known;
use self::member::Standing;
use crate::cidr::Cidr;
use crate::component::{CONNECTIVITY, SERVICE_DISCOVERY};
use crate::error::Error;
use crate::info::ForJoin;
use crate::report::Report;
use crate::token;

pub use cluster_id::{ClusterId, NotAnId};
pub(crate) use member::{Membership, membership};
pub use member::{NAMESPACE, SERVICE_DISCOVERY_OBJECT, SUBMARINER_OBJECT};

/// Who is talked to.
pub struct JoinClients {
    /// The broker, as its administrator: with what the file says.
    pub broker: Client,
    /// The cluster that joins, as its administrator.
    pub joining: Client,
}

/// How a cluster is to join.
#[derive(Clone, Debug)]
pub struct JoinSettings {
    /// What the file says, complete.
    pub info: ForJoin,
    /// What the cluster is called in the ClusterSet.
    pub cluster_id: ClusterId,
    /// The addresses of its pods; the operator finds out if nobody says.
    pub cluster_cidr: Option<String>,
    /// The addresses of its services; the operator finds out if nobody says.
    pub service_cidr: Option<String>,
    /// Whether it gets global addresses where the ClusterSet has them.
    pub globalnet: bool,
    /// How many.
    pub globalnet_cluster_size: Option<u32>,
    /// Or which.
    pub globalnet_cidr: Option<Cidr>,
    /// Whether its services get addresses of the set by themselves, if that differs from
    /// what the broker says.
    pub clusterset_ip: Option<bool>,
    /// Which.
    pub clusterset_ip_cidr: Option<Cidr>,
    /// Whether there may be address translation between the clusters.
    pub nat: bool,
    /// What connects the clusters, if not what the operator prefers.
    pub cable_driver: Option<String>,
    /// Domains instead of those in the file.
    pub custom_domains: Vec<String>,
    /// Whether the broker's certificate matters.
    pub check_broker_certificate: bool,
    /// How long a token may take to be made.
    pub token_patience: Duration,
}

impl JoinSettings {
    /// As it is if nobody says otherwise.
    pub fn new(info: ForJoin, cluster_id: ClusterId) -> Self {
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
            token_patience: token::PATIENCE,
        }
    }

    fn connects(&self) -> bool {
        self.info.components.contains(CONNECTIVITY)
    }

    fn discovers(&self) -> bool {
        self.info.components.contains(SERVICE_DISCOVERY)
    }
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// What the cluster is called in the ClusterSet.
    pub cluster_id: ClusterId,
    /// The broker's namespace.
    pub namespace: String,
    /// Its global addresses, if it has any.
    pub global_cidr: Option<String>,
    /// Where addresses of its services are from, if they have any.
    pub clusterset_ip_cidr: Option<String>,
}

/// What a cluster was given.
#[derive(Default)]
struct Addresses {
    global: Option<String>,
    clusterset: Option<addresses::Clusterset>,
}

/// Lets a cluster join.
///
/// # Errors
///
/// If the broker cannot be reached or is not complete, if there are no addresses left, if
/// another cluster has the ID, or if this cluster is in another ClusterSet.
pub async fn join(
    clusters: &JoinClients,
    settings: &JoinSettings,
    report: &dyn Report,
) -> Result<Joined, Error> {
    let (broker, joining) = (&clusters.broker, &clusters.joining);
    addresses::agree(settings)?;
    report.begin("Gathering relevant information from Broker");
    admit::probe(broker, settings).await?;
    let identity = member::identity(joining).await?;
    let standing = member::standing(joining, settings).await?;
    let known = admit::known(broker, settings, identity.as_deref()).await?;
    may_join(broker, settings, standing, &known, report).await?;
    report.done("Gathered relevant information from Broker");
    let addresses = allocate(broker, settings, report).await?;

    report.begin("Preparing the cluster");
    kinds::ensure(joining).await?;
    member::ensure_namespace(joining).await?;
    report.done("Prepared the cluster");

    report.begin("Creating SA for cluster");
    let account = admit::admit(broker, settings, identity.as_deref()).await?;
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

/// Whether the cluster may have the ID: it is its own already, or nobody's. A cluster of
/// another ClusterSet stays there.
async fn may_join(
    broker: &Client,
    settings: &JoinSettings,
    standing: Standing,
    known: &Known,
    report: &dyn Report,
) -> Result<(), Error> {
    match (standing, known) {
        (Standing::Member, _) | (Standing::Stranger, Known::Ours(_)) => Ok(()),
        (Standing::Stranger, known) => admit::is_free(broker, settings, known).await,
        (Standing::Elsewhere { server, account }, known) => {
            let is_same = match account {
                Some(account) => known.is(&account),
                None => matches!(known, Known::Ours(_)),
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

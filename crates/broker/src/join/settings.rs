//! The settings of a join.

use std::time::Duration;

use crate::cidr::Cidr;
use crate::cluster_id::ClusterId;
use crate::component::{CONNECTIVITY, SERVICE_DISCOVERY};
use crate::info::JoinInfo;
use crate::token;

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

    pub(super) fn has_connectivity(&self) -> bool {
        self.info.components.contains(CONNECTIVITY)
    }

    pub(super) fn has_service_discovery(&self) -> bool {
        self.info.components.contains(SERVICE_DISCOVERY)
    }
}

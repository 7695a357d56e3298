//! `subctl join`.

use std::path::PathBuf;

use insula_broker::cidr::Cidr;
use insula_broker::cluster_id::ClusterId;
use insula_broker::connect;
use insula_broker::info::BrokerInfo;
use insula_broker::join::{self, JoinClients, JoinSettings};
use insula_broker::report::Report;

use super::progress::Progress;
use super::{CommandContext, flag};
use crate::client;
use crate::failure::Failure;

/// The arguments.
#[derive(clap::Args)]
pub struct Args {
    /// Broker-info file of `deploy broker`
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// ID of the cluster in the ClusterSet (default: its name in the kubeconfig)
    #[arg(long, value_name = "ID")]
    clusterid: Option<ClusterId>,

    /// Pod CIDR (default: discovered by Submariner's operator)
    #[arg(long, value_name = "CIDR")]
    clustercidr: Option<String>,

    /// Service CIDR (default: discovered by Submariner's operator)
    #[arg(long, value_name = "CIDR")]
    servicecidr: Option<String>,

    #[command(flatten)]
    addresses: AddressArgs,

    /// Whether NAT between clusters is possible
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_value = "true", default_missing_value = "true", value_parser = flag::parse_bool)]
    natt: bool,

    /// Cable driver: libreswan, wireguard or vxlan
    #[arg(long, value_name = "NAME")]
    cable_driver: Option<String>,

    /// Domains that are resolved across clusters (default: those in the file)
    #[arg(long, value_name = "DOMAIN", value_delimiter = ',')]
    custom_domains: Vec<String>,

    /// URL of the broker (default: the one in the file)
    #[arg(long, value_name = "URL", value_parser = flag::broker_url)]
    broker_url: Option<String>,

    /// Whether to verify the broker's certificate; without, the connection is insecure
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_value = "true", default_missing_value = "true", value_parser = flag::parse_bool)]
    check_broker_certificate: bool,

    #[command(flatten)]
    ignored: IgnoredArgs,
}

/// The addresses of the cluster.
#[derive(clap::Args)]
struct AddressArgs {
    /// Whether the cluster gets global addresses, if the ClusterSet has them
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_value = "true", default_missing_value = "true", value_parser = flag::parse_bool)]
    globalnet: bool,

    /// Number of global addresses
    #[arg(long, value_name = "NUMBER")]
    globalnet_cluster_size: Option<u32>,

    /// Range of global addresses
    #[arg(long, value_name = "CIDR", alias = "globalnet-cidr")]
    globalcidr: Option<Cidr>,

    /// Whether services get ClusterSet IPs by default (default: the broker's setting)
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "true", value_parser = flag::parse_bool)]
    #[arg(alias = "enable-clustersetip")]
    enable_clusterset_ip: Option<bool>,

    /// Range of ClusterSet IPs
    #[arg(long, value_name = "CIDR", alias = "clustersetip-cidr")]
    clusterset_ip_cidr: Option<Cidr>,
}

/// Flags about Submariner's operator and its data plane, which the cluster's distribution
/// deploys: accepted so that existing command lines keep working.
#[derive(clap::Args)]
struct IgnoredArgs {
    #[arg(long, hide = true)]
    repository: Option<String>,
    #[arg(long, hide = true)]
    version: Option<String>,
    #[arg(long, hide = true)]
    image_override: Vec<String>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    operator_debug: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    ipsec_debug: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pod_debug: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    label_gateway: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    load_balancer: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    force_udp_encaps: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    preferred_server: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    health_check: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    air_gapped: Option<String>,
    #[arg(long, hide = true)]
    health_check_interval: Option<String>,
    #[arg(long, hide = true)]
    health_check_max_packet_loss_count: Option<String>,
    #[arg(long, hide = true)]
    nattport: Option<String>,
    #[arg(long, hide = true)]
    ikeport: Option<String>,
    #[arg(long, hide = true)]
    coredns_custom_configmap: Option<String>,
    #[arg(long, hide = true)]
    http_proxy: Option<String>,
    #[arg(long, hide = true)]
    https_proxy: Option<String>,
    #[arg(long, hide = true)]
    no_proxy: Option<String>,
}

/// Joins a cluster to the ClusterSet of a broker-info file.
pub async fn run(cx: &CommandContext, args: Args) -> Result<(), Failure> {
    let mut info = BrokerInfo::read(&args.file).map_err(insula_broker::Error::from)?;
    if let Some(url) = &args.broker_url {
        info.url.clone_from(url);
    }
    let for_join = info.for_join(&args.file);
    let for_join = for_join.map_err(insula_broker::Error::from)?;
    cx.progress.done(&format!(
        "{} indicates broker is at {}",
        args.file.display(),
        info.url
    ));
    args.ignored.warn(&cx.progress);
    let mut broker = connect::from_file(&info)?;
    broker.accept_invalid_certs = !args.check_broker_certificate;
    let id = match &args.clusterid {
        Some(id) => id.clone(),
        None => derived(cx)?,
    };
    let clusters = JoinClients {
        broker: client::connect(broker)?,
        joining: cx.connection.client().await?,
    };
    let settings = args.settings(JoinSettings::new(for_join, id));
    let joined = join::join(&clusters, &settings, &cx.progress).await?;
    cx.progress.done(&format!(
        "Cluster {} has joined the ClusterSet of {}",
        joined.cluster_id, joined.namespace
    ));
    Ok(())
}

/// Derives the ID from the cluster's name in the kubeconfig.
fn derived(cx: &CommandContext) -> Result<ClusterId, Failure> {
    let none = "the cluster needs an ID";
    let hint = "set one with --clusterid";
    let Some(name) = cx.connection.cluster_name()? else {
        return Err(Failure::message(none).hint(hint));
    };
    let attempted = format!("{none}, and {name:?} is not one");
    ClusterId::derive(&name).map_err(|error| Failure::new(&attempted, error).hint(hint))
}

impl Args {
    fn settings(self, usual: JoinSettings) -> JoinSettings {
        JoinSettings {
            cluster_cidr: self.clustercidr,
            service_cidr: self.servicecidr,
            globalnet: self.addresses.globalnet,
            globalnet_cluster_size: self.addresses.globalnet_cluster_size,
            globalnet_cidr: self.addresses.globalcidr,
            clusterset_ip: self.addresses.enable_clusterset_ip,
            clusterset_ip_cidr: self.addresses.clusterset_ip_cidr,
            nat: self.natt,
            cable_driver: self.cable_driver,
            custom_domains: self.custom_domains,
            check_broker_certificate: self.check_broker_certificate,
            ..usual
        }
    }
}

impl IgnoredArgs {
    /// Warns about each given flag that has no effect.
    fn warn(&self, progress: &Progress) {
        for (flag, given) in [
            ("--repository", self.repository.is_some()),
            ("--version", self.version.is_some()),
            ("--image-override", !self.image_override.is_empty()),
            ("--operator-debug", self.operator_debug.is_some()),
            ("--ipsec-debug", self.ipsec_debug.is_some()),
            ("--pod-debug", self.pod_debug.is_some()),
            ("--label-gateway", self.label_gateway.is_some()),
            ("--load-balancer", self.load_balancer.is_some()),
            ("--force-udp-encaps", self.force_udp_encaps.is_some()),
            ("--preferred-server", self.preferred_server.is_some()),
            ("--health-check", self.health_check.is_some()),
            ("--air-gapped", self.air_gapped.is_some()),
            (
                "--health-check-interval",
                self.health_check_interval.is_some(),
            ),
            (
                "--health-check-max-packet-loss-count",
                self.health_check_max_packet_loss_count.is_some(),
            ),
            ("--nattport", self.nattport.is_some()),
            ("--ikeport", self.ikeport.is_some()),
            (
                "--coredns-custom-configmap",
                self.coredns_custom_configmap.is_some(),
            ),
            ("--http-proxy", self.http_proxy.is_some()),
            ("--https-proxy", self.https_proxy.is_some()),
            ("--no-proxy", self.no_proxy.is_some()),
        ] {
            if given {
                progress.warn(&format!(
                    "{flag} is ignored: Submariner's operator is not deployed by this command"
                ));
            }
        }
    }
}

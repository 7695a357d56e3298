//! `subctl deploy broker`, which was `subctl deploy-broker`.

use std::path::PathBuf;

use clap::error::ErrorKind;
use insula_broker::deploy::broker::{self, BrokerSettings, Deployed, PskSource};
use insula_broker::globalnet::{
    CLUSTERSET_IP_RANGE, ClustersetIp, GLOBALNET_CLUSTER_SIZE, GLOBALNET_RANGE, Globalnet,
};
use insula_broker::report::Report;
use insula_broker::{component, info, token};

use crate::failure::Failure;
use crate::subctl::progress::Progress;
use crate::subctl::{CommandContext, flag, usage};

/// The arguments.
#[derive(clap::Args)]
pub struct Args {
    /// Broker-info file with the target and credentials, as written by `create tenant`, and optionally the IPsec PSK
    #[arg(long, value_name = "FILE")]
    broker_info_from: Option<PathBuf>,

    /// Deprecated alias of --broker-info-from
    #[arg(long, value_name = "FILE")]
    ipsec_psk_from: Option<PathBuf>,

    /// Namespace of the broker, if the file has none (default: submariner-k8s-broker)
    #[arg(short, long, value_name = "NAME", alias = "broker-namespace")]
    namespace: Option<String>,

    #[command(flatten)]
    broker: BrokerArgs,

    /// URL of the server for clusters (default: the URL in use)
    #[arg(long, value_name = "URL", value_parser = flag::broker_url)]
    broker_url: Option<String>,

    /// Generate a new IPsec PSK in any case, which cuts off joined clusters until they join again
    #[arg(long)]
    new_psk: bool,

    /// Broker-info file to write; an existing one is backed up
    #[arg(long, value_name = "FILE", default_value = info::FILE)]
    output_file: PathBuf,

    #[command(flatten)]
    ignored: IgnoredArgs,
}

/// The settings of the broker itself.
#[derive(clap::Args)]
pub struct BrokerArgs {
    /// Components that joining clusters run
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    #[arg(default_values = component::ALL)]
    components: Vec<String>,

    #[command(flatten)]
    networks: NetworkArgs,

    /// Domains that are resolved across clusters, in addition to the default one
    #[arg(long, value_name = "DOMAIN", value_delimiter = ',')]
    custom_domains: Vec<String>,
}

/// The addresses of clusters.
#[derive(clap::Args)]
struct NetworkArgs {
    /// Enable global addresses for clusters with overlapping ranges
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_value = "false", default_missing_value = "true", value_parser = flag::parse_bool)]
    globalnet: bool,

    /// Range of global addresses
    #[arg(long, value_name = "CIDR", default_value = GLOBALNET_RANGE)]
    globalnet_cidr_range: String,

    /// Default number of global addresses per cluster
    #[arg(long, value_name = "NUMBER", default_value_t = GLOBALNET_CLUSTER_SIZE)]
    #[arg(alias = "default-globalnet-cluster-size")]
    globalnet_cluster_size: u32,

    /// Enable ClusterSet IPs for services by default
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_value = "false", default_missing_value = "true", value_parser = flag::parse_bool)]
    enable_clusterset_ip: bool,

    /// Range of ClusterSet IPs
    #[arg(long, value_name = "CIDR", default_value = CLUSTERSET_IP_RANGE)]
    clusterset_ip_cidr_range: String,
}

/// Flags about Submariner's operator, which a broker does not need: accepted so that existing
/// command lines keep working.
#[derive(clap::Args)]
struct IgnoredArgs {
    #[arg(long, hide = true)]
    repository: Option<String>,
    #[arg(long, hide = true)]
    version: Option<String>,
    #[arg(long, hide = true)]
    image_override: Vec<String>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "true", value_parser = flag::parse_bool)]
    operator_debug: Option<bool>,
    #[arg(long, hide = true)]
    http_proxy: Option<String>,
    #[arg(long, hide = true)]
    https_proxy: Option<String>,
    #[arg(long, hide = true)]
    no_proxy: Option<String>,
    /// A predecessor of --components.
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "true", value_parser = flag::parse_bool)]
    service_discovery: Option<bool>,
}

/// Deploys a broker, and writes its broker-info file.
pub async fn run(cx: &CommandContext, args: Args) -> Result<(), Failure> {
    args.ignored.warn(&cx.progress);
    let settings = args.settings(&cx.progress)?;
    let context = cx.connection.config().await;
    let context = context.map_err(Failure::into_broker_error);
    let deployed = broker::deploy(context, &settings, &cx.progress).await?;
    report_deployed(&deployed, &cx.progress);
    Ok(())
}

/// Reports where the broker is and which key its file has.
pub fn report_deployed(deployed: &Deployed, progress: &Progress) {
    let key = match deployed.psk {
        PskSource::Generated => "a new IPsec PSK",
        PskSource::Given | PskSource::Kept => "the IPsec PSK as before",
    };
    progress.done(&format!(
        "The broker in {} at {} is deployed; {} has {key}",
        deployed.namespace,
        deployed.url,
        deployed.file.display()
    ));
}

impl Args {
    fn settings(self, progress: &Progress) -> Result<BrokerSettings, Failure> {
        let info_from = self.info_from(progress);
        let mut settings = self.broker.settings(self.output_file)?;
        if self.ignored.service_discovery == Some(false) {
            settings.components.remove(component::SERVICE_DISCOVERY);
        }
        Ok(BrokerSettings {
            info_from,
            namespace: self.namespace,
            broker_url: self.broker_url,
            new_psk: self.new_psk,
            ..settings
        })
    }

    /// Returns the file, by its current or its deprecated flag.
    fn info_from(&self, progress: &Progress) -> Option<PathBuf> {
        let (now, before) = (&self.broker_info_from, &self.ipsec_psk_from);
        if before.is_some() {
            progress.warn("--ipsec-psk-from is deprecated: use --broker-info-from");
        }
        if let (Some(now), Some(before)) = (now, before)
            && now != before
        {
            let message = "--broker-info-from and --ipsec-psk-from name different files";
            usage(ErrorKind::ArgumentConflict, message);
        }
        now.clone().or_else(|| before.clone())
    }
}

impl BrokerArgs {
    /// Returns the settings of a deployment that writes this file.
    pub fn settings(self, output: PathBuf) -> Result<BrokerSettings, Failure> {
        let networks = &self.networks;
        let globalnet = Globalnet::validate(
            networks.globalnet,
            &networks.globalnet_cidr_range,
            networks.globalnet_cluster_size,
        )?;
        let clusterset_ip = ClustersetIp::validate(
            networks.enable_clusterset_ip,
            &networks.clusterset_ip_cidr_range,
        )?;
        let components = component::parse(&self.components);
        Ok(BrokerSettings {
            info_from: None,
            namespace: None,
            components: components.map_err(insula_broker::Error::from)?,
            globalnet: Some(globalnet),
            clusterset_ip: Some(clusterset_ip),
            custom_domains: self.custom_domains,
            broker_url: None,
            new_psk: false,
            output,
            token_timeout: token::TIMEOUT,
        })
    }

    /// Returns a flag that differs from its default, if there is one.
    pub fn given(&self) -> Option<&'static str> {
        let networks = &self.networks;
        let flags = [
            ("--components", self.components != component::ALL),
            ("--globalnet", networks.globalnet),
            (
                "--globalnet-cidr-range",
                networks.globalnet_cidr_range != GLOBALNET_RANGE,
            ),
            (
                "--globalnet-cluster-size",
                networks.globalnet_cluster_size != GLOBALNET_CLUSTER_SIZE,
            ),
            ("--enable-clusterset-ip", networks.enable_clusterset_ip),
            (
                "--clusterset-ip-cidr-range",
                networks.clusterset_ip_cidr_range != CLUSTERSET_IP_RANGE,
            ),
            ("--custom-domains", !self.custom_domains.is_empty()),
        ];
        let given = flags.into_iter().find(|(_, is_given)| *is_given);
        given.map(|(flag, _)| flag)
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
            ("--http-proxy", self.http_proxy.is_some()),
            ("--https-proxy", self.https_proxy.is_some()),
            ("--no-proxy", self.no_proxy.is_some()),
        ] {
            if given {
                progress.warn(&format!(
                    "{flag} does nothing: no operator is deployed with a broker"
                ));
            }
        }
        if self.service_discovery.is_some() {
            progress.warn("--service-discovery is deprecated: say --components");
        }
    }
}

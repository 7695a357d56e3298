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
use crate::subctl::{Scene, flag, usage};

/// What it can be told.
#[derive(clap::Args)]
pub struct Args {
    /// A broker-info file: where to deploy and as whom, as `create tenant` wrote it, and the IPsec PSK if it has one
    #[arg(long, value_name = "FILE")]
    broker_info_from: Option<PathBuf>,

    /// Deprecated: the same as --broker-info-from
    #[arg(long, value_name = "FILE")]
    ipsec_psk_from: Option<PathBuf>,

    /// The broker's namespace, if the file does not say; default: submariner-k8s-broker
    #[arg(short, long, value_name = "NAME", alias = "broker-namespace")]
    namespace: Option<String>,

    /// What clusters that join get
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    #[arg(default_values = component::ALL)]
    components: Vec<String>,

    #[command(flatten)]
    networks: NetworkArgs,

    /// Domains that are resolved across clusters, beside the usual one
    #[arg(long, value_name = "DOMAIN", value_delimiter = ',')]
    custom_domains: Vec<String>,

    /// The URL of the server as clusters reach it; default: as it is reached from here
    #[arg(long, value_name = "URL", value_parser = flag::broker_url)]
    broker_url: Option<String>,

    /// Make a new IPsec PSK, whatever files have: clusters that have joined are cut off until they join again
    #[arg(long)]
    new_psk: bool,

    /// Where to write the broker-info file; one that is there is kept under another name
    #[arg(long, value_name = "FILE", default_value = info::FILE)]
    output_file: PathBuf,

    #[command(flatten)]
    dropped: DroppedArgs,
}

/// The addresses that clusters get.
#[derive(clap::Args)]
struct NetworkArgs {
    /// Give clusters whose addresses overlap global ones
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_value = "false", default_missing_value = "true", value_parser = flag::on_or_off)]
    globalnet: bool,

    /// Where global addresses are from
    #[arg(long, value_name = "CIDR", default_value = GLOBALNET_RANGE)]
    globalnet_cidr_range: String,

    /// How many of them a cluster gets that does not say
    #[arg(long, value_name = "NUMBER", default_value_t = GLOBALNET_CLUSTER_SIZE)]
    #[arg(alias = "default-globalnet-cluster-size")]
    globalnet_cluster_size: u32,

    /// Give services of the whole set addresses by themselves
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_value = "false", default_missing_value = "true", value_parser = flag::on_or_off)]
    enable_clusterset_ip: bool,

    /// Where addresses of services of the whole set are from
    #[arg(long, value_name = "CIDR", default_value = CLUSTERSET_IP_RANGE)]
    clusterset_ip_cidr_range: String,
}

/// What was about Submariner's operator, which a broker does not need: old command lines go
/// on working.
#[derive(clap::Args)]
struct DroppedArgs {
    #[arg(long, hide = true)]
    repository: Option<String>,
    #[arg(long, hide = true)]
    version: Option<String>,
    #[arg(long, hide = true)]
    image_override: Vec<String>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "true", value_parser = flag::on_or_off)]
    operator_debug: Option<bool>,
    #[arg(long, hide = true)]
    http_proxy: Option<String>,
    #[arg(long, hide = true)]
    https_proxy: Option<String>,
    #[arg(long, hide = true)]
    no_proxy: Option<String>,
    /// Of the time before --components.
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "true", value_parser = flag::on_or_off)]
    service_discovery: Option<bool>,
}

/// Deploys a broker, and writes its broker-info file.
pub async fn run(scene: &Scene, args: Args) -> Result<(), Failure> {
    args.dropped.warn(&scene.progress);
    let settings = args.settings(&scene.progress)?;
    let context = scene.connection.config().await;
    let context = context.map_err(Failure::into_broker_error);
    let deployed = broker::deploy(context, &settings, &scene.progress).await?;
    tell(&deployed, &scene.progress);
    Ok(())
}

fn tell(deployed: &Deployed, progress: &Progress) {
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
        let mut components = component::parse(&self.components)?;
        if self.dropped.service_discovery == Some(false) {
            components.remove(component::SERVICE_DISCOVERY);
        }
        Ok(BrokerSettings {
            info_from: self.info_from(progress),
            namespace: self.namespace,
            components,
            globalnet: Some(globalnet),
            clusterset_ip: Some(clusterset_ip),
            custom_domains: self.custom_domains,
            broker_url: self.broker_url,
            new_psk: self.new_psk,
            output: self.output_file,
            token_timeout: token::TIMEOUT,
        })
    }

    /// The file, by its name of now or of before.
    fn info_from(&self, progress: &Progress) -> Option<PathBuf> {
        let (now, before) = (&self.broker_info_from, &self.ipsec_psk_from);
        if before.is_some() {
            progress.warn("--ipsec-psk-from is deprecated: say --broker-info-from");
        }
        if let (Some(now), Some(before)) = (now, before)
            && now != before
        {
            let said = "--broker-info-from and --ipsec-psk-from name different files";
            usage(ErrorKind::ArgumentConflict, said);
        }
        now.clone().or_else(|| before.clone())
    }
}

impl DroppedArgs {
    /// Says of what was given that it does nothing.
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

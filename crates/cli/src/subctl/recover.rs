//! `subctl recover-broker-info`.

use std::path::PathBuf;

use insula_broker::info::{self, BrokerInfo};
use insula_broker::recover::{self, Context, RecoverSettings};
use insula_broker::{Error, connect};
use kube::Client;

use super::file;
use super::{CommandContext, flag};
use crate::client;
use crate::failure::Failure;

/// The arguments.
#[derive(clap::Args)]
pub struct Args {
    /// Namespace of the broker, if the cluster has not joined and has several
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,

    /// URL of the broker (default: the one that the cluster knows)
    #[arg(long, value_name = "URL", value_parser = flag::broker_url)]
    broker_url: Option<String>,

    /// Broker-info file to write; an existing one is backed up
    #[arg(long, value_name = "FILE", default_value = info::FILE)]
    output_file: PathBuf,
}

/// Recovers a lost broker-info file from a cluster that has joined.
pub async fn run(cx: &CommandContext, args: Args) -> Result<(), Failure> {
    let config = cx.connection.config().await?;
    let context = Context {
        url: client::url(&config),
        client: client::connect(config)?,
    };
    let settings = RecoverSettings {
        namespace: args.namespace,
        broker_url: args.broker_url,
        output: args.output_file,
    };
    let recovered = recover::recover(&context, &broker, &settings, &cx.progress).await?;
    file::report_saved(&settings.output, &recovered.saved, &cx.progress);
    Ok(())
}

/// Connects to the broker with the credentials of a broker info.
fn broker(info: &BrokerInfo) -> Result<Client, Error> {
    client::connect(connect::from_file(info)?).map_err(Failure::into_broker_error)
}

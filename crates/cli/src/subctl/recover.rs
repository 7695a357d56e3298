//! `subctl recover-broker-info`.

use std::path::PathBuf;

use insula_broker::info::{self, BrokerInfo};
use insula_broker::recover::{self, Context, RecoverSettings};
use insula_broker::{Error, connect};
use kube::Client;

use super::connection::{self, client};
use super::file;
use super::{Scene, flag};
use crate::failure::Failure;

/// What it can be told.
#[derive(clap::Args)]
pub struct Args {
    /// The broker's namespace, where the cluster has joined none and has many
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,

    /// The URL of the broker, if not the one that the cluster knows
    #[arg(long, value_name = "URL", value_parser = flag::broker_url)]
    broker_url: Option<String>,

    /// Where to write the broker-info file; one that is there is kept under another name
    #[arg(long, value_name = "FILE", default_value = info::FILE)]
    output_file: PathBuf,
}

/// Writes a broker-info file that was lost, from a cluster that has joined.
pub async fn run(scene: &Scene, args: Args) -> Result<(), Failure> {
    let config = scene.connection.config().await?;
    let context = Context {
        url: connection::url(&config),
        client: client(config)?,
    };
    let settings = RecoverSettings {
        namespace: args.namespace,
        broker_url: args.broker_url,
        output: args.output_file,
    };
    let recovered = recover::recover(&context, &broker, &settings, &scene.progress).await?;
    file::tell(&settings.output, &recovered.saved, &scene.progress);
    Ok(())
}

/// The broker, as whoever the file is of.
fn broker(info: &BrokerInfo) -> Result<Client, Error> {
    client(connect::from_file(info)?).map_err(Failure::into_broker_error)
}

//! `subctl diagnose`.

use std::path::PathBuf;

use clap::ValueEnum;
use insula_broker::connect;
use insula_broker::diagnose::{self, DiagnoseClients, Outcome, Target};
use serde_json::json;

use super::broker_file::BrokerFile;
use super::{CommandContext, flag};
use crate::client;
use crate::failure::Failure;
use crate::output;

/// The arguments.
#[derive(clap::Args)]
pub struct Args {
    /// Broker-info file of `deploy broker`
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Also check the cluster of the kubeconfig's context: whether it has joined this broker
    #[arg(long)]
    member: bool,

    /// Output format
    #[arg(short, long, value_enum, default_value = "table")]
    output: Format,

    /// URL of the broker (default: the one in the file)
    #[arg(long, value_name = "URL", value_parser = flag::broker_url)]
    broker_url: Option<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    Table,
    Json,
}

/// Checks a broker and the clusters that have joined it.
pub async fn run(cx: &CommandContext, args: Args) -> Result<(), Failure> {
    let file = BrokerFile::read(&args.file, args.broker_url.as_deref())?;
    let clients = DiagnoseClients {
        broker: client::connect(connect::from_file(&file.info)?)?,
        member: match args.member {
            true => Some(cx.connection.client().await?),
            false => None,
        },
    };
    let target = Target {
        url: file.info.url,
        namespace: file.namespace,
    };
    let checks = diagnose::diagnose(&clients, &target).await;
    let failed = checks.iter();
    let failed = failed
        .filter(|check| check.result == Outcome::Failed)
        .count();
    output::print(&match args.output {
        Format::Table => diagnose::table(&checks),
        Format::Json => format!("{:#}\n", json!({"ok": failed == 0, "checks": checks})),
    })?;
    match failed {
        0 => Ok(()),
        failed => Err(Failure::message(format!(
            "{failed} of {} checks failed",
            checks.len()
        ))),
    }
}

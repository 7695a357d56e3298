//! `subctl unjoin`.

use std::io::{BufRead, IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

use insula_broker::cluster_id::ClusterId;
use insula_broker::connect;
use insula_broker::report::Report;
use insula_broker::unjoin::{self, Removal, UnjoinClients, UnjoinSettings};

use super::broker_file::BrokerFile;
use super::{CommandContext, flag};
use crate::client;
use crate::duration;
use crate::failure::Failure;

/// The arguments.
#[derive(clap::Args)]
pub struct Args {
    /// Broker-info file of `deploy broker`
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// ID of the cluster in the ClusterSet (default: the ID that it has joined with)
    #[arg(long, value_name = "ID")]
    clusterid: Option<ClusterId>,

    /// Remove a cluster that no longer exists: from the broker only
    #[arg(long, requires = "clusterid")]
    broker_only: bool,

    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,

    /// URL of the broker (default: the one in the file)
    #[arg(long, value_name = "URL", value_parser = flag::broker_url)]
    broker_url: Option<String>,

    /// Whether to verify the broker's certificate; without, the connection is insecure
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_value = "true", default_missing_value = "true", value_parser = flag::parse_bool)]
    check_broker_certificate: bool,

    /// How long Submariner's operator may take to disconnect the cluster
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration::parse)]
    timeout: Duration,
}

/// Removes a cluster from its ClusterSet.
pub async fn run(cx: &CommandContext, args: Args) -> Result<(), Failure> {
    let file = BrokerFile::read(&args.file, args.broker_url.as_deref())?;
    let mut broker = connect::from_file(&file.info)?;
    broker.accept_invalid_certs = !args.check_broker_certificate;
    let clients = UnjoinClients {
        broker: client::connect(broker)?,
        member: match args.broker_only {
            true => None,
            false => Some(cx.connection.client().await?),
        },
    };
    let settings = UnjoinSettings {
        url: file.info.url.clone(),
        namespace: file.namespace,
        cluster_id: args.clusterid,
        timeout: args.timeout,
    };
    let removal = unjoin::check(&clients, &settings).await?;
    if !args.yes {
        confirm(&removal)?;
    }
    unjoin::unjoin(&clients, &settings, &removal, &cx.progress).await?;
    cx.progress.done(&match &removal.cluster_id {
        Some(id) => format!(
            "Cluster {id} has left the ClusterSet of {}",
            removal.namespace
        ),
        None => format!(
            "The cluster is no member of the ClusterSet of {}",
            removal.namespace
        ),
    });
    Ok(())
}

/// Asks on a terminal; elsewhere the flag is needed.
fn confirm(removal: &Removal) -> Result<(), Failure> {
    let Some(id) = &removal.cluster_id else {
        return Ok(());
    };
    let question = format!(
        "Remove cluster {id} from the ClusterSet of {}? It is disconnected from all others.",
        removal.namespace
    );
    let hint = "--yes removes it without a question";
    if !std::io::stdin().is_terminal() {
        return Err(Failure::message("not confirmed: nothing was removed").hint(hint));
    }
    let mut stderr = std::io::stderr().lock();
    let asked = write!(stderr, "{question} [y/N] ").and_then(|()| stderr.flush());
    let mut answer = String::new();
    let answered = asked.and_then(|()| std::io::stdin().lock().read_line(&mut answer));
    answered.map_err(|error| Failure::new("cannot ask for confirmation", error))?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Failure::message("not confirmed: nothing was removed").hint(hint)),
    }
}

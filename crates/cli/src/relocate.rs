//! `insula move`.

use std::path::PathBuf;
use std::time::Duration;

use insula_capi::relocation::identity_namespaces;
use insula_relocate::{Error, Identities, Moved, NamespaceLabels, Pauses, Settings};
use insula_relocate::{preview, relocate};
use kube::Client;

use crate::client;
use crate::duration;
use crate::failure::Failure;
use crate::kubeconfig::Source;
use crate::output;
use crate::providers::MOVE_RULES;
use crate::subctl::Progress;
use crate::terminal;

/// The arguments.
#[derive(clap::Args)]
pub struct Args {
    /// Kubeconfig of the target server
    #[arg(long, value_name = "FILE")]
    to_kubeconfig: PathBuf,

    /// Context of the target kubeconfig (default: the current one)
    #[arg(long, value_name = "NAME")]
    to_context: Option<String>,

    /// Namespace whose clusters are moved (default: the context's)
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,

    /// Move only this cluster
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,

    /// Print what would be moved, without changes
    #[arg(long)]
    dry_run: bool,

    /// Do not copy the identities that the clusters name, nor their Secrets
    #[arg(long)]
    without_identities: bool,

    /// Namespace with Secrets of identities (repeatable)
    #[arg(long, value_name = "NAME", default_values_t = identity_namespaces(MOVE_RULES))]
    provider_namespace: Vec<String>,

    /// Copy the labels of the namespace, by which identities may allow it
    #[arg(long)]
    copy_namespace_labels: bool,

    /// Do not wait until controllers have paused: none is running
    #[arg(long)]
    assume_paused: bool,

    /// How long controllers may take to pause, and objects may block the move
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = duration::parse)]
    timeout: Duration,

    #[command(flatten)]
    source: Source,
}

/// The user agent.
const AGENT: &str = concat!("insula-move/", env!("CARGO_PKG_VERSION"));

/// Moves clusters to another server or space.
pub fn run(args: Args) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new("cannot start", error))?;
    runtime.block_on(move_clusters(args))
}

async fn move_clusters(args: Args) -> Result<(), Failure> {
    let (here, namespace) = connect(&args.source).await?;
    let there = Source::of(args.to_kubeconfig, args.to_context);
    let (there, _) = connect(&there).await?;
    let settings = Settings {
        cluster: args.cluster,
        identities: match args.without_identities {
            true => Identities::Leave,
            false => Identities::Carry,
        },
        provider_namespaces: args.provider_namespace,
        namespace_labels: match args.copy_namespace_labels {
            true => NamespaceLabels::Copy,
            false => NamespaceLabels::Leave,
        },
        pauses: match args.assume_paused {
            true => Pauses::Assumed,
            false => Pauses::Confirmed,
        },
        timeout: args.timeout,
        ..Settings::new(args.namespace.unwrap_or(namespace), MOVE_RULES)
    };
    let progress = Progress::to_stderr();
    let done = match args.dry_run {
        true => preview(&here, &there, &settings, &progress).await,
        false => relocate(&here, &there, &settings, &progress).await,
    };
    progress.end(done.is_ok());
    output::print(&terminal::sanitize(&format_moved(&done?)))
}

/// Creates a client, and returns it with the namespace of its context.
async fn connect(source: &Source) -> Result<(Client, String), Failure> {
    let config = source.config(AGENT).await?;
    let namespace = config.default_namespace.clone();
    Ok((client::connect(config)?, namespace))
}

/// Formats one line per object with its outcome.
fn format_moved(moved: &Moved) -> String {
    let mut text = String::new();
    for (names, fate) in [(&moved.moved, "move"), (&moved.copied, "copy, kept here")] {
        for name in names {
            text.push_str(&format!("{name} ({fate})\n"));
        }
    }
    text
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let failure = Self::message(error.to_string());
        match error.hint() {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moved_and_copied_objects_are_listed() {
        let moved = Moved {
            moved: vec!["Cluster a/c".to_owned()],
            copied: vec!["VSphereClusterIdentity shared".to_owned()],
            unpaused: Vec::new(),
        };
        let text = "Cluster a/c (move)\nVSphereClusterIdentity shared (copy, kept here)\n";
        assert_eq!(format_moved(&moved), text);
    }
}

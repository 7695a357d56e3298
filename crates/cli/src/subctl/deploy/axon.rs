//! `subctl deploy axon-cp`.

use std::time::Duration;

use clap::ValueEnum;
use insula_broker::deploy::axon::{self, AxonSettings};
use insula_broker::report::Report;

use crate::failure::Failure;
use crate::output;
use crate::subctl::Scene;
use crate::subctl::subject::{self, Subject};

/// What it can be told.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    parts: PartsArgs,

    /// Change nothing, and print what would be applied
    #[arg(long)]
    dry_run: bool,

    /// How to print it, with --dry-run
    #[arg(short, long, value_enum, default_value = "yaml", requires = "dry_run")]
    output: Format,

    /// Do not wait until an operator runs
    #[arg(long)]
    no_wait: bool,

    /// How long to wait until one does
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = crate::duration::parse)]
    timeout: Duration,
}

/// What the operator is made of.
#[derive(clap::Args)]
pub struct PartsArgs {
    /// The image that the operator runs from: one with the binary `insula`
    #[arg(long, value_name = "IMAGE", default_value = IMAGE)]
    operator_image: String,

    /// No Deployment: the operator runs elsewhere, as in `insula serve --operators broker`
    #[arg(long)]
    without_deployment: bool,

    /// Who manages tenants beside administrators of the cluster: user:NAME, group:NAME or serviceaccount:NAMESPACE/NAME; may be repeated
    #[arg(long = "axon-admin", value_name = "WHO", value_parser = subject::parse)]
    axon_admins: Vec<Subject>,

    /// Let the operator make whole spaces, on Insula: for `create tenant --isolation space`
    #[arg(long)]
    spaces: bool,
}

/// The image of this version.
pub const IMAGE: &str = concat!("insula:", env!("CARGO_PKG_VERSION"));

/// How objects are printed.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Documents that `kubectl apply -f -` takes
    Yaml,
    /// One list
    Json,
}

impl PartsArgs {
    /// The same, for whoever makes it.
    pub fn settings(self) -> AxonSettings {
        AxonSettings {
            operator_image: self.operator_image,
            deployment: !self.without_deployment,
            admins: self.axon_admins,
            spaces: self.spaces,
        }
    }
}

/// Installs what tenants need, and waits until an operator runs.
pub async fn run(scene: &Scene, args: Args) -> Result<(), Failure> {
    let settings = args.parts.settings();
    if args.dry_run {
        return print(&settings, args.output);
    }
    let client = scene.connection.client().await?;
    axon::deploy(&client, &settings, &scene.progress).await?;
    if !args.no_wait {
        axon::wait_for_operator(&client, args.timeout, &scene.progress).await?;
    }
    scene
        .progress
        .done("Tenants can be created: subctl create tenant");
    Ok(())
}

/// Prints what would be applied.
pub fn print(settings: &AxonSettings, format: Format) -> Result<(), Failure> {
    let manifests = axon::manifests(settings);
    output::print(&match format {
        Format::Yaml => output::documents(&manifests)?,
        Format::Json => {
            let list =
                serde_json::json!({ "apiVersion": "v1", "kind": "List", "items": manifests });
            format!("{list:#}\n")
        }
    })
}

//! `subctl deploy axon-cp`.

use std::time::Duration;

use clap::ValueEnum;
use insula_broker::deploy::axon::{self, AxonSettings};
use insula_broker::report::Report;

use crate::failure::Failure;
use crate::output;
use crate::subctl::CommandContext;
use crate::subctl::subject::{self, Subject};

/// The arguments.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    parts: PartsArgs,

    /// Print the manifests instead of applying them
    #[arg(long)]
    dry_run: bool,

    /// Output format of --dry-run
    #[arg(short, long, value_enum, default_value = "yaml", requires = "dry_run")]
    output: Format,

    /// Do not wait for a running operator
    #[arg(long)]
    no_wait: bool,

    /// How long to wait for a running operator
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = crate::duration::parse)]
    timeout: Duration,
}

/// The arguments of the operator's objects.
#[derive(clap::Args)]
pub struct PartsArgs {
    /// Image of the operator, with the binary `insula`
    #[arg(long, value_name = "IMAGE", default_value = IMAGE)]
    operator_image: String,

    /// Create no Deployment: the operator runs elsewhere, such as in `insula serve --operators broker`
    #[arg(long)]
    without_deployment: bool,

    /// Tenant manager in addition to the cluster's administrators: user:NAME, group:NAME or serviceaccount:NAMESPACE/NAME (repeatable)
    #[arg(long = "axon-admin", value_name = "SUBJECT", value_parser = subject::parse)]
    axon_admins: Vec<Subject>,

    /// Let the operator create spaces on Insula, for `create tenant --isolation space`
    #[arg(long)]
    spaces: bool,
}

/// The image of this version.
pub const IMAGE: &str = concat!("insula:", env!("CARGO_PKG_VERSION"));

/// The output formats of objects.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// YAML documents for `kubectl apply -f -`
    Yaml,
    /// One JSON list
    Json,
}

impl PartsArgs {
    /// Builds the settings.
    pub fn settings(self) -> AxonSettings {
        AxonSettings {
            operator_image: self.operator_image,
            deployment: !self.without_deployment,
            admins: self.axon_admins,
            spaces: self.spaces,
        }
    }
}

/// Installs the prerequisites of tenants and waits for a running operator.
pub async fn run(cx: &CommandContext, args: Args) -> Result<(), Failure> {
    let settings = args.parts.settings();
    if args.dry_run {
        return print(&settings, args.output);
    }
    let client = cx.connection.client().await?;
    axon::deploy(&client, &settings, &cx.progress).await?;
    if !args.no_wait {
        axon::wait_for_operator(&client, args.timeout, &cx.progress).await?;
    }
    cx.progress
        .done("Tenants can be created: subctl create tenant");
    Ok(())
}

/// Prints the manifests.
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

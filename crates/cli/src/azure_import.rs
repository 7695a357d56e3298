//! `insula azure`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Subcommand;
use insula_azure::arm::{ResourceId, Session};
use insula_azure::entra::Cleartext;
use insula_azure::import::children::{Tree, read_tree};
use insula_azure::import::{Import, ImportError, open_session};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use serde_json::Value;
use tracing::warn;

use crate::certificate_file::certificates;
use crate::client::{self, AGENT};
use crate::failure::Failure;
use crate::kubeconfig::Source;
use crate::output;

/// The arguments of `insula azure`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Print the YAML of a custom resource for a resource that exists in Azure. The credential is
    /// that of the environment variables AZURE_*, as the settings of an operator have them
    Import(ImportArgs),
}

#[derive(clap::Args)]
struct ImportArgs {
    /// ARM id, such as /subscriptions/S/resourceGroups/G
    #[arg(value_name = "ID", value_parser = resource_id)]
    id: ResourceId,

    /// Include the children of the resource, those of its children and so on, and role assignments.
    /// Of a resource group: its resources. Those without a kind are left out
    #[arg(long)]
    with_children: bool,

    /// Version of the custom resource (default: the newest stable one)
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,

    /// Namespace of the custom resource (default: none)
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,

    /// File with additional CAs of Azure endpoints, in PEM
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,

    #[command(flatten)]
    source: Source,
}

/// Runs the command.
pub fn run(args: Args) -> Result<(), Failure> {
    let Command::Import(args) = args.command;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new("cannot start", error))?;
    runtime.block_on(import(args))
}

async fn import(args: ImportArgs) -> Result<(), Failure> {
    let authorities = args.ca_file.as_deref();
    let authorities = authorities.map_or(Ok(Vec::new()), certificates)?;
    let authorities = authorities.iter().map(|der| der.to_vec()).collect();
    let import = Import::find(args.id.clone(), args.version.as_deref());
    let import = import.map_err(|error| failure(&error))?;
    let session = open_session(environment(), &args.id, authorities, Cleartext::Refused).await;
    let session = session.map_err(|error| failure(&error))?;
    if args.with_children {
        return import_tree(&args, import, &session).await;
    }
    let definition = match import.own_definition() {
        Some(definition) => Some(definition.clone()),
        None => installed(&args.source, &import.definition_name()).await,
    };
    let read = import.read(&session, definition.as_ref()).await;
    let mut object = read.map_err(|error| failure(&error))?;
    put_into_namespace(&mut object, &args);
    output::print(&output::yaml(&object)?)
}

/// Prints a resource and everything below it. Fails in the end if some of that could not be read.
async fn import_tree(args: &ImportArgs, import: Import, session: &Session) -> Result<(), Failure> {
    let installed = async |name: &str| installed(&args.source, name).await;
    let tree = read_tree(import, session, installed).await;
    let Tree {
        mut objects,
        without_kind,
        failures,
    } = tree.map_err(|error| failure(&error))?;
    for object in &mut objects {
        put_into_namespace(object, args);
    }
    output::print(&output::documents(&objects)?)?;
    for arm_type in without_kind {
        warn!(arm_type, "resources left out: there is no kind for them");
    }
    for error in &failures {
        warn!(%error, "resources left out: they cannot be read");
    }
    match failures.first() {
        None => Ok(()),
        Some(first) => {
            let count = failures.len();
            let failed = Failure::message(format!("{count} resources or lists were not read"));
            Err(failed.hint(first.hint().unwrap_or("see the warnings above")))
        }
    }
}

fn put_into_namespace(object: &mut Value, args: &ImportArgs) {
    if let Some(namespace) = &args.namespace {
        object["metadata"]["namespace"] = namespace.as_str().into();
    }
}

/// Reads the definition of a kind that this program does not have one of.
async fn installed(source: &Source, name: &str) -> Option<CustomResourceDefinition> {
    let read = async {
        let client = client::connect(source.config(AGENT).await?)?;
        let definitions: Api<CustomResourceDefinition> = Api::all(client);
        let read = definitions.get(name).await;
        read.map_err(|error| Failure::new("cannot read the definition", error))
    };
    match read.await {
        Ok(definition) => Some(definition),
        Err(error) => {
            warn!(definition = name, %error, "definition not read: fields may be included that only Azure sets");
            None
        }
    }
}

fn failure(error: &ImportError) -> Failure {
    let failure = Failure::message(error.to_string());
    match error.hint() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

fn resource_id(text: &str) -> Result<ResourceId, String> {
    let id: Result<ResourceId, _> = text.parse();
    id.map_err(|error| error.to_string())
}

/// Returns the variables of the environment that are texts.
fn environment() -> BTreeMap<String, String> {
    let all = std::env::vars_os();
    let texts =
        all.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    texts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_is_an_arm_id() {
        let id = "/subscriptions/s/resourceGroups/g";
        assert_eq!(resource_id(id).map(|it| it.to_string()), Ok(id.to_owned()));
        assert!(resource_id("g").is_err());
    }
}

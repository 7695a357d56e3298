//! Resources of Azure: the time until all are ready after the operator starts, what that asks of
//! Entra ID and of Azure Resource Manager, and the operator's resources.
//!
//! Azure is a stand-in in this process. Each namespace has a credential and a subscription of its
//! own.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use insula_testkit::azure::FakeAzure;
use serde_json::{Value, json};

use super::client::Client;
use super::kinds;
use super::object_states::{ObjectStates, condition};
use super::server::{Process, Program, Server};
use crate::figures::Figures;
use crate::machine;
use crate::report::progress;

const GROUPS: &str = "/apis/resources.azure.com/v1api20200601/resourcegroups";
/// The namespace of the operator.
const HOME: &str = "azureoperator-system";
const TENANT: &str = "contoso";
/// How long the operator is watched after all resources are ready.
const QUIET: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Resources.
    pub resources: usize,
    /// Namespaces, each with a credential of its own.
    pub namespaces: usize,
}

/// Measures with a server that serves the webhooks, and the operator in its own process.
pub async fn measure(program: &Program, size: Size) -> Result<Figures> {
    let Size {
        resources,
        namespaces,
    } = size;
    progress(&format!(
        "{resources} resources of Azure in {namespaces} namespaces"
    ));
    let azure = FakeAzure::start().await?;
    let folder = tempfile::tempdir()?;
    let authorities = folder.path().join("ca.pem");
    fs::write(&authorities, azure.ca_pem())?;
    let (_, server) = start_with_webhooks(program, folder.path())?;
    let client = server.subject.connect(8).await?;
    create(program, &server, &client, &azure, size).await?;
    let mut states = ObjectStates::watch(&client, GROUPS, is_ready).await?;
    server.subject.wait_until_idle().await?;
    let begun = Instant::now();
    let mut operator = Command::new(&program.path);
    operator
        .args(["operator", "azure", "--ca-file"])
        .arg(&authorities)
        .arg("--kubeconfig")
        .arg(server.kubeconfig())
        .envs(azure.settings())
        .env("POD_NAMESPACE", HOME)
        .env("AZURE_OPERATOR_MODE", "watchers")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let operator = Process::of(operator.spawn().context("cannot start the operator")?);
    states
        .wait_until(|states| states.values().filter(|ready| **ready).count() >= resources)
        .await?;
    let ready = begun.elapsed();
    server.subject.wait_until_idle().await?;
    let tokens = azure.token_requests().len();
    let calls = azure.requests().len();
    ensure!(
        calls >= resources,
        "{resources} resources with {calls} calls"
    );
    tokio::time::sleep(QUIET).await;
    let later = azure.requests().len() - calls;
    let figures = Figures::default()
        .with("ready", ready.as_secs_f64())
        .with("tokens", tokens as f64)
        .with("calls", calls as f64 / resources as f64)
        .with("later", later as f64)
        .with("cpu", machine::cpu_time(operator.id())?.as_secs_f64())
        .with("resident", machine::resident(operator.id())? as f64)
        .with("most", machine::most_resident(operator.id())? as f64);
    drop(operator);
    server.stop()?;
    Ok(figures.under("azure"))
}

/// Starts a server with the webhooks of the operator, which it needs a file of settings for, and
/// returns the program with these arguments too.
pub fn start_with_webhooks(program: &Program, folder: &Path) -> Result<(Program, Server)> {
    let settings = folder.join("webhooks.env");
    fs::write(&settings, "AZURE_WEBHOOK_ONLY=1\n")?;
    let more = ["--operators", "azure", "--azure-settings-file"].map(OsString::from);
    let program = Program {
        more: more.into_iter().chain([settings.into()]).collect(),
        ..program.clone()
    };
    let server = program.start()?;
    Ok((program, server))
}

/// Creates the kinds, the namespaces with their credentials, and the resources.
async fn create(
    program: &Program,
    server: &Server,
    client: &Client,
    azure: &FakeAzure,
    size: Size,
) -> Result<()> {
    let definitions = kinds::of_operator(program, "azure")?;
    kinds::install(client, &definitions).await?;
    let names = (0..size.namespaces).map(name).chain([HOME.to_owned()]);
    kinds::create(server, client, names.map(|name| kinds::namespace(&name))).await?;
    let credentials = (0..size.namespaces).map(|n| {
        let (client, subscription) = (name(n), format!("sub-{n}"));
        azure.add_secret(TENANT, &client, "secret");
        azure.add_subscription(&subscription, TENANT, &[&client]);
        let texts = json!({
            "AZURE_SUBSCRIPTION_ID": subscription, "AZURE_TENANT_ID": TENANT,
            "AZURE_CLIENT_ID": client, "AZURE_CLIENT_SECRET": "secret",
        });
        kinds::secret(&name(n), "aso-credential", &texts)
    });
    let credentials: Vec<_> = credentials.collect();
    kinds::create(server, client, credentials).await?;
    let resources = (0..size.resources).map(|n| resource(n, size.namespaces));
    kinds::create(server, client, resources).await
}

fn name(n: usize) -> String {
    format!("team-{n}")
}

fn resource(n: usize, namespaces: usize) -> (String, Value) {
    let object = json!({
        "apiVersion": "resources.azure.com/v1api20200601", "kind": "ResourceGroup",
        "metadata": {"name": format!("g{n:04}")},
        "spec": {
            "azureName": format!("g{n:04}"), "location": "westeurope", "tags": {"cost": "bench"},
        },
    });
    let group = "/apis/resources.azure.com/v1api20200601";
    let collection = format!("{group}/namespaces/{}/resourcegroups", name(n % namespaces));
    (collection, object)
}

fn is_ready(object: &Value) -> bool {
    condition(object, "Ready").is_some_and(|ready| ready["status"] == "True")
}

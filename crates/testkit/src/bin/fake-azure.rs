//! A fake Azure as a process: Resource Manager, the token endpoint of Entra ID, and the instance
//! metadata service on free ports of loopback.
//!
//! It prints its addresses as lines of `NAME=VALUE`, and ends on SIGTERM or SIGINT, or when its
//! standard input is a pipe that is closed.

use std::io::{Read, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;
use std::thread;

use anyhow::Context;
use clap::Parser;
use insula_testkit::azure::FakeAzure;
use nix::sys::signal::{SigSet, Signal};
use tokio::sync::mpsc;

/// Fake Azure on loopback
#[derive(Debug, Parser)]
struct Arguments {
    /// Subscription and the clients that may use it (repeatable)
    #[arg(long, value_name = "TENANT/SUBSCRIPTION=CLIENT,…")]
    subscription: Vec<String>,
    /// Client secret of an application (repeatable)
    #[arg(long, value_name = "TENANT/CLIENT=SECRET")]
    secret: Vec<String>,
    /// Certificate of an application, in PEM (repeatable)
    #[arg(long, value_name = "TENANT/CLIENT=FILE")]
    certificate: Vec<String>,
    /// Federated credential of an application (repeatable)
    #[arg(long, value_name = "TENANT/CLIENT=ISSUER,SUBJECT")]
    federated: Vec<String>,
    /// Identity that the machine has (repeatable)
    #[arg(long, value_name = "TENANT/CLIENT")]
    identity: Vec<String>,
    /// CA of issuers in PEM (repeatable)
    #[arg(long, value_name = "FILE")]
    issuer_ca: Vec<PathBuf>,
    /// Polls for which an operation is in progress
    #[arg(long, default_value_t = 1)]
    polls: u32,
    /// Seconds that clients are asked to wait between polls
    #[arg(long, default_value_t = 1)]
    retry_after: u32,
    /// File that the CA certificate is written to [default: a temporary file]
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// File that each request is appended to, as a line of JSON
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    // Blocked before any thread starts, so that only the waiting thread receives them.
    let signals: SigSet = [Signal::SIGTERM, Signal::SIGINT].into_iter().collect();
    signals.thread_block()?;
    let (stop, mut stopped) = mpsc::unbounded_channel();
    spawn_waiting(stop, signals);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let azure = FakeAzure::start().await?;
        configure(&azure, &arguments)?;
        let folder = tempfile::tempdir()?;
        let ca_file = arguments
            .ca_file
            .unwrap_or_else(|| folder.path().join("ca.crt"));
        std::fs::write(&ca_file, azure.ca_pem())
            .with_context(|| format!("write {}", ca_file.display()))?;
        print_addresses(&azure, &ca_file.display().to_string())?;
        stopped.recv().await;
        Ok(())
    })
}

/// Starts the threads that report a signal or the end of the input.
fn spawn_waiting(stop: mpsc::UnboundedSender<()>, signals: SigSet) {
    let input = std::fs::metadata("/dev/stdin").map(|input| input.file_type());
    // A process in the background of a script has /dev/null for its input, which ends at once.
    if input.is_ok_and(|input| input.is_fifo() || input.is_socket()) {
        let stop = stop.clone();
        thread::spawn(move || {
            let mut input = std::io::stdin().lock();
            let mut buffer = [0; 1024];
            while input.read(&mut buffer).is_ok_and(|read| read > 0) {}
            stop.send(()).ok();
        });
    }
    thread::spawn(move || {
        signals.wait().ok();
        stop.send(()).ok();
    });
}

fn configure(azure: &FakeAzure, arguments: &Arguments) -> anyhow::Result<()> {
    azure.set_polls(arguments.polls);
    azure.set_retry_after(Some(arguments.retry_after));
    if let Some(log) = &arguments.log {
        azure.log_to(log)?;
    }
    for argument in &arguments.subscription {
        let (tenant, subscription, clients) = assignment(argument)?;
        let clients: Vec<_> = clients
            .split(',')
            .filter(|client| !client.is_empty())
            .collect();
        azure.add_subscription(subscription, tenant, &clients);
    }
    for argument in &arguments.secret {
        let (tenant, client, secret) = assignment(argument)?;
        azure.add_secret(tenant, client, secret);
    }
    for argument in &arguments.certificate {
        let (tenant, client, file) = assignment(argument)?;
        let pem = std::fs::read_to_string(file).with_context(|| format!("read {file}"))?;
        azure.add_certificate(tenant, client, &pem)?;
    }
    for argument in &arguments.federated {
        let (tenant, client, claims) = assignment(argument)?;
        let (issuer, subject) = claims
            .split_once(',')
            .context("--federated needs ISSUER,SUBJECT")?;
        azure.add_federated_credential(tenant, client, issuer, subject);
    }
    for argument in &arguments.identity {
        let (tenant, client) = argument
            .split_once('/')
            .context("--identity needs TENANT/CLIENT")?;
        azure.assign_identity(tenant, client);
    }
    for file in &arguments.issuer_ca {
        let pem =
            std::fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
        azure.trust_issuers(&pem);
    }
    Ok(())
}

/// Splits `A/B=C`.
fn assignment(argument: &str) -> anyhow::Result<(&str, &str, &str)> {
    let split = argument.split_once('=').and_then(|(pair, value)| {
        let (first, second) = pair.split_once('/')?;
        Some((first, second, value))
    });
    // The value may be a secret, and is not repeated.
    split.context("an argument is not of the form TENANT/NAME=VALUE")
}

fn print_addresses(azure: &FakeAzure, ca_file: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    for (name, value) in azure.settings() {
        writeln!(out, "{name}={value}")?;
    }
    writeln!(
        out,
        "AZURE_POD_IDENTITY_AUTHORITY_HOST={}",
        azure.imds_endpoint()
    )?;
    writeln!(out, "FAKE_AZURE_CA_FILE={ca_file}")?;
    writeln!(out, "FAKE_AZURE_CONTROL={}", azure.control_endpoint())?;
    Ok(out.flush()?)
}

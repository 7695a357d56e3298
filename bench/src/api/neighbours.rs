//! What one tenant's load does to another: a noisy tenant floods the server, while a quiet one
//! sends a few requests a second and measures them.
//!
//! Each flood has a server of its own and runs in a process of its own with the lowest priority,
//! so that the load generator does not take the cores from the server.

mod flood;
mod quiet;
mod target;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http::{Method, StatusCode};
use tokio::process::{Child, Command};

use self::flood::Flood;
pub use self::flood::{Args as FloodArgs, run as run_flood};
use self::quiet::{QuietTenant, Service};
use super::client::Client;
use super::kubeconfig::Kubeconfig;
use super::objects;
use super::server::{Program, Server, Store};
use crate::figures::Figures;
use crate::heading;
use crate::machine;
use crate::report::{self, Column, Row, Unit, progress, text};
use crate::system::data_folder;

/// Options of the benchmark of neighbours.
#[derive(clap::Args)]
pub struct Args {
    /// The server to measure [default: `insula` beside this program].
    #[arg(long)]
    server: Option<PathBuf>,
    /// Store of the server.
    #[arg(long, value_enum, default_value = "embedded")]
    store: Store,
    /// Floods to run.
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Flood>,
    /// Run a smoke test of a second for each flood.
    #[arg(long)]
    quick: bool,
    /// Date to print with the figures.
    #[arg(long)]
    date: Option<String>,
}

/// The tenants of the benchmark.
const QUIET: &str = "quiet";
const NOISY: &str = "noisy";

/// Floods of webhooks call a listener of the load generator on the loopback interface.
const SERVER_ARGS: &[&str] = &["--webhook-allow", "127.0.0.0/8"];

/// How long each flood is measured.
#[derive(Clone, Copy)]
struct Times {
    /// From the start of the flood to the measurement.
    warm_up: Duration,
    measured: Duration,
    /// Whether the flood gets only what the server and all other programs leave. Beside a program
    /// that takes all processors, it would never end.
    is_idle_class: bool,
}

/// How much longer than planned a flood may take to end.
const FLOOD_TIMEOUT: Duration = Duration::from_secs(120);

impl Times {
    const FULL: Self = Self {
        warm_up: Duration::from_secs(3),
        measured: Duration::from_secs(15),
        is_idle_class: true,
    };
    const QUICK: Self = Self {
        warm_up: Duration::from_secs(1),
        measured: Duration::from_secs(1),
        is_idle_class: false,
    };
}

const COLUMNS: &[Column] = &[
    Column::new("p50 before", "before p50", Unit::Time),
    Column::new("p50 during", "during p50", Unit::Time),
    Column::new("p99 before", "before p99", Unit::Time),
    Column::new("p99 during", "during p99", Unit::Time),
    Column::new(
        "new connection p50 before",
        "before connect p50",
        Unit::Time,
    ),
    Column::new(
        "new connection p50 during",
        "during connect p50",
        Unit::Time,
    ),
    Column::new("errors", "errors", Unit::Count),
    Column::new("idle memory", "idle", Unit::Bytes),
    Column::new("peak memory", "peak", Unit::Bytes),
    Column::new("flood: answered", "answered", Unit::Count),
    Column::new("flood: refused", "refused", Unit::Count),
    Column::new("flood: cut off", "cut off", Unit::Count),
];

/// Runs the floods one after the other, and prints the report.
pub async fn run(args: &Args) -> Result<()> {
    let program = args.program()?;
    let times = if args.quick {
        Times::QUICK
    } else {
        Times::FULL
    };
    text("# A quiet tenant beside a noisy one\n");
    heading::machine(args.date.as_deref(), &data_folder()?)?;
    text(&format!("- store: {}", program.name()));
    text(&format!(
        "- the quiet tenant: {} requests and {} new connections a second, for {} s before and \
         during each flood; latencies count from the time at which a request was due",
        quiet::REQUESTS_PER_SECOND,
        quiet::CONNECTIONS_PER_SECOND,
        times.measured.as_secs()
    ));
    text(
        "- the flood: a process of the lowest priority (SCHED_IDLE) on the same machine; a new server \
         for each",
    );
    heading::warn_of_slow_build();
    let mut rows = vec![];
    for flood in Flood::selected(&args.only) {
        progress(&format!("flood: {}", flood.description()));
        let figures = measure(&program, flood, times).await;
        rows.push(Row {
            of: flood.description().to_owned(),
            figures: figures.with_context(|| format!("flood of {}", flood.description()))?,
        });
    }
    report::figures("Figures", "flood", COLUMNS, &rows);
    target::print(&rows, args.quick);
    Ok(())
}

impl Args {
    fn program(&self) -> Result<Program> {
        let path = match &self.server {
            Some(path) => path.clone(),
            None => std::env::current_exe()?.with_file_name("insula"),
        };
        ensure!(path.is_file(), "there is no server {}", path.display());
        Ok(Program {
            path,
            command: "serve",
            store: self.store,
            more: SERVER_ARGS.iter().map(OsString::from).collect(),
        })
    }
}

async fn measure(program: &Program, flood: Flood, times: Times) -> Result<Figures> {
    let server = program.start()?;
    let admin = server.subject.connect(1).await?;
    let quiet = QuietTenant::new(tenant(&server, &admin, QUIET).await?).await?;
    let noisy = tenant(&server, &admin, NOISY).await?;
    flood.prepare(&admin, &Kubeconfig::read(&noisy)?).await?;
    server.subject.wait_until_idle().await?;
    let idle = server.subject.resident()?;
    for pid in &server.subject.pids {
        machine::reset_most_resident(*pid)?;
    }
    let before = quiet.measure(times.measured).await?;
    let child = start_flood(flood, &noisy, times)?;
    tokio::time::sleep(times.warm_up).await;
    let during = quiet.measure(times.measured).await?;
    let peak = server.subject.most_resident()?;
    let flooded = tokio::time::timeout(FLOOD_TIMEOUT, child.wait_with_output()).await;
    let flooded = counts(flooded.context("the flood does not end")??)?;
    server.stop()?;
    Ok(figures(&before, &during)
        .with("idle", idle)
        .with("peak", peak)
        .and(flooded))
}

fn figures(before: &Service, during: &Service) -> Figures {
    let errors = before.errors.len() + during.errors.len();
    for error in before.errors.iter().chain(&during.errors).take(3) {
        progress(&format!("the quiet tenant: {error}"));
    }
    before
        .figures()
        .under("before")
        .and(during.figures().under("during"))
        .with("errors", errors as f64)
}

/// Creates a tenant, and returns the kubeconfig file of its administrator.
async fn tenant(server: &Server, admin: &Client, name: &str) -> Result<PathBuf> {
    let body = Some(objects::tenant(name));
    let created = admin.call(Method::POST, "/api/v1/tenants", body).await?;
    created.expect(StatusCode::CREATED)?;
    let file = server
        .kubeconfig()
        .with_file_name(format!("{name}.kubeconfig"));
    std::fs::write(&file, server.kubeconfig_text_of(name, "admin", &[])?)?;
    Ok(file)
}

/// Starts a flood, which is killed on drop.
fn start_flood(flood: Flood, kubeconfig: &Path, times: Times) -> Result<Child> {
    let (own, time) = (std::env::current_exe()?, times.warm_up + times.measured);
    // The load generator stands for other machines: it gets what the server leaves.
    let mut command = match times.is_idle_class {
        true => Command::new("chrt"),
        false => Command::new(&own),
    };
    if times.is_idle_class {
        command.args(["--idle", "0", "nice", "-n", "19"]).arg(own);
    }
    command
        .args(["flood", flood.name()])
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .args(["--seconds", &time.as_secs().to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .context("cannot start the flood")
}

/// Returns what a flood has counted.
fn counts(output: Output) -> Result<Figures> {
    ensure!(
        output.status.success(),
        "the flood ended with {}",
        output.status
    );
    Figures::receive(&output.stdout[..])
}

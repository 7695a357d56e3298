//! `insula serve`.

use std::path::PathBuf;
use std::sync::Arc;

use clap::ValueEnum;
use insula_store::embedded::{self, Embedded};
use insula_store::etcd::{self, Etcd};
use insula_store::memory::Memory;
use insula_store::{Compactor, Revision, Store};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// What `insula serve` can be told.
#[derive(clap::Args)]
pub struct Args {
    /// Where everything is kept
    #[arg(long, value_name = "DIR", default_value = "insula-data")]
    data_dir: PathBuf,

    /// What keeps the objects
    #[arg(long, value_enum, default_value = "embedded")]
    store: Engine,

    /// The members of the etcd cluster, with --store etcd
    #[arg(long, value_name = "URL", value_delimiter = ',')]
    #[arg(required_if_eq("store", "etcd"))]
    etcd_servers: Vec<String>,

    /// The CA that etcd's certificates are from
    #[arg(long, value_name = "FILE")]
    etcd_cafile: Option<PathBuf>,

    /// A certificate to show etcd
    #[arg(long, value_name = "FILE", requires = "etcd_keyfile")]
    etcd_certfile: Option<PathBuf>,

    /// The key of that certificate
    #[arg(long, value_name = "FILE", requires = "etcd_certfile")]
    etcd_keyfile: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Engine {
    /// In the data directory; nothing else to install
    Embedded,
    /// In an etcd v3 cluster, which several servers may share
    Etcd,
    /// Nowhere: everything is gone with the process
    Memory,
}

/// Serves until it is told to stop.
pub fn run(args: Args) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new("cannot start", error))?;
    runtime.block_on(serve(args))
}

async fn serve(args: Args) -> Result<(), Failure> {
    // First: whoever is told that it serves may tell it to stop at once.
    let mut stop = Stop::listen()?;
    let store = open(&args).await?;
    let revision = store.revision().await;
    let revision = revision.map_err(|error| Failure::new("cannot read the store", error))?;
    let compactor = tokio::spawn(Compactor::default().run(Arc::clone(&store)));
    announce(revision);
    stop.told().await;
    compactor.abort();
    // Its task holds the store until it is really over, however it ended.
    compactor.await.ok();
    close(store).await;
    Ok(())
}

async fn open(args: &Args) -> Result<Arc<dyn Store>, Failure> {
    Ok(match args.store {
        Engine::Memory => Arc::new(Memory::new()),
        Engine::Embedded => {
            let folder = args.data_dir.join("store");
            let store = Embedded::open(folder, embedded::Options::default()).await;
            Arc::new(store.map_err(|error| Failure::opening_store(&error))?)
        }
        Engine::Etcd => {
            let store = Etcd::connect(etcd_options(args)?).await;
            let unreachable = |error| {
                Failure::new("cannot use etcd", error)
                    .hint("check --etcd-servers, and with https --etcd-cafile and the certificate")
            };
            Arc::new(store.map_err(unreachable)?)
        }
    })
}

fn etcd_options(args: &Args) -> Result<etcd::Options, Failure> {
    let options = etcd::Options::new(args.etcd_servers.clone());
    let Some(ca) = &args.etcd_cafile else {
        return Ok(options);
    };
    let client = match (&args.etcd_certfile, &args.etcd_keyfile) {
        (Some(certificate), Some(key)) => Some(etcd::ClientCertificate {
            cert: read(certificate)?,
            key: read(key)?,
        }),
        _ => None,
    };
    let ca = read(ca)?;
    Ok(options.tls(etcd::Tls { ca, client }))
}

fn read(file: &PathBuf) -> Result<Vec<u8>, Failure> {
    let attempted = format!("cannot read {}", file.display());
    std::fs::read(file).map_err(|error| Failure::new(&attempted, error))
}

#[expect(clippy::print_stderr, reason = "said once, to whoever started it")]
fn announce(revision: Revision) {
    eprintln!("store open at revision {revision}; this version has no API server yet");
}

/// The signals that end it.
struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

impl Stop {
    fn listen() -> Result<Self, Failure> {
        let failed = |error| Failure::new("cannot listen for signals", error);
        Ok(Self {
            terminate: signal(SignalKind::terminate()).map_err(failed)?,
            interrupt: signal(SignalKind::interrupt()).map_err(failed)?,
        })
    }

    async fn told(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Waits until what is in memory is on disk, so that the next start is quick.
async fn close(store: Arc<dyn Store>) {
    let closed = tokio::task::spawn_blocking(move || drop(store)).await;
    if let Err(error) = closed {
        tracing::error!(%error, "closing the store failed");
    }
}

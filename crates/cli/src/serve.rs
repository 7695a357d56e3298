//! `insula serve`.

mod args;
mod prepare;
mod settings;

use std::sync::Arc;

use insula_store::embedded::{self, Embedded};
use insula_store::etcd::Etcd;
use insula_store::memory::Memory;
use insula_store::{Compactor, Store};
use tokio::signal::unix::{Signal, SignalKind, signal};

pub use self::args::Args;
use self::prepare::{Prepared, prepare};
use self::settings::{Settings, StoreSettings};
use crate::failure::Failure;
use crate::output;

/// Serves until it is told to stop.
pub fn run(args: Args) -> Result<(), Failure> {
    let settings = Settings::of(args)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new("cannot start", error))?;
    runtime.block_on(serve(settings))
}

async fn serve(settings: Settings) -> Result<(), Failure> {
    // First: whoever is told that it serves may tell it to stop at once.
    let mut stop = Stop::listen()?;
    // Before anything is made in the data directory: the store is what two servers on the
    // same one stumble over.
    let store = open(settings.store).await?;
    let prepared = prepare(&settings.data_dir, &settings.listening, settings.given)?;
    let compactor = tokio::spawn(Compactor::default().run(Arc::clone(&store)));
    let served = run_server(prepared, Arc::clone(&store), &mut stop).await;
    compactor.abort();
    // Its task holds the store until it is really over, however it ended.
    compactor.await.ok();
    close(store).await;
    served
}

/// Serves the API until it is told to stop.
async fn run_server(
    prepared: Prepared,
    store: Arc<dyn Store>,
    stop: &mut Stop,
) -> Result<(), Failure> {
    let revision = store.revision().await;
    revision.map_err(|error| Failure::new("cannot read the store", error))?;
    announce(&prepared)?;
    stop.told().await;
    Ok(())
}

/// The one line on stdout, which says that it serves.
fn announce(prepared: &Prepared) -> Result<(), Failure> {
    let Prepared {
        url, kubeconfig, ..
    } = prepared;
    output::print(&format!(
        "insula ready {url} kubeconfig={}\n",
        kubeconfig.display()
    ))
}

async fn open(settings: StoreSettings) -> Result<Arc<dyn Store>, Failure> {
    Ok(match settings {
        StoreSettings::Memory => Arc::new(Memory::new()),
        StoreSettings::Embedded(folder) => {
            let store = Embedded::open(folder, embedded::Options::default()).await;
            Arc::new(store.map_err(|error| Failure::opening_store(&error))?)
        }
        StoreSettings::Etcd(options) => {
            let store = Etcd::connect(options).await;
            let unreachable = |error| {
                Failure::new("cannot use etcd", error)
                    .hint("check --etcd-servers, and with https --etcd-cafile and the certificate")
            };
            Arc::new(store.map_err(unreachable)?)
        }
    })
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

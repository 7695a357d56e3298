//! `insula serve`.

mod admin_kubeconfig;
mod args;
mod data_dir;
mod oidc;
mod operators;
mod pod_security;
mod prepare;
mod renew;
mod settings;
mod tls;

use std::sync::Arc;

use insula_access::Authority;
use insula_apiserver::pipeline::service_account::Accounts;
use insula_apiserver::{Error as ServerError, Options, Server};
use insula_store::embedded::{self, Embedded};
use insula_store::etcd::Etcd;
use insula_store::memory::Memory;
use insula_store::{Compactor, Store};

pub use self::args::Args;
use self::operators::{OperatorSettings, Operators};
use self::prepare::{Prepared, prepare};
use self::settings::{Settings, StoreSettings};
use crate::failure::Failure;
use crate::output;
use crate::stop::Stop;

/// Runs the server until SIGTERM or SIGINT.
pub fn run(args: Args) -> Result<(), Failure> {
    let settings = Settings::of(args)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new("cannot start", error))?;
    runtime.block_on(serve(settings))
}

async fn serve(settings: Settings) -> Result<(), Failure> {
    // First of all: a client may send a signal as soon as the server is announced.
    let mut stop = Stop::listen()?;
    data_dir::ensure_private(&settings.data_dir, settings.given.audit_log.as_deref())?;
    // Before anything is created in the data directory: the lock of the store keeps out a
    // second server on the same directory.
    let store = open(settings.store).await?;
    let (prepared, renewal) = prepare(&settings.data_dir, &settings.listening, settings.given)?;
    let beside = [
        tokio::spawn(Compactor::default().run(Arc::clone(&store))),
        tokio::spawn(renewal.run()),
    ];
    let beneath = Arc::clone(&store);
    let served = run_server(prepared, beneath, &settings.operators, &mut stop).await;
    for task in beside {
        task.abort();
        // The task may hold the store until it has really ended.
        task.await.ok();
    }
    close(store).await;
    served
}

/// Serves the API together with the controllers and operators until a stop signal.
async fn run_server(
    prepared: Prepared,
    store: Arc<dyn Store>,
    operators: &OperatorSettings,
    stop: &mut Stop,
) -> Result<(), Failure> {
    let ready = format!(
        "insula ready {} kubeconfig={}\n",
        prepared.url,
        prepared.kubeconfig.display()
    );
    let loops = insula_controllers::Settings {
        event_ttl: prepared.event_ttl,
    };
    let mut operators = Operators::new(operators, || prepared.credentials())?;
    let start = operators.starter();
    let (options, ca) = options(prepared)?;
    let server = Server::start(store, options).await.map_err(cannot_serve)?;
    let announce = || {
        // The only line on stdout, which announces the server. Its reader may be gone.
        drop(output::print(&ready));
        start();
    };
    let stopped = async {
        stop.recv().await;
        operators.end().await;
    };
    let served = insula_controllers::serve(server, ca, loops, announce, stopped).await;
    served.map_err(cannot_serve)
}

/// Returns the server's options, and the CA that signs client certificates.
fn options(prepared: Prepared) -> Result<(Options, Arc<Authority>), Failure> {
    let issuer = prepared.issuer();
    let secret = prepared.secret();
    let options = Options {
        listener: prepared.listener,
        certificates: prepared.certificates,
        client_cas: prepared.client_cas,
        tokens: prepared.tokens,
        default_tenant: prepared.default_tenant,
        layout: prepared.layout,
        accounts: Some(Accounts::new(issuer, &prepared.advertised)),
        provider: prepared.provider,
        secret,
        audit: prepared.audit,
        limits: prepared.limits,
        egress: prepared.egress,
        pod_security: prepared.pod_security,
        root_ca: Some(prepared.root_ca),
        descriptions: prepared.descriptions,
    };
    Ok((options, prepared.ca))
}

fn cannot_serve(error: ServerError) -> Failure {
    Failure::new("cannot serve", error)
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

/// Flushes the memory to disk, so that the next start is fast.
async fn close(store: Arc<dyn Store>) {
    let closed = tokio::task::spawn_blocking(move || drop(store)).await;
    if let Err(error) = closed {
        tracing::error!(%error, "store close failed");
    }
}

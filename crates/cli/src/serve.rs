//! `insula serve`.

mod admin_kubeconfig;
mod args;
mod audit;
mod connections;
mod data_dir;
pub mod encryption;
mod free_memory;
mod oidc;
mod operators;
mod pod_security;
mod prepare;
mod reload;
mod renew;
mod settings;
mod tenant_limits;
mod tls;

use std::sync::Arc;

use insula_access::Authority;
use insula_apiserver::flow_control::lanes::STACK_BYTES;
use insula_apiserver::pipeline::service_account::Accounts;
use insula_apiserver::{Error as ServerError, Options, Server};
use insula_encryption::EncryptedStore;
use insula_store::embedded::{self, Embedded};
use insula_store::etcd::Etcd;
use insula_store::memory::Memory;
use insula_store::{Compactor, Store};

pub use self::args::Args;
use self::audit::AuditSettings;
use self::encryption::KeyPlace;
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
        .thread_stack_size(STACK_BYTES)
        .build()
        .map_err(|error| Failure::new("cannot start", error))?;
    runtime.block_on(serve(settings))
}

async fn serve(settings: Settings) -> Result<(), Failure> {
    // First of all: a client may send a signal as soon as the server is announced.
    let mut stop = Stop::listen()?;
    let audit = settings.given.audit.as_ref();
    let audit_log = audit.and_then(AuditSettings::log_file);
    data_dir::ensure_private(&settings.data_dir, audit_log)?;
    // Before anything is created in the data directory: the lock of the store keeps out a
    // second server on the same directory.
    let place = KeyPlace::of(&settings.store, &settings.data_dir);
    let store = open(settings.store).await?;
    let layout = settings.given.layout.clone();
    let opened = async {
        match &settings.encryption {
            Some(encryption) => {
                let opened = encryption::open(encryption, &store, &place, &layout);
                opened.await.map(Some)
            }
            None => encryption::check_not_encrypted(&*store, &place, &layout)
                .await
                .map(|()| None),
        }
    };
    // It waits for key providers, for as long as they need.
    let encrypted = tokio::select! {
        opened = opened => opened?,
        () = stop.recv() => return Ok(()),
    };
    let (mut prepared, renewal) = prepare(&settings.data_dir, &settings.listening, settings.given)?;
    let reload = prepared.reload.take();
    let mut beside = vec![
        tokio::spawn(async move {
            if let Some(reload) = reload {
                reload.run().await;
            }
        }),
        tokio::spawn(Compactor::default().run(Arc::clone(&store))),
        tokio::spawn(renewal.run()),
        tokio::spawn(free_memory::keep_returning()),
    ];
    if let (Some(encryption), Some(encrypted)) = (settings.encryption, &encrypted) {
        beside.push(tokio::spawn(Arc::clone(encrypted).run()));
        let follow = encryption::follow(encryption, Arc::clone(encrypted));
        beside.push(tokio::spawn(follow));
    }
    let beneath = match &encrypted {
        Some(encrypted) => Arc::<EncryptedStore>::clone(encrypted),
        None => Arc::clone(&store),
    };
    let served = run_server(prepared, beneath, encrypted, &settings.operators, &mut stop).await;
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
    encryption: Option<Arc<EncryptedStore>>,
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
    let (mut options, ca) = options(prepared)?;
    options.encryption = encryption;
    options.egress.in_process = operators.take_webhooks();
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
        trust: prepared.trust,
        default_tenant: prepared.default_tenant,
        layout: prepared.layout,
        accounts: Some(Accounts::new(issuer, &prepared.advertised)),
        provider: prepared.provider,
        secret,
        audit: prepared.audit,
        limits: prepared.limits,
        tenant_quota: prepared.tenant_quota,
        tenant_fields: prepared.tenant_fields,
        egress: prepared.egress,
        pod_security: prepared.pod_security,
        root_ca: Some(prepared.root_ca),
        endpoint: Some(prepared.endpoint),
        service_range: prepared.service_range,
        descriptions: prepared.descriptions,
        encryption: None,
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

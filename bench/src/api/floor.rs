//! The floor: a minimal server with TLS, HTTP/2 and prebuilt responses, as the lower bound of
//! the cost of a server. It stores nothing, and forwards written objects to watchers.
//!
//! Writes are gathered for each connection, so that many events are one system call: without
//! that, watches would cost twice as much.
//!
//! It also replaces the server in the tests of the benchmark itself.

mod answers;
mod gather;

use std::collections::{HashMap, HashSet};
use std::fs;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use bytes::{Bytes, BytesMut};
use h2::RecvStream;
use h2::server::SendResponse;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri};
use insula_testkit::etcd::Certificates;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::AsyncWrite;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::broadcast;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use self::answers::Answers;
use self::gather::Gather;
use super::client::chunk;
use super::kubeconfig::Kubeconfig;
use crate::report::text;

/// The maximum number of events that a watcher may lag behind.
const BEHIND: usize = 4096;
/// The limit of concurrent streams, as in a server.
const STREAMS: u32 = 250;

/// The flags of `insula serve` that the benchmark uses.
#[derive(clap::Args)]
pub struct Args {
    #[arg(long)]
    data_dir: PathBuf,
    #[arg(long)]
    listen: SocketAddr,
    /// Accepted and ignored: the floor has no store.
    #[arg(long)]
    store: Option<String>,
    #[arg(long)]
    etcd_servers: Option<String>,
}

/// The flags of `insula tenant kubeconfig` that the benchmark uses.
#[derive(clap::Args)]
pub struct KubeconfigArgs {
    #[arg(long)]
    kubeconfig: PathBuf,
    /// Accepted and ignored: all users are the same.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    whom: Vec<String>,
}

/// Prints the same kubeconfig for every user.
pub fn print_kubeconfig(args: &KubeconfigArgs) -> Result<()> {
    text(&fs::read_to_string(&args.kubeconfig)?);
    Ok(())
}

/// A listening floor.
pub struct Floor {
    listener: TcpListener,
    acceptor: TlsAcceptor,
    pub kubeconfig: String,
    shared: Arc<Shared>,
}

struct Shared {
    answers: Answers,
    collections: Mutex<HashMap<String, Collection>>,
    /// The paths of deleted namespaces and tenants.
    gone: Mutex<HashSet<String>>,
}

/// The state of a collection.
struct Collection {
    count: usize,
    watchers: broadcast::Sender<Bytes>,
}

/// Serves until a signal ends the process.
pub async fn serve(args: &Args) -> Result<()> {
    let floor = Floor::bind(args.listen).await?;
    fs::create_dir_all(&args.data_dir)?;
    let path = args.data_dir.join("admin.kubeconfig");
    fs::write(&path, &floor.kubeconfig)?;
    let address = floor.listener.local_addr()?;
    text(&format!(
        "insula ready https://{address} kubeconfig={}",
        path.display()
    ));
    floor.run().await
}

impl Floor {
    pub async fn bind(listen: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind(listen).await?;
        let certificates = Certificates::generate()?;
        let client = &certificates.client;
        let kubeconfig = Kubeconfig::text(
            listener.local_addr()?,
            &certificates.ca,
            &client.cert,
            &client.key,
        );
        Ok(Self {
            listener,
            acceptor: TlsAcceptor::from(Arc::new(tls(&certificates)?)),
            kubeconfig,
            shared: Arc::new(Shared {
                answers: Answers::new(),
                collections: Mutex::default(),
                gone: Mutex::default(),
            }),
        })
    }

    pub async fn run(self) -> Result<()> {
        let mut connections = JoinSet::new();
        loop {
            let (stream, _) = self.listener.accept().await?;
            let (acceptor, shared) = (self.acceptor.clone(), Arc::clone(&self.shared));
            connections.spawn(async move {
                // A disconnected client is not an error.
                let _ = connection(stream, acceptor, shared).await;
            });
        }
    }
}

impl Shared {
    fn with<T>(&self, path: &str, act: impl FnOnce(&mut Collection) -> T) -> T {
        let collections = self.collections.lock();
        let mut collections = collections.unwrap_or_else(PoisonError::into_inner);
        if let Some(collection) = collections.get_mut(path) {
            return act(collection);
        }
        let new = Collection {
            count: 0,
            watchers: broadcast::channel(BEHIND).0,
        };
        act(collections.entry(path.to_owned()).or_insert(new))
    }

    fn read(&self, uri: &Uri) -> Bytes {
        if !uri.path().ends_with("/configmaps") {
            return self.answers.object();
        }
        let count = self.with(uri.path(), |collection| collection.count);
        self.answers.list(uri.query().unwrap_or_default(), count)
    }

    /// Returns whether this namespace or tenant was deleted, which is immediate here.
    fn is_gone(&self, uri: &Uri) -> bool {
        let gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        gone.contains(uri.path())
    }

    fn delete(&self, path: &str) {
        let of = |kind: &str| {
            path.strip_prefix(kind)
                .is_some_and(|name| !name.contains('/'))
        };
        if of("/api/v1/namespaces/") || of("/api/v1/tenants/") {
            let mut gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
            gone.insert(path.to_owned());
        }
    }

    /// Counts a write, and sends it to the watchers.
    fn written(&self, method: &Method, path: &str, object: &[u8]) {
        self.with(path, |collection| {
            match *method {
                Method::POST => collection.count += 1,
                Method::DELETE => collection.count = collection.count.saturating_sub(1),
                _ => {}
            }
            if collection.watchers.receiver_count() > 0 {
                let event = [&b"{\"type\":\"MODIFIED\",\"object\":"[..], object, b"}\n"];
                // The last watcher may have ended meanwhile.
                let _ = collection.watchers.send(Bytes::from(event.concat()));
            }
        });
    }
}

async fn connection(stream: TcpStream, acceptor: TlsAcceptor, shared: Arc<Shared>) -> Result<()> {
    stream.set_nodelay(true)?;
    let stream = Gather::new(acceptor.accept(stream).await?);
    let connection = h2::server::Builder::new()
        .max_concurrent_streams(STREAMS)
        .handshake(stream.clone());
    let mut connection = gathered(&stream, connection).await?;
    let mut requests = JoinSet::new();
    while let Some(request) = gathered(&stream, poll_fn(|cx| connection.poll_accept(cx))).await {
        let (request, respond) = request?;
        while requests.try_join_next().is_some() {}
        if request.method() != Method::GET {
            requests.spawn(write(request, respond, Arc::clone(&shared)));
        } else if request.uri().query().is_some_and(is_watch) {
            requests.spawn(watch(request, respond, Arc::clone(&shared)));
        } else if shared.is_gone(request.uri()) {
            answer(respond, StatusCode::NOT_FOUND, shared.read(request.uri()))?;
        } else {
            answer(respond, StatusCode::OK, shared.read(request.uri()))?;
        }
    }
    Ok(())
}

/// Polls a connection, and flushes its buffer when it is idle.
async fn gathered<T>(stream: &Gather<impl AsyncWrite + Unpin>, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    poll_fn(|cx| {
        let done = work.as_mut().poll(cx);
        if done.is_pending() {
            // The reader of a broken connection gets the error.
            let _ = stream.poll_send(cx);
        }
        done
    })
    .await
}

fn is_watch(query: &str) -> bool {
    query
        .split('&')
        .any(|word| word == "watch=true" || word == "watch=1")
}

fn answer(mut respond: SendResponse<Bytes>, status: StatusCode, body: Bytes) -> Result<()> {
    let response = Response::builder()
        .status(status)
        .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
        .header(CONTENT_LENGTH, HeaderValue::from(body.len()))
        .body(())?;
    respond
        .send_response(response, false)?
        .send_data(body, true)?;
    Ok(())
}

async fn write(
    request: Request<RecvStream>,
    respond: SendResponse<Bytes>,
    shared: Arc<Shared>,
) -> Result<()> {
    let (parts, mut stream) = request.into_parts();
    let mut body = BytesMut::new();
    while let Some(more) = chunk(&mut stream).await? {
        body.extend_from_slice(&more);
    }
    let path = parts.uri.path();
    let (collection, status) = match parts.method {
        Method::POST => (path, StatusCode::CREATED),
        _ => (
            path.rsplit_once('/').context("no collection")?.0,
            StatusCode::OK,
        ),
    };
    if parts.method == Method::DELETE {
        shared.delete(path);
    }
    shared.written(&parts.method, collection, &body);
    answer(respond, status, shared.answers.object())
}

async fn watch(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    shared: Arc<Shared>,
) -> Result<()> {
    let path = request.uri().path();
    let mut events = shared.with(path, |collection| collection.watchers.subscribe());
    let response = Response::builder()
        .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
        .body(())?;
    let mut stream = respond.send_response(response, false)?;
    loop {
        stream.send_data(events.recv().await?, false)?;
    }
}

fn tls(certificates: &Certificates) -> Result<ServerConfig> {
    let certificate = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(certificate(&certificates.ca)?)?;
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build()?;
    let key = PrivateKeyDer::from_pem_slice(certificates.server.key.as_bytes())?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![certificate(&certificates.server.cert)?], key)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}

//! A TLS server with scripted replies.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use insula_identity::endpoint::Endpoint;
use rcgen::{CertificateParams, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// What the server does with a request.
pub enum Reply {
    /// Sends these bytes and keeps the connection open.
    Send(Vec<u8>),
    /// Closes the connection.
    HangUp,
}

/// A server for `127.0.0.1`, with a self-signed certificate.
pub struct Server {
    pub endpoint: Endpoint,
    /// The certificate, in DER.
    pub certificate: Vec<u8>,
    state: Arc<State>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct State {
    connections: AtomicUsize,
    requests: Mutex<Vec<String>>,
}

impl Server {
    /// Starts a server with this reply to the n-th request, counted from zero.
    pub async fn start(reply: impl Fn(usize) -> Reply + Send + Sync + 'static) -> Self {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let certificate = params.self_signed(&key).unwrap().der().clone();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key)
            .unwrap();
        let tls = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (state, reply) = (Arc::<State>::default(), Arc::new(reply));
        let shared = Arc::clone(&state);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (tls, state, reply) = (tls.clone(), Arc::clone(&shared), Arc::clone(&reply));
                tokio::spawn(async move { serve(&tls, stream, &state, &*reply).await });
            }
        });
        Self {
            endpoint: Endpoint::parse(&address, 443).unwrap(),
            certificate: certificate.to_vec(),
            state,
            task,
        }
    }

    /// Starts a server that always replies with these status, headers and body.
    pub async fn replying(status: &str, headers: &str, body: &str) -> Self {
        let reply = response(status, headers, body);
        Self::start(move |_| Reply::Send(reply.clone())).await
    }

    /// Returns the number of connections so far.
    pub fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }

    /// Returns the requests so far.
    pub fn requests(&self) -> Vec<String> {
        self.state.requests.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Returns an HTTP response.
pub fn response(status: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    let text = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n{headers}\r\n{body}");
    text.into_bytes()
}

async fn serve(
    tls: &TlsAcceptor,
    stream: TcpStream,
    state: &State,
    reply: &(dyn Fn(usize) -> Reply + Send + Sync),
) {
    state.connections.fetch_add(1, Ordering::SeqCst);
    let Ok(mut stream) = tls.accept(stream).await else {
        return;
    };
    let mut buffer = vec![0; 64 << 10];
    // The requests of these tests arrive in one piece each.
    while let Ok(length @ 1..) = stream.read(&mut buffer).await {
        let count = {
            let mut requests = state.requests.lock().unwrap();
            requests.push(String::from_utf8_lossy(&buffer[..length]).into_owned());
            requests.len() - 1
        };
        match reply(count) {
            Reply::Send(bytes) if stream.write_all(&bytes).await.is_ok() => {}
            Reply::Send(_) | Reply::HangUp => return,
        }
    }
}

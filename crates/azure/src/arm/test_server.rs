//! A server of tests with scripted replies, with and without TLS.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};

use insula_operator::outbound::HttpClients;
use rcgen::{CertificateParams, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::entra::base_url::{BaseUrl, Cleartext};

/// A request as it was received.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    /// The method with the path and query.
    pub(crate) line: String,
    /// The headers, with names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Received {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let found = headers.find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Returns a field of a form, decoded.
    pub(crate) fn field(&self, name: &str) -> Option<String> {
        let mut fields = self
            .body
            .split('&')
            .filter_map(|field| field.split_once('='));
        let (_, value) = fields.find(|(known, _)| *known == name)?;
        let decoded = percent_encoding::percent_decode_str(value).decode_utf8();
        Some(decoded.unwrap().into_owned())
    }
}

/// What the server does with a request.
pub(crate) enum Reply {
    /// Answers with status, lines of headers, and body.
    Http(u16, String, String),
    /// Never answers.
    Hang,
}

/// Returns a reply with a JSON body.
pub(crate) fn json(status: u16, body: serde_json::Value) -> Reply {
    Reply::Http(status, String::new(), body.to_string())
}

pub(crate) struct Server {
    pub(crate) url: BaseUrl,
    /// The certificate in DER, if the server has TLS.
    certificate: Option<Vec<u8>>,
    requests: Arc<Mutex<Vec<Received>>>,
    task: JoinHandle<()>,
}

type Handler = dyn Fn(usize, &Received) -> Reply + Send + Sync;

impl Server {
    /// Starts a server without TLS. The handler gets the number of earlier requests.
    pub(crate) async fn start(
        handler: impl Fn(usize, &Received) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self::start_with(None, Arc::new(handler)).await
    }

    /// Starts a server with TLS and a self-signed certificate.
    pub(crate) async fn start_tls(
        handler: impl Fn(usize, &Received) -> Reply + Send + Sync + 'static,
    ) -> Self {
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
        let tls = (TlsAcceptor::from(Arc::new(config)), certificate.to_vec());
        Self::start_with(Some(tls), Arc::new(handler)).await
    }

    async fn start_with(tls: Option<(TlsAcceptor, Vec<u8>)>, handler: Arc<Handler>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let requests = Arc::<Mutex<Vec<Received>>>::default();
        let certificate = tls.as_ref().map(|(_, certificate)| certificate.clone());
        let log = Arc::clone(&requests);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (tls, log) = (tls.clone(), Arc::clone(&log));
                let handler = Arc::clone(&handler);
                tokio::spawn(async move {
                    match tls {
                        None => serve(stream, &log, &*handler).await,
                        Some((tls, _)) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                serve(stream, &log, &*handler).await;
                            }
                        }
                    }
                });
            }
        });
        Self {
            url: BaseUrl::parse(&format!("{scheme}://{address}"), Cleartext::Loopback).unwrap(),
            certificate,
            requests,
            task,
        }
    }

    /// Returns the clients that trust these servers.
    pub(crate) fn clients(servers: &[&Self]) -> HttpClients {
        let certificates = servers
            .iter()
            .filter_map(|server| server.certificate.clone());
        HttpClients::new(certificates.collect())
    }

    /// Returns the requests so far.
    pub(crate) fn requests(&self) -> Vec<Received> {
        self.requests.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    log: &Mutex<Vec<Received>>,
    handler: &Handler,
) {
    while let Some(received) = receive(&mut stream).await {
        let count = {
            let mut log = log.lock().unwrap();
            log.push(received.clone());
            log.len() - 1
        };
        let reply = match handler(count, &received) {
            Reply::Hang => std::future::pending().await,
            Reply::Http(status, headers, body) => {
                let length = body.len();
                format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n{headers}\r\n{body}")
            }
        };
        if stream.write_all(reply.as_bytes()).await.is_err() {
            return;
        }
    }
}

async fn receive(stream: &mut (impl AsyncRead + Unpin)) -> Option<Received> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at;
        }
        read_more(stream, &mut bytes).await?;
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let mut lines = head.split("\r\n");
    let line = lines.next()?.trim_end_matches(" HTTP/1.1").to_owned();
    let headers = lines.filter_map(|line| line.split_once(": "));
    let headers = headers.map(|(name, value)| (name.to_lowercase(), value.to_owned()));
    let mut received = Received {
        line,
        headers: headers.collect(),
        body: String::new(),
    };
    let length = received.header("content-length").unwrap_or("0");
    let total = end + 4 + length.parse::<usize>().unwrap();
    while bytes.len() < total {
        read_more(stream, &mut bytes).await?;
    }
    received.body = String::from_utf8(bytes[end + 4..total].to_vec()).unwrap();
    Some(received)
}

async fn read_more(stream: &mut (impl AsyncRead + Unpin), bytes: &mut Vec<u8>) -> Option<()> {
    let mut buffer = vec![0; 16 << 10];
    match stream.read(&mut buffer).await {
        Ok(length @ 1..) => bytes.extend_from_slice(&buffer[..length]),
        _ => return None,
    }
    Some(())
}

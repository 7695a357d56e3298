//! An HTTP client that exposes all parts of an answer.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use bytes::{Bytes, BytesMut};
use futures_util::stream;
use http::{HeaderMap, Method, Request};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// One HTTP/2 connection with one token.
#[derive(Clone, Debug)]
pub struct Client {
    sender: SendRequest<Body>,
    token: String,
}

/// A client certificate.
#[derive(Debug)]
pub struct Identity {
    /// The certificate.
    pub certificate: CertificateDer<'static>,
    /// Its private key.
    pub key: PrivateKeyDer<'static>,
}

impl Identity {
    /// Reads a certificate and its key.
    pub fn from_pem(certificate: &str, key: &str) -> anyhow::Result<Self> {
        Ok(Self {
            certificate: CertificateDer::from_pem_slice(certificate.as_bytes())?,
            key: PrivateKeyDer::from_pem_slice(key.as_bytes())?,
        })
    }
}

impl Clone for Identity {
    fn clone(&self) -> Self {
        Self {
            certificate: self.certificate.clone(),
            key: self.key.clone_key(),
        }
    }
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    /// The HTTP status code.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

/// The lines of a streaming answer, such as a watch.
#[derive(Debug)]
pub struct Lines {
    /// The HTTP status code.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    body: Incoming,
    read: BytesMut,
}

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// How long a test waits before it fails.
const WAIT_TIMEOUT: Duration = Duration::from_secs(20);

impl Client {
    /// Connects, trusting `ca`.
    pub async fn connect(
        address: SocketAddr,
        ca: &CertificateDer<'static>,
        token: &str,
    ) -> anyhow::Result<Self> {
        Self::connect_as(address, ca, None, token).await
    }

    /// The same with a client certificate.
    pub async fn connect_as(
        address: SocketAddr,
        ca: &CertificateDer<'static>,
        identity: Option<Identity>,
        token: &str,
    ) -> anyhow::Result<Self> {
        let stream = dial(address, ca, identity, "h2").await?;
        Self::over(stream, token).await
    }

    /// The same with a TLS configuration of the test, which must offer HTTP/2.
    pub async fn connect_with(
        address: SocketAddr,
        config: Arc<ClientConfig>,
        token: &str,
    ) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        // A request is two small writes, and the second must not wait for an answer.
        stream.set_nodelay(true)?;
        let name = ServerName::from(address.ip());
        let stream = TlsConnector::from(config).connect(name, stream).await?;
        Self::over(stream, token).await
    }

    /// Uses an existing connection.
    pub async fn over(stream: TlsStream<TcpStream>, token: &str) -> anyhow::Result<Self> {
        let (sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
                .await?;
        // Ends when the client is dropped.
        tokio::spawn(async move { drop(connection.await) });
        Ok(Self {
            sender,
            token: token.to_owned(),
        })
    }

    /// Sends a request with these headers and the token.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> anyhow::Result<Answer> {
        let body = Full::new(body.into()).boxed_unsync();
        self.exchange(method, path, headers, body).await
    }

    /// Sends a request with an announced body that is never sent.
    pub async fn send_endless(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
    ) -> anyhow::Result<Answer> {
        let body =
            StreamBody::new(stream::pending::<Result<Frame<Bytes>, Infallible>>()).boxed_unsync();
        self.exchange(method, path, headers, body).await
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Body,
    ) -> anyhow::Result<Answer> {
        let answer = async {
            let response = self.start(method, path, headers, body).await?;
            let (parts, body) = response.into_parts();
            let body = body.collect().await?.to_bytes();
            Ok(Answer {
                status: parts.status.as_u16(),
                headers: parts.headers,
                body,
            })
        };
        tokio::time::timeout(WAIT_TIMEOUT, answer)
            .await
            .context("no answer came in time")?
    }

    /// GET.
    pub async fn get(&self, path: &str) -> anyhow::Result<Answer> {
        self.send(Method::GET, path, &[], Bytes::new()).await
    }

    /// GET with this `Accept` header.
    pub async fn accept(&self, path: &str, accept: &str) -> anyhow::Result<Answer> {
        self.send(Method::GET, path, &[("accept", accept)], Bytes::new())
            .await
    }

    /// POST of JSON.
    pub async fn post(&self, path: &str, object: &Value) -> anyhow::Result<Answer> {
        self.json(Method::POST, path, object).await
    }

    /// PUT of JSON.
    pub async fn put(&self, path: &str, object: &Value) -> anyhow::Result<Answer> {
        self.json(Method::PUT, path, object).await
    }

    /// PATCH; `format` is `json`, `merge` or `strategic-merge`.
    pub async fn patch(&self, path: &str, format: &str, patch: &Value) -> anyhow::Result<Answer> {
        let content_type = format!("application/{format}-patch+json");
        let headers = [("content-type", content_type.as_str())];
        self.send(Method::PATCH, path, &headers, patch.to_string())
            .await
    }

    /// DELETE without options.
    pub async fn delete(&self, path: &str) -> anyhow::Result<Answer> {
        self.send(Method::DELETE, path, &[], Bytes::new()).await
    }

    /// GET of a watch; the lines arrive as they are sent.
    pub async fn watch(&self, path: &str) -> anyhow::Result<Lines> {
        self.watch_as(path, "*/*").await
    }

    /// GET of a watch with this `Accept` header.
    pub async fn watch_as(&self, path: &str, accept: &str) -> anyhow::Result<Lines> {
        self.watch_with(path, &[("accept", accept)]).await
    }

    /// GET of a watch with these headers.
    pub async fn watch_with(&self, path: &str, headers: &[(&str, &str)]) -> anyhow::Result<Lines> {
        let nothing = Full::default().boxed_unsync();
        let response = self.start(Method::GET, path, headers, nothing);
        let response = tokio::time::timeout(WAIT_TIMEOUT, response).await;
        let (parts, body) = response.context("no answer came in time")??.into_parts();
        Ok(Lines {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body,
            read: BytesMut::new(),
        })
    }

    async fn json(&self, method: Method, path: &str, object: &Value) -> anyhow::Result<Answer> {
        let headers = [("content-type", "application/json")];
        self.send(method, path, &headers, object.to_string()).await
    }

    async fn start(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Body,
    ) -> anyhow::Result<http::Response<Incoming>> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("https://insula.test{path}"));
        if !self.token.is_empty() {
            request = request.header("authorization", format!("Bearer {}", self.token));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(body)?;
        let mut sender = self.sender.clone();
        sender.ready().await?;
        Ok(sender.send_request(request).await?)
    }
}

/// Sends this text on its own connection and returns the complete answer, for requests that no
/// client library would send.
pub(super) async fn send_raw(
    address: SocketAddr,
    ca: &CertificateDer<'static>,
    text: &str,
) -> anyhow::Result<String> {
    let mut stream = dial(address, ca, None, "http/1.1").await?;
    stream.write_all(text.as_bytes()).await?;
    let mut answer = Vec::new();
    let read = tokio::time::timeout(WAIT_TIMEOUT, stream.read_to_end(&mut answer));
    read.await.context("the answer did not end in time")??;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// A TLS connection with a negotiated protocol.
pub async fn dial(
    address: SocketAddr,
    ca: &CertificateDer<'static>,
    identity: Option<Identity>,
    protocol: &str,
) -> anyhow::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(address).await?;
    handshake(stream, ca, identity, protocol).await
}

/// The same with small buffers, so that a test which does not read soon stops the server.
pub async fn dial_narrow(
    address: SocketAddr,
    ca: &CertificateDer<'static>,
    protocol: &str,
) -> anyhow::Result<TlsStream<TcpStream>> {
    const BUFFER: u32 = 16 << 10;
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(BUFFER)?;
    handshake(socket.connect(address).await?, ca, None, protocol).await
}

/// Opens a TCP connection from this local address, such as 127.0.0.2.
pub async fn connect_from(source: IpAddr, address: SocketAddr) -> anyhow::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::new(source, 0))?;
    Ok(socket.connect(address).await?)
}

/// Performs the TLS handshake on a TCP connection.
pub async fn handshake(
    stream: TcpStream,
    ca: &CertificateDer<'static>,
    identity: Option<Identity>,
    protocol: &str,
) -> anyhow::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(ca.clone())?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    let mut config = match identity {
        None => config.with_no_client_auth(),
        Some(shown) => config.with_client_auth_cert(vec![shown.certificate], shown.key)?,
    };
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    // A request is two small writes, and the second must not wait for an answer.
    stream.set_nodelay(true)?;
    let name = ServerName::from(stream.peer_addr()?.ip());
    let connector = TlsConnector::from(Arc::new(config));
    Ok(connector.connect(name, stream).await?)
}

impl Answer {
    /// The body as JSON; null if it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// A header as text; empty if it is missing.
    pub fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or("")
    }

    /// The message of a `Status`.
    pub fn message(&self) -> String {
        self.json()["message"].as_str().unwrap_or("").to_owned()
    }
}

impl Lines {
    /// The next line; `None` at the end.
    pub async fn next(&mut self) -> anyhow::Result<Option<Value>> {
        let line = tokio::time::timeout(WAIT_TIMEOUT, self.line()).await;
        let line = line.context("no line came in time")??;
        Ok(line.map(|line| serde_json::from_slice(&line).unwrap_or_default()))
    }

    /// Collects a finite answer, such as an error.
    pub async fn whole(self) -> anyhow::Result<Answer> {
        let body = tokio::time::timeout(WAIT_TIMEOUT, self.body.collect()).await;
        let body = body.context("no end came in time")??.to_bytes();
        Ok(Answer {
            status: self.status,
            headers: self.headers,
            body,
        })
    }

    /// Every line up to the end.
    pub async fn rest(&mut self) -> anyhow::Result<Vec<Value>> {
        let mut lines = Vec::new();
        while let Some(line) = self.next().await? {
            lines.push(line);
        }
        Ok(lines)
    }

    /// The next length-prefixed frame; `None` at the end.
    pub async fn frame(&mut self) -> anyhow::Result<Option<Bytes>> {
        let frame = tokio::time::timeout(WAIT_TIMEOUT, self.read_frame()).await;
        frame.context("no frame came in time")?
    }

    /// The next frame, whose length is returned for bytes that begin with all of it; `None` at the
    /// end.
    pub async fn frame_of(
        &mut self,
        length: impl Fn(&[u8]) -> Option<usize>,
    ) -> anyhow::Result<Option<Bytes>> {
        loop {
            if let Some(length) = length(&self.read) {
                return Ok(Some(self.read.split_to(length).freeze()));
            }
            let more = tokio::time::timeout(WAIT_TIMEOUT, self.more()).await;
            if !more.context("no frame came in time")?? {
                anyhow::ensure!(self.read.is_empty(), "the last frame is not whole");
                return Ok(None);
            }
        }
    }

    /// Whether nothing arrives for this long.
    pub async fn is_quiet_for(&mut self, time: Duration) -> bool {
        tokio::time::timeout(time, self.line()).await.is_err()
    }

    async fn line(&mut self) -> anyhow::Result<Option<Bytes>> {
        let mut looked = 0;
        loop {
            let end = self.read[looked..].iter().position(|byte| *byte == b'\n');
            if let Some(end) = end {
                return Ok(Some(self.read.split_to(looked + end + 1).freeze()));
            }
            looked = self.read.len();
            if !self.more().await? {
                return Ok((!self.read.is_empty()).then(|| self.read.split().freeze()));
            }
        }
    }

    async fn read_frame(&mut self) -> anyhow::Result<Option<Bytes>> {
        loop {
            if let Some(head) = self.read.first_chunk() {
                let length = u32::from_be_bytes(*head) as usize;
                if self.read.len() >= 4 + length {
                    return Ok(Some(self.read.split_to(4 + length).split_off(4).freeze()));
                }
            }
            if !self.more().await? {
                anyhow::ensure!(self.read.is_empty(), "the last frame is not whole");
                return Ok(None);
            }
        }
    }

    /// Reads more; returns whether there was any.
    async fn more(&mut self) -> anyhow::Result<bool> {
        let Some(frame) = self.body.frame().await else {
            return Ok(false);
        };
        if let Ok(data) = frame?.into_data() {
            self.read.extend_from_slice(&data);
        }
        Ok(true)
    }
}

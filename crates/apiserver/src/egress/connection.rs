//! A connection to a webhook. It has no task of its own: the call that awaits a response
//! drives it.

use std::io;
use std::pin::Pin;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use insula_tls::handshake_error;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// A connection without a request in flight.
pub(super) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    driver: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// Whether the connection is unused.
    new: bool,
}

/// A response.
#[derive(Debug)]
pub(super) struct Reply {
    pub code: u16,
    pub content_type: Option<String>,
    pub body: Bytes,
}

/// A call that failed.
pub(super) struct Failure {
    /// The error message, as Go words it.
    pub why: String,
    /// Whether the peer closed a reused connection before it saw the request.
    pub unheard: bool,
}

impl Connection {
    /// Performs the TLS and HTTP handshakes. The error is a message of Go's.
    pub async fn open(stream: TcpStream, tls: &TlsConnector, host: &str) -> Result<Self, String> {
        stream.set_nodelay(true).ok();
        let name = ServerName::try_from(host.to_owned());
        let name = name.map_err(|_| format!("tls: {host:?} is no name of a server"))?;
        let shaken = tls.connect(name, stream).await;
        Self::over(shaken.map_err(|error| handshake_error(&error))?).await
    }

    /// Performs the HTTP handshake. The error is a message of Go's.
    pub async fn over<S>(stream: S) -> Result<Self, String>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| error.to_string())?;
        Ok(Self {
            sender,
            // Errors of the connection are reported by the response.
            driver: Box::pin(async { connection.await.unwrap_or_default() }),
            new: true,
        })
    }

    /// Returns the connection, unless the peer has closed it.
    pub async fn ready(mut self) -> Option<Self> {
        let ready = tokio::select! {
            biased;
            () = &mut self.driver => false,
            ready = self.sender.ready() => ready.is_ok(),
        };
        ready.then_some(self)
    }

    /// Sends a request and reads the response, up to `max_bytes`.
    pub async fn send(
        &mut self,
        request: http::Request<Full<Bytes>>,
        max_bytes: usize,
    ) -> Result<Reply, Failure> {
        let reused = !std::mem::take(&mut self.new);
        let sender = &mut self.sender;
        let answer = async {
            let sent = sender.send_request(request).await;
            let response = sent.map_err(|error| Failure {
                unheard: reused && (error.is_canceled() || error.is_incomplete_message()),
                why: failed(&error),
            })?;
            let (head, body) = response.into_parts();
            let body = Limited::new(body, max_bytes).collect().await;
            let body = body.map_err(|error| cut(error, max_bytes))?;
            let of = head.headers.get(CONTENT_TYPE);
            Ok(Reply {
                code: head.status.as_u16(),
                content_type: of.map(|of| String::from_utf8_lossy(of.as_bytes()).into_owned()),
                body: body.to_bytes(),
            })
        };
        tokio::pin!(answer);
        tokio::select! {
            answer = &mut answer => answer,
            // Errors of the connection are reported by the response.
            () = &mut self.driver => answer.await,
        }
    }
}

fn failed(error: &hyper::Error) -> String {
    if error.is_incomplete_message() || error.is_canceled() {
        return "EOF".to_owned();
    }
    if error.is_parse() {
        return "net/http: HTTP/1.x transport connection broken: malformed HTTP response"
            .to_owned();
    }
    let source = std::error::Error::source(error);
    let source = source.and_then(|error| error.downcast_ref::<io::Error>());
    match source.map(io::Error::kind) {
        Some(io::ErrorKind::ConnectionReset) => "read: connection reset by peer".to_owned(),
        Some(io::ErrorKind::BrokenPipe) => "write: broken pipe".to_owned(),
        Some(io::ErrorKind::UnexpectedEof) => "EOF".to_owned(),
        _ => error.to_string(),
    }
}

fn cut(error: Box<dyn std::error::Error + Send + Sync>, max_bytes: usize) -> Failure {
    let why = if error.is::<LengthLimitError>() {
        format!("the answer is longer than {max_bytes} bytes")
    } else if error.is::<hyper::Error>() {
        "unexpected EOF".to_owned()
    } else {
        error.to_string()
    };
    Failure {
        why,
        unheard: false,
    }
}

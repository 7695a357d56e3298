//! A small JSON client of the API.
//!
//! It opens a connection for each request, since commands send only a few.

mod error;
mod tls;

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue, USER_AGENT};
use http::{Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::rt::{Read, Write};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

pub use self::error::ClientError;
use self::tls::Tls;
use crate::failure::Failure;
use crate::kubeconfig::Connection;

/// A client of one server with one credential.
pub struct Client {
    scheme: Scheme,
    host: String,
    port: u16,
    /// The path prefix, without a trailing slash.
    prefix: String,
    authorization: Option<HeaderValue>,
}

enum Scheme {
    Plain,
    Tls(Tls),
}

/// The timeout of one request.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The maximum size of a response: more than a page of tenants.
const MAX_RESPONSE_BYTES: usize = 64 << 20;

impl Client {
    /// Creates a client for a server of a kubeconfig.
    pub fn new(connection: &Connection) -> Result<Self, Failure> {
        let wrong = |why: &str| {
            let said = format!("the server {:?} of the kubeconfig", connection.server);
            Failure::new(&said, why)
        };
        let url: Uri = connection.server.parse().map_err(|_| wrong("not a URL"))?;
        let host = url.host().ok_or_else(|| wrong("no host"))?;
        let (scheme, port) = match url.scheme_str() {
            Some("http") => (Scheme::Plain, 80),
            Some("https") => (Scheme::Tls(Tls::new(connection, host)?), 443),
            _ => return Err(wrong("the scheme is neither https nor http")),
        };
        Ok(Self {
            scheme,
            host: host.to_owned(),
            port: url.port_u16().unwrap_or(port),
            prefix: url.path().trim_end_matches('/').to_owned(),
            authorization: authorization(connection)?,
        })
    }

    /// Reads an object.
    pub async fn get(&self, path: &str) -> Result<Value, ClientError> {
        self.send_request(Method::GET, path, None).await
    }

    /// Creates an object.
    pub async fn post(&self, path: &str, object: &Value) -> Result<Value, ClientError> {
        self.send_request(Method::POST, path, Some(object)).await
    }

    /// Replaces an object.
    pub async fn put(&self, path: &str, object: &Value) -> Result<Value, ClientError> {
        self.send_request(Method::PUT, path, Some(object)).await
    }

    /// Deletes an object.
    pub async fn delete(&self, path: &str) -> Result<Value, ClientError> {
        self.send_request(Method::DELETE, path, None).await
    }

    async fn send_request(
        &self,
        method: Method,
        path: &str,
        object: Option<&Value>,
    ) -> Result<Value, ClientError> {
        let request = self.request(method, path, object)?;
        let answer = tokio::time::timeout(TIMEOUT, self.send(request)).await;
        let (status, body) = answer.map_err(|_| self.unreachable("request timed out"))??;
        if !status.is_success() {
            return Err(ClientError::refused(status, &body));
        }
        serde_json::from_slice(&body).map_err(|_| ClientError::NotJson)
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        object: Option<&Value>,
    ) -> Result<Request<Full<Bytes>>, ClientError> {
        let body = object.map_or(Vec::new(), |object| object.to_string().into_bytes());
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.prefix))
            .header(HOST, format!("{}:{}", self.host, self.port))
            .header(ACCEPT, "application/json")
            .header(USER_AGENT, concat!("insula/", env!("CARGO_PKG_VERSION")));
        if object.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let request = request.body(Full::new(body.into()));
        request.map_err(|_| ClientError::Path(path.to_owned()))
    }

    async fn send(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<(StatusCode, Bytes), ClientError> {
        // A URL has brackets around an IPv6 address, a socket address has none.
        let host = self.host.trim_matches(['[', ']']);
        let stream = TcpStream::connect((host, self.port)).await;
        let stream = stream.map_err(|error| self.unreachable(error))?;
        match &self.scheme {
            Scheme::Plain => exchange(TokioIo::new(stream), request).await,
            Scheme::Tls(tls) => {
                let connector = TlsConnector::from(tls.config.clone());
                let stream = connector.connect(tls.name.clone(), stream).await;
                let stream = stream.map_err(|error| self.distrusted(error))?;
                exchange(TokioIo::new(stream), request).await
            }
        }
        .map_err(|error| self.broken(&*error))
    }

    /// Converts an error of the exchange. In TLS 1.3 the server rejects a client certificate
    /// only after the first request.
    fn broken(&self, error: &(dyn std::error::Error + 'static)) -> ClientError {
        match error::alert(error) {
            Some(alert) => self.distrusted(alert),
            None => self.unreachable(error::innermost(error)),
        }
    }

    fn unreachable(&self, error: impl ToString) -> ClientError {
        ClientError::Unreachable {
            server: format!("{}:{}", self.host, self.port),
            why: error.to_string(),
        }
    }

    fn distrusted(&self, error: impl ToString) -> ClientError {
        ClientError::Distrusted {
            server: format!("{}:{}", self.host, self.port),
            why: error.to_string(),
        }
    }
}

async fn exchange(
    io: impl Read + Write + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
) -> Result<(StatusCode, Bytes), Box<dyn std::error::Error + Send + Sync>> {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await?;
    let answer = async {
        let response = sender.send_request(request).await?;
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, MAX_RESPONSE_BYTES).collect().await?;
        Ok((parts.status, body.to_bytes()))
    };
    // The connection does the I/O and is dropped with the response.
    tokio::pin!(answer, connection);
    tokio::select! {
        answer = &mut answer => answer,
        ended = &mut connection => {
            ended?;
            answer.await
        }
    }
}

fn authorization(connection: &Connection) -> Result<Option<HeaderValue>, Failure> {
    let Some(token) = &connection.token else {
        return Ok(None);
    };
    let header = HeaderValue::try_from(format!("Bearer {}", token.reveal()));
    let mut header = header
        .map_err(|_| Failure::message("the token of the kubeconfig cannot be sent in a header"))?;
    header.set_sensitive(true);
    Ok(Some(header))
}

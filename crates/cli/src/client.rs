//! Clients of the API.

mod error;

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, DATE};
use http::response::Parts;
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt, Limited};
use jiff::Timestamp;
use kube::Config;
use kube::client::Body;
use serde_json::Value;
use tower::BoxError;

pub use self::error::ClientError;
use crate::failure::Failure;

/// The user agent of commands.
pub const AGENT: &str = concat!("insula/", env!("CARGO_PKG_VERSION"));

/// Creates a client.
pub fn connect(config: Config) -> Result<kube::Client, Failure> {
    let attempted = format!("cannot set up a connection with {}", url(&config));
    let exec = config.auth_info.exec.clone();
    let client = kube::Client::try_from(config);
    client.map_err(|error| error::not_connected(&attempted, &error, exec.as_ref()))
}

/// Returns the URL of a cluster as it is written in files.
pub fn url(config: &Config) -> String {
    let url = config.cluster_url.to_string();
    url.trim_end_matches('/').to_owned()
}

/// A client that exchanges objects as JSON, for kinds of Insula's own.
pub struct Client {
    client: kube::Client,
    /// The server's host and port.
    server: String,
}

/// The timeout of one request.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The maximum size of a response: more than a page of tenants.
const MAX_RESPONSE_BYTES: usize = 64 << 20;

impl Client {
    /// Creates a client.
    pub fn new(mut config: Config) -> Result<Self, Failure> {
        let url = &config.cluster_url;
        let port = match url.scheme_str() {
            Some("http") => 80,
            _ => 443,
        };
        let port = url.port_u16().unwrap_or(port);
        let server = format!("{}:{port}", url.host().unwrap_or_default());
        // The user gets the server's message at once.
        config.default_retry = false;
        let client = connect(config)?;
        Ok(Self { client, server })
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

    /// Returns the server's clock, to the second.
    pub async fn time(&self) -> Result<Timestamp, ClientError> {
        let (headers, _) = self.exchange(Method::GET, "/version", None).await?;
        let date = headers.get(DATE).and_then(|date| date.to_str().ok());
        let date = date.and_then(|date| jiff::fmt::rfc2822::parse(date).ok());
        date.map(|date| date.timestamp()).ok_or(ClientError::NoTime)
    }

    async fn send_request(
        &self,
        method: Method,
        path: &str,
        object: Option<&Value>,
    ) -> Result<Value, ClientError> {
        let (_, body) = self.exchange(method, path, object).await?;
        serde_json::from_slice(&body).map_err(|_| ClientError::NotJson)
    }

    /// Returns headers and body of a successful response.
    async fn exchange(
        &self,
        method: Method,
        path: &str,
        object: Option<&Value>,
    ) -> Result<(HeaderMap, Bytes), ClientError> {
        let body = object.map_or(Vec::new(), |object| object.to_string().into_bytes());
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(ACCEPT, "application/json");
        if object.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let request = request.body(Body::from(body));
        let request = request.map_err(|_| ClientError::Path(path.to_owned()))?;
        let response = tokio::time::timeout(TIMEOUT, self.send(request)).await;
        let response = response.map_err(|_| ClientError::timed_out(&self.server))?;
        let (parts, body) = response.map_err(|error| ClientError::failed(&self.server, &*error))?;
        if !parts.status.is_success() {
            return Err(ClientError::refused(parts.status, &body));
        }
        Ok((parts.headers, body))
    }

    async fn send(&self, request: Request<Body>) -> Result<(Parts, Bytes), BoxError> {
        let response = self.client.send(request).await?;
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, MAX_RESPONSE_BYTES).collect().await?;
        Ok((parts, body.to_bytes()))
    }
}

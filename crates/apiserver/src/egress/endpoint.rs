//! A server that the administrator chose, such as a collector of audit events.
//!
//! Tenants have no say in its address, so the rules for their webhooks do not apply.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue, USER_AGENT};
use http::{Request, Uri};
use http_body_util::Full;
use insula_dialer::{AddressRules, Dialer, Reach, Resolver};
use insula_tls::{Trust, client_config_with, roots};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsConnector;

use super::connection::{Connection, Failure};
use super::dial;

/// The address of an endpoint, and the credentials for it.
#[derive(Debug)]
pub struct EndpointSettings {
    /// The URL, `https` or `http`.
    pub url: Uri,
    /// The CAs of its certificate.
    pub trust: Trust,
    /// The name in its certificate, if it is not that of the URL.
    pub server_name: Option<String>,
    /// The client certificate with its key.
    pub identity: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
    /// The `Authorization` header.
    pub authorization: Option<HeaderValue>,
    /// The file with the token of the header, which is read again when the token is refused.
    pub token_file: Option<PathBuf>,
}

/// An endpoint that bodies are posted to.
pub struct Endpoint {
    host: String,
    port: u16,
    authority: String,
    path: String,
    tls: Option<(TlsConnector, String)>,
    authorization: Mutex<Option<HeaderValue>>,
    token_file: Option<PathBuf>,
    dialer: Dialer<()>,
    /// A connection of an earlier call.
    idle: Mutex<Option<Connection>>,
}

/// An endpoint that cannot be called.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// The URL has another scheme, or no host.
    #[error("{0} is not a URL of a server, such as https://collector.example/audit")]
    Url(Uri),
    /// The CA is no certificate.
    #[error(transparent)]
    Authority(#[from] insula_tls::InvalidAuthority),
    /// The client certificate cannot be used.
    #[error("TLS cannot be configured: {0}")]
    Tls(#[from] rustls::Error),
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PostError {
    /// The server responded with this status.
    #[error("the server responded with {0}")]
    Status(u16),
    /// There was no response.
    #[error("{0}")]
    Failed(String),
}

/// The most bytes of a response, which is not used.
const MAX_RESPONSE_BYTES: usize = 64 << 10;

impl Endpoint {
    /// Creates the client of an endpoint.
    ///
    /// # Errors
    ///
    /// If the URL or a certificate cannot be used.
    pub fn new(settings: EndpointSettings) -> Result<Self, EndpointError> {
        let url = settings.url;
        let (Some(authority), Some(scheme)) = (url.authority(), url.scheme_str()) else {
            return Err(EndpointError::Url(url));
        };
        // URLs have brackets around an IPv6 address, sockets do not.
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        let (tls, port) = match scheme {
            "https" => {
                let config = client_config_with(roots(&settings.trust)?, settings.identity)?;
                let name = settings.server_name.unwrap_or_else(|| host.clone());
                (Some((Arc::new(config).into(), name)), 443)
            }
            "http" => (None, 80),
            _ => return Err(EndpointError::Url(url)),
        };
        let path = url.path_and_query().map_or("/", |path| path.as_str());
        let rules = AddressRules {
            allow: Vec::new(),
            deny: Vec::new(),
            own: None,
        };
        Ok(Self {
            port: authority.port_u16().unwrap_or(port),
            authority: authority.as_str().to_owned(),
            path: path.to_owned(),
            host,
            tls,
            authorization: Mutex::new(settings.authorization),
            token_file: settings.token_file,
            dialer: Dialer::new(rules, Resolver::system()),
            idle: Mutex::default(),
        })
    }

    /// Posts JSON.
    ///
    /// # Errors
    ///
    /// If the call fails, or the status is not 2xx.
    pub async fn post(&self, body: Bytes, timeout: Duration) -> Result<(), PostError> {
        let call = async {
            let code = self.exchange(body.clone(), timeout).await?;
            match code == 401 && self.reload_token().await {
                true => self.exchange(body, timeout).await,
                false => Ok(code),
            }
        };
        let late = |_| Err(PostError::Failed("deadline exceeded".to_owned()));
        let called = tokio::time::timeout(timeout, call).await;
        match called.unwrap_or_else(late)? {
            200..=299 => Ok(()),
            code => Err(PostError::Status(code)),
        }
    }

    /// Reads the token again. Returns whether it is another one.
    async fn reload_token(&self) -> bool {
        let Some(file) = &self.token_file else {
            return false;
        };
        let path = file.clone();
        let read = tokio::task::spawn_blocking(move || std::fs::read_to_string(path));
        let token = match read.await.map_err(io::Error::other).flatten() {
            Ok(token) => token,
            Err(error) => {
                tracing::warn!(%error, file = %file.display(), "token not read");
                return false;
            }
        };
        let Ok(mut header) = HeaderValue::from_str(&format!("Bearer {}", token.trim())) else {
            return false;
        };
        header.set_sensitive(true);
        let mut authorization = self.authorization();
        let is_new = authorization.as_ref() != Some(&header);
        *authorization = Some(header);
        is_new
    }

    fn authorization(&self) -> MutexGuard<'_, Option<HeaderValue>> {
        self.authorization
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the status of the response.
    async fn exchange(&self, body: Bytes, timeout: Duration) -> Result<u16, PostError> {
        if let Some(mut connection) = self.idle_connection().await {
            match self.send(&mut connection, body.clone(), timeout).await {
                Ok(code) => {
                    self.keep(connection);
                    return Ok(code);
                }
                // The peer has closed the idle connection and seen nothing of the call.
                Err(failure) if failure.unheard => {}
                Err(failure) => return Err(PostError::Failed(failure.why)),
            }
        }
        let connected = self.connect().await;
        let mut connection = connected.map_err(PostError::Failed)?;
        let sent = self.send(&mut connection, body, timeout).await;
        let code = sent.map_err(|failure| PostError::Failed(failure.why))?;
        self.keep(connection);
        Ok(code)
    }

    async fn idle_connection(&self) -> Option<Connection> {
        let idle = self
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        idle?.ready().await
    }

    fn keep(&self, connection: Connection) {
        *self.idle.lock().unwrap_or_else(PoisonError::into_inner) = Some(connection);
    }

    async fn connect(&self) -> Result<Connection, String> {
        let (host, port) = (&self.host, self.port);
        let stream = self.dialer.connect(&(), Reach::Any, host, port).await;
        let stream = stream.map_err(|error| dial::failed(host, port, &error))?;
        match &self.tls {
            Some((tls, name)) => Connection::open(stream, tls, name).await,
            None => Connection::over(stream).await,
        }
    }

    async fn send(
        &self,
        connection: &mut Connection,
        body: Bytes,
        timeout: Duration,
    ) -> Result<u16, Failure> {
        let failed = |why: String| Failure {
            why,
            unheard: false,
        };
        let separator = if self.path.contains('?') { '&' } else { '?' };
        let path = format!("{}{separator}timeout={}s", self.path, timeout.as_secs());
        let mut request = Request::post(path)
            .header(HOST, &self.authority)
            .header(ACCEPT, "application/json, */*")
            .header(CONTENT_TYPE, "application/json")
            .header(USER_AGENT, concat!("insula/", env!("CARGO_PKG_VERSION")));
        if let Some(authorization) = self.authorization().clone() {
            request = request.header(AUTHORIZATION, authorization);
        }
        let request = request.body(Full::new(body));
        let request = request.map_err(|error| failed(error.to_string()))?;
        let reply = connection.send(request, MAX_RESPONSE_BYTES).await?;
        Ok(reply.code)
    }
}

impl fmt::Debug for Endpoint {
    /// Leaves the credentials out.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Endpoint");
        shown.field("authority", &self.authority);
        shown.field("path", &self.path).finish_non_exhaustive()
    }
}

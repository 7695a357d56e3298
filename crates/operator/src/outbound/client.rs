//! An HTTPS client for one server, or one without TLS where an administrator says so.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{HOST, HeaderMap, HeaderValue};
use http::{Request, Uri};
use http_body_util::Full;
use insula_dialer::{AddressRules, Dialer, Reach, Resolver};
use insula_identity::endpoint::{AllowedEndpoints, Endpoint, Trust};
use rustls::pki_types::ServerName;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::connection::{Connection, IdleConnections, SendError};
use super::error::{RequestError, authority};
use super::response::{HttpResponse, SMALL_RESPONSE_KIB};
use super::trust::Authorities;

/// Creates the clients of a provider, with the same authorities and rules for addresses.
#[derive(Clone)]
pub struct HttpClients {
    authorities: Authorities,
    pub(super) dialer: Arc<Dialer<Endpoint>>,
    /// The servers that the administrator chose, which may have any address. All others are
    /// chosen by tenants.
    pub(super) trusted: AllowedEndpoints,
}

impl HttpClients {
    /// Verifies certificates with the system's roots and these, in DER. The servers may have any
    /// address.
    pub fn new(extra_roots: Vec<Vec<u8>>) -> Self {
        Self {
            authorities: Authorities::new(extra_roots),
            dialer: Arc::new(Dialer::new(AddressRules::default(), Resolver::system())),
            trusted: AllowedEndpoints::Anywhere,
        }
    }

    /// Lets servers other than the trusted ones have only the addresses that the rules allow.
    #[must_use]
    pub fn restricted(self, rules: AddressRules, trusted: AllowedEndpoints) -> Self {
        Self {
            dialer: Arc::new(Dialer::new(rules, Resolver::system())),
            trusted,
            ..self
        }
    }

    /// Creates a client for a server, which shares connections with no other client. It connects
    /// when it sends a request.
    ///
    /// # Errors
    ///
    /// If the host cannot be a name in a certificate, or the trust names authorities that only
    /// the credential has.
    pub fn client(&self, endpoint: &Endpoint, trust: &Trust) -> Result<HttpClient, RequestError> {
        let tls = self.authorities.config(trust);
        let tls = tls.map_err(|error| RequestError::Unreachable(error.to_string()))?;
        let server_name = ServerName::try_from(endpoint.host().to_owned())
            .map_err(|_| RequestError::Unreachable("invalid host name".to_owned()))?;
        let reach = match self.trusted.admits(endpoint) {
            Some(_) => Reach::Any,
            None => Reach::Ruled,
        };
        let tls = Some((server_name, TlsConnector::from(tls)));
        Ok(self.client_with(endpoint, reach, tls))
    }

    /// Creates a client without TLS for a server that an administrator chose, such as the metadata
    /// service of a virtual machine. The server may have any address, and no proxy is used.
    pub fn cleartext_client(&self, endpoint: &Endpoint) -> HttpClient {
        self.client_with(endpoint, Reach::Any, None)
    }

    fn client_with(&self, endpoint: &Endpoint, reach: Reach, tls: Option<Tls>) -> HttpClient {
        HttpClient {
            endpoint: endpoint.clone(),
            dialer: Arc::clone(&self.dialer),
            reach,
            tls,
            idle: IdleConnections::default(),
        }
    }
}

/// The name that the server's certificate must have, and how it is verified.
type Tls = (ServerName<'static>, TlsConnector);

/// A client for one server: HTTP/1.1 over TLS, with idle connections kept.
pub struct HttpClient {
    endpoint: Endpoint,
    dialer: Arc<Dialer<Endpoint>>,
    reach: Reach,
    /// None for a client without TLS.
    tls: Option<Tls>,
    idle: IdleConnections,
}

/// The limits of a request, and whether it may be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestOptions {
    /// The timeout for all of the request, from the connection to the end of the response.
    pub timeout: Duration,
    /// The maximum size of the response's body. Tenants may choose servers, so large responses
    /// should be accepted only where they are expected. Responses of more than 256 KiB are read a
    /// few at a time.
    pub max_response_kib: usize,
    /// Whether the request may be sent twice, as requests with an idempotent method always may.
    pub is_idempotent: bool,
}

impl RequestOptions {
    /// Returns the options of a request with a response of at most 256 KiB.
    pub fn new(timeout: Duration) -> Self {
        Self {
            timeout,
            max_response_kib: SMALL_RESPONSE_KIB,
            is_idempotent: false,
        }
    }
}

impl HttpClient {
    /// Returns the server.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Returns whether an administrator chose the server, and not a tenant.
    pub fn is_trusted(&self) -> bool {
        matches!(self.reach, Reach::Any)
    }

    /// Sends a request to the server and reads the response, whatever its status is. Redirects are
    /// not followed, because the request may carry a credential. Of the URI only path and query
    /// are used; the headers `Host` and `Content-Length` are added.
    ///
    /// # Errors
    ///
    /// If there is no response within the limits.
    pub async fn send(
        &self,
        request: Request<impl Into<Bytes>>,
        options: RequestOptions,
    ) -> Result<HttpResponse, RequestError> {
        let request = self.prepare(request)?;
        let sent = timeout(options.timeout, self.send_with_retry(request, options)).await;
        sent.unwrap_or_else(|_| {
            let seconds = options.timeout.as_secs_f32();
            let why = format!("no answer within {seconds} s");
            Err(RequestError::Unreachable(why))
        })
    }

    fn prepare(
        &self,
        request: Request<impl Into<Bytes>>,
    ) -> Result<Request<Full<Bytes>>, RequestError> {
        let (mut head, body) = request.into_parts();
        let path = head.uri.path_and_query().cloned();
        head.uri = path.map_or_else(|| Uri::from_static("/"), Uri::from);
        let text = self.endpoint.to_string();
        let host = match &self.tls {
            Some(_) => authority(&self.endpoint),
            None => text.strip_suffix(":80").map_or(text.clone(), str::to_owned),
        };
        let host = HeaderValue::from_str(&host);
        let mut headers = HeaderMap::new();
        headers.insert(HOST, host.map_err(|_| RequestError::InvalidRequest)?);
        head.headers.remove(HOST);
        headers.extend(head.headers);
        head.headers = headers;
        Ok(Request::from_parts(head, Full::new(body.into())))
    }

    /// Sends a request. The server may close an idle connection at the moment of its reuse: an
    /// unsent or idempotent request is then sent again on a new one.
    async fn send_with_retry(
        &self,
        request: Request<Full<Bytes>>,
        options: RequestOptions,
    ) -> Result<HttpResponse, RequestError> {
        let is_repeatable = options.is_idempotent || request.method().is_idempotent();
        if let Some(idle) = self.idle.take() {
            match self.send_on(idle, request.clone(), options).await {
                Err(SendError { is_unsent, error })
                    if (is_unsent || is_repeatable)
                        && !matches!(error, RequestError::InvalidResponse(_)) => {}
                done => return done.map_err(|failed| failed.error),
            }
        }
        let new = self.connect().await?;
        let sent = self.send_on(new, request, options).await;
        sent.map_err(|failed| failed.error)
    }

    async fn send_on(
        &self,
        mut connection: Connection,
        request: Request<Full<Bytes>>,
        options: RequestOptions,
    ) -> Result<HttpResponse, SendError> {
        let response = connection.send(request, options.max_response_kib).await?;
        self.idle.put(connection);
        Ok(response)
    }

    async fn connect(&self) -> Result<Connection, RequestError> {
        let (host, port) = (self.endpoint.host(), self.endpoint.port());
        let dialed = self.dialer.connect(&self.endpoint, self.reach, host, port);
        let stream = dialed
            .await
            .map_err(|error| RequestError::of_dial(&error))?;
        // An optimization only: its failure does not matter.
        let _ = stream.set_nodelay(true);
        let Some((server_name, tls)) = &self.tls else {
            return Connection::new(stream).await;
        };
        let stream = tls.connect(server_name.clone(), stream).await;
        Connection::new(stream.map_err(|error| RequestError::of_tls(&error))?).await
    }
}

//! The HTTPS client for a provider's documents. It sends no credentials, follows no redirects
//! and limits the size of responses.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, HOST, USER_AGENT};
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt, Empty, LengthLimitError, Limited};
use hyper_util::rt::TokioIo;
use insula_access::jwt::{KeySet, KeySetError};
use insula_tls::{Trust, client_config, handshake_error, roots};
use rustls::pki_types::ServerName;
use serde::Deserialize;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Fetches documents.
pub struct Client {
    tls: TlsConnector,
}

/// The error of an unusable client configuration.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The CA contains no certificate.
    #[error("the OpenID provider's CA is not a certificate in PEM")]
    Authority,
    /// TLS cannot be configured.
    #[error("TLS to the OpenID provider cannot be set up")]
    Tls(#[from] rustls::Error),
}

/// The error of a fetch.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// An unsupported URL.
    #[error("{0:?} is not an https URL without user")]
    Url(String),
    /// The provider is unreachable, or its certificate is not trusted.
    #[error("the provider cannot be reached: {0}")]
    Connect(io::Error),
    /// The response is not HTTP.
    #[error("the provider's response is not valid HTTP: {0}")]
    Http(hyper::Error),
    /// An unexpected status. Redirects are not followed.
    #[error("the provider responded with {0}")]
    Status(StatusCode),
    /// The response is too large.
    #[error("the provider's response exceeds 1 MiB")]
    Size,
    /// The response took too long.
    #[error("the request to the provider timed out")]
    Time,
    /// The discovery document lacks required members.
    #[error("the provider's discovery document lacks issuer or jwks_uri")]
    Discovery,
    /// The discovery document names another issuer.
    #[error("the provider's discovery document has another issuer: {0:?}")]
    Issuer(String),
    /// The keys are malformed.
    #[error("the provider's keys are invalid: {0}")]
    Keys(KeySetError),
}

/// The most bytes of a document.
const MAX_RESPONSE_BYTES: usize = 1 << 20;

/// The path of the discovery document.
const DISCOVERY: &str = "/.well-known/openid-configuration";

/// The required members of the discovery document.
#[derive(Deserialize)]
struct Discovery {
    issuer: String,
    jwks_uri: String,
}

impl Client {
    /// Creates a client that trusts these CAs.
    pub fn new(trust: &Trust) -> Result<Self, ClientError> {
        let roots = roots(trust).map_err(|_| ClientError::Authority)?;
        let tls = Arc::new(client_config(roots)?).into();
        Ok(Self { tls })
    }

    /// Fetches the keys of an issuer.
    pub async fn keys(&self, issuer: &str) -> Result<KeySet, FetchError> {
        let url = format!("{}{DISCOVERY}", issuer.strip_suffix('/').unwrap_or(issuer));
        let document = self.get(&url).await?;
        let document = serde_json::from_slice(&document);
        let document: Discovery = document.map_err(|_| FetchError::Discovery)?;
        if document.issuer != issuer {
            return Err(FetchError::Issuer(document.issuer));
        }
        let jwks = self.get(&document.jwks_uri).await?;
        KeySet::from_jwks(&jwks).map_err(FetchError::Keys)
    }

    async fn get(&self, url: &str) -> Result<Bytes, FetchError> {
        let wrong = || FetchError::Url(url.to_owned());
        let target = Target::parse(url).ok_or_else(wrong)?;
        let request = Request::get(target.path)
            .header(HOST, target.authority)
            .header(ACCEPT, "application/json")
            .header(USER_AGENT, concat!("insula/", env!("CARGO_PKG_VERSION")))
            .body(Empty::new());
        let request = request.map_err(|_| wrong())?;
        let stream = self.connect(&target.host, target.port).await;
        exchange(stream.map_err(FetchError::Connect)?, request).await
    }

    async fn connect(&self, host: &str, port: u16) -> io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let stream = TcpStream::connect((host, port)).await?;
        let shaken = self.tls.connect(name, stream).await;
        shaken.map_err(|error| io::Error::other(handshake_error(&error)))
    }
}

/// The parsed URL of a document.
struct Target {
    host: String,
    port: u16,
    authority: String,
    path: String,
}

impl Target {
    fn parse(url: &str) -> Option<Self> {
        let url: Uri = url.parse().ok()?;
        let authority = url.authority()?;
        if url.scheme_str() != Some("https") || authority.as_str().contains('@') {
            return None;
        }
        // URLs have brackets around an IPv6 address, sockets do not.
        let host = authority.host().trim_matches(['[', ']']);
        Some(Self {
            host: host.to_owned(),
            port: authority.port_u16().unwrap_or(443),
            authority: authority.to_string(),
            path: url.path_and_query()?.to_string(),
        })
    }
}

async fn exchange(
    stream: TlsStream<TcpStream>,
    request: Request<Empty<Bytes>>,
) -> Result<Bytes, FetchError> {
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(FetchError::Http)?;
    let response = async {
        let response = sender.send_request(request).await;
        let response = response.map_err(FetchError::Http)?;
        if response.status() != StatusCode::OK {
            return Err(FetchError::Status(response.status()));
        }
        let body = Limited::new(response.into_body(), MAX_RESPONSE_BYTES)
            .collect()
            .await;
        body.map(|body| body.to_bytes()).map_err(cut)
    };
    // The connection is driven until the response is complete.
    tokio::pin!(response, connection);
    tokio::select! {
        response = &mut response => response,
        // Errors of the connection are reported by the response.
        _ = &mut connection => response.await,
    }
}

fn cut(error: Box<dyn std::error::Error + Send + Sync>) -> FetchError {
    if error.is::<LengthLimitError>() {
        return FetchError::Size;
    }
    match error.downcast() {
        Ok(error) => FetchError::Http(*error),
        Err(error) => FetchError::Connect(io::Error::other(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_https_urls_without_a_user_are_fetched() {
        let parse = |url| {
            let target = Target::parse(url)?;
            Some((target.host, target.port, target.authority, target.path))
        };
        for (url, host, port, authority, path) in [
            ("https://a.test", "a.test", 443, "a.test", "/"),
            ("https://a.test/k?v=1", "a.test", 443, "a.test", "/k?v=1"),
            ("https://a.test:8443/k", "a.test", 8443, "a.test:8443", "/k"),
            ("https://[::1]:1/k", "::1", 1, "[::1]:1", "/k"),
        ] {
            let expected = (host.into(), port, authority.into(), path.into());
            assert_eq!(parse(url), Some(expected), "{url}");
        }
        for url in [
            "",
            "/keys",
            "a.test",
            "http://a.test/keys",
            "file:///etc/passwd",
            "ftp://a.test",
            "https://user:secret@a.test/keys",
            "https://@a.test/keys",
            "https://a.test/\nkeys",
            "https:///keys",
        ] {
            assert_eq!(parse(url), None, "{url}");
        }
    }

    #[test]
    fn invalid_ca_is_an_error() {
        for pem in [
            "",
            "nonsense",
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        ] {
            let client = Client::new(&Trust::Authorities(pem.to_owned()));
            assert!(matches!(client, Err(ClientError::Authority)), "{pem}");
        }
    }
}

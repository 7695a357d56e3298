//! Documents of a provider, over HTTPS: nothing is sent that anybody could use, and little
//! is believed.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, HOST, USER_AGENT};
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt, Empty, LengthLimitError, Limited};
use hyper_util::rt::TokioIo;
use insula_access::jwt::{KeySet, KeySetError};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde::Deserialize;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::egress::trust::{Trust, roots};

/// Gets documents.
pub struct Client {
    tls: TlsConnector,
}

/// Why nothing can be fetched at all.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// There is no certificate in what was given.
    #[error("the OpenID provider's CA is not a certificate in PEM")]
    Authority,
    /// TLS does not work like this.
    #[error("TLS to the OpenID provider cannot be set up")]
    Tls(#[from] rustls::Error),
}

/// Why there are no keys.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// A URL is not one to fetch from.
    #[error("{0:?} is not an https URL without user")]
    Url(String),
    /// The provider is not there, or is somebody else.
    #[error("the provider cannot be reached: {0}")]
    Connect(io::Error),
    /// It does not speak HTTP.
    #[error("the provider's answer is not HTTP: {0}")]
    Http(hyper::Error),
    /// It answers something else. Where it would send us is not where we were told to ask.
    #[error("the provider answers {0}")]
    Status(StatusCode),
    /// It answers more than anybody needs to say.
    #[error("the provider's answer is longer than 1 MiB")]
    Size,
    /// It takes too long.
    #[error("the provider did not answer in time")]
    Time,
    /// It does not describe itself.
    #[error("the provider's discovery document does not name issuer and jwks_uri")]
    Discovery,
    /// It describes somebody else.
    #[error("the provider calls itself {0:?}")]
    Issuer(String),
    /// Its keys are none.
    #[error("the provider's keys cannot be read: {0}")]
    Keys(KeySetError),
}

/// What a document may be long.
const MAX_RESPONSE_BYTES: usize = 1 << 20;

/// Where a provider describes itself.
const DISCOVERY: &str = "/.well-known/openid-configuration";

/// What a provider says about itself, as far as we need it.
#[derive(Deserialize)]
struct Discovery {
    issuer: String,
    jwks_uri: String,
}

impl Client {
    /// One that believes those.
    pub fn new(trust: &Trust) -> Result<Self, ClientError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots(trust).map_err(|_| ClientError::Authority)?)
            .with_no_client_auth();
        Ok(Self {
            tls: Arc::new(config).into(),
        })
    }

    /// The keys of a provider that calls itself so.
    pub async fn keys(&self, issuer: &str) -> Result<KeySet, FetchError> {
        let url = format!("{}{DISCOVERY}", issuer.strip_suffix('/').unwrap_or(issuer));
        let said = self.get(&url).await?;
        let said = serde_json::from_slice(&said);
        let said: Discovery = said.map_err(|_| FetchError::Discovery)?;
        if said.issuer != issuer {
            return Err(FetchError::Issuer(said.issuer));
        }
        let jwks = self.get(&said.jwks_uri).await?;
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
        self.tls.connect(name, stream).await
    }
}

/// Where a document is.
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
        // A URL has brackets around an IPv6 address, a socket has not.
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
    let shaken = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = shaken.map_err(FetchError::Http)?;
    let answer = async {
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
    // The connection does the work; it is over when the answer is there.
    tokio::pin!(answer, connection);
    tokio::select! {
        answer = &mut answer => answer,
        // Whatever ended it, the answer knows.
        _ = &mut connection => answer.await,
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
    fn only_https_without_a_user_is_fetched_from() {
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
    fn a_ca_that_is_none_is_not_taken_for_no_ca() {
        for pem in [
            "",
            "nonsense",
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        ] {
            let made = Client::new(&Trust::Authorities(pem.to_owned()));
            assert!(matches!(made, Err(ClientError::Authority)), "{pem}");
        }
    }
}

//! How to reach an etcd cluster, and configuration errors.

use std::fmt;
use std::time::Duration;

use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use super::version::{MIN_VERSION, Version};

/// The etcd cluster, and how to reach it.
#[derive(Clone, Debug)]
pub struct Options {
    /// The members' addresses, each `http://host:port` or `https://host:port`.
    pub endpoints: Vec<String>,
    /// Required for `https` endpoints, and then for all of them.
    pub tls: Option<Tls>,
    /// The timeout of one call, including attempts on other members.
    pub timeout: Duration,
}

impl Options {
    /// Longer than etcd's own limit of 7 s, so that its answer arrives first.
    const TIMEOUT: Duration = Duration::from_secs(10);
    /// The timeout for connecting to a member.
    const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
    /// The keepalive interval of a connection in use. etcd closes connections that send keepalives
    /// more often than every 5 s, or while idle.
    const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);

    /// These members, without TLS, with the default timeouts.
    pub fn new(endpoints: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            endpoints: endpoints.into_iter().map(Into::into).collect(),
            tls: None,
            timeout: Self::TIMEOUT,
        }
    }

    /// The same with TLS.
    #[must_use]
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Parses the endpoints.
    pub(super) fn parse(&self) -> Result<Vec<Endpoint>, ConnectError> {
        if self.endpoints.is_empty() {
            return Err(ConnectError::NoEndpoint);
        }
        let parse = |endpoint: &String| self.parse_one(endpoint);
        self.endpoints.iter().map(parse).collect()
    }

    fn parse_one(&self, text: &str) -> Result<Endpoint, ConnectError> {
        let invalid = |reason| ConnectError::Endpoint {
            endpoint: text.to_owned(),
            reason,
        };
        let not_an_address = |_| invalid("not a URL");
        let endpoint = Endpoint::from_shared(text.to_owned()).map_err(not_an_address)?;
        let endpoint = endpoint
            .connect_timeout(Self::CONNECT_TIMEOUT)
            .http2_keep_alive_interval(Self::KEEPALIVE_INTERVAL)
            .keep_alive_timeout(Self::KEEPALIVE_INTERVAL / 2)
            .tcp_nodelay(true);
        match (endpoint.uri().scheme_str(), &self.tls) {
            (Some("http"), None) => Ok(endpoint),
            (Some("https"), Some(tls)) => endpoint
                .tls_config(tls.config())
                .map_err(|error| ConnectError::Certificates(error.to_string())),
            (Some("http"), Some(_)) => Err(invalid(
                "certificates are configured, but the endpoint is not https",
            )),
            (Some("https"), None) => Err(invalid("the endpoint is https, but no CA is configured")),
            _ => Err(invalid("the scheme is neither http nor https")),
        }
    }
}

/// CA and client certificates, all in PEM.
#[derive(Clone, Debug)]
pub struct Tls {
    /// The CA certificates that may have signed etcd's.
    pub ca: Vec<u8>,
    /// The client certificate, if etcd requires one.
    pub client: Option<ClientCertificate>,
}

/// A client's certificate chain and its private key, in PEM.
#[derive(Clone)]
pub struct ClientCertificate {
    /// The chain.
    pub cert: Vec<u8>,
    /// The key.
    pub key: Vec<u8>,
}

impl fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("****")
    }
}

impl Tls {
    fn config(&self) -> ClientTlsConfig {
        let config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&self.ca));
        match &self.client {
            Some(client) => config.identity(Identity::from_pem(&client.cert, &client.key)),
            None => config,
        }
    }
}

/// Why no connection to etcd was made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// No endpoint was given.
    #[error("no etcd endpoint is given")]
    NoEndpoint,

    /// An endpoint is invalid or does not match the TLS options.
    #[error("{endpoint} cannot be used as an etcd endpoint: {reason}")]
    Endpoint {
        /// The endpoint.
        endpoint: String,
        /// Why it is invalid.
        reason: &'static str,
    },

    /// The certificates or the key are invalid.
    #[error("the certificates for etcd cannot be used: {0}")]
    Certificates(String),

    /// No member answers.
    #[error("no etcd endpoint answers; {endpoint}: {reason}")]
    Unreachable {
        /// The first of them.
        endpoint: String,
        /// Why it does not answer.
        reason: String,
    },

    /// A member is too old for the engine to be correct.
    #[error(
        "etcd at {endpoint} has version {version}; at least {MIN_VERSION} is needed, because \
         before it a watch could be told that it is further than the events it got"
    )]
    TooOld {
        /// The endpoint.
        endpoint: String,
        /// Its version.
        version: Version,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(endpoints: &[&str], tls: Option<Tls>) -> ConnectError {
        let mut options = Options::new(endpoints.iter().copied());
        options.tls = tls;
        options.parse().unwrap_err()
    }

    #[test]
    fn invalid_endpoint_is_refused_with_a_reason() {
        let tls = || {
            Some(Tls {
                ca: Vec::new(),
                client: None,
            })
        };
        assert_eq!(refusal(&[], None), ConnectError::NoEndpoint);
        for (text, tls, expected) in [
            ("", None, "not a URL"),
            (
                "localhost:2379",
                None,
                "the scheme is neither http nor https",
            ),
            (
                "https://h:1",
                None,
                "the endpoint is https, but no CA is configured",
            ),
            (
                "http://h:1",
                tls(),
                "certificates are configured, but the endpoint is not https",
            ),
        ] {
            let ConnectError::Endpoint { endpoint, reason } = refusal(&[text], tls) else {
                panic!("{text} is refused for another reason");
            };
            assert_eq!((endpoint.as_str(), reason), (text, expected));
        }
    }

    #[test]
    fn private_key_is_never_printed() {
        let client = Some(ClientCertificate {
            cert: b"cert".to_vec(),
            key: b"key".to_vec(),
        });
        let tls = Tls { ca: vec![], client };
        assert_eq!(format!("{tls:?}"), "Tls { ca: [], client: Some(****) }");
    }
}

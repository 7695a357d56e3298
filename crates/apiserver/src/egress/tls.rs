//! TLS to webhooks.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use insula_tls::{Trust, client_config, roots};
use rustls::client::Resumption;
use rustls::{CertificateError, Error, InvalidMessage};
use tokio_rustls::TlsConnector;

use super::error::CallError;

/// TLS configurations by CA bundle.
#[derive(Default)]
pub(super) struct Trusts {
    made: Mutex<HashMap<Option<String>, TlsConnector>>,
}

/// The most cached configurations. They are cheap to rebuild.
const MAX_CACHED: usize = 256;

impl Trusts {
    /// Returns a connector that trusts the CA bundle, or the machine's CAs without one.
    pub fn connector(&self, bundle: Option<&str>) -> Result<TlsConnector, CallError> {
        let key = bundle.map(str::to_owned);
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(connector) = made.get(&key) {
            return Ok(connector.clone());
        }
        let connector = connector(bundle)?;
        if made.len() >= MAX_CACHED {
            made.clear();
        }
        made.insert(key, connector.clone());
        Ok(connector)
    }
}

fn connector(bundle: Option<&str>) -> Result<TlsConnector, CallError> {
    let trust = match bundle {
        Some(pem) => Trust::Authorities(pem.to_owned()),
        None => Trust::System,
    };
    let roots = roots(&trust).map_err(|_| {
        let why = "unable to load root certificates: unable to parse bytes as PEM block";
        CallError::Client(why.to_owned())
    })?;
    let config = client_config(roots);
    let mut config = config.map_err(|error| CallError::Client(error.to_string()))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // Spaces with the same CA bundle share the connector, so sessions must not be resumed.
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config).into())
}

/// Returns Go's message for a failed handshake.
pub(super) fn failed(host: &str, error: &io::Error) -> String {
    let source = error
        .get_ref()
        .and_then(|error| error.downcast_ref::<Error>());
    match source {
        Some(Error::InvalidCertificate(why)) => {
            let why = certificate(host, why);
            format!("tls: failed to verify certificate: x509: {why}")
        }
        Some(Error::InvalidMessage(InvalidMessage::InvalidContentType)) => {
            "tls: first record does not look like a TLS handshake".to_owned()
        }
        Some(Error::AlertReceived(alert)) => format!("remote error: tls: {alert:?}"),
        Some(other) => format!("tls: {other}"),
        None if error.kind() == io::ErrorKind::UnexpectedEof => "EOF".to_owned(),
        None if error.kind() == io::ErrorKind::ConnectionReset => {
            "connection reset by peer".to_owned()
        }
        None => error.to_string(),
    }
}

fn certificate(host: &str, why: &CertificateError) -> String {
    match why {
        // A bad signature means another CA with the same name.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "certificate signed by unknown authority".to_owned()
        }
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => {
            "certificate has expired or is not yet valid".to_owned()
        }
        CertificateError::NotValidForNameContext { presented, .. } => named(host, presented),
        CertificateError::NotValidForName => named(host, &[]),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "certificate specifies an incompatible key usage".to_owned()
        }
        other => other.to_string(),
    }
}

/// Returns Go's message for a name mismatch. Names come as `DnsName("a")` and `IpAddress(…)`.
fn named(host: &str, presented: &[String]) -> String {
    let inner = |name: &String, sort: &str| {
        let name = name.strip_prefix(sort)?.strip_suffix(')')?;
        Some(name.trim_matches('"').to_owned())
    };
    let is_ip = host.parse::<IpAddr>().is_ok();
    let sort = if is_ip { "IpAddress(" } else { "DnsName(" };
    let names: Vec<_> = presented
        .iter()
        .filter_map(|name| inner(name, sort))
        .collect();
    match (is_ip, names.is_empty()) {
        (true, true) => {
            format!("cannot validate certificate for {host} because it doesn't contain any IP SANs")
        }
        (false, true) => {
            format!("certificate is not valid for any names, but wanted to match {host}")
        }
        _ => format!("certificate is valid for {}, not {host}", names.join(", ")),
    }
}

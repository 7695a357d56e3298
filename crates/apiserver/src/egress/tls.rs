//! TLS to webhooks.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use insula_tls::{Trust, client_config, roots};
use rustls::client::Resumption;
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

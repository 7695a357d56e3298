//! The broker-info file.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Secret;

use crate::names::TenantId;

/// What a broker-info file says.
#[derive(Clone)]
pub struct BrokerInfo {
    /// Where the broker is.
    pub url: String,
    /// The administrator's token.
    pub client_token: Option<Secret>,
    /// The pre-shared key.
    pub ipsec_psk: Option<Secret>,
    /// What is deployed.
    pub components: BTreeSet<String>,
    /// Custom domains.
    pub custom_domains: Vec<String>,
    /// The broker's namespace.
    pub namespace: Option<String>,
}

/// What was done.
pub struct Saved {
    /// The file that was there before.
    pub backup: Option<PathBuf>,
}

/// Why not.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {0}")]
pub struct Error(String);

/// Writes it.
pub fn save(path: &Path, info: &BrokerInfo) -> Result<Saved, Error> {
    let text = serde_json::json!({"brokerURL": info.url, "ClientToken": info.client_token, "namespace": info.namespace});
    std::fs::write(path, text.to_string()).map_err(|error| Error(error.to_string()))?;
    Ok(Saved { backup: None })
}

/// A name of its own.
pub fn unique_name(id: &TenantId, now: &jiff::Zoned) -> String {
    format!("broker-info-{id}-{}.subm", now.timestamp().as_second())
}

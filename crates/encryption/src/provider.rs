//! Providers of the keys at the top of the hierarchy.

mod kms;
mod local;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

pub use self::kms::KmsKey;
pub use self::local::LocalKey;
use crate::Result;
use crate::config::ProviderConfig;

/// Wraps root keys. It is asked when the server starts and when keys rotate.
#[async_trait]
pub trait KeyProvider: std::fmt::Debug + Send + Sync {
    /// The provider's name in the configuration, such as `aesgcm:key1` or `kms:vault`.
    fn name(&self) -> &str;

    /// Returns the ID of the key that the provider wraps with now.
    async fn key_id(&self) -> Result<String>;

    /// Whether the provider can unwrap what `wrapped` says it was wrapped with.
    fn unwraps(&self, wrapped: &WrappedKey) -> bool;

    /// Wraps a key.
    async fn wrap(&self, key: &[u8]) -> Result<WrappedKey>;

    /// Unwraps a key. [`Error::Damaged`](crate::Error::Damaged) says that it never will.
    async fn unwrap(&self, wrapped: &WrappedKey) -> Result<Zeroizing<Vec<u8>>>;
}

/// A key that a provider wrapped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WrappedKey {
    /// The provider's name.
    pub provider: String,
    /// The ID of the provider's key.
    pub key_id: String,
    /// The wrapped key.
    #[serde(with = "crate::record::base64_bytes")]
    pub ciphertext: Vec<u8>,
    /// What the provider wants back for unwrapping, as in KMS v2.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[serde(with = "crate::record::base64_values")]
    pub annotations: BTreeMap<String, Vec<u8>>,
}

/// Creates the providers of a configuration, in its order.
pub fn create(configs: &[ProviderConfig]) -> Result<Vec<Arc<dyn KeyProvider>>> {
    let create = |config: &ProviderConfig| -> Result<Arc<dyn KeyProvider>> {
        Ok(match config {
            ProviderConfig::Local { name, secret } => Arc::new(LocalKey::new(name, secret)),
            ProviderConfig::Kms {
                name,
                endpoint,
                timeout,
            } => Arc::new(KmsKey::new(name, endpoint, *timeout)?),
        })
    };
    configs.iter().map(create).collect()
}

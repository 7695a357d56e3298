//! A key in a KMS, through a plugin.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use insula_kms::{Encrypted, KmsPlugin};
use zeroize::Zeroizing;

use super::{KeyProvider, WrappedKey};
use crate::{Error, Result};

/// A KMS v2 plugin.
#[derive(Debug)]
pub struct KmsKey {
    name: String,
    plugin: KmsPlugin,
    /// The number of calls, which names them in the plugin's log.
    calls: AtomicU64,
}

impl KmsKey {
    /// Creates the client of a plugin. It connects with the first call.
    pub fn new(name: &str, endpoint: &str, timeout: Duration) -> Result<Self> {
        let plugin = KmsPlugin::new(name, endpoint, timeout);
        Ok(Self {
            name: format!("kms:{name}"),
            plugin: plugin.map_err(|error| Error::Config(error.to_string()))?,
            calls: AtomicU64::new(1),
        })
    }

    fn uid(&self) -> String {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        format!("insula-{}-{call}", std::process::id())
    }

    fn failed(&self, error: &insula_kms::Error) -> Error {
        Error::Provider {
            provider: self.name.clone(),
            reason: error.to_string(),
        }
    }
}

#[async_trait]
impl KeyProvider for KmsKey {
    fn name(&self) -> &str {
        &self.name
    }

    async fn key_id(&self) -> Result<String> {
        let status = self.plugin.status().await;
        Ok(status.map_err(|error| self.failed(&error))?.key_id)
    }

    fn unwraps(&self, wrapped: &WrappedKey) -> bool {
        wrapped.provider == self.name
    }

    async fn wrap(&self, key: &[u8]) -> Result<WrappedKey> {
        let encrypted = self.plugin.encrypt(&self.uid(), key).await;
        let encrypted = encrypted.map_err(|error| self.failed(&error))?;
        Ok(WrappedKey {
            provider: self.name.clone(),
            key_id: encrypted.key_id,
            ciphertext: encrypted.ciphertext,
            annotations: encrypted.annotations,
        })
    }

    async fn unwrap(&self, wrapped: &WrappedKey) -> Result<Zeroizing<Vec<u8>>> {
        let encrypted = Encrypted {
            ciphertext: wrapped.ciphertext.clone(),
            key_id: wrapped.key_id.clone(),
            annotations: wrapped.annotations.clone(),
        };
        let key = self.plugin.decrypt(&self.uid(), &encrypted).await;
        let key = key.map_err(|error| self.failed(&error))?;
        Ok(Zeroizing::new(key))
    }
}

//! A key in the configuration file.

use std::collections::BTreeMap;

use async_trait::async_trait;
use ring::digest::{SHA256, digest};
use zeroize::Zeroizing;

use super::{KeyProvider, WrappedKey};
use crate::cipher::Cipher;
use crate::{Error, Result};

/// A key of the `aesgcm` provider.
#[derive(Debug)]
pub struct LocalKey {
    name: String,
    /// Recognizes the secret without revealing it, so that a key may be renamed and a changed secret
    /// is another key.
    fingerprint: String,
    cipher: Cipher,
}

/// The name of the provider in configurations and records.
pub(crate) const AESGCM: &str = "aesgcm";

impl LocalKey {
    /// Creates a key from its secret.
    pub fn new(name: &str, secret: &[u8]) -> Self {
        let labelled = Zeroizing::new([b"insula aesgcm key fingerprint:", secret].concat());
        let digest = digest(&SHA256, &labelled);
        let hex = digest.as_ref()[..8]
            .iter()
            .map(|byte| format!("{byte:02x}"));
        Self {
            name: format!("{AESGCM}:{name}"),
            fingerprint: hex.collect(),
            cipher: Cipher::new("insula provider key v1", secret),
        }
    }
}

#[async_trait]
impl KeyProvider for LocalKey {
    fn name(&self) -> &str {
        &self.name
    }

    async fn key_id(&self) -> Result<String> {
        Ok(self.fingerprint.clone())
    }

    fn unwraps(&self, wrapped: &WrappedKey) -> bool {
        wrapped.provider.starts_with(AESGCM) && wrapped.key_id == self.fingerprint
    }

    async fn wrap(&self, key: &[u8]) -> Result<WrappedKey> {
        let mut ciphertext = Vec::new();
        self.cipher
            .seal(self.fingerprint.as_bytes(), key, &mut ciphertext)?;
        Ok(WrappedKey {
            provider: self.name.clone(),
            key_id: self.fingerprint.clone(),
            ciphertext,
            annotations: BTreeMap::new(),
        })
    }

    async fn unwrap(&self, wrapped: &WrappedKey) -> Result<Zeroizing<Vec<u8>>> {
        let opened = self
            .cipher
            .open(self.fingerprint.as_bytes(), &wrapped.ciphertext);
        // Trying again cannot help, as it can with a KMS.
        let key = opened.map_err(|error| Error::Damaged {
            record: self.name.clone(),
            detail: error.to_string(),
        })?;
        Ok(Zeroizing::new(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn key_is_recognized_by_its_secret_not_by_its_name() {
        let wrapped = LocalKey::new("one", &[1; 32]).wrap(b"root").await.unwrap();
        let renamed = LocalKey::new("renamed", &[1; 32]);
        assert!(renamed.unwraps(&wrapped));
        assert_eq!(&**renamed.unwrap(&wrapped).await.unwrap(), b"root");
        let other = LocalKey::new("one", &[2; 32]);
        assert!(!other.unwraps(&wrapped));
        other.unwrap(&wrapped).await.unwrap_err();
    }
}

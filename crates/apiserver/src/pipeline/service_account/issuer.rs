//! The issuer of service account tokens.

use insula_access::jwt::{NotASigningKey, PublicKey, Signer};
use insula_kinds::Value;

use crate::status::{Result, StatusError};

/// Signs tokens as an issuer.
#[derive(Debug)]
pub struct Issuer {
    signer: Signer,
    url: String,
}

impl Issuer {
    /// Creates the issuer `url`, which signs with `key` in PKCS #8.
    pub fn new(key: &[u8], url: &str) -> Result<Self, NotASigningKey> {
        Ok(Self {
            signer: Signer::new(key)?,
            url: url.to_owned(),
        })
    }

    /// Returns the URL of the issuer.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the public key of its tokens.
    pub const fn public(&self) -> &PublicKey {
        self.signer.public()
    }

    /// Returns a signed token with these claims.
    pub fn sign(&self, claims: &Value) -> Result<String> {
        self.signer.sign(claims).map_err(StatusError::internal)
    }
}

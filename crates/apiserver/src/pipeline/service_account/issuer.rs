//! What signs tokens of service accounts.

use insula_access::jwt::{NotASigningKey, PublicKey, Signer};
use insula_kinds::Value;

use crate::status::{Result, StatusError};

/// Signs tokens, under a name.
#[derive(Debug)]
pub struct Issuer {
    signer: Signer,
    url: String,
}

impl Issuer {
    /// Signs with `key`, in PKCS #8, as the issuer that calls itself `url`.
    pub fn new(key: &[u8], url: &str) -> Result<Self, NotASigningKey> {
        Ok(Self {
            signer: Signer::new(key)?,
            url: url.to_owned(),
        })
    }

    /// What it calls itself.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// What its tokens are verified with.
    pub const fn public(&self) -> &PublicKey {
        self.signer.public()
    }

    /// A token that says this.
    pub fn sign(&self, claims: &Value) -> Result<String> {
        self.signer.sign(claims).map_err(StatusError::internal)
    }
}

//! Signs tokens.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};

use super::algorithm::Algorithm;
use super::key::PublicKey;

/// Signs claims with ES256. `Debug` does not print the key.
pub struct Signer {
    pair: EcdsaKeyPair,
    public: PublicKey,
    random: SystemRandom,
}

/// The key cannot sign tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is not a P-256 private key in PKCS #8")]
pub struct NotASigningKey;

/// Signing failed, because the system returned no random bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a token could not be signed")]
pub struct SigningError;

impl Signer {
    /// Creates a signer from a private key in PKCS #8.
    pub fn new(pkcs8: &[u8]) -> Result<Self, NotASigningKey> {
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8, &random);
        let pair = pair.map_err(|_| NotASigningKey)?;
        let public = PublicKey::from_p256(pair.public_key().as_ref());
        Ok(Self {
            public: public.map_err(|_| NotASigningKey)?,
            pair,
            random,
        })
    }

    /// The key that verifies its tokens.
    pub const fn public(&self) -> &PublicKey {
        &self.public
    }

    /// Returns a signed token with these claims.
    pub fn sign(&self, claims: &Value) -> Result<String, SigningError> {
        let header = json!({"alg": Algorithm::Es256.name(), "kid": self.public.id()});
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let message = format!("{}.{}", part(&header), part(claims));
        let signature = self.pair.sign(&self.random, message.as_bytes());
        let signature = signature.map_err(|_| SigningError)?;
        let signature = URL_SAFE_NO_PAD.encode(signature.as_ref());
        Ok(format!("{message}.{signature}"))
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signer(****)")
    }
}

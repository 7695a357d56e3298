//! JSON Web Tokens.
//!
//! [`Signed::parse`] reads a token without trusting it; [`Signed::verify`] returns the claims
//! if a key of a [`KeySet`] signed them. The token cannot influence how it is verified: its
//! algorithm must be that of the key, and its key ID is only ever compared.

mod algorithm;
mod claims;
mod id;
mod json;
mod jwk;
mod key;
mod key_set;
mod signer;
mod token_cache;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

pub use self::algorithm::{Algorithm, UnknownAlgorithm};
pub(crate) use self::claims::texts;
pub use self::claims::{Claims, LEEWAY, Malformed, TimeError, Times};
pub use self::id::{bounded_id, digest_id};
pub use self::jwk::{Jwk, Jwks};
pub use self::key::{NotAPublicKey, PublicKey};
pub use self::key_set::{KeySet, KeySetError};
pub use self::signer::{NotASigningKey, Signer, SigningError};
pub use self::token_cache::TokenCache;

/// A well-formed token. Its claims are not accessible until the signature is verified.
pub struct Signed<'a> {
    algorithm: Algorithm,
    key_id: Option<String>,
    claims: Claims,
    /// The signed bytes: header and claims as they were sent.
    message: &'a str,
    signature: Vec<u8>,
}

/// Why a token is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It exceeds the size limit.
    #[error("the token is longer than 16 KiB")]
    Size,
    /// It does not have three parts.
    #[error("the token is not three parts with dots between them")]
    Parts,
    /// A part is not canonical base64url.
    #[error("the token is not in base64url")]
    Encoding,
    /// Header or claims are not a JSON object, or have duplicate members, which parsers could
    /// read differently.
    #[error("the token's header and claims are not objects with distinct members")]
    Json,
    /// The algorithm is missing, symmetric, `none`, or unknown.
    #[error("the token's algorithm is not accepted")]
    Algorithm,
    /// The header has critical extensions, which must be rejected unless they are understood.
    #[error("the token's header has critical members")]
    Critical,
    /// The key ID is malformed.
    #[error("the token's key id is not acceptable")]
    KeyId,
    /// No key matches. A newer key set may have it.
    #[error("the token's key is not known")]
    UnknownKey,
    /// The key is known, but is for other algorithms.
    #[error("the token's algorithm is not that of its key")]
    Mismatch,
    /// The key is known, but did not sign this token.
    #[error("the token's signature does not verify")]
    Signature,
}

/// Upper bound on a token's size in bytes. Request headers of this server hold less.
const MAX_TOKEN_BYTES: usize = 16 << 10;

/// Upper bound on a key ID's length. Digests and names are shorter.
const MAX_KEY_ID_LENGTH: usize = 256;

impl<'a> Signed<'a> {
    /// Parses a token without verifying it.
    pub fn parse(token: &'a str) -> Result<Self, Error> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(Error::Size);
        }
        let (message, signature) = token.rsplit_once('.').ok_or(Error::Parts)?;
        let (header, claims) = message.split_once('.').ok_or(Error::Parts)?;
        if claims.contains('.') {
            return Err(Error::Parts);
        }
        let header = json::object(&decode(header)?).ok_or(Error::Json)?;
        if header.contains_key("crit") {
            return Err(Error::Critical);
        }
        let algorithm = header.get("alg").and_then(Value::as_str);
        let algorithm = algorithm.and_then(|name| name.parse().ok());
        Ok(Self {
            algorithm: algorithm.ok_or(Error::Algorithm)?,
            key_id: header.get("kid").map(key_id).transpose()?,
            claims: Claims::new(json::object(&decode(claims)?).ok_or(Error::Json)?),
            message,
            signature: decode(signature)?,
        })
    }

    /// The algorithm that the header states.
    pub const fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The key ID that the header states.
    pub fn key_id(&self) -> Option<&str> {
        self.key_id.as_deref()
    }

    /// The issuer that the token claims, unverified: only to be used for choosing the keys to
    /// verify it with.
    pub fn claimed_issuer(&self) -> Option<&str> {
        self.claims.text("iss")
    }

    /// Returns the claims, if a key of the set signed them. The caller still has to check
    /// validity times and audience.
    pub fn verify(&self, keys: &KeySet) -> Result<&Claims, Error> {
        keys.check(self)?;
        Ok(&self.claims)
    }

    pub(crate) const fn message(&self) -> &[u8] {
        self.message.as_bytes()
    }

    pub(crate) fn signature(&self) -> &[u8] {
        &self.signature
    }
}

impl std::fmt::Debug for Signed<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Signed(****)")
    }
}

/// Decodes strictly: no padding, no whitespace, no trailing bits. Otherwise one token would
/// have several spellings.
fn decode(part: &str) -> Result<Vec<u8>, Error> {
    URL_SAFE_NO_PAD.decode(part).map_err(|_| Error::Encoding)
}

/// Accepts digests and names. Key IDs are only compared, so paths and URLs would be harmless;
/// but no legitimate key has one, so they are rejected as hostile.
fn key_id(value: &Value) -> Result<String, Error> {
    let id = value.as_str().ok_or(Error::KeyId)?;
    let length = 1..=MAX_KEY_ID_LENGTH;
    // Base64 contains single slashes.
    let named = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~:=+/@".contains(&byte);
    let path = ["..", "./", "/.", "://"]
        .iter()
        .any(|part| id.contains(part));
    let fine = length.contains(&id.len()) && id.bytes().all(named) && !path;
    fine.then(|| id.to_owned()).ok_or(Error::KeyId)
}

#[cfg(test)]
mod tests;

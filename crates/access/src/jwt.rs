//! Tokens that are JWTs: claims as JSON, signed, in three parts with dots between them.
//!
//! [`Signed::parse`] reads a token and believes nothing; [`Signed::verify`] gives the claims
//! out if one of the keys of a [`KeySet`] signed them. Nothing that a token says decides how
//! it is verified: its algorithm must be that of the key, and its key id is only ever
//! compared.

mod algorithm;
mod claims;
mod json;
mod jwk;
mod key;
mod key_set;
mod signer;
mod verified;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

pub use self::algorithm::{Algorithm, UnknownAlgorithm};
pub(crate) use self::claims::texts;
pub use self::claims::{Claims, Malformed, TimeError, Times};
pub use self::jwk::{Jwk, Jwks};
pub use self::key::{NotAPublicKey, PublicKey};
pub use self::key_set::{KeySet, KeySetError};
pub use self::signer::{NotASigningKey, Signer, Unsigned};
pub use self::verified::Verified;

/// A token that has the form of one. Its claims are kept back until they are verified.
pub struct Signed<'a> {
    algorithm: Algorithm,
    key_id: Option<String>,
    claims: Claims,
    /// What the signature is over: header and claims, as they were sent.
    message: &'a str,
    signature: Vec<u8>,
}

/// Why a token is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It is too long.
    #[error("the token is longer than 16 KiB")]
    Size,
    /// It has not three parts.
    #[error("the token is not three parts with dots between them")]
    Parts,
    /// A part of it is not in base64url, or not in the one way that it can be.
    #[error("the token is not in base64url")]
    Encoding,
    /// Its header or its claims are no object, or one that two readers could read
    /// differently.
    #[error("the token's header and claims are not objects with distinct members")]
    Json,
    /// Its algorithm is none, or one that needs no key, or one that we do not know.
    #[error("the token's algorithm is not accepted")]
    Algorithm,
    /// It is not to be accepted by whoever does not know what its header asks for.
    #[error("the token's header has critical members")]
    Critical,
    /// Its key id is nothing that a key is called.
    #[error("the token's key id is not acceptable")]
    KeyId,
    /// None of the keys is the one that it was signed with; a newer one may be.
    #[error("the token's key is not known")]
    UnknownKey,
    /// Its key is there, and is for other algorithms.
    #[error("the token's algorithm is not that of its key")]
    Mismatch,
    /// Its key is there and did not sign this.
    #[error("the token's signature does not verify")]
    Signature,
}

/// More than any token that fits into a header of ours. What is longer is not even read.
const LONGEST: usize = 16 << 10;

/// More than any digest or name.
const LONGEST_KEY_ID: usize = 256;

impl<'a> Signed<'a> {
    /// Reads a token's form.
    pub fn parse(token: &'a str) -> Result<Self, Error> {
        if token.len() > LONGEST {
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

    /// What it says it is signed with.
    pub const fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Which key it says it is signed with.
    pub fn key_id(&self) -> Option<&str> {
        self.key_id.as_deref()
    }

    /// Whose token it says it is, which nobody has verified: good for asking whose keys to
    /// verify it with, and for nothing else.
    pub fn claimed_issuer(&self) -> Option<&str> {
        self.claims.text("iss")
    }

    /// Its claims, if one of the keys has signed them. When they hold and for whom is to be
    /// asked of the claims.
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

/// Exactly what an encoder writes: no padding, no spaces, no bits left over. Else one token
/// could be written in many ways.
fn decode(part: &str) -> Result<Vec<u8>, Error> {
    URL_SAFE_NO_PAD.decode(part).map_err(|_| Error::Encoding)
}

/// A digest or a name. Key ids are only compared here, so that one that is a path or a URL
/// does no harm; but no key is called so, and who sends one means harm.
fn key_id(value: &Value) -> Result<String, Error> {
    let id = value.as_str().ok_or(Error::KeyId)?;
    let length = 1..=LONGEST_KEY_ID;
    // A slash alone is base64.
    let named = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~:=+/@".contains(&byte);
    let path = ["..", "./", "/.", "://"]
        .iter()
        .any(|part| id.contains(part));
    let fine = length.contains(&id.len()) && id.bytes().all(named) && !path;
    fine.then(|| id.to_owned()).ok_or(Error::KeyId)
}

#[cfg(test)]
mod tests;

//! The keys of an issuer.

use serde::Deserialize;
use serde_json::Value;

use super::jwk::{Jwk, Jwks};
use super::key::PublicKey;
use super::{Error, Signed, json};

/// The keys that verify tokens of one issuer: the current one, and those before and after a
/// rotation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeySet {
    keys: Vec<PublicKey>,
}

/// Why a key set is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeySetError {
    /// It is not a JSON Web Key Set.
    #[error("it is not a JSON Web Key Set")]
    Malformed,
    /// It has too many keys.
    #[error("it has more than 64 keys")]
    TooManyKeys,
}

/// Upper bound on the keys of a set, because a token without a key ID is tried with each.
const MAX_KEYS: usize = 64;

impl KeySet {
    /// Parses a JSON Web Key Set. Keys that are not for verification, or of an unsupported
    /// type, are skipped: a provider may publish them for other clients.
    pub fn from_jwks(jwks: &[u8]) -> Result<Self, KeySetError> {
        let members = json::object(jwks).ok_or(KeySetError::Malformed)?;
        let Some(Value::Array(published)) = members.get("keys") else {
            return Err(KeySetError::Malformed);
        };
        let keys: Self = published.iter().filter_map(read).collect();
        if keys.keys.len() > MAX_KEYS {
            return Err(KeySetError::TooManyKeys);
        }
        Ok(keys)
    }

    /// The set in the form that is published.
    pub fn to_jwks(&self) -> Jwks {
        Jwks {
            keys: self.keys.iter().map(PublicKey::to_jwk).collect(),
        }
    }

    /// The keys of the set.
    pub fn keys(&self) -> &[PublicKey] {
        &self.keys
    }

    /// Checks that the key with the token's key ID signed it, or any key if it has none.
    pub(super) fn check(&self, signed: &Signed<'_>) -> Result<(), Error> {
        let Some(id) = signed.key_id() else {
            let any = self.keys.iter().any(|key| key.check(signed).is_ok());
            return any.then_some(()).ok_or(Error::UnknownKey);
        };
        let named = self.keys.iter().filter(|key| key.id() == Some(id));
        let mut found = Err(Error::UnknownKey);
        // Keys that share an ID are for different algorithms.
        for key in named {
            match key.check(signed) {
                Ok(()) => return Ok(()),
                Err(Error::Mismatch) if found == Err(Error::Signature) => {}
                error => found = error,
            }
        }
        found
    }
}

impl FromIterator<PublicKey> for KeySet {
    fn from_iter<I: IntoIterator<Item = PublicKey>>(keys: I) -> Self {
        Self {
            keys: keys.into_iter().collect(),
        }
    }
}

fn read(published: &Value) -> Option<PublicKey> {
    let jwk = Jwk::deserialize(published).ok()?;
    PublicKey::from_jwk(&jwk).ok()
}

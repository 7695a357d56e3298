//! The keys of an issuer.

use serde::Deserialize;
use serde_json::Value;

use super::jwk::{Jwk, Jwks};
use super::key::PublicKey;
use super::{Error, Signed, json};

/// What tokens of one issuer are verified with: the current key, and those before and after
/// it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeySet {
    keys: Vec<PublicKey>,
}

/// Why a text is no set of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeySetError {
    /// It is something else.
    #[error("it is not a JSON Web Key Set")]
    Form,
    /// There are so many that trying them all is a burden.
    #[error("it has more than 64 keys")]
    Many,
}

/// A token without a key id is tried with all of them.
const MOST: usize = 64;

impl KeySet {
    /// The keys of a JSON Web Key Set. Those that are not for verifying, or of a type that
    /// is not known, are left out: a provider may have them for others.
    pub fn from_jwks(jwks: &[u8]) -> Result<Self, KeySetError> {
        let members = json::object(jwks).ok_or(KeySetError::Form)?;
        let Some(Value::Array(published)) = members.get("keys") else {
            return Err(KeySetError::Form);
        };
        let keys: Self = published.iter().filter_map(read).collect();
        if keys.keys.len() > MOST {
            return Err(KeySetError::Many);
        }
        Ok(keys)
    }

    /// As it is published.
    pub fn to_jwks(&self) -> Jwks {
        Jwks {
            keys: self.keys.iter().map(PublicKey::to_jwk).collect(),
        }
    }

    /// Its keys.
    pub fn keys(&self) -> &[PublicKey] {
        &self.keys
    }

    /// Whether one of them signed this: the one that it names, any if it names none.
    pub(super) fn check(&self, signed: &Signed<'_>) -> Result<(), Error> {
        let Some(id) = signed.key_id() else {
            let any = self.keys.iter().any(|key| key.check(signed).is_ok());
            return any.then_some(()).ok_or(Error::UnknownKey);
        };
        let named = self.keys.iter().filter(|key| key.id() == Some(id));
        let mut found = Err(Error::UnknownKey);
        // Several of one name are for different algorithms.
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

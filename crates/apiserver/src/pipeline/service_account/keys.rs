//! The keys that sign and verify service account tokens, and their rotation.
//!
//! A new key is published before it signs, because verifiers cache published keys, and an old
//! one verifies for some time after it has signed its last token.

use std::sync::{Arc, PoisonError, RwLock};

use insula_access::jwt::{KeySet, NotASigningKey, PublicKey, Signer};

/// A key, and the times of its use in seconds since 1970.
#[derive(Debug)]
pub struct SigningKey {
    signer: Signer,
    signs_from: i64,
    verifies_until: Option<i64>,
}

/// The keys of a server at one point of a rotation.
#[derive(Debug)]
pub struct SigningKeys {
    keys: Vec<SigningKey>,
}

/// The keys are unusable as a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeysError {
    /// Without an unlimited key, there will be a time without any.
    #[error("no key verifies without a limit")]
    NoUnlimitedKey,
    /// A key ID must select one key.
    #[error("two keys have the same id")]
    DuplicateKey,
}

/// The keys in use. They are replaced while the server runs.
#[derive(Debug)]
pub struct CurrentKeys {
    keys: RwLock<Arc<SigningKeys>>,
}

impl SigningKey {
    /// Creates a key from PKCS #8, which signs from one time on and verifies until another.
    pub fn new(
        pkcs8: &[u8],
        signs_from: i64,
        verifies_until: Option<i64>,
    ) -> Result<Self, NotASigningKey> {
        Ok(Self {
            signer: Signer::new(pkcs8)?,
            signs_from,
            verifies_until,
        })
    }

    /// Returns the key ID in tokens.
    pub fn id(&self) -> &str {
        self.public().id().unwrap_or_default()
    }

    /// Returns whether the key is published, and its tokens are accepted.
    pub fn verifies_at(&self, now: i64) -> bool {
        self.verifies_until.is_none_or(|until| now < until)
    }

    const fn public(&self) -> &PublicKey {
        self.signer.public()
    }
}

impl SigningKeys {
    /// Checks that there is a key at any time, and that key IDs are unique.
    pub fn new(keys: Vec<SigningKey>) -> Result<Self, KeysError> {
        let unlimited = keys.iter().any(|key| key.verifies_until.is_none());
        if !unlimited {
            return Err(KeysError::NoUnlimitedKey);
        }
        let mut ids: Vec<&str> = keys.iter().map(SigningKey::id).collect();
        ids.sort_unstable();
        match ids.windows(2).any(|pair| pair[0] == pair[1]) {
            true => Err(KeysError::DuplicateKey),
            false => Ok(Self { keys }),
        }
    }

    /// Returns the key that signs: the one that began to sign last. If none has begun, as after
    /// a wrong clock, it is the earliest.
    pub fn signing_at(&self, now: i64) -> Option<&SigningKey> {
        let verifying = || self.keys.iter().filter(|key| key.verifies_at(now));
        let begun = verifying().filter(|key| key.signs_from <= now);
        let latest = begun.max_by_key(|key| key.signs_from);
        latest.or_else(|| verifying().min_by_key(|key| key.signs_from))
    }

    /// Returns the keys that are published and accepted.
    pub fn published_at(&self, now: i64) -> KeySet {
        let published = self.keys.iter().filter(|key| key.verifies_at(now));
        published.map(|key| key.public().clone()).collect()
    }

    /// Returns whether tokens of the key with this ID are accepted.
    pub fn accepts(&self, id: &str, now: i64) -> bool {
        let mut keys = self.keys.iter();
        keys.any(|key| key.id() == id && key.verifies_at(now))
    }
}

impl CurrentKeys {
    /// Starts with these keys.
    pub fn new(keys: SigningKeys) -> Self {
        Self {
            keys: RwLock::new(Arc::new(keys)),
        }
    }

    /// Starts with one key in PKCS #8, which is not limited in time.
    pub fn single(pkcs8: &[u8]) -> Result<Self, NotASigningKey> {
        let keys = vec![SigningKey::new(pkcs8, 0, None)?];
        Ok(Self::new(SigningKeys { keys }))
    }

    /// Returns the keys in use.
    pub fn get(&self) -> Arc<SigningKeys> {
        Arc::clone(&self.keys.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts other keys into use. Tokens of keys that are not among them are rejected from now
    /// on, also those that were verified before.
    pub fn replace(&self, keys: SigningKeys) {
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
    }

    /// Returns a signed token with these claims, or `None` if it could not be signed.
    pub(super) fn sign(&self, claims: &insula_kinds::Value, now: i64) -> Option<String> {
        let keys = self.get();
        keys.signing_at(now)?.signer.sign(claims).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(signs_from: i64, verifies_until: Option<i64>) -> SigningKey {
        let pair = rcgen::KeyPair::generate().unwrap();
        SigningKey::new(pair.serialized_der(), signs_from, verifies_until).unwrap()
    }

    fn ids(set: &KeySet) -> Vec<&str> {
        set.keys().iter().filter_map(PublicKey::id).collect()
    }

    #[test]
    fn key_is_published_before_it_signs_and_verifies_after() {
        let (old, new) = (key(0, Some(300)), key(100, None));
        let (first, second) = (old.id().to_owned(), new.id().to_owned());
        let keys = SigningKeys::new(vec![old, new]).unwrap();
        for (now, signing, published) in [
            (-1, &first, vec![&first, &second]),
            (0, &first, vec![&first, &second]),
            (99, &first, vec![&first, &second]),
            (100, &second, vec![&first, &second]),
            (299, &second, vec![&first, &second]),
            (300, &second, vec![&second]),
            (i64::MAX, &second, vec![&second]),
        ] {
            assert_eq!(keys.signing_at(now).unwrap().id(), signing, "at {now}");
            assert_eq!(ids(&keys.published_at(now)), published, "at {now}");
            for id in [&first, &second] {
                assert_eq!(keys.accepts(id, now), published.contains(&id), "at {now}");
            }
            assert!(!keys.accepts("another", now));
        }
    }

    #[test]
    fn set_without_a_key_for_the_future_or_with_equal_ids_is_refused() {
        assert_eq!(
            SigningKeys::new(Vec::new()).unwrap_err(),
            KeysError::NoUnlimitedKey
        );
        assert_eq!(
            SigningKeys::new(vec![key(0, Some(1))]).unwrap_err(),
            KeysError::NoUnlimitedKey
        );
        let pair = rcgen::KeyPair::generate().unwrap();
        let same = || SigningKey::new(pair.serialized_der(), 0, None).unwrap();
        assert_eq!(
            SigningKeys::new(vec![same(), same()]).unwrap_err(),
            KeysError::DuplicateKey
        );
        let shown = format!("{:?}", SigningKeys::new(vec![same()]).unwrap());
        assert!(shown.contains("Signer(****)"), "{shown}");
    }
}

//! The pre-shared key of a ClusterSet.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::ObjectMeta;
use ring::rand::{SecureRandom, SystemRandom};

use crate::names;

/// The Secret's data key.
pub(crate) const KEY: &str = "psk";
/// The length of Submariner's own keys in bytes.
const LENGTH: usize = 48;

/// Generates a random key.
///
/// # Panics
///
/// If the system has no source of random numbers.
pub fn generate() -> Secret {
    let mut key = [0; LENGTH];
    SystemRandom::new()
        .fill(&mut key)
        .expect("a system that serves TLS has random numbers");
    secret(key.to_vec())
}

/// Builds a Secret with this key.
pub fn secret(key: Vec<u8>) -> Secret {
    Secret {
        metadata: ObjectMeta {
            name: Some(names::PSK.to_owned()),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([(KEY.to_owned(), ByteString(key))])),
        ..Secret::default()
    }
}

/// Returns the key in a Secret, if there is one.
pub fn of(secret: &Secret) -> Option<&[u8]> {
    let key = &secret.data.as_ref()?.get(KEY)?.0;
    (!key.is_empty()).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r69_generated_key_has_48_random_bytes() {
        let made = generate();
        assert_eq!(made.metadata.name.as_deref(), Some("submariner-ipsec-psk"));
        assert_eq!((&made.type_, of(&made).unwrap().len()), (&None, 48));
        assert_ne!(of(&generate()), of(&made));
    }

    #[test]
    fn empty_key_counts_as_absent() {
        assert_eq!(of(&secret(Vec::new())), None);
        assert_eq!(of(&Secret::default()), None);
    }
}

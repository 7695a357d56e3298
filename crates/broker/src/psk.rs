//! The key that the clusters of a ClusterSet share.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::ObjectMeta;
use ring::rand::{SecureRandom, SystemRandom};

use crate::names;

/// What a Secret has the key under.
pub const KEY: &str = "psk";
/// As many bytes as Submariner's own keys have.
const LENGTH: usize = 48;

/// A key that nobody has.
///
/// # Panics
///
/// Where the system has no random numbers, on which nothing can be kept secret.
pub fn generate() -> Secret {
    let mut key = [0; LENGTH];
    SystemRandom::new()
        .fill(&mut key)
        .expect("a system that serves TLS has random numbers");
    secret(key.to_vec())
}

/// A Secret with this key.
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

/// The key in a Secret, if there is one.
pub fn of(secret: &Secret) -> Option<&[u8]> {
    let key = &secret.data.as_ref()?.get(KEY)?.0;
    (!key.is_empty()).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r69_a_key_has_48_bytes_that_no_other_has() {
        let made = generate();
        assert_eq!(made.metadata.name.as_deref(), Some("submariner-ipsec-psk"));
        assert_eq!((&made.type_, of(&made).unwrap().len()), (&None, 48));
        assert_ne!(of(&generate()), of(&made));
    }

    #[test]
    fn an_empty_key_is_none() {
        assert_eq!(of(&secret(Vec::new())), None);
        assert_eq!(of(&Secret::default()), None);
    }
}

//! Granted credentials with redacted contents.

use std::collections::BTreeMap;
use std::fmt;

use ring::digest;

use crate::endpoint::Trust;

/// Text that `Debug` and `Display` redact. It is overwritten on drop, as far as possible without
/// `unsafe`; copies are not.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Hidden(String);

impl Hidden {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text, to be sent.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("****")
    }
}

impl fmt::Display for Hidden {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("****")
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        let mut bytes = std::mem::take(&mut self.0).into_bytes();
        bytes.fill(0);
        // Keeps the compiler from removing the writes.
        std::hint::black_box(&bytes);
    }
}

/// A digest of a Secret's contents.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint(String);

impl Fingerprint {
    /// Computes the digest of all keys and values. Each is preceded by its length, so that
    /// contents with different boundaries have different digests.
    pub fn of(content: &BTreeMap<String, Hidden>) -> Self {
        let mut context = digest::Context::new(&digest::SHA256);
        for (key, value) in content {
            for text in [key.as_str(), value.reveal()] {
                context.update(&(text.len() as u64).to_be_bytes());
                context.update(text.as_bytes());
            }
        }
        let digest = context.finish();
        let pairs = digest.as_ref().iter().map(|byte| format!("{byte:02x}"));
        Self(pairs.collect())
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// The source of a credential.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// A Secret of the object's namespace.
    Secret {
        /// The namespace.
        namespace: String,
        /// The name.
        name: String,
        /// The UID, because a recreated Secret is a different one.
        uid: String,
    },
    /// An identity.
    Identity {
        /// The name.
        name: String,
        /// The UID, because a recreated identity is a different one.
        uid: String,
    },
    /// The operator's static credentials.
    Operator,
}

/// The credential that an object was granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    /// The source.
    pub source: Source,
    /// The contents of the Secret under the requested keys.
    pub content: BTreeMap<String, Hidden>,
    /// A digest of the contents.
    pub fingerprint: Fingerprint,
    /// The accepted certificates, if the credential's owner sets them.
    pub trust: Option<Trust>,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn content(pairs: &[(&str, &str)]) -> BTreeMap<String, Hidden> {
        let pairs = pairs.iter();
        pairs
            .map(|(key, value)| ((*key).to_owned(), Hidden::new(*value)))
            .collect()
    }

    #[test]
    fn hidden_text_is_redacted_in_debug_and_display() {
        let content = content(&[("password", "tr0ub4dor")]);
        let credential = Credential {
            source: Source::Operator,
            fingerprint: Fingerprint::of(&content),
            content,
            trust: None,
        };
        let text = format!(
            "{credential:?} {} {:#?}",
            credential.content["password"], credential
        );
        assert!(!text.contains("tr0ub4dor"), "{text}");
        assert!(text.contains("****"), "{text}");
        assert_eq!(credential.content["password"].reveal(), "tr0ub4dor");
    }

    #[test]
    fn o04_different_contents_have_different_fingerprints() {
        let of = |pairs: &[(&str, &str)]| Fingerprint::of(&content(pairs));
        let all = [
            of(&[]),
            of(&[("", "")]),
            of(&[("a", "bc")]),
            of(&[("ab", "c")]),
            of(&[("a", "b"), ("c", "")]),
            of(&[("a", ""), ("b", "c")]),
            of(&[("username", "a"), ("password", "b")]),
            of(&[("username", "b"), ("password", "a")]),
        ];
        for (at, one) in all.iter().enumerate() {
            assert_eq!(all.iter().position(|other| other == one), Some(at));
            assert_eq!(one.to_string().len(), 64);
        }
    }

    proptest! {
        #[test]
        fn o04_fingerprints_are_equal_exactly_if_contents_are(
            a in proptest::collection::btree_map("[ab]{0,3}", "[ab]{0,3}", 0..3),
            b in proptest::collection::btree_map("[ab]{0,3}", "[ab]{0,3}", 0..3),
        ) {
            let hide = |map: &BTreeMap<String, String>| -> BTreeMap<String, Hidden> {
                map.iter().map(|(key, value)| (key.clone(), Hidden::new(value.clone()))).collect()
            };
            let same = Fingerprint::of(&hide(&a)) == Fingerprint::of(&hide(&b));
            prop_assert_eq!(same, a == b);
        }
    }
}

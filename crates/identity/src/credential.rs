//! Granted credentials with redacted contents.

use std::collections::BTreeMap;
use std::fmt;

use ring::digest;

use crate::endpoint::{Endpoint, Trust};
use crate::reference::Level;

/// Bytes that `Debug` and `Display` redact. They are overwritten on drop, as far as possible
/// without `unsafe`; copies are not.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Hidden(Vec<u8>);

impl Hidden {
    /// Wraps bytes or a text.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    /// Returns the bytes, to be sent.
    pub fn reveal(&self) -> &[u8] {
        &self.0
    }

    /// Returns the text, to be sent; none if the bytes are not UTF-8.
    pub fn text(&self) -> Option<&str> {
        str::from_utf8(&self.0).ok()
    }

    /// Returns whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
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
        self.0.fill(0);
        // Keeps the compiler from removing the writes.
        std::hint::black_box(&self.0);
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
            for bytes in [key.as_bytes(), value.reveal()] {
                context.update(&(bytes.len() as u64).to_be_bytes());
                context.update(bytes);
            }
        }
        Self::finish(context)
    }

    /// Computes the digest of contents that the namespace of their Secret proves.
    pub fn in_namespace(content: &BTreeMap<String, Hidden>, namespace: &str) -> Self {
        let mut context = digest::Context::new(&digest::SHA256);
        context.update(Self::of(content).0.as_bytes());
        context.update(namespace.as_bytes());
        Self::finish(context)
    }

    fn finish(context: digest::Context) -> Self {
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
        /// The part of its contents that is used.
        part: Option<String>,
    },
    /// An identity.
    Identity {
        /// The name.
        name: String,
        /// The UID, because a recreated identity is a different one.
        uid: String,
        /// Whether the operator's own space lends it to the tenant.
        lent: bool,
    },
    /// The operator's static credentials.
    Operator,
}

/// The credential that an object was granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    /// The source.
    pub source: Source,
    /// The level at which it was chosen.
    pub level: Level,
    /// The contents of the Secret that are used.
    pub content: BTreeMap<String, Hidden>,
    /// A digest of the contents.
    pub fingerprint: Fingerprint,
    /// The server that it is for.
    pub endpoint: Endpoint,
    /// The server certificates that are accepted.
    pub trust: Trust,
    /// Whether the credential's owner set them.
    pub has_owners_trust: bool,
    /// The scope at the server in which it is used, such as a namespace or a subscription, if
    /// the credential names one.
    pub scope: Option<String>,
}

impl Credential {
    /// Returns the operator's own credential for an endpoint.
    pub fn of_operator(content: BTreeMap<String, Hidden>, endpoint: Endpoint) -> Self {
        Self {
            source: Source::Operator,
            level: Level::Operator,
            fingerprint: Fingerprint::of(&content),
            content,
            endpoint,
            trust: Trust::Verified,
            has_owners_trust: false,
            scope: None,
        }
    }

    /// Returns the text under a key; none if it is missing, empty or not UTF-8.
    pub fn text(&self, key: &str) -> Option<&str> {
        let text = self.content.get(key)?.text()?;
        (!text.is_empty()).then_some(text)
    }
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
        let endpoint = Endpoint::parse("cloud.example", 443).unwrap();
        let credential = Credential::of_operator(content, endpoint);
        let text = format!(
            "{credential:?} {} {:#?}",
            credential.content["password"], credential
        );
        assert!(!text.contains("tr0ub4dor"), "{text}");
        assert!(text.contains("****"), "{text}");
        assert_eq!(credential.text("password"), Some("tr0ub4dor"));
        let bytes = Hidden::new([0xff, 0]);
        assert_eq!((bytes.text(), bytes.reveal()), (None, &[0xff, 0][..]));
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

    #[test]
    fn contents_that_namespaces_prove_differ_by_namespace() {
        let content = content(&[("client", "c")]);
        let of = |namespace| Fingerprint::in_namespace(&content, namespace);
        assert_eq!(of("a"), of("a"));
        assert_ne!(of("a"), of("b"));
        assert_ne!(of("a"), Fingerprint::of(&content));
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

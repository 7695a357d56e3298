//! What was granted; it never shows what it holds.

use std::collections::BTreeMap;
use std::fmt;

use ring::digest;

use crate::endpoint::Trust;

/// Text that is never shown: not by `Debug`, not by `Display`. When it goes it is overwritten,
/// as far as that can be done without `unsafe`; copies that others made of it are not.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Hidden(String);

impl Hidden {
    /// Hides a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, for whoever sends it.
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
        // Or the compiler would see that nobody reads them, and not write them.
        std::hint::black_box(&bytes);
    }
}

/// What a Secret holds, without saying what: a digest.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint(String);

impl Fingerprint {
    /// Of all keys and values. Each is preceded by its length: two contents that only differ
    /// in where one ends and the next begins are not the same.
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

/// Where a credential is from.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// A Secret of the object's namespace, by its UID.
    Secret {
        /// The namespace.
        namespace: String,
        /// Its name there.
        name: String,
        /// Its UID: one that is made anew is another.
        uid: String,
    },
    /// An identity, by its UID.
    Identity {
        /// Its name.
        name: String,
        /// Its UID: one that is made anew is another.
        uid: String,
    },
    /// What the operator was given.
    Operator,
}

/// What an object was granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    /// Where it is from.
    pub source: Source,
    /// What the Secret holds under the keys that were asked for.
    pub content: BTreeMap<String, Hidden>,
    /// A digest of that.
    pub fingerprint: Fingerprint,
    /// Whom to believe where it is sent, if whoever owns it says so.
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
    fn what_is_hidden_is_not_shown_by_anything_that_holds_it() {
        let content = content(&[("password", "tr0ub4dor")]);
        let credential = Credential {
            source: Source::Operator,
            fingerprint: Fingerprint::of(&content),
            content,
            trust: None,
        };
        let told = format!(
            "{credential:?} {} {:#?}",
            credential.content["password"], credential
        );
        assert!(!told.contains("tr0ub4dor"), "{told}");
        assert!(told.contains("****"), "{told}");
        assert_eq!(credential.content["password"].reveal(), "tr0ub4dor");
    }

    #[test]
    fn o04_contents_that_differ_have_fingerprints_that_differ() {
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
        fn o04_a_fingerprint_is_the_same_exactly_if_the_content_is(
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

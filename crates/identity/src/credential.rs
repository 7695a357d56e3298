//! What was granted; it never shows what it holds.

use std::collections::BTreeMap;
use std::fmt;

use crate::endpoint::Trust;

/// Text that is never shown: not by `Debug`, not by `Display`, and it is wiped when it goes.
#[derive(Clone, PartialEq, Eq, Hash)]
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

/// What a Secret holds, without saying what: a digest.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint(String);

/// Where a credential is from.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// A Secret of the object's namespace, by its UID.
    Secret { namespace: String, name: String, uid: String },
    /// An identity, by its UID.
    Identity { name: String, uid: String },
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

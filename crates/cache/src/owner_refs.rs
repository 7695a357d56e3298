//! Owner references and finalizers of an object, parsed without the rest of it.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use serde::Deserialize;

use crate::entry::{Stored, read_metadata};
use insula_kinds::finalizer::{FOREGROUND, ORPHAN};

/// The metadata of an object that the garbage collector needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnerRefs {
    /// Its UID.
    pub uid: Box<str>,
    /// Its owner references.
    pub owners: Box<[Reference]>,
    /// Whether it is being deleted.
    pub deleted: bool,
    /// Whether it has the finalizer `foregroundDeletion`.
    pub foreground: bool,
    /// Whether it has the finalizer `orphan`.
    pub orphan: bool,
    /// Whether it has other finalizers.
    pub held: bool,
}

/// An owner reference.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reference {
    /// The version of the owner's kind, with its group.
    #[serde(default)]
    pub api_version: Box<str>,
    /// The owner's kind.
    #[serde(default)]
    pub kind: Box<str>,
    /// The owner's name.
    #[serde(default)]
    pub name: Box<str>,
    /// The owner's UID.
    #[serde(default)]
    pub uid: Box<str>,
    block_owner_deletion: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(default)]
    uid: Box<str>,
    owner_references: Option<Box<[Reference]>>,
    deletion_timestamp: Option<Box<str>>,
    finalizers: Option<Box<[Box<str>]>>,
}

impl OwnerRefs {
    /// Whether it waits for its dependents to be deleted.
    pub const fn awaits_dependents(&self) -> bool {
        self.deleted && self.foreground && !self.orphan
    }

    /// Whether it waits for its dependents to be orphaned.
    pub const fn orphans_dependents(&self) -> bool {
        self.deleted && self.orphan
    }

    /// Whether the garbage collector has to know the object, other than as an owner.
    pub fn are_some(&self) -> bool {
        !self.owners.is_empty() || self.awaits_dependents() || self.orphans_dependents()
    }
}

impl Reference {
    /// Whether an owner in foreground deletion waits for this dependent.
    pub fn blocks(&self) -> bool {
        self.block_owner_deletion == Some(true)
    }

    /// Returns the group and the version of the owner's kind.
    pub fn group_version(&self) -> (&str, &str) {
        self.api_version
            .split_once('/')
            .unwrap_or(("", &self.api_version))
    }
}

impl Stored {
    /// Returns its owner references and finalizers; `None` if it has none, which costs no more
    /// than a text search.
    pub fn owner_refs(&self) -> Option<OwnerRefs> {
        let body = self.body();
        let metadata: Metadata = may_have_owner_refs(&body).then(|| read_metadata(&body))?;
        let finalizers = metadata.finalizers.unwrap_or_default();
        let has = |wanted: &str| finalizers.iter().any(|name| **name == *wanted);
        let ties = OwnerRefs {
            uid: metadata.uid,
            owners: metadata.owner_references.unwrap_or_default(),
            deleted: metadata.deletion_timestamp.is_some(),
            foreground: has(FOREGROUND),
            orphan: has(ORPHAN),
            held: finalizers
                .iter()
                .any(|name| ![FOREGROUND, ORPHAN].contains(&&**name)),
        };
        ties.are_some().then_some(ties)
    }
}

/// Whether an object may have owner references, or finalizers that wait for dependents.
pub(crate) fn may_have_owner_refs(json: &[u8]) -> bool {
    static OWNERS: LazyLock<Finder<'static>> =
        LazyLock::new(|| Finder::new(br#""ownerReferences":["#));
    static DELETED: LazyLock<Finder<'static>> =
        LazyLock::new(|| Finder::new(br#","deletionTimestamp":""#));
    OWNERS.find(json).is_some() || DELETED.find(json).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use insula_core::Revision;

    fn ties(metadata: &str) -> Option<OwnerRefs> {
        let json =
            format!(r#"{{"kind":"K","metadata":{{"name":"a","uid":"u"{metadata}}},"data":[]}}"#);
        Stored::new("n/a".into(), Revision::new(7), json.as_bytes()).owner_refs()
    }

    #[test]
    fn only_objects_with_owners_or_waiting_finalizers_are_tracked() {
        for nothing in [
            "",
            r#","deletionTimestamp":"now","finalizers":["x.io/y"]"#,
            r#","finalizers":["orphan"]"#,
            r#","annotations":{"a":"\"ownerReferences\":[{\"uid\":\"o\"}]"}"#,
            r#","ownerReferences":[]"#,
            r#","ownerReferences":null"#,
        ] {
            assert_eq!(ties(nothing), None, "{nothing}");
        }
        let reference = r#"{"apiVersion":"apps/v1","kind":"K","name":"o","uid":"ou","controller":true,"blockOwnerDeletion":true}"#;
        let owned = ties(&format!(r#","ownerReferences":[{reference}]"#)).unwrap();
        assert_eq!(&*owned.uid, "u");
        assert_eq!(&*owned.owners[0].uid, "ou");
        assert_eq!(owned.owners[0].group_version(), ("apps", "v1"));
        assert!(owned.owners[0].blocks());
        assert!(!owned.deleted && !owned.held);
        let waiting =
            ties(r#","deletionTimestamp":"now","finalizers":["a.io/b","foregroundDeletion"]"#);
        let waiting = waiting.unwrap();
        assert!(waiting.awaits_dependents() && waiting.held);
        let letting = ties(r#","deletionTimestamp":"now","finalizers":["orphan"]"#).unwrap();
        assert!(letting.orphans_dependents() && !letting.awaits_dependents() && !letting.held);
    }
}

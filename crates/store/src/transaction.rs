use std::collections::HashSet;

use bytes::Bytes;
use insula_core::Revision;

use crate::{Entry, Error, Key, Result};

/// Checks and changes that happen together or not at all.
///
/// All checks are made against one state. If each holds, all changes are made at one
/// new revision; otherwise nothing is.
#[derive(Clone, Debug, Default)]
pub struct Transaction {
    checks: Vec<Check>,
    changes: Vec<Change>,
}

/// What must be true of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The key looked at.
    pub key: Key,
    /// What must be found there.
    pub expect: Expect,
}

/// What a [`Check`] looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// The key has no value.
    Absent,
    /// The key has a value that was last changed at this revision.
    At(Revision),
}

/// One change to one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The key gets this value, whether or not it had one.
    Put {
        /// Which key.
        key: Key,
        /// Its new value.
        value: Bytes,
    },
    /// The key loses its value, if it has one.
    Delete {
        /// Which key.
        key: Key,
    },
}

impl Change {
    /// The key that is changed.
    pub const fn key(&self) -> &Key {
        match self {
            Self::Put { key, .. } | Self::Delete { key } => key,
        }
    }
}

/// How a transaction ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every check held and something changed. No other transaction gets this revision.
    Committed(Revision),
    /// Every check held and there was nothing to change: no changes were asked for, or
    /// only deletions of keys that had no value. This is the revision it was checked at.
    Unchanged(Revision),
    /// A check did not hold; nothing changed.
    Conflict(Conflict),
}

/// The first check that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Which check, counted from zero.
    pub check: usize,
    /// What the key really held, so that the caller need not read again.
    pub found: Option<Entry>,
    /// The revision at which that was so.
    pub revision: Revision,
}

impl Transaction {
    /// The largest key. Kubernetes' own paths stay below 1 KiB.
    pub const MAX_KEY_BYTES: usize = 2048;
    /// The most checks, and the most changes: what etcd takes by default.
    pub const MAX_OPERATIONS: usize = 128;
    /// All keys and values together: etcd's default request limit of 1.5 MiB, less
    /// room for its framing.
    pub const MAX_BYTES: usize = 1_500_000;

    /// One with no checks and no changes.
    pub fn new() -> Self {
        Self::default()
    }

    /// `key` gets a value; it must have none.
    pub fn create(key: impl Into<Key>, value: impl Into<Bytes>) -> Self {
        let key = key.into();
        Self::new()
            .check(key.clone(), Expect::Absent)
            .put(key, value)
    }

    /// `key` gets a new value; it must not have changed since `at`.
    pub fn update(key: impl Into<Key>, at: Revision, value: impl Into<Bytes>) -> Self {
        let key = key.into();
        Self::new()
            .check(key.clone(), Expect::At(at))
            .put(key, value)
    }

    /// `key` loses its value; it must not have changed since `at`.
    pub fn remove(key: impl Into<Key>, at: Revision) -> Self {
        let key = key.into();
        Self::new().check(key.clone(), Expect::At(at)).delete(key)
    }

    /// Adds a check.
    #[must_use]
    pub fn check(mut self, key: impl Into<Key>, expect: Expect) -> Self {
        let key = key.into();
        self.checks.push(Check { key, expect });
        self
    }

    /// Adds a change that gives `key` a value.
    #[must_use]
    pub fn put(mut self, key: impl Into<Key>, value: impl Into<Bytes>) -> Self {
        let (key, value) = (key.into(), value.into());
        self.changes.push(Change::Put { key, value });
        self
    }

    /// Adds a change that takes `key`'s value away.
    #[must_use]
    pub fn delete(mut self, key: impl Into<Key>) -> Self {
        self.changes.push(Change::Delete { key: key.into() });
        self
    }

    /// Its checks, in the order they were added.
    pub fn checks(&self) -> &[Check] {
        &self.checks
    }

    /// Its changes, in the order they were added.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// Whether any engine may take it: no key changed twice, and within the limits.
    /// Engines call this first, so that all of them refuse the same transactions.
    pub fn admit(&self) -> Result<()> {
        if self.checks.len().max(self.changes.len()) > Self::MAX_OPERATIONS {
            return Err(Error::Invalid("too many operations in one transaction"));
        }
        let mut bytes = 0;
        let checked = self.checks.iter().map(|check| &check.key);
        for key in checked.chain(self.changes.iter().map(Change::key)) {
            if key.is_empty() || key.len() > Self::MAX_KEY_BYTES {
                return Err(Error::Invalid("a key is empty or too long"));
            }
            bytes += key.len();
        }
        for change in &self.changes {
            if let Change::Put { value, .. } = change {
                bytes += value.len();
            }
        }
        if bytes > Self::MAX_BYTES {
            let limit = Self::MAX_BYTES;
            return Err(Error::TooLarge { bytes, limit });
        }
        if self.changes.len() > 1 {
            let keys: HashSet<_> = self.changes.iter().map(Change::key).collect();
            if keys.len() < self.changes.len() {
                return Err(Error::Invalid("a key is changed twice in one transaction"));
            }
        }
        Ok(())
    }
}

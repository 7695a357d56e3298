use std::collections::HashSet;

use bytes::Bytes;
use insula_core::Revision;

use crate::{Entry, Error, Key, Result};

/// Checks and changes that are applied atomically.
///
/// All checks are evaluated against one state. If each holds, all changes are made at one new
/// revision; otherwise none is.
#[derive(Clone, Debug, Default)]
pub struct Transaction {
    checks: Vec<Check>,
    changes: Vec<Change>,
    release: bool,
    /// The bytes that [`Self::transform_values`] added to the values.
    overhead: usize,
}

/// A condition on one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The key.
    pub key: Key,
    /// The expected state of the key.
    pub expect: Expect,
}

/// The state that a [`Check`] expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// The key does not exist.
    Absent,
    /// The key exists and was last modified at this revision.
    At(Revision),
}

/// One change to one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Sets the value, whether or not the key exists.
    Put {
        /// The key.
        key: Key,
        /// The new value.
        value: Bytes,
    },
    /// Deletes the key, if it exists.
    Delete {
        /// The key.
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

/// The result of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every check held and at least one key changed. No other transaction gets this revision.
    Committed(Revision),
    /// Every check held and no key changed: there were no changes, or only deletions of missing
    /// keys. This is the revision of the checks.
    Unchanged(Revision),
    /// A check failed; nothing changed.
    Conflict(Conflict),
}

/// The first check that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The index of the check.
    pub check: usize,
    /// The entry at the key, so that the caller need not read it again.
    pub found: Option<Entry>,
    /// The revision of that state.
    pub revision: Revision,
}

impl Transaction {
    /// The longest key. Paths of Kubernetes stay below 1 KiB.
    pub const MAX_KEY_BYTES: usize = 2048;
    /// The largest number of checks, and of changes: the default of etcd.
    pub const MAX_OPERATIONS: usize = 128;
    /// The largest size of all keys and values together: etcd's default request limit of 1.5 MiB,
    /// less room for its framing.
    pub const MAX_BYTES: usize = 1_500_000;
    /// The largest number of bytes that a transformation of the values may add beyond that. It fits
    /// into etcd's limit together with the framing.
    pub const MAX_OVERHEAD_BYTES: usize = 16 * 1024;

    /// Returns the size of all values together.
    pub fn value_bytes(&self) -> usize {
        let values = self.changes.iter().map(|change| match change {
            Change::Put { value, .. } => value.len(),
            Change::Delete { .. } => 0,
        });
        values.sum()
    }

    /// A transaction without checks and changes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates `key`, which must not exist.
    pub fn create(key: impl Into<Key>, value: impl Into<Bytes>) -> Self {
        let key = key.into();
        Self::new()
            .check(key.clone(), Expect::Absent)
            .put(key, value)
    }

    /// Updates `key`, which must not have changed since `at`.
    pub fn update(key: impl Into<Key>, at: Revision, value: impl Into<Bytes>) -> Self {
        let key = key.into();
        Self::new()
            .check(key.clone(), Expect::At(at))
            .put(key, value)
    }

    /// Deletes `key`, which must not have changed since `at`.
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

    /// Adds a put.
    #[must_use]
    pub fn put(mut self, key: impl Into<Key>, value: impl Into<Bytes>) -> Self {
        let (key, value) = (key.into(), value.into());
        self.changes.push(Change::Put { key, value });
        self
    }

    /// Adds a deletion.
    #[must_use]
    pub fn delete(mut self, key: impl Into<Key>) -> Self {
        self.changes.push(Change::Delete { key: key.into() });
        self
    }

    /// Declares that the transaction is a step of a deletion, although it puts values: a mark on an
    /// object that waits for its finalizers. A store that is full accepts it like a deletion. Only
    /// for writes that a client cannot repeat at will.
    #[must_use]
    pub const fn releasing(mut self) -> Self {
        self.release = true;
        self
    }

    /// Whether the transaction is a step of a deletion.
    pub const fn is_release(&self) -> bool {
        self.release
    }

    /// Replaces the values by what is stored for them. The bytes that this adds do not count as
    /// the writer's: the same objects are accepted with and without it.
    #[must_use]
    pub fn transform_values(mut self, mut transform: impl FnMut(&Key, Bytes) -> Bytes) -> Self {
        for change in &mut self.changes {
            if let Change::Put { key, value } = change {
                let before = value.len();
                *value = transform(key, std::mem::take(value));
                self.overhead += value.len().saturating_sub(before);
            }
        }
        self
    }

    /// The checks, in the order they were added.
    pub fn checks(&self) -> &[Check] {
        &self.checks
    }

    /// The changes, in the order they were added.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// Validates the transaction: no key is changed twice, and it is within the limits. Engines
    /// call this first, so that all of them refuse the same transactions.
    pub fn validate(&self) -> Result<()> {
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
        if self.overhead > Self::MAX_OVERHEAD_BYTES {
            let (bytes, limit) = (self.overhead, Self::MAX_OVERHEAD_BYTES);
            return Err(Error::TooLarge { bytes, limit });
        }
        bytes -= self.overhead;
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

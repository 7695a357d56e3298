use std::num::NonZeroUsize;

use async_trait::async_trait;
use bytes::Bytes;
use insula_core::Revision;

use crate::{Key, KeyRange, Outcome, Result, Transaction};

/// An ordered map from keys to bytes with one growing revision.
///
/// The laws are stated as tests in `laws`, one function each, and every engine passes them. Each
/// method may be called from any number of tasks concurrently, and a cancelled call leaves the
/// store consistent (a cancelled commit may or may not happen).
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Returns the store's revision.
    ///
    /// *Fresh:* not older than any commit that was acknowledged, and any value that was read or
    /// watched, before the call.
    /// *Growing:* never smaller than before, also across restarts, crashes and compaction.
    async fn revision(&self) -> Result<Revision>;

    /// Returns the entries of `range` in key order, all as of one revision.
    ///
    /// *Fresh:* [`At::Latest`] shows every commit that was acknowledged before the call.
    /// *Exact:* [`At::Revision`] shows the state right after that revision, the same on every call;
    /// [`Error::Compacted`](crate::Error::Compacted) if it is below the floor,
    /// [`Error::Future`](crate::Error::Future) if it has not been reached.
    /// *Durable:* every entry that is shown survives a crash.
    /// *Limited:* at most `limit` entries; [`Page::more`] then says whether the range holds more at
    /// that revision.
    async fn range(&self, range: &KeyRange, at: At, limit: Option<NonZeroUsize>) -> Result<Page>;

    /// Applies the transaction's changes if its checks hold.
    ///
    /// *Atomic:* all changes at one revision, or none.
    /// *Isolated:* the checks are evaluated, and the changes take effect, at one point in time
    /// between call and answer.
    /// *Ordered:* a commit that began after another was acknowledged gets a larger revision; no two
    /// get the same.
    /// *Durable:* an acknowledged commit is never lost.
    async fn commit(&self, transaction: Transaction) -> Result<Outcome>;

    /// Watches `range`: every change with a revision larger than `after`, as it becomes durable.
    ///
    /// *Complete:* no change is omitted or repeated, and changes arrive in the order of their
    /// revisions.
    /// *Whole:* the changes of one transaction in the range arrive together.
    /// *Honest:* if the history right after `after` is gone, now or because the watcher is too
    /// slow, the result is [`Error::Compacted`](crate::Error::Compacted), never a gap.
    async fn watch(&self, range: KeyRange, after: Revision) -> Result<Box<dyn Watch>>;

    /// Removes the history before `floor`; the state at `floor` and after it stays.
    ///
    /// *Monotonic:* the floor never decreases; a lower one than the current has no effect.
    /// *Bounded:* [`Error::Future`](crate::Error::Future) if `floor` has not been reached.
    async fn compact(&self, floor: Revision) -> Result<()>;

    /// Returns the room on the store's disk as last measured; `None` if that is not the store's to
    /// know.
    fn disk_space(&self) -> Option<DiskSpace> {
        None
    }

    /// Returns the current entry at `key`.
    async fn get(&self, key: &Key) -> Result<Option<Entry>> {
        let page = self
            .range(&KeyRange::single(key.clone()), At::Latest, None)
            .await?;
        Ok(page.entries.into_iter().next())
    }
}

/// Room on the disk of a store, and the writes that were refused for lack of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpace {
    /// The room that is left.
    pub free_bytes: u64,
    /// The room that is kept for making memory durable and for merging tables.
    pub reserved_bytes: u64,
    /// The number of refused writes since the store was opened.
    pub refused_writes: u64,
    /// Whether growing writes are refused.
    pub is_low: bool,
}

/// The state that a range is read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// The newest state.
    Latest,
    /// The state right after this revision.
    Revision(Revision),
}

/// A key's value with its revisions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: Key,
    /// The value.
    pub value: Bytes,
    /// The revision at which the key was last created.
    pub created: Revision,
    /// The revision of the value.
    pub modified: Revision,
}

/// Part of a range at one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The entries, in key order.
    pub entries: Vec<Entry>,
    /// The revision of the read.
    pub revision: Revision,
    /// Whether the limit cut the result.
    pub more: bool,
}

/// A cursor over the changes of a range.
#[async_trait]
pub trait Watch: Send {
    /// Returns the next item. After an error the watch has ended.
    ///
    /// Cancel safe: the next call continues where a cancelled one stopped.
    async fn next(&mut self) -> Result<WatchItem>;

    /// Requests a [`WatchItem::Progress`] with at least the store's current revision, so that a
    /// watcher of a quiet range learns its position.
    async fn request_progress(&mut self) -> Result<()>;
}

/// An item of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchItem {
    /// The changes of one transaction in the range.
    Changes {
        /// The revision of the transaction.
        revision: Revision,
        /// Puts as the new entry, deletions as the key, in key order.
        changes: Vec<Changed>,
    },
    /// Every change in the range up to this revision has been delivered.
    Progress(Revision),
}

/// One change as a watcher sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changed {
    /// A key has a new value.
    Put(Entry),
    /// A key was deleted.
    Deleted(Key),
}

impl Changed {
    /// The key that changed.
    pub const fn key(&self) -> &Key {
        match self {
            Self::Put(entry) => &entry.key,
            Self::Deleted(key) => key,
        }
    }
}

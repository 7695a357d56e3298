use std::num::NonZeroUsize;

use async_trait::async_trait;
use bytes::Bytes;
use insula_core::Revision;

use crate::{Key, KeyRange, Outcome, Result, Transaction};

/// An ordered map from keys to bytes with one growing revision.
///
/// The laws are stated as tests in `laws`, one function each, and every engine passes
/// them. Each method may be called from any number of tasks at once, and a call that is
/// dropped half way leaves the store whole (a dropped commit may or may not happen).
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// The store's revision.
    ///
    /// *Fresh:* not older than any commit that was acknowledged, and any value that was
    /// read or watched, before the call.
    /// *Growing:* never smaller than before, also across restarts, crashes and
    /// compaction.
    async fn revision(&self) -> Result<Revision>;

    /// The entries of `range` in key order, all as of one revision.
    ///
    /// *Fresh:* [`At::Latest`] shows every commit that was acknowledged before the call.
    /// *Exact:* [`At::Revision`] shows the state right after that revision, the same
    /// each time it is asked; [`Error::Compacted`](crate::Error::Compacted) if it is
    /// below the floor, [`Error::Future`](crate::Error::Future) if it has not happened.
    /// *Durable:* what is shown survives a crash.
    /// *Limited:* at most `limit` entries, and then [`Page::more`] says whether the
    /// range holds more at that revision.
    async fn range(&self, range: &KeyRange, at: At, limit: Option<NonZeroUsize>) -> Result<Page>;

    /// Makes the transaction's changes if its checks hold.
    ///
    /// *Atomic:* all changes at one revision, or none.
    /// *Isolated:* the checks are made, and the changes take effect, at one point in
    /// time between call and answer.
    /// *Ordered:* a commit that began after another was acknowledged gets a larger
    /// revision; no two get the same.
    /// *Durable:* once acknowledged it is never lost.
    async fn commit(&self, transaction: Transaction) -> Result<Outcome>;

    /// Every change in `range` with a revision larger than `after`, as it becomes durable.
    ///
    /// *Complete:* no change is left out, none comes twice, and they come in the order
    /// of their revisions.
    /// *Whole:* the changes that one transaction made in the range come together.
    /// *Honest:* if the history right after `after` is gone, now or because the watcher
    /// is too slow, the answer is [`Error::Compacted`](crate::Error::Compacted), never a
    /// gap.
    async fn watch(&self, range: KeyRange, after: Revision) -> Result<Box<dyn Watch>>;

    /// Forgets the history before `floor`; the state at `floor` and after it stays.
    ///
    /// *Monotonic:* the floor never goes down; a lower one than now changes nothing.
    /// *Bounded:* [`Error::Future`](crate::Error::Future) if `floor` has not happened.
    async fn compact(&self, floor: Revision) -> Result<()>;

    /// The entry at `key` now, if it has one.
    async fn get(&self, key: &Key) -> Result<Option<Entry>> {
        let page = self
            .range(&KeyRange::single(key.clone()), At::Latest, None)
            .await?;
        Ok(page.entries.into_iter().next())
    }
}

/// Which state a range is read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// The newest.
    Latest,
    /// The one right after this revision.
    Revision(Revision),
}

/// A key's value and when it came about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: Key,
    /// Its value.
    pub value: Bytes,
    /// The revision at which the key last got a value when it had none.
    pub created: Revision,
    /// The revision of the value.
    pub modified: Revision,
}

/// Part of a range at one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// What was found, in key order.
    pub entries: Vec<Entry>,
    /// The revision it was read at.
    pub revision: Revision,
    /// Whether a limit kept entries out.
    pub more: bool,
}

/// A cursor over the changes of a range.
#[async_trait]
pub trait Watch: Send {
    /// The next item. After an error the watch is over.
    ///
    /// Dropping the future loses nothing: the next call goes on where this one would have.
    async fn next(&mut self) -> Result<WatchItem>;

    /// Asks for a [`WatchItem::Progress`] with at least the revision that the store has
    /// now, so that a watcher of a quiet range learns how far it is.
    async fn request_progress(&mut self) -> Result<()>;
}

/// What a watch tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchItem {
    /// What one transaction changed in the range.
    Changes {
        /// Its revision.
        revision: Revision,
        /// Puts as the entry that came about, deletions as the key that lost its value;
        /// in key order.
        changes: Vec<Changed>,
    },
    /// Every change in the range up to this revision has been told.
    Progress(Revision),
}

/// One change as a watcher sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changed {
    /// A key has a new value.
    Put(Entry),
    /// A key lost its value.
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

//! The table: every key's versions, and which one is current.
//!
//! ```text
//! heads      key -> revisions of its current value    in memory, for every key
//! memory     rows that are not on disk yet            rebuilt from the log after a crash
//! tree       rows on disk                             an LSM tree without a log of its own
//! ```
//!
//! The sequencer touches only heads and memory: it never waits for a table to be written, merged or
//! read. A sealed memory is the state at one revision, with the marks that say so, and reaches the
//! disk as a whole.

mod heads;
mod leftovers;
mod load;
mod memory;
mod merge;
mod rows;
mod tree;

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bytes::Bytes;
use insula_core::Revision;

use super::log::{Logged, Record};
use crate::{Entry, Key, KeyRange, Result};
pub(super) use heads::Head;
use heads::Heads;
use memory::Memory;
use merge::Merge;
use tree::Tree;

/// Rows in memory and on disk, and the heads of all keys.
pub(super) struct Table {
    heads: Heads,
    memories: RwLock<Memories>,
    tree: Tree,
}

/// Rows that are not on disk yet.
#[derive(Default)]
struct Memories {
    active: Arc<Memory>,
    /// No longer written to; oldest first.
    sealed: VecDeque<Arc<Memory>>,
}

/// The progress of the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Marks {
    /// Every change up to this revision is in it.
    pub applied: Revision,
    /// History before this revision is compacted.
    pub floor: Revision,
    /// Versions that the floor has passed are removed up to here.
    pub swept: Revision,
}

impl Table {
    /// Opens or creates the table in `folder`, and returns its progress.
    pub fn open(folder: &Path, cache_bytes: u64) -> Result<(Self, Marks)> {
        let tree = Tree::open(folder, cache_bytes)?;
        let heads = Heads::new();
        load::heads(&tree, &heads)?;
        let mark = |name| match tree.get(&rows::mark(name))? {
            Some(row) => rows::decode_mark(&row).ok_or_else(|| tree.damaged()),
            None => Ok(Revision::ZERO),
        };
        let marks = Marks {
            applied: mark(rows::APPLIED)?,
            floor: mark(rows::FLOOR)?,
            swept: mark(rows::SWEPT)?,
        };
        let memories = RwLock::default();
        let table = Self {
            heads,
            memories,
            tree,
        };
        Ok((table, marks))
    }

    /// The revisions of the key's current value.
    pub fn head(&self, key: &[u8]) -> Option<Head> {
        self.heads.get(key)
    }

    /// The version of `key` at `head`, if it still exists.
    pub fn version(&self, key: &Key, head: Head) -> Result<Option<Entry>> {
        let row_key = rows::version(key, head.modified);
        let row = match self.in_memory(&row_key) {
            Some(row) => row,
            None => self.tree.get(&row_key)?,
        };
        let Some(row) = row else { return Ok(None) };
        let version = rows::decode_version(&row).ok_or_else(|| self.tree.damaged())?;
        Ok(version.map(|version| version.entry(key.clone(), head.modified)))
    }

    /// Like [`Self::version`], for a head that is or was the key's own. `None` if it was replaced
    /// and the version removed.
    pub fn found(&self, key: &Key, head: Head) -> Result<Option<Entry>> {
        let found = self.version(key, head)?;
        if found.is_none() && self.head(key) == Some(head) {
            return Err(self.tree.damaged());
        }
        Ok(found)
    }

    /// A row that is not on disk yet; `Some(None)` if it is removed.
    fn in_memory(&self, row_key: &[u8]) -> Option<Option<Bytes>> {
        let memories = self.read();
        let newest_first = [&memories.active]
            .into_iter()
            .chain(memories.sealed.iter().rev());
        newest_first
            .into_iter()
            .find_map(|memory| memory.get(row_key))
    }

    /// The entries of `range` as of `revision`, at most one more than `limit`.
    pub fn range(
        &self,
        range: &KeyRange,
        revision: Revision,
        limit: Option<NonZeroUsize>,
    ) -> Result<Vec<Entry>> {
        let most = limit.map_or(usize::MAX, |limit| limit.get().saturating_add(1));
        let mut entries = Vec::new();
        if range.is_empty() {
            return Ok(entries);
        }
        let bounds = rows::version_bounds(range);
        // Memory first: rows that move to disk meanwhile are seen twice, not missed.
        let memories: Vec<Arc<Memory>> = {
            let memories = self.read();
            let sealed = memories.sealed.iter().rev();
            [&memories.active]
                .into_iter()
                .chain(sealed)
                .cloned()
                .collect()
        };
        let newest_first = memories.iter().map(|memory| memory.range(&bounds));
        // The key of the last visible version.
        let mut found_key: Vec<u8> = Vec::new();
        for row in Merge::new(newest_first.collect(), self.tree.range(&bounds)) {
            let (row_key, row) = row?;
            let (key, modified) =
                rows::split_version(&row_key).ok_or_else(|| self.tree.damaged())?;
            if modified > revision || found_key == key {
                continue;
            }
            found_key.clear();
            found_key.extend_from_slice(key);
            let version = rows::decode_version(&row).ok_or_else(|| self.tree.damaged())?;
            if let Some(version) = version {
                entries.push(version.entry(rows::unescape(key), modified));
                if entries.len() == most {
                    break;
                }
            }
        }
        Ok(entries)
    }

    /// Applies a transaction that is durable in the log.
    pub fn apply(&self, record: &Record) {
        let memories = self.read();
        for change in &record.changes {
            let version = rows::version(&change.key, record.revision);
            memories.active.put(version, rows::encode_version(change));
            let head = change.value.is_some().then_some(Head {
                modified: record.revision,
                created: change.created,
            });
            match head {
                Some(head) => memories
                    .active
                    .put(rows::head(&change.key), rows::encode_head(head)),
                None => memories.active.remove(rows::head(&change.key)),
            }
            self.heads.set(&change.key, head);
        }
    }

    /// Removes the rows that are not needed once the floor has passed `record`: the version that a
    /// change replaced, and a deletion itself. Returns the number of rows.
    pub fn sweep(&self, record: &Record) -> usize {
        let memories = self.read();
        let mut removed = 0;
        for Logged {
            key,
            value,
            previous,
            ..
        } in &record.changes
        {
            let replaced = (*previous != Revision::ZERO).then_some(*previous);
            let deletion = value.is_none().then_some(record.revision);
            for revision in replaced.into_iter().chain(deletion) {
                memories.active.remove(rows::version(key, revision));
                removed += 1;
            }
        }
        removed
    }

    /// Records the floor.
    pub fn set_floor(&self, floor: Revision) {
        self.set_mark(rows::FLOOR, floor);
    }

    /// Records that everything up to `swept` is swept.
    pub fn set_swept(&self, swept: Revision) {
        self.set_mark(rows::SWEPT, swept);
    }

    fn set_mark(&self, name: &str, revision: Revision) {
        let active = &self.read().active;
        active.put(rows::mark(name), rows::encode_mark(revision));
    }

    /// The size of the active memory.
    pub fn memory_bytes(&self) -> u64 {
        self.read().active.bytes()
    }

    /// The size of all rows that are only in memory.
    pub fn unwritten_bytes(&self) -> u64 {
        let memories = self.read();
        let sealed = memories.sealed.iter().map(|memory| memory.bytes());
        memories.active.bytes() + sealed.sum::<u64>()
    }

    /// The number of sealed memories that wait to be written.
    pub fn sealed(&self) -> usize {
        self.read().sealed.len()
    }

    /// Seals the active memory as the state at `applied`. Only between two groups.
    pub fn seal(&self, applied: Revision) {
        self.set_mark(rows::APPLIED, applied);
        let mut memories = self.write();
        let active = std::mem::take(&mut memories.active);
        memories.sealed.push_back(active);
    }

    /// Writes the oldest sealed memory to disk, durably.
    pub fn flush(&self) -> Result<()> {
        let Some(oldest) = self.read().sealed.front().cloned() else {
            return Ok(());
        };
        self.tree.add(&oldest)?;
        self.write().sealed.pop_front();
        Ok(())
    }

    /// Merges tables where necessary.
    pub fn merge(&self) -> Result<()> {
        self.tree.merge()
    }

    /// Merges all tables into one sorted run, which frees all unused space.
    pub fn merge_all(&self) -> Result<()> {
        self.tree.merge_all()
    }

    /// The number of rows on disk, including removed ones.
    pub fn rows(&self) -> usize {
        self.tree.rows()
    }

    /// The size of the tables on disk.
    pub fn disk_bytes(&self) -> u64 {
        self.tree.disk_bytes()
    }

    /// Only pointers move under these locks, so a poisoned lock is safe to use.
    fn read(&self) -> RwLockReadGuard<'_, Memories> {
        self.memories.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Memories> {
        self.memories
            .write()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

//! The table: every key's versions and which one is current, in an LSM tree.
//!
//! ```text
//! h key                      -> modified, created          the current version
//! v key' 00 01 !revision     -> created, value             a version, newest first
//! v key' 00 01 !revision     -> nothing                    a deletion
//! m name                     -> number                     how far the table is
//! ```
//!
//! `key'` is the key with each 00 as 00 FF, so that versions sort by key and then by
//! revision, whatever bytes a key has.
//!
//! The tree brings no log of its own: what is in its memory is rebuilt from ours. It is
//! sealed only between two groups, together with the mark that says how far it is, so
//! that what reaches the disk is always the state at one revision.

mod rows;

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use insula_core::Revision;
use lsm_tree::{AbstractTree, AnyTree, Cache, Guard, SeqNo, SequenceNumberCounter};
use xxhash_rust::xxh3::xxh3_128;

use super::log::{Logged, Record};
use crate::{Entry, Error, Key, KeyRange, Result};

/// Readers see the newest row of each key; which version of a key they are to see is
/// decided by revision, in the rows themselves.
const NEWEST: SeqNo = SeqNo::MAX;

/// The size that files are cut to: what one sync has to bring to the disk at most, while
/// the log's own syncs wait behind it.
const TABLE_BYTES: u64 = 16 << 20;
/// So many tables may lie over each other before they are merged. Reads are for the most
/// part served by a cache above; a merge is paid by every write.
const MERGE_AT: u8 = 16;

/// The tree and its numbers.
pub(super) struct Table {
    tree: AnyTree,
    folder: PathBuf,
    sequence: SequenceNumberCounter,
}

/// When a key's current value came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub modified: Revision,
    pub created: Revision,
}

/// How far the table is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Marks {
    /// Every change up to this revision is in it.
    pub applied: Revision,
    /// History before this revision is forgotten.
    pub floor: Revision,
    /// Versions that nobody needs since the floor passed them are removed up to here.
    pub swept: Revision,
}

impl Table {
    /// Opens the table in `folder`, or makes one.
    pub fn open(folder: &Path, cache_bytes: u64) -> Result<Self> {
        verify_manifest(folder)?;
        let sequence = SequenceNumberCounter::default();
        let config =
            lsm_tree::Config::new(folder, sequence.clone(), SequenceNumberCounter::default());
        let tree = config
            .use_cache(Arc::new(Cache::with_capacity_bytes(cache_bytes)))
            .open()
            .map_err(|error| trouble(folder, error))?;
        sequence.fetch_max(tree.get_highest_seqno().map_or(1, |highest| highest + 1));
        Ok(Self {
            tree,
            folder: folder.to_path_buf(),
            sequence,
        })
    }

    /// How far it is.
    pub fn marks(&self) -> Result<Marks> {
        let mark = |name| -> Result<Revision> {
            let found = self.tree.get(rows::mark(name), NEWEST);
            let found = found.map_err(|error| self.trouble(error))?;
            found.map_or(Ok(Revision::ZERO), |row| self.number(&row))
        };
        Ok(Marks {
            applied: mark(rows::APPLIED)?,
            floor: mark(rows::FLOOR)?,
            swept: mark(rows::SWEPT)?,
        })
    }

    /// Notes that history before `floor` is forgotten.
    pub fn set_floor(&self, floor: Revision) {
        self.set_mark(rows::FLOOR, floor);
    }

    fn set_mark(&self, name: &str, revision: Revision) {
        let row = revision.get().to_be_bytes();
        self.tree
            .insert(rows::mark(name), row, self.sequence.next());
    }

    /// When the key's current value came about, if it has one.
    pub fn head(&self, key: &[u8]) -> Result<Option<Head>> {
        let found = self.tree.get(rows::head(key), NEWEST);
        let Some(row) = found.map_err(|error| self.trouble(error))? else {
            return Ok(None);
        };
        rows::decode_head(&row)
            .map(Some)
            .ok_or_else(|| self.damaged())
    }

    /// The version of `key` that came about at `head`.
    pub fn version(&self, key: &Key, head: Head) -> Result<Option<Entry>> {
        let found = self.tree.get(rows::version(key, head.modified), NEWEST);
        let Some(row) = found.map_err(|error| self.trouble(error))? else {
            return Ok(None);
        };
        let version = rows::decode_version(&row).ok_or_else(|| self.damaged())?;
        Ok(version.map(|version| version.entry(key.clone(), head.modified)))
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
        // The bytes of the key whose visible version has been found.
        let mut settled: Vec<u8> = Vec::new();
        for row in self.tree.range(rows::version_bounds(range), NEWEST, None) {
            let (row_key, row) = row.into_inner().map_err(|error| self.trouble(error))?;
            let (key, modified) = rows::split_version(&row_key).ok_or_else(|| self.damaged())?;
            if modified > revision || settled == key {
                continue;
            }
            settled.clear();
            settled.extend_from_slice(key);
            let version = rows::decode_version(&row).ok_or_else(|| self.damaged())?;
            if let Some(version) = version {
                entries.push(version.entry(rows::unescape(key), modified));
                if entries.len() == most {
                    break;
                }
            }
        }
        Ok(entries)
    }

    /// Makes the changes of a transaction that is durable in the log.
    pub fn apply(&self, record: &Record) {
        let sequence = self.sequence.next();
        for change in &record.changes {
            let version = rows::version(&change.key, record.revision);
            self.tree
                .insert(version, rows::encode_version(change), sequence);
            match change.value {
                Some(_) => {
                    let head = rows::encode_head(record.revision, change.created);
                    self.tree.insert(rows::head(&change.key), head, sequence);
                }
                None => {
                    self.tree.remove(rows::head(&change.key), sequence);
                }
            }
        }
    }

    /// Removes what nobody needs once the floor has passed `record`: the version that a
    /// change replaced, and a deletion itself. Says how many rows that were.
    pub fn sweep(&self, record: &Record) -> usize {
        let sequence = self.sequence.next();
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
                self.tree.remove(rows::version(key, revision), sequence);
                removed += 1;
            }
        }
        removed
    }

    /// Notes that everything up to `swept` is swept.
    pub fn set_swept(&self, swept: Revision) {
        self.set_mark(rows::SWEPT, swept);
    }

    /// What is in memory and not yet being written.
    pub fn memory_bytes(&self) -> u64 {
        self.tree.active_memtable().size()
    }

    /// How many sealed parts wait to be written.
    pub fn sealed(&self) -> usize {
        self.tree.sealed_memtable_count()
    }

    /// Seals what is in memory, as the state at `applied`. Only between two groups.
    pub fn seal(&self, applied: Revision) {
        self.set_mark(rows::APPLIED, applied);
        self.tree.rotate_memtable();
    }

    /// Writes what was sealed to the disk, durably.
    pub fn flush(&self) -> Result<()> {
        let lock = self.tree.get_flush_lock();
        let flushed = self.tree.flush(&lock, self.sequence.get());
        flushed.map(drop).map_err(|error| self.trouble(error))
    }

    /// Merges tables where that is due.
    pub fn merge(&self) -> Result<()> {
        let strategy = lsm_tree::compaction::Leveled::default()
            .with_l0_threshold(MERGE_AT)
            .with_table_target_size(TABLE_BYTES);
        let merged = self.tree.compact(Arc::new(strategy), self.sequence.get());
        merged.map(drop).map_err(|error| self.trouble(error))
    }

    /// Merges all tables into one sorted run, which gives back all space that can be.
    pub fn merge_all(&self) -> Result<()> {
        let merged = self.tree.major_compact(TABLE_BYTES, self.sequence.get());
        merged.map(drop).map_err(|error| self.trouble(error))
    }

    /// The rows on disk and in memory, with those that are removed but still there.
    pub fn rows(&self) -> usize {
        self.tree.approximate_len()
    }

    /// What the tables take on disk.
    pub fn disk_bytes(&self) -> u64 {
        self.tree.disk_space()
    }

    fn number(&self, row: &[u8]) -> Result<Revision> {
        let bytes = row.try_into().map_err(|_| self.damaged())?;
        Ok(Revision::new(u64::from_be_bytes(bytes)))
    }

    fn damaged(&self) -> Error {
        Error::Corrupt {
            file: self.folder.clone(),
            detail: "a row does not have the form that was written".to_owned(),
        }
    }

    fn trouble(&self, error: lsm_tree::Error) -> Error {
        trouble(&self.folder, error)
    }
}

/// The engine names the manifest's checksum in the file `current` but does not check it.
fn verify_manifest(folder: &Path) -> Result<()> {
    let current = folder.join("current");
    let Ok(named) = fs::read(&current) else {
        return Ok(());
    };
    let corrupt = |file: PathBuf, detail: &str| {
        let detail = detail.to_owned();
        Error::Corrupt { file, detail }
    };
    let (Some(id), Some(checksum)) = (named.first_chunk::<8>(), named.get(8..24)) else {
        return Err(corrupt(current, "it is too short"));
    };
    let manifest = folder.join(format!("v{}", u64::from_le_bytes(*id)));
    let Ok(bytes) = fs::read(&manifest) else {
        return Err(corrupt(
            manifest,
            "it is named as the manifest but cannot be read",
        ));
    };
    if xxh3_128(&bytes).to_le_bytes() != checksum {
        return Err(corrupt(manifest, "it does not have the right checksum"));
    }
    Ok(())
}

fn trouble(folder: &Path, error: lsm_tree::Error) -> Error {
    let path = folder.display();
    match error {
        lsm_tree::Error::Io(error) => match error.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                Error::Full(format!("no room for a table in {path}"))
            }
            std::io::ErrorKind::UnexpectedEof => Error::Corrupt {
                file: folder.to_path_buf(),
                detail: format!("a table is shorter than it was: {error}"),
            },
            _ => Error::Unavailable(format!("cannot use the tables in {path}: {error}")),
        },
        error => Error::Corrupt {
            file: folder.to_path_buf(),
            detail: format!("{error:?}"),
        },
    }
}

//! Rows on disk, in an LSM tree without a log of its own.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use lsm_tree::compaction::Leveled;
use lsm_tree::config::BlockSizePolicy;
use lsm_tree::file::TABLES_FOLDER;
use lsm_tree::{
    AbstractTree, AnyTree, Cache, Guard, InternalValue, SeqNo, SequenceNumberCounter, ValueType,
};
use xxhash_rust::xxh3::xxh3_128;

use super::leftovers::Leftovers;
use super::memory::Memory;
use super::rows::Bounds;
use crate::embedded::folder::sync_folder;
use crate::permissions::{create_folder, restrict_tree};
use crate::{Error, Result};

/// Readers see the newest row of each key.
const NEWEST: SeqNo = SeqNo::MAX;
/// The size of a table, which bounds what one sync has to write while the log's own syncs wait
/// behind it.
const TABLE_BYTES: u64 = 16 << 20;
/// The unit of reads. The index over the blocks is in memory, so large blocks save memory per key;
/// most reads are served by a cache above the store.
const BLOCK_BYTES: u32 = 16 << 10;
/// The number of overlapping tables at which they are merged. Most reads are served by a cache
/// above the store, while every write pays for merges.
const MERGE_AT: u8 = 16;

/// The tree and its sequence numbers.
pub(super) struct Tree {
    tree: AnyTree,
    folder: PathBuf,
    sequence: SequenceNumberCounter,
    leftovers: Leftovers,
}

impl Tree {
    /// Opens the tree in `folder`, or creates one.
    pub fn open(folder: &Path, cache_bytes: u64) -> Result<Self> {
        let failed = |error: io::Error| engine_error(folder, error.into());
        verify_manifest(folder)?;
        sync_manifest(folder).map_err(failed)?;
        // The engine creates its files with the permissions that the umask leaves to others: until
        // they are restricted, the folder keeps others out.
        create_folder(folder).map_err(failed)?;
        let sequence = SequenceNumberCounter::default();
        let visible = SequenceNumberCounter::default();
        let tree = lsm_tree::Config::new(folder, sequence.clone(), visible)
            .data_block_size_policy(BlockSizePolicy::all(BLOCK_BYTES))
            .use_cache(Arc::new(Cache::with_capacity_bytes(cache_bytes)))
            .open()
            .map_err(|error| engine_error(folder, error))?;
        restrict_tree(folder).map_err(failed)?;
        sequence.fetch_max(tree.get_highest_seqno().map_or(1, |highest| highest + 1));
        let leftovers = Leftovers::default();
        leftovers.register(tree.current_version().iter_tables().map(|table| table.id()));
        Ok(Self {
            tree,
            folder: folder.to_path_buf(),
            sequence,
            leftovers,
        })
    }

    pub fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        let found = self.tree.get(key, NEWEST);
        let found = found.map_err(|error| self.engine_error(error))?;
        Ok(found.map(Bytes::from))
    }

    pub fn range(&self, bounds: &Bounds) -> Box<dyn Iterator<Item = Result<(Bytes, Bytes)>> + '_> {
        let rows = self
            .tree
            .range::<&[u8], _>(bounds.as_slices(), NEWEST, None);
        Box::new(rows.map(|row| match row.into_inner() {
            Ok((key, row)) => Ok((Bytes::from(key), Bytes::from(row))),
            Err(error) => Err(self.engine_error(error)),
        }))
    }

    /// Writes all rows of a memory as tables, durably, newer than the existing ones.
    pub fn add(&self, memory: &Memory) -> Result<()> {
        let sequence = self.sequence.next();
        let rows = memory.rows().map(|(key, row)| {
            let kind = match row {
                Some(_) => ValueType::Value,
                None => ValueType::Tombstone,
            };
            let row = row.unwrap_or_default();
            Ok(InternalValue::from_components(key, row, sequence, kind))
        });
        self.write_tables(|| {
            let Some((tables, values)) = self.tree.flush_to_tables(rows)? else {
                return Ok(());
            };
            let past = self.sequence.get();
            self.tree
                .register_tables(&tables, values.as_deref(), None, &[], past)?;
            // A merge may take them before this returns.
            self.leftovers
                .register(tables.iter().map(|table| table.id()));
            Ok(())
        })
    }

    /// Runs a flush or a merge. If that fails, its unfinished tables are removed: on a full disk
    /// they would take the room that the next attempt needs.
    fn write_tables(&self, write: impl FnOnce() -> lsm_tree::Result<()>) -> Result<()> {
        let writing = self.leftovers.writing();
        let written = write();
        if written.is_ok() {
            let version = self.tree.current_version();
            let tables = version.iter_tables().map(|table| table.id());
            self.leftovers.register(tables);
        }
        drop(writing);
        match written {
            Ok(()) => self.release(),
            Err(error) => {
                self.remove_leftovers();
                Err(self.engine_error(error))
            }
        }
    }

    fn remove_leftovers(&self) {
        // A manifest that was renamed before the failure may name the new tables.
        if named_manifest(&self.folder) != Some(self.tree.current_version().id()) {
            return;
        }
        if let Err(error) = self.leftovers.remove(&self.folder.join(TABLES_FOLDER)) {
            tracing::warn!(%error, "unfinished tables not removed");
        }
    }

    /// Merges tables where necessary.
    pub fn merge(&self) -> Result<()> {
        let strategy = Leveled::default()
            .with_l0_threshold(MERGE_AT)
            .with_table_target_size(TABLE_BYTES);
        self.write_tables(|| self.tree.compact(Arc::new(strategy), self.sequence.get()))
    }

    /// Merges all tables into one sorted run.
    pub fn merge_all(&self) -> Result<()> {
        self.write_tables(|| self.tree.major_compact(TABLE_BYTES, self.sequence.get()))
    }

    /// Releases tables that only readers of older snapshots would need. There are none: current
    /// readers hold references to their tables. New files are restricted to their owner.
    fn release(&self) -> Result<()> {
        let mut versions = self.tree.get_version_history_lock();
        let released = versions.maintenance(&self.folder, self.sequence.next());
        released.map_err(|error| self.engine_error(error))?;
        restrict_tree(&self.folder).map_err(|error| self.engine_error(error.into()))
    }

    pub fn rows(&self) -> usize {
        self.tree.approximate_len()
    }

    pub fn disk_bytes(&self) -> u64 {
        self.tree.disk_space()
    }

    /// The error for a row that cannot have been written.
    pub fn damaged(&self) -> Error {
        Error::Corrupt {
            file: self.folder.clone(),
            detail: "a row does not have the form that was written".to_owned(),
        }
    }

    fn engine_error(&self, error: lsm_tree::Error) -> Error {
        engine_error(&self.folder, error)
    }
}

/// The number of the manifest that the file `current` names.
fn named_manifest(folder: &Path) -> Option<u64> {
    let named = fs::read(folder.join("current")).ok()?;
    let id = named.first_chunk::<8>()?;
    Some(u64::from_le_bytes(*id))
}

/// The engine records the manifest's checksum in the file `current` but does not check it.
fn verify_manifest(folder: &Path) -> Result<()> {
    let current = folder.join("current");
    let Ok(named) = fs::read(&current) else {
        return Ok(());
    };
    let corrupt = |file: PathBuf, detail: &str| {
        let detail = detail.to_owned();
        Error::Corrupt { file, detail }
    };
    let [id @ .., _kind_of_checksum] = &named[..] else {
        return Err(corrupt(current, "it is empty"));
    };
    let Some((id, checksum)) = id.split_first_chunk::<8>() else {
        return Err(corrupt(current, "it is too short"));
    };
    let manifest = folder.join(format!("v{}", u64::from_le_bytes(*id)));
    let Ok(bytes) = fs::read(&manifest) else {
        let detail = "it is named as the manifest but cannot be read";
        return Err(corrupt(manifest, detail));
    };
    if xxh3_128(&bytes).to_le_bytes() != checksum {
        return Err(corrupt(manifest, "it does not have the right checksum"));
    }
    Ok(())
}

/// The process that named the manifest may have died before the name was durable, and opening
/// removes the tables that only the previous manifest needs.
fn sync_manifest(folder: &Path) -> io::Result<()> {
    match sync_folder(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        synced => synced,
    }
}

fn engine_error(folder: &Path, error: lsm_tree::Error) -> Error {
    let path = folder.display();
    let corrupt = |detail: String| Error::Corrupt {
        file: folder.to_path_buf(),
        detail,
    };
    let error = match error {
        lsm_tree::Error::Io(error) => error,
        error => return corrupt(format!("{error:?}")),
    };
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            Error::Full(format!("no room for a table in {path}"))
        }
        io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidInput | io::ErrorKind::NotFound => {
            corrupt(format!(
                "a table is missing or shorter than it was: {error}"
            ))
        }
        _ => Error::Unavailable(format!("cannot use the tables in {path}: {error}")),
    }
}

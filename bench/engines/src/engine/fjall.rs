//! fjall: one batch over two keyspaces per group, synced through its own journal.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use super::{CACHE_BYTES, Conflict, Engine, Outcome, Reader, Record, Write, revision_from};

/// Deletions put into one batch while history is discarded.
const DISCARD_BATCH: usize = 4096;

pub struct Fjall {
    db: Database,
    heads: Keyspace,
    records: Keyspace,
    revision: u64,
    syncs: u64,
}

impl Engine for Fjall {
    const NAME: &'static str = "fjall";
    type Reader = FjallReader;

    fn open(dir: &Path) -> Result<Self> {
        let db = Database::builder(dir)
            .cache_size(CACHE_BYTES as u64)
            .open()?;
        let heads = db.keyspace("heads", KeyspaceCreateOptions::default)?;
        let records = db.keyspace("records", KeyspaceCreateOptions::default)?;
        let revision = match records.last_key_value() {
            Some(row) => revision_from(&row.key()?)?,
            None => 0,
        };
        Ok(Self {
            db,
            heads,
            records,
            revision,
            syncs: 0,
        })
    }

    fn commit(&mut self, group: &[Write]) -> Result<Vec<Outcome>> {
        let mut batch = self.db.batch().durability(Some(PersistMode::SyncData));
        // A batch does not show its own writes.
        let mut pending = HashMap::with_capacity(group.len());
        let mut outcomes = Vec::with_capacity(group.len());
        for write in group {
            let head = match pending.get(write.key.as_slice()) {
                Some(revision) => *revision,
                None => match self.heads.get(&write.key)? {
                    Some(bytes) => revision_from(&bytes)?,
                    None => 0,
                },
            };
            if head != write.expected {
                outcomes.push(Err(Conflict));
                continue;
            }
            self.revision += 1;
            pending.insert(write.key.as_slice(), self.revision);
            let revision = self.revision.to_be_bytes();
            batch.insert(&self.heads, write.key.as_slice(), revision);
            let record = Record::encode(&write.key, &write.value)?;
            batch.insert(&self.records, revision, record);
            outcomes.push(Ok(self.revision));
        }
        batch.commit()?;
        self.syncs += 1;
        Ok(outcomes)
    }

    fn revision(&self) -> u64 {
        self.revision
    }

    fn syncs(&self) -> u64 {
        self.syncs
    }

    fn reader(&self) -> FjallReader {
        FjallReader {
            heads: self.heads.clone(),
            records: self.records.clone(),
        }
    }

    fn discard_history(&mut self) -> Result<()> {
        let mut batch = self.db.batch();
        for row in self.records.iter() {
            let (revision, record) = row.into_inner()?;
            let (key, _) = Record::decode(&record)?;
            if self.heads.get(key)?.as_deref() == Some(&*revision) {
                continue;
            }
            batch.remove(&self.records, revision);
            if batch.len() == DISCARD_BATCH {
                std::mem::replace(&mut batch, self.db.batch()).commit()?;
            }
        }
        batch.commit()?;
        Ok(self.db.persist(PersistMode::SyncData)?)
    }

    fn compact(&mut self) -> Result<()> {
        for keyspace in [&self.heads, &self.records] {
            keyspace.rotate_memtable_and_wait()?;
            keyspace.major_compact()?;
        }
        Ok(())
    }

    fn journal(dir: &Path) -> Result<PathBuf> {
        let mut newest: Option<(u64, PathBuf)> = None;
        for entry in std::fs::read_dir(dir)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "jnl") {
                let stem = path.file_stem().and_then(|stem| stem.to_str());
                let number = stem.context("journal without a name")?.parse()?;
                if newest.as_ref().is_none_or(|(other, _)| number > *other) {
                    newest = Some((number, path));
                }
            }
        }
        Ok(newest.context("no journal")?.1)
    }
}

pub struct FjallReader {
    heads: Keyspace,
    records: Keyspace,
}

impl Reader for FjallReader {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        // The record of a head is written in the same batch and history is not discarded
        // while readers run, so two plain reads are enough.
        let Some(revision) = self.heads.get(key)? else {
            return Ok(None);
        };
        let record = self.records.get(revision)?.context("head without record")?;
        Ok(Some(Record::decode(&record)?.1.to_vec()))
    }
}

//! lsm-tree, the table engine below fjall, behind a minimal log of the bench.
//!
//! One tree holds both kinds of rows: `h` + key is the head of a key (its revision), `v` + key +
//! 0x00 0x01 + the inverted revision is one version. The log is the history.

mod log;
mod upkeep;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use lsm_tree::config::CompressionPolicy;
use lsm_tree::{
    AbstractTree, AnyTree, Cache, CompressionType, Config, Guard, SeqNo, SequenceNumberCounter,
};

use super::{CACHE_BYTES, Conflict, Engine, Outcome, Reader, Write, revision_from};
use log::{Group, Log};
use upkeep::Upkeep;

const SEPARATOR: [u8; 2] = [0x00, 0x01];

pub struct Lsm {
    tree: AnyTree,
    log: Log,
    upkeep: Upkeep,
    seqno: SequenceNumberCounter,
    revision: u64,
}

impl Lsm {
    fn apply(&mut self, revision: u64, key: &[u8], value: &[u8]) {
        // The version first: a reader who sees the head must find its version.
        self.tree
            .insert(version_row(key, revision), value, revision);
        self.tree
            .insert(head_row(key), revision.to_be_bytes(), revision);
        self.seqno.fetch_max(revision + 1);
        self.revision = revision;
    }
}

impl Engine for Lsm {
    const NAME: &'static str = "lsm-tree + log";
    type Reader = LsmReader;

    fn open(dir: &Path) -> Result<Self> {
        let seqno = SequenceNumberCounter::default();
        let tree = Config::new(
            dir.join("tree"),
            seqno.clone(),
            SequenceNumberCounter::default(),
        )
        .use_cache(Arc::new(Cache::with_capacity_bytes(CACHE_BYTES as u64)))
        .data_block_compression_policy(CompressionPolicy::all(CompressionType::None))
        .open()?;
        let persisted = tree.get_highest_persisted_seqno().unwrap_or(0);
        seqno.fetch_max(persisted + 1);
        let log_dir = dir.join("log");
        let tail = log::read_after(&log_dir, persisted)?;
        let mut lsm = Self {
            upkeep: Upkeep::start(tree.clone(), seqno.clone()),
            log: Log::open(&log_dir)?,
            tree,
            seqno,
            revision: persisted,
        };
        for group in tail {
            for (revision, key, value) in group?.writes() {
                if revision > persisted {
                    lsm.apply(revision, key, value);
                }
            }
            lsm.upkeep.after_commit()?;
        }
        Ok(lsm)
    }

    fn commit(&mut self, group: &[Write]) -> Result<Vec<Outcome>> {
        let mut logged = Group::new(self.revision + 1);
        let mut pending = HashMap::with_capacity(group.len());
        let mut outcomes = Vec::with_capacity(group.len());
        let mut next = self.revision;
        for write in group {
            let head = match pending.get(write.key.as_slice()) {
                Some(revision) => *revision,
                None => match self.tree.get(head_row(&write.key), SeqNo::MAX)? {
                    Some(bytes) => revision_from(&bytes)?,
                    None => 0,
                },
            };
            if head != write.expected {
                outcomes.push(Err(Conflict));
                continue;
            }
            next += 1;
            pending.insert(write.key.as_slice(), next);
            logged.push(&write.key, &write.value)?;
            outcomes.push(Ok(next));
        }
        self.log.append(&mut logged)?;
        for (write, outcome) in group.iter().zip(&outcomes) {
            if let Ok(revision) = outcome {
                self.apply(*revision, &write.key, &write.value);
            }
        }
        self.upkeep.after_commit()?;
        Ok(outcomes)
    }

    fn revision(&self) -> u64 {
        self.revision
    }

    fn syncs(&self) -> u64 {
        self.log.syncs()
    }

    fn reader(&self) -> LsmReader {
        LsmReader {
            tree: self.tree.clone(),
        }
    }

    fn discard_history(&mut self) -> Result<()> {
        let mut newest: Vec<u8> = Vec::new();
        // Not logged: after a crash the same rows are found again.
        for row in self.tree.prefix("v", SeqNo::MAX, None) {
            let row = row.key()?;
            let (key, _revision) = row.split_at_checked(row.len() - 8).context("short row")?;
            // Versions stand newest first, so the first row of a key is its current value.
            if newest == key {
                self.tree.remove(row, self.revision);
                self.upkeep.after_commit()?;
            } else {
                newest = key.to_vec();
            }
        }
        // The log may go only as far as the tables already hold what it says.
        self.upkeep.flush_all()?;
        self.log.discard()
    }

    fn compact(&mut self) -> Result<()> {
        self.upkeep.flush_all()?;
        Ok(self.tree.major_compact(64 << 20, self.seqno.get())?)
    }

    fn journal(dir: &Path) -> Result<PathBuf> {
        log::segments(&dir.join("log"))?
            .pop()
            .map(|segment| segment.path)
            .context("no segment")
    }
}

pub struct LsmReader {
    tree: AnyTree,
}

impl Reader for LsmReader {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let Some(revision) = self.tree.get(head_row(key), SeqNo::MAX)? else {
            return Ok(None);
        };
        let row = version_row(key, revision_from(&revision)?);
        let value = self
            .tree
            .get(row, SeqNo::MAX)?
            .context("head without version")?;
        Ok(Some(value.to_vec()))
    }
}

fn head_row(key: &[u8]) -> Vec<u8> {
    let mut row = Vec::with_capacity(1 + key.len());
    row.push(b'h');
    row.extend_from_slice(key);
    row
}

fn version_row(key: &[u8], revision: u64) -> Vec<u8> {
    let mut row = Vec::with_capacity(key.len() + 11);
    row.push(b'v');
    row.extend_from_slice(key);
    row.extend_from_slice(&SEPARATOR);
    row.extend_from_slice(&(!revision).to_be_bytes());
    row
}

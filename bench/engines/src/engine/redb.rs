//! redb: one durable write transaction over two tables per group.

use std::fs::OpenOptions;
use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result};
use redb::backends::FileBackend;
use redb::{
    BackendError, Database, Durability, ReadableDatabase, ReadableTable, StorageBackend,
    TableDefinition,
};

use super::{CACHE_BYTES, Conflict, Engine, Outcome, Reader, Record, Write};

const HEADS: TableDefinition<&[u8], u64> = TableDefinition::new("heads");
const RECORDS: TableDefinition<u64, &[u8]> = TableDefinition::new("records");
const FILE: &str = "db.redb";

/// `QUICK` turns `quick_repair` on: every commit also saves the allocator state and syncs twice,
/// so that opening after a crash need not walk the whole file.
pub struct Redb<const QUICK: bool> {
    db: Arc<Database>,
    revision: u64,
    syncs: Arc<AtomicU64>,
}

impl<const QUICK: bool> Engine for Redb<QUICK> {
    const NAME: &'static str = if QUICK { "redb, quick_repair" } else { "redb" };
    type Reader = RedbReader;

    fn open(dir: &Path) -> Result<Self> {
        std::fs::create_dir_all(dir)?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(dir.join(FILE))?;
        let syncs = Arc::new(AtomicU64::new(0));
        let backend = Counted {
            inner: FileBackend::new(file)?,
            syncs: Arc::clone(&syncs),
        };
        let db = Database::builder()
            .set_cache_size(CACHE_BYTES)
            .create_with_backend(backend)?;
        let setup = db.begin_write()?;
        setup.open_table(HEADS)?;
        let revision = match setup.open_table(RECORDS)?.last()? {
            Some((revision, _)) => revision.value(),
            None => 0,
        };
        setup.commit()?;
        syncs.store(0, Ordering::Relaxed);
        let db = Arc::new(db);
        Ok(Self {
            db,
            revision,
            syncs,
        })
    }

    fn commit(&mut self, group: &[Write]) -> Result<Vec<Outcome>> {
        let mut transaction = self.db.begin_write()?;
        transaction.set_durability(Durability::Immediate)?;
        transaction.set_quick_repair(QUICK);
        let mut outcomes = Vec::with_capacity(group.len());
        {
            let mut heads = transaction.open_table(HEADS)?;
            let mut records = transaction.open_table(RECORDS)?;
            for write in group {
                let head = heads
                    .get(write.key.as_slice())?
                    .map_or(0, |head| head.value());
                if head != write.expected {
                    outcomes.push(Err(Conflict));
                    continue;
                }
                self.revision += 1;
                heads.insert(write.key.as_slice(), self.revision)?;
                let record = Record::encode(&write.key, &write.value)?;
                records.insert(self.revision, record.as_slice())?;
                outcomes.push(Ok(self.revision));
            }
        }
        transaction.commit()?;
        Ok(outcomes)
    }

    fn revision(&self) -> u64 {
        self.revision
    }

    fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }

    fn reader(&self) -> RedbReader {
        RedbReader {
            db: Arc::clone(&self.db),
        }
    }

    fn discard_history(&mut self) -> Result<()> {
        let transaction = self.db.begin_write()?;
        {
            let heads = transaction.open_table(HEADS)?;
            let mut records = transaction.open_table(RECORDS)?;
            let mut failure = None;
            records.retain(|revision, record| match is_head(&heads, revision, record) {
                Ok(keep) => keep,
                Err(error) => {
                    failure = Some(error);
                    true
                }
            })?;
            if let Some(error) = failure {
                return Err(error);
            }
        }
        transaction.commit()?;
        Ok(())
    }

    fn compact(&mut self) -> Result<()> {
        let db = Arc::get_mut(&mut self.db).context("a reader is still there")?;
        db.compact()?;
        Ok(())
    }

    fn journal(dir: &Path) -> Result<PathBuf> {
        Ok(dir.join(FILE))
    }
}

fn is_head(heads: &redb::Table<&[u8], u64>, revision: u64, record: &[u8]) -> Result<bool> {
    let (key, _) = Record::decode(record)?;
    Ok(heads.get(key)?.is_some_and(|head| head.value() == revision))
}

pub struct RedbReader {
    db: Arc<Database>,
}

impl Reader for RedbReader {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let transaction = self.db.begin_read()?;
        let Some(revision) = transaction.open_table(HEADS)?.get(key)? else {
            return Ok(None);
        };
        let record = transaction
            .open_table(RECORDS)?
            .get(revision.value())?
            .context("head without record")?;
        Ok(Some(Record::decode(record.value())?.1.to_vec()))
    }
}

/// redb's own file backend, with its syncs counted.
#[derive(Debug)]
struct Counted {
    inner: FileBackend,
    syncs: Arc<AtomicU64>,
}

impl StorageBackend for Counted {
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.inner.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.inner.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.inner.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.inner.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.inner.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.inner.try_lock_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.inner.unlock_range(start, end)
    }
}

//! The default engine: one folder on one machine, nothing else to install.
//!
//! ```text
//! commit ─▶ sequencer ─▶ log (one sync for all that wait) ─▶ table ─▶ watchers ─▶ answer
//! range ──▶ table, as of a revision
//! watch ──▶ feed, from the log where the watcher is behind
//! ```
//!
//! One thread, the `sequencer`, orders all writes. It takes all waiting requests, checks them,
//! writes them to the `log` as one frame with one sync, and only then applies them to the `table`,
//! notifies the watchers and answers. So no change is acknowledged, read or watched before it is
//! durable. The table is an LSM tree without a log of its own; the `background` threads write it to
//! disk and remove old history.

mod background;
mod disk_room;
mod feed;
mod folder;
mod groups;
mod log;
mod readers;
mod sequencer;
mod table;

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use insula_core::Revision;
use tokio::sync::{mpsc, oneshot};

use crate::{
    At, Conflict, DiskSpace, Error, Key, KeyRange, Outcome, Page, Result, Store, Transaction, Watch,
};
use background::BackgroundThreads;
use disk_room::{DiskRoom, Growth, Sizes};
use feed::{Feed, Subscription};
use folder::Folder;
use log::{Catalog, Item, Log, TableState};
use readers::Readers;
use sequencer::{Decision, Request, Sequencer};
use table::{Marks, Table};

/// The revision of an empty store: as in etcd, 1.
const FIRST: Revision = Revision::new(1);

/// The most threads that read pages of the table. The kernel's cache answers most reads.
const MAX_PAGE_READERS: usize = 16;
/// The most threads that read the log for watchers that are behind. They are apart from the pages,
/// so that lists cannot delay watches.
const MAX_HISTORY_READERS: usize = 4;

/// Memory and disk settings of an embedded store.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The size of a log file. There are always two of them.
    pub segment_bytes: u64,
    /// How much the table collects in memory before it is written to disk.
    pub memory_bytes: u64,
    /// The size of the table cache.
    pub cache_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            segment_bytes: 16 << 20,
            memory_bytes: 16 << 20,
            cache_bytes: 8 << 20,
        }
    }
}

/// A store in a folder of this machine.
#[derive(Clone)]
pub struct Embedded {
    inner: Arc<Inner>,
}

struct Inner {
    requests: mpsc::Sender<Request>,
    shared: Arc<Shared>,
    /// Stops the threads when the last handle is dropped.
    _background: BackgroundThreads,
}

/// State that the threads and the callers share.
struct Shared {
    table: Table,
    catalog: Arc<Catalog>,
    feed: Feed,
    page_readers: Readers,
    history_readers: Readers,
    /// Durable, applied, and delivered to watchers up to here.
    head: AtomicU64,
    /// Being applied up to here: ahead of `head` while the table changes.
    applying: AtomicU64,
    floor: AtomicU64,
    swept: AtomicU64,
    syncs: AtomicU64,
    disk_room: DiskRoom,
    /// Held until the last thread has ended.
    _folder: Folder,
}

impl Embedded {
    /// Opens the store in `folder`, or creates one there. After a crash, every acknowledged commit
    /// is there.
    pub async fn open(folder: impl AsRef<Path>, options: Options) -> Result<Self> {
        let folder = folder.as_ref().to_path_buf();
        let open = tokio::task::spawn_blocking(move || Self::open_blocking(&folder, options));
        let stopped = |error| Error::Unavailable(format!("opening the store failed: {error}"));
        open.await.map_err(stopped)?
    }

    fn open_blocking(path: &Path, options: Options) -> Result<Self> {
        let segment_bytes = options.segment_bytes.max(log::MIN_SEGMENT_BYTES);
        let folder = Folder::take(path)?;
        let exists = folder.holds_store()?;
        let (table, marks) = Table::open(&folder.tables(), options.cache_bytes)?;
        let mut marks = Marks {
            applied: marks.applied.max(FIRST),
            swept: marks.swept.max(FIRST),
            ..marks
        };
        let log = if exists {
            replay(&folder, &table, &mut marks, segment_bytes)?
        } else {
            let log = Log::create(&folder.log(), segment_bytes)?;
            folder.complete()?;
            log
        };
        let disk_room = DiskRoom::new(path, segment_bytes, options.memory_bytes);
        disk_room.measure(Sizes::of(&table));
        Self::start(folder, table, log, marks, disk_room, options.memory_bytes)
    }

    fn start(
        folder: Folder,
        table: Table,
        log: Log,
        marks: Marks,
        disk_room: DiskRoom,
        memory_bytes: u64,
    ) -> Result<Self> {
        let shared = Arc::new(Shared {
            table,
            catalog: Arc::clone(log.catalog()),
            feed: Feed::new(marks.applied),
            page_readers: Readers::new("store-pages", MAX_PAGE_READERS)?,
            history_readers: Readers::new("store-history", MAX_HISTORY_READERS)?,
            head: AtomicU64::new(marks.applied.get()),
            applying: AtomicU64::new(marks.applied.get()),
            floor: AtomicU64::new(marks.floor.get()),
            swept: AtomicU64::new(marks.swept.get()),
            syncs: AtomicU64::new(0),
            disk_room,
            _folder: folder,
        });
        let (requests, waiting) = mpsc::channel(sequencer::MAX_WAITING);
        let background = BackgroundThreads::start(&shared, &requests)?;
        let signals = background.signals();
        let sequencer = Sequencer::new(Arc::clone(&shared), log, signals, memory_bytes);
        background.run_sequencer(sequencer, waiting)?;
        let inner = Inner {
            requests,
            shared,
            _background: background,
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// Closes the store if this is the last handle: writes the memory to the tables, so that the
    /// next start is quick. Nothing is lost without it.
    pub async fn close(self) {
        let closed = tokio::task::spawn_blocking(move || drop(self)).await;
        if let Err(error) = closed {
            tracing::error!(%error, "store close failed");
        }
    }

    /// Disk usage and counters of the store.
    pub fn statistics(&self) -> Statistics {
        let shared = &self.inner.shared;
        Statistics {
            log_bytes: shared.catalog.bytes(),
            table_bytes: shared.table.disk_bytes(),
            syncs: shared.syncs.load(Ordering::Relaxed),
            floor: shared.floor(),
            swept: shared.swept(),
        }
    }

    /// Sends a request to the sequencer and waits for its answer.
    async fn request<T>(
        &self,
        request: impl FnOnce(oneshot::Sender<Result<T>>) -> Request,
    ) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        let closed = |_| Error::Unavailable("the store was closed".to_owned());
        let sent = self.inner.requests.send(request(reply)).await;
        sent.map_err(closed)?;
        let stopped = |_| Error::Indeterminate("the store stopped before it answered".to_owned());
        answer.await.map_err(stopped)?
    }
}

/// Disk usage and counters of an embedded store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statistics {
    /// The size of the log files.
    pub log_bytes: u64,
    /// The size of the tables.
    pub table_bytes: u64,
    /// The number of log syncs since the store was opened.
    pub syncs: u64,
    /// The oldest revision that can be read.
    pub floor: Revision,
    /// The revision up to which compacted versions have been removed.
    pub swept: Revision,
}

/// Replays the log into the table.
fn replay(folder: &Folder, table: &Table, marks: &mut Marks, segment_bytes: u64) -> Result<Log> {
    let known = TableState {
        applied: marks.applied,
        floor: marks.floor.max(FIRST),
    };
    log::recover(&folder.log(), segment_bytes, known, |item| match item {
        Item::Record(record) => {
            table.apply(&record);
            marks.applied = record.revision;
        }
        Item::Floor(floor) => {
            marks.floor = marks.floor.max(floor);
            table.set_floor(marks.floor);
        }
    })
}

#[async_trait]
impl Store for Embedded {
    async fn revision(&self) -> Result<Revision> {
        Ok(self.inner.shared.head())
    }

    async fn range(&self, range: &KeyRange, at: At, limit: Option<NonZeroUsize>) -> Result<Page> {
        let shared = &self.inner.shared;
        if let (At::Latest, Some(key)) = (at, range.as_single()) {
            return shared.latest_of(key);
        }
        let (reader, range) = (Arc::clone(shared), range.clone());
        let read = move || reader.page(&range, at, limit);
        shared.page_readers.run(read).await
    }

    async fn commit(&self, transaction: Transaction) -> Result<Outcome> {
        transaction.validate()?;
        let shared = &self.inner.shared;
        let mut growth = None;
        loop {
            let request = |reply| Request::Commit {
                transaction: transaction.clone(),
                growth,
                reply,
            };
            let decided = self.request(request).await;
            match decided.inspect_err(|error| shared.disk_room.count_refusal(error))? {
                // Read here: the sequencer never waits for a table on disk.
                Decision::GrowthNeeded => growth = Some(Growth::of(&transaction, &shared.table)?),
                decided => {
                    if let Some(outcome) = shared.complete_conflict(decided)? {
                        return Ok(outcome);
                    }
                }
            }
        }
    }

    fn disk_space(&self) -> Option<DiskSpace> {
        self.inner.shared.disk_room.report()
    }

    async fn watch(&self, range: KeyRange, after: Revision) -> Result<Box<dyn Watch>> {
        let subscription = Subscription::new(&self.inner.shared, range, after)?;
        Ok(Box::new(subscription))
    }

    async fn compact(&self, floor: Revision) -> Result<()> {
        self.request(|reply| Request::Compact { floor, reply })
            .await
    }
}

impl Shared {
    fn head(&self) -> Revision {
        Revision::new(self.head.load(Ordering::Acquire))
    }

    fn applying(&self) -> Revision {
        Revision::new(self.applying.load(Ordering::Acquire))
    }

    fn floor(&self) -> Revision {
        Revision::new(self.floor.load(Ordering::Acquire))
    }

    fn swept(&self) -> Revision {
        Revision::new(self.swept.load(Ordering::Acquire))
    }

    /// Checks that the history from `revision` on is kept.
    fn check_floor(&self, revision: Revision) -> Result<()> {
        let floor = self.floor();
        if revision < floor {
            return Err(Error::Compacted { floor });
        }
        Ok(())
    }

    /// Completes the outcome with the conflicting entry. `None` if that version was replaced and
    /// removed meanwhile; the commit is then retried.
    fn complete_conflict(&self, decided: Decision) -> Result<Option<Outcome>> {
        let (check, key, head, revision) = match decided {
            Decision::Outcome(outcome) => return Ok(Some(outcome)),
            Decision::GrowthNeeded => return Ok(None),
            Decision::Conflict {
                check,
                key,
                head,
                revision,
            } => (check, key, head, revision),
        };
        let found = self.table.found(&key, head)?;
        Ok(found.map(|found| {
            Outcome::Conflict(Conflict {
                check,
                found: Some(found),
                revision,
            })
        }))
    }

    fn page(&self, range: &KeyRange, at: At, limit: Option<NonZeroUsize>) -> Result<Page> {
        loop {
            let current = self.head();
            let revision = match at {
                At::Latest => current,
                At::Revision(revision) if revision > current => {
                    return Err(Error::Future { current });
                }
                At::Revision(revision) => revision,
            };
            let read = self.table.range(range, revision, limit);
            // Checked last, because versions below the floor are being removed.
            match (self.check_floor(revision), at) {
                (Err(_), At::Latest) => continue,
                (reached, _) => reached?,
            }
            let mut entries = read?;
            let more = limit.is_some_and(|limit| entries.len() > limit.get());
            if let Some(limit) = limit {
                entries.truncate(limit.get());
            }
            return Ok(Page {
                entries,
                revision,
                more,
            });
        }
    }

    /// Returns the current entry of one key, without a scan if it is not being changed.
    fn latest_of(&self, key: &Key) -> Result<Page> {
        let revision = self.head();
        let head = self.table.head(key);
        let entries = match head {
            // Checked last: a deletion after `revision` would show here.
            None if self.applying() == revision => vec![],
            Some(head) if head.modified <= revision => {
                self.table.version(key, head)?.into_iter().collect()
            }
            // Applied, but not delivered to all watchers yet.
            _ => return self.page(&KeyRange::single(key.clone()), At::Latest, None),
        };
        if head.is_some() && entries.is_empty() {
            // Replaced and removed between the two reads.
            return self.page(&KeyRange::single(key.clone()), At::Latest, None);
        }
        Ok(Page {
            entries,
            revision,
            more: false,
        })
    }
}

//! The default engine: one folder on one machine, nothing else to install.
//!
//! ```text
//! commit ─▶ sequencer ─▶ log (one sync for all that wait) ─▶ table ─▶ watchers ─▶ answer
//! range ──▶ table, as of a revision
//! watch ──▶ feed, from the log where the watcher is behind
//! ```
//!
//! One thread, the `sequencer`, decides the order of everything. It takes whatever
//! waits, checks it, writes it to the `log` as one frame with one sync, and only then
//! applies it to the `table`, tells the watchers and answers. So nothing that is not
//! durable is ever acknowledged, read or watched. The table is an LSM tree that brings no
//! log of its own; the `keeper` writes it to disk and removes old history behind the
//! writers' backs.

mod feed;
mod folder;
mod keeper;
mod log;
mod sequencer;
mod table;

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use insula_core::Revision;
use tokio::sync::{mpsc, oneshot};

use crate::{At, Conflict, Error, Key, KeyRange, Outcome, Page, Result, Store, Transaction, Watch};
use feed::{Feed, Subscription};
use folder::Folder;
use keeper::Keeper;
use log::{Catalog, Item, Known, Log};
use sequencer::{Decided, Request, Sequencer};
use table::{Marks, Table};

/// What an empty store begins with: as in etcd, revision 1 is the empty state.
const FIRST: Revision = Revision::new(1);

/// How an embedded store uses memory and disk.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The size of a log file. Two of them are there at any time.
    pub segment_bytes: u64,
    /// How much the table gathers in memory before it is written to disk.
    pub memory_bytes: u64,
    /// How much of the tables is cached in memory.
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
    /// Ends the threads when the last handle is gone.
    _keeper: Keeper,
}

/// What the threads and the callers share.
struct Shared {
    table: Table,
    catalog: Arc<Catalog>,
    feed: Feed,
    /// Durable, applied, and told to watchers up to here.
    head: AtomicU64,
    /// Being applied up to here: past the head while the table is changed.
    applying: AtomicU64,
    floor: AtomicU64,
    swept: AtomicU64,
    syncs: AtomicU64,
    /// Held until the last thread is done.
    _folder: Folder,
}

impl Embedded {
    /// Opens the store in `folder`, or makes one there. After a crash, everything that
    /// was acknowledged is there.
    pub async fn open(folder: impl AsRef<Path>, options: Options) -> Result<Self> {
        let folder = folder.as_ref().to_path_buf();
        let open = tokio::task::spawn_blocking(move || Self::open_blocking(&folder, options));
        let stopped = |error| Error::Unavailable(format!("opening the store failed: {error}"));
        open.await.map_err(stopped)?
    }

    fn open_blocking(path: &Path, options: Options) -> Result<Self> {
        let segment_bytes = options.segment_bytes.max(log::MIN_SEGMENT_BYTES);
        let folder = Folder::take(path)?;
        let is_old = folder.holds_store()?;
        let (table, marks) = Table::open(&folder.tables(), options.cache_bytes)?;
        let mut marks = Marks {
            applied: marks.applied.max(FIRST),
            swept: marks.swept.max(FIRST),
            ..marks
        };
        let log = if is_old {
            replay(&folder, &table, &mut marks, segment_bytes)?
        } else {
            let log = Log::create(&folder.log(), segment_bytes)?;
            folder.complete()?;
            log
        };
        Self::start(folder, table, log, marks, options)
    }

    fn start(
        folder: Folder,
        table: Table,
        log: Log,
        marks: Marks,
        options: Options,
    ) -> Result<Self> {
        let shared = Arc::new(Shared {
            table,
            catalog: Arc::clone(log.catalog()),
            feed: Feed::new(marks.applied),
            head: AtomicU64::new(marks.applied.get()),
            applying: AtomicU64::new(marks.applied.get()),
            floor: AtomicU64::new(marks.floor.get()),
            swept: AtomicU64::new(marks.swept.get()),
            syncs: AtomicU64::new(0),
            _folder: folder,
        });
        let (requests, waiting) = mpsc::channel(sequencer::MAX_WAITING);
        let keeper = Keeper::start(&shared, &requests)?;
        let bells = keeper.bells();
        let sequencer = Sequencer::new(Arc::clone(&shared), log, bells, options.memory_bytes);
        keeper.run_sequencer(sequencer, waiting)?;
        let inner = Inner {
            requests,
            shared,
            _keeper: keeper,
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// Closes the store, if this is the last handle to it: writes what is in memory to
    /// the tables, so that the next opening is quick. Nothing is lost without it.
    pub async fn close(self) {
        let closed = tokio::task::spawn_blocking(move || drop(self)).await;
        if let Err(error) = closed {
            tracing::error!(%error, "closing the store failed");
        }
    }

    /// What the store takes on disk, and what it has done.
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
    async fn ask<T>(
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

/// What an embedded store takes and does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statistics {
    /// The size of the log files.
    pub log_bytes: u64,
    /// The size of the tables.
    pub table_bytes: u64,
    /// How many syncs of the log there were since it was opened.
    pub syncs: u64,
    /// The oldest revision that can be read.
    pub floor: Revision,
    /// How far what only older revisions would show has been removed.
    pub swept: Revision,
}

/// Brings the table up to the end of the log.
fn replay(folder: &Folder, table: &Table, marks: &mut Marks, segment_bytes: u64) -> Result<Log> {
    let known = Known {
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
        let (shared, range) = (Arc::clone(shared), range.clone());
        let read = tokio::task::spawn_blocking(move || shared.page(&range, at, limit));
        let stopped = |error| Error::Unavailable(format!("a read was stopped: {error}"));
        read.await.map_err(stopped)?
    }

    async fn commit(&self, transaction: Transaction) -> Result<Outcome> {
        transaction.admit()?;
        loop {
            let transaction = transaction.clone();
            let ask = |reply| Request::Commit { transaction, reply };
            let decided = self.ask(ask).await?;
            if let Some(outcome) = self.inner.shared.explain(decided)? {
                return Ok(outcome);
            }
        }
    }

    async fn watch(&self, range: KeyRange, after: Revision) -> Result<Box<dyn Watch>> {
        let subscription = Subscription::new(&self.inner.shared, range, after)?;
        Ok(Box::new(subscription))
    }

    async fn compact(&self, floor: Revision) -> Result<()> {
        self.ask(|reply| Request::Compact { floor, reply }).await
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

    /// History from `revision` on is kept.
    fn reach(&self, revision: Revision) -> Result<()> {
        let floor = self.floor();
        if revision < floor {
            return Err(Error::Compacted { floor });
        }
        Ok(())
    }

    /// The outcome as the caller sees it: with what stood in the way, if something did.
    /// `None` if that has been replaced and forgotten meanwhile; then it is asked again.
    fn explain(&self, decided: Decided) -> Result<Option<Outcome>> {
        let (check, key, head, revision) = match decided {
            Decided::Outcome(outcome) => return Ok(Some(outcome)),
            Decided::Conflict {
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
            // The floor is looked at last: versions below it are being removed.
            match (self.reach(revision), at) {
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

    /// The current entry of one key, without a scan if nobody is changing it.
    fn latest_of(&self, key: &Key) -> Result<Page> {
        let revision = self.head();
        let head = self.table.head(key);
        let entries = match head {
            // Looked at last: if the key was deleted after `revision`, this shows it.
            None if self.applying() == revision => vec![],
            Some(head) if head.modified <= revision => {
                self.table.version(key, head)?.into_iter().collect()
            }
            // Applied, but not everybody has been told yet.
            _ => return self.page(&KeyRange::single(key.clone()), At::Latest, None),
        };
        if head.is_some() && entries.is_empty() {
            // Replaced and swept between the two reads.
            return self.page(&KeyRange::single(key.clone()), At::Latest, None);
        }
        Ok(Page {
            entries,
            revision,
            more: false,
        })
    }
}

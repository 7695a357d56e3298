//! Delivers durable changes to watchers.
//!
//! A change is delivered only to the watchers of its key, found by one lookup in an ordered map.
//! Each watcher has a short queue. A watcher that falls behind loses its queue but not its
//! position: it reads the log until it has caught up, at no cost to other watchers.

mod routes;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use insula_core::Revision;
use tokio::sync::Notify;

use super::Shared;
use super::log::{Cursor, Record};
use crate::{Changed, Error, KeyRange, Result, Watch, WatchItem};
use routes::Routes;

/// The number of queued transactions above which a watcher reads from the log instead.
const MAX_QUEUED: usize = 512;
/// The number of queued bytes above which it does.
const MAX_QUEUED_BYTES: usize = 4 << 20;
/// How much is read from the log at once.
const READ_BYTES: usize = 256 << 10;

/// All watchers of a store.
pub(super) struct Feed {
    state: Mutex<State>,
}

struct State {
    /// The revision up to which all changes are in the queues.
    head: Revision,
    routes: Routes,
    closed: bool,
}

/// A watcher as the feed sees it.
#[derive(Debug)]
struct Subscriber {
    queue: Mutex<Queue>,
    wake: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    told: VecDeque<Told>,
    bytes: usize,
    /// Set on overflow: changes after this revision are not in the queue.
    lost_after: Option<Revision>,
    closed: bool,
}

/// The changes of one transaction in a watcher's range.
#[derive(Clone, Debug)]
struct Told {
    revision: Revision,
    changes: Vec<Changed>,
}

impl Feed {
    pub fn new(head: Revision) -> Self {
        let state = State {
            head,
            routes: Routes::new(),
            closed: false,
        };
        Self {
            state: Mutex::new(state),
        }
    }

    /// Delivers durable changes, and advances the readers' head.
    ///
    /// The head first: a watcher that receives a change can read it. Under the lock: a reader of a
    /// change that then requests progress gets at least its revision.
    pub fn publish(&self, records: &[Record], head: &AtomicU64) {
        let Some(last) = records.last() else { return };
        let mut state = self.lock();
        head.store(last.revision.get(), Ordering::Release);
        for record in records {
            state.hand_out(record);
            state.head = record.revision;
        }
    }

    /// Ends all watches.
    pub fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        for subscriber in state.routes.everybody() {
            subscriber.queue().closed = true;
            subscriber.wake.notify_one();
        }
    }

    /// Every critical section leaves the state consistent.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn hand_out(&self, record: &Record) {
        let revision = record.revision;
        if let [change] = &record.changes[..] {
            for subscriber in self.routes.of(&change.key) {
                let changes = vec![change.told(revision)];
                subscriber.put(Told { revision, changes });
            }
            return;
        }
        let mut parts: Vec<(&Arc<Subscriber>, Vec<Changed>)> = Vec::new();
        for change in &record.changes {
            for subscriber in self.routes.of(&change.key) {
                let told = change.told(revision);
                let same = |(other, _): &&mut (&Arc<Subscriber>, _)| Arc::ptr_eq(other, subscriber);
                match parts.iter_mut().find(same) {
                    Some((_, changes)) => changes.push(told),
                    None => parts.push((subscriber, vec![told])),
                }
            }
        }
        for (subscriber, changes) in parts {
            subscriber.put(Told { revision, changes });
        }
    }
}

impl Told {
    /// Keys are small compared with values and are not counted.
    fn bytes(&self) -> usize {
        let value = |change: &Changed| match change {
            Changed::Put(entry) => entry.value.len(),
            Changed::Deleted(_) => 0,
        };
        self.changes.iter().map(value).sum()
    }
}

impl Queue {
    fn take(&mut self) -> Option<Told> {
        let told = self.told.pop_front()?;
        self.bytes -= told.bytes();
        Some(told)
    }
}

impl Subscriber {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, told: Told) {
        let mut queue = self.queue();
        if queue.lost_after.is_some() {
            return;
        }
        if queue.told.len() >= MAX_QUEUED || queue.bytes >= MAX_QUEUED_BYTES {
            // The watcher has received everything before the oldest queued change, however long ago
            // that was.
            let oldest = queue.told.front().unwrap_or(&told).revision;
            queue.lost_after = Some(oldest.previous());
            queue.told = VecDeque::new();
            queue.bytes = 0;
        } else {
            queue.bytes += told.bytes();
            queue.told.push_back(told);
        }
        drop(queue);
        self.wake.notify_one();
    }
}

/// A watcher as its owner sees it.
pub(super) struct Subscription {
    shared: Arc<Shared>,
    subscriber: Arc<Subscriber>,
    range: KeyRange,
    /// The last revision that was delivered or passed.
    told: Revision,
    /// History that is read from the log before the queue.
    behind: Option<Behind>,
    progress_asked: bool,
}

/// The part of the log that a watcher has to read.
struct Behind {
    /// Taken during a read; created again if the read was cancelled.
    cursor: Option<Cursor>,
    after: Revision,
    through: Revision,
    ready: VecDeque<Told>,
}

impl Subscription {
    pub fn new(shared: &Arc<Shared>, range: KeyRange, after: Revision) -> Result<Self> {
        let subscriber = Arc::new(Subscriber {
            queue: Mutex::default(),
            wake: Notify::new(),
        });
        let mut state = shared.feed.lock();
        if state.closed {
            return Err(closed());
        }
        state.routes.add(&range, &subscriber);
        let head = state.head;
        drop(state);
        let subscription = Self {
            shared: Arc::clone(shared),
            subscriber,
            range,
            told: after,
            behind: (after < head).then(|| Behind::new(after, head)),
            progress_asked: false,
        };
        // Checked last: from here on no needed change can be missed.
        shared.reach(after)?;
        Ok(subscription)
    }

    /// Returns the next change from the log; reads more if none is buffered.
    async fn catch_up(&mut self) -> Result<Option<Told>> {
        let Some(behind) = &mut self.behind else {
            return Ok(None);
        };
        if let Some(told) = behind.ready.pop_front() {
            return Ok(Some(told));
        }
        if behind.after >= behind.through {
            self.told = self.told.max(behind.through);
            self.behind = None;
            return Ok(None);
        }
        self.shared.reach(behind.after)?;
        let (shared, range) = (Arc::clone(&self.shared), self.range.clone());
        let (after, through) = (behind.after, behind.through);
        let cursor = behind.cursor.take();
        let read =
            tokio::task::spawn_blocking(move || read(&shared, cursor, after, through, &range));
        let stopped = |error| Error::Unavailable(format!("reading history failed: {error}"));
        let (cursor, ready) = read.await.map_err(stopped)??;
        behind.after = cursor.after();
        behind.cursor = Some(cursor);
        behind.ready = ready;
        Ok(behind.ready.pop_front())
    }

    /// Returns the next queued change. After an overflow the queue is reopened at the current head,
    /// and the lost part is read from the log.
    fn poll(&mut self) -> Polled {
        if let Some(told) = self.subscriber.queue().take() {
            return Polled::Told(told);
        }
        let state = self.shared.feed.lock();
        let mut queue = self.subscriber.queue();
        if let Some(told) = queue.take() {
            return Polled::Told(told);
        }
        if queue.closed {
            return Polled::Closed;
        }
        if let Some(after) = queue.lost_after.take() {
            self.behind = Some(Behind::new(self.told.max(after), state.head));
            return Polled::Behind;
        }
        if std::mem::take(&mut self.progress_asked) {
            return Polled::Progress(state.head);
        }
        Polled::Nothing
    }
}

enum Polled {
    Told(Told),
    Behind,
    Progress(Revision),
    Nothing,
    Closed,
}

impl Behind {
    const fn new(after: Revision, through: Revision) -> Self {
        Self {
            cursor: None,
            after,
            through,
            ready: VecDeque::new(),
        }
    }
}

#[async_trait]
impl Watch for Subscription {
    async fn next(&mut self) -> Result<WatchItem> {
        loop {
            let told = match self.catch_up().await? {
                Some(told) => told,
                None if self.behind.is_some() => continue,
                None => match self.poll() {
                    Polled::Told(told) => told,
                    Polled::Behind => continue,
                    Polled::Progress(revision) => return Ok(WatchItem::Progress(revision)),
                    Polled::Closed => return Err(closed()),
                    Polled::Nothing => {
                        // Also returns for a notification since the queue was checked.
                        self.subscriber.wake.notified().await;
                        continue;
                    }
                },
            };
            if told.revision > self.told {
                self.told = told.revision;
                return Ok(WatchItem::Changes {
                    revision: told.revision,
                    changes: told.changes,
                });
            }
        }
    }

    async fn request_progress(&mut self) -> Result<()> {
        self.progress_asked = true;
        Ok(())
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut state = self.shared.feed.lock();
        state.routes.remove(&self.range, &self.subscriber);
    }
}

/// Reads the next part of the history within the range.
fn read(
    shared: &Shared,
    cursor: Option<Cursor>,
    after: Revision,
    through: Revision,
    range: &KeyRange,
) -> Result<(Cursor, VecDeque<Told>)> {
    // The log has nothing before the first revision.
    let after = after.max(super::FIRST);
    let mut cursor = cursor.unwrap_or_else(|| Cursor::new(&shared.catalog, after));
    let Some(records) = cursor.read(through, READ_BYTES)? else {
        let floor = shared.floor();
        return Err(Error::Compacted { floor });
    };
    let ready = records.into_iter().filter_map(|record| {
        let inside = |change: &&super::log::Logged| range.contains(&change.key);
        let revision = record.revision;
        let changes = record.changes.iter().filter(inside);
        let changes: Vec<_> = changes.map(|change| change.told(revision)).collect();
        (!changes.is_empty()).then_some(Told { revision, changes })
    });
    Ok((cursor, ready.collect()))
}

fn closed() -> Error {
    Error::Unavailable("the store was closed".to_owned())
}

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
    deliveries: VecDeque<Delivery>,
    bytes: usize,
    /// Set on overflow: changes after this revision are not in the queue.
    lost_after: Option<Revision>,
    closed: bool,
}

/// The changes of one transaction in a watcher's range.
#[derive(Clone, Debug)]
struct Delivery {
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
            state.deliver(record);
            state.head = record.revision;
        }
    }

    /// Ends all watches.
    pub fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        for subscriber in state.routes.all() {
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
    fn deliver(&self, record: &Record) {
        let revision = record.revision;
        if let [change] = &record.changes[..] {
            for subscriber in self.routes.of(&change.key) {
                let changes = vec![change.to_changed(revision)];
                subscriber.put(Delivery { revision, changes });
            }
            return;
        }
        let mut parts: Vec<(&Arc<Subscriber>, Vec<Changed>)> = Vec::new();
        for change in &record.changes {
            for subscriber in self.routes.of(&change.key) {
                let changed = change.to_changed(revision);
                let same = |(other, _): &&mut (&Arc<Subscriber>, _)| Arc::ptr_eq(other, subscriber);
                match parts.iter_mut().find(same) {
                    Some((_, changes)) => changes.push(changed),
                    None => parts.push((subscriber, vec![changed])),
                }
            }
        }
        for (subscriber, changes) in parts {
            subscriber.put(Delivery { revision, changes });
        }
    }
}

impl Delivery {
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
    fn take(&mut self) -> Option<Delivery> {
        let delivery = self.deliveries.pop_front()?;
        self.bytes -= delivery.bytes();
        Some(delivery)
    }
}

impl Subscriber {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, delivery: Delivery) {
        let mut queue = self.queue();
        if queue.lost_after.is_some() {
            return;
        }
        if queue.deliveries.len() >= MAX_QUEUED || queue.bytes >= MAX_QUEUED_BYTES {
            // The watcher has received everything before the oldest queued change, however long ago
            // that was.
            let oldest = queue.deliveries.front().unwrap_or(&delivery).revision;
            queue.lost_after = Some(oldest.previous());
            queue.deliveries = VecDeque::new();
            queue.bytes = 0;
        } else {
            queue.bytes += delivery.bytes();
            queue.deliveries.push_back(delivery);
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
    delivered: Revision,
    /// History that is read from the log before the queue.
    behind: Option<CatchUp>,
    progress_requested: bool,
}

/// The part of the log that a watcher has to read.
struct CatchUp {
    /// Taken during a read; created again if the read was cancelled.
    cursor: Option<Cursor>,
    after: Revision,
    through: Revision,
    ready: VecDeque<Delivery>,
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
            delivered: after,
            behind: (after < head).then(|| CatchUp::new(after, head)),
            progress_requested: false,
        };
        // Checked last: from here on no needed change can be missed.
        shared.check_floor(after)?;
        Ok(subscription)
    }

    /// Returns the next change from the log; reads more if none is buffered.
    async fn catch_up(&mut self) -> Result<Option<Delivery>> {
        let Some(behind) = &mut self.behind else {
            return Ok(None);
        };
        if let Some(delivery) = behind.ready.pop_front() {
            return Ok(Some(delivery));
        }
        if behind.after >= behind.through {
            self.delivered = self.delivered.max(behind.through);
            self.behind = None;
            return Ok(None);
        }
        self.shared.check_floor(behind.after)?;
        let (shared, range) = (Arc::clone(&self.shared), self.range.clone());
        let (after, through) = (behind.after, behind.through);
        let cursor = behind.cursor.take();
        let read = move || read(&shared, cursor, after, through, &range);
        let (cursor, ready) = self.shared.history_readers.run(read).await?;
        behind.after = cursor.after();
        behind.cursor = Some(cursor);
        behind.ready = ready;
        Ok(behind.ready.pop_front())
    }

    /// Returns the next queued change. After an overflow the queue is reopened at the current head,
    /// and the lost part is read from the log.
    fn poll(&mut self) -> Polled {
        if let Some(delivery) = self.subscriber.queue().take() {
            return Polled::Delivery(delivery);
        }
        let state = self.shared.feed.lock();
        let mut queue = self.subscriber.queue();
        if let Some(delivery) = queue.take() {
            return Polled::Delivery(delivery);
        }
        if queue.closed {
            return Polled::Closed;
        }
        if let Some(after) = queue.lost_after.take() {
            self.behind = Some(CatchUp::new(self.delivered.max(after), state.head));
            return Polled::CatchUp;
        }
        if std::mem::take(&mut self.progress_requested) {
            return Polled::Progress(state.head);
        }
        Polled::Nothing
    }
}

enum Polled {
    Delivery(Delivery),
    CatchUp,
    Progress(Revision),
    Nothing,
    Closed,
}

impl CatchUp {
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
            let delivery = match self.catch_up().await? {
                Some(delivery) => delivery,
                None if self.behind.is_some() => continue,
                None => match self.poll() {
                    Polled::Delivery(delivery) => delivery,
                    Polled::CatchUp => continue,
                    Polled::Progress(revision) => return Ok(WatchItem::Progress(revision)),
                    Polled::Closed => return Err(closed()),
                    Polled::Nothing => {
                        // Also returns for a notification since the queue was checked.
                        self.subscriber.wake.notified().await;
                        continue;
                    }
                },
            };
            if delivery.revision > self.delivered {
                self.delivered = delivery.revision;
                return Ok(WatchItem::Changes {
                    revision: delivery.revision,
                    changes: delivery.changes,
                });
            }
        }
    }

    async fn request_progress(&mut self) -> Result<()> {
        self.progress_requested = true;
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
) -> Result<(Cursor, VecDeque<Delivery>)> {
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
        let changes: Vec<_> = changes.map(|change| change.to_changed(revision)).collect();
        (!changes.is_empty()).then_some(Delivery { revision, changes })
    });
    Ok((cursor, ready.collect()))
}

fn closed() -> Error {
    Error::Unavailable("the store was closed".to_owned())
}

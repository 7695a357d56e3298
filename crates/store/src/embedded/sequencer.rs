//! The thread that orders all writes.
//!
//! It takes waiting requests as one group ([`Groups`]): checks each transaction against the state that the
//! ones before it produce, writes the group to the log with one sync, and only then applies it,
//! notifies watchers and answers. While it syncs, the next group accumulates: no timer determines
//! the size of a group.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use insula_core::Revision;
use tokio::sync::{mpsc, oneshot};

use super::Shared;
use super::background::Signals;
use super::disk_room::{Growth, Sizes, WriteDecision};
use super::groups::Groups;
use super::log::{FrameBuilder, Log, Logged, Record};
use super::table::Head;
use crate::{Change, Check, Conflict, Error, Expect, Key, Outcome, Result, Transaction};

/// The capacity of the request channel; senders wait when it is full.
pub(super) const MAX_WAITING: usize = 4096;
/// A group is closed when its frame has this many bytes. With one more transaction of the largest
/// size it still fits into the smallest segment.
const GROUP_BYTES: usize = 256 << 10;
/// How long a measurement of the room on the disk is valid: other programs use it too.
const MEASURE_INTERVAL: Duration = Duration::from_secs(1);
/// The number of sealed memories at which writers wait for the disk.
const MAX_SEALED: usize = 4;

/// A request to the sequencer.
pub(super) enum Request {
    Commit {
        transaction: Transaction,
        /// Known once room is low.
        growth: Option<Growth>,
        reply: oneshot::Sender<Result<Decision>>,
    },
    Compact {
        floor: Revision,
        reply: oneshot::Sender<Result<()>>,
    },
    /// Seal the memory, so that old log segments can be removed.
    Seal,
    /// No handle to the store is left.
    Close,
}

/// The decision about a transaction.
pub(super) enum Decision {
    Outcome(Outcome),
    /// Room is low: the caller must say how much more the transaction needs.
    GrowthNeeded,
    /// A check failed. The caller reads the conflicting entry: the sequencer never waits for a
    /// table on disk.
    Conflict {
        check: usize,
        key: Key,
        head: Head,
        revision: Revision,
    },
}

pub(super) struct Sequencer {
    shared: Arc<Shared>,
    log: Log,
    signals: Signals,
    memory_bytes: u64,
    frame: FrameBuilder,
    group: Group,
    measured: Instant,
    /// How many bytes may be logged before the room on the disk is measured again.
    unmeasured: u64,
}

/// The effects of one frame.
#[derive(Default)]
struct Group {
    records: Vec<Record>,
    floor: Option<Revision>,
    /// The heads of changed keys after the group.
    staged: HashMap<Key, Option<Head>>,
    commits: Vec<(oneshot::Sender<Result<Decision>>, Result<Decision>)>,
    compactions: Vec<(oneshot::Sender<Result<()>>, Result<()>)>,
    seal: bool,
    close: bool,
}

impl Sequencer {
    pub fn new(shared: Arc<Shared>, log: Log, signals: Signals, memory_bytes: u64) -> Self {
        Self {
            shared,
            log,
            signals,
            memory_bytes,
            frame: FrameBuilder::default(),
            group: Group::default(),
            measured: Instant::now(),
            unmeasured: 0,
        }
    }

    /// Runs until the store is closed.
    pub fn run(mut self, waiting: mpsc::Receiver<Request>) {
        let mut waiting = Groups::new(waiting);
        while let Some(request) = waiting.begin() {
            let room = self.await_room();
            self.measure_space();
            self.frame.clear();
            self.take(request, &room);
            while self.frame.len() < GROUP_BYTES
                && let Some(request) = waiting.add()
            {
                self.take(request, &room);
            }
            let (seal, close) = (self.group.seal, self.group.close);
            self.finish();
            if seal || close || self.shared.table.memory_bytes() >= self.memory_bytes {
                self.seal();
            }
            if close {
                break;
            }
        }
    }

    /// Measures the room on the disk if it is low, was measured long ago, or may have been used up
    /// since. Other writes pay nothing.
    fn measure_space(&mut self) {
        let was_low = self.shared.disk_room.is_low();
        if was_low || self.unmeasured == 0 || self.measured.elapsed() >= MEASURE_INTERVAL {
            let sizes = Sizes::of(&self.shared.table);
            self.unmeasured = self.shared.disk_room.measure(sizes);
            self.measured = Instant::now();
            if !was_low && self.shared.disk_room.is_low() {
                self.signals.clean();
            }
        }
    }

    /// Waits while too many memories are sealed. If the disk is full or fails, returns the error
    /// instead.
    fn await_room(&self) -> Result<()> {
        while self.shared.table.sealed() >= MAX_SEALED {
            self.signals.await_flush()?;
        }
        Ok(())
    }

    /// Adds a request to the group.
    fn take(&mut self, request: Request, room: &Result<()>) {
        match request {
            Request::Commit {
                transaction,
                growth,
                reply,
            } => {
                let room = room.clone();
                let answer = room.and_then(|()| self.stage(&transaction, growth));
                self.group.commits.push((reply, answer));
            }
            Request::Compact { floor, reply } => {
                let answer = self.stage_floor(floor);
                self.group.compactions.push((reply, answer));
            }
            Request::Seal => self.group.seal = true,
            Request::Close => self.group.close = true,
        }
    }

    /// The revision after the group so far.
    fn head(&self) -> Revision {
        let last = self.group.records.last();
        last.map_or_else(|| self.shared.head(), |record| record.revision)
    }

    fn stage(&mut self, transaction: &Transaction, growth: Option<Growth>) -> Result<Decision> {
        for (check, Check { key, expect }) in transaction.checks().iter().enumerate() {
            let head = self.current(key);
            let holds = match expect {
                Expect::Absent => head.is_none(),
                Expect::At(revision) => head.is_some_and(|head| head.modified == *revision),
            };
            if !holds {
                return Ok(conflict(check, key, head, self.head()));
            }
        }
        let revision = self.head().next();
        let changes = transaction.changes().iter();
        let mut changes: Vec<Logged> = changes
            .filter_map(|change| logged(change, self.current(change.key()), revision))
            .collect();
        if changes.is_empty() {
            return Ok(Decision::Outcome(Outcome::Unchanged(self.head())));
        }
        if self.shared.disk_room.check(transaction, growth)? == WriteDecision::GrowthNeeded {
            return Ok(Decision::GrowthNeeded);
        }
        changes.sort_by(|a, b| a.key.cmp(&b.key));
        let record = Record { revision, changes };
        self.frame.record(&record);
        for change in &record.changes {
            let head = change.value.is_some().then_some(Head {
                modified: revision,
                created: change.created,
            });
            self.group.staged.insert(change.key.clone(), head);
        }
        self.group.records.push(record);
        Ok(Decision::Outcome(Outcome::Committed(revision)))
    }

    /// The key's head after the group so far.
    fn current(&self, key: &Key) -> Option<Head> {
        let staged = self.group.staged.get(key);
        staged.map_or_else(|| self.shared.table.head(key), |staged| *staged)
    }

    fn stage_floor(&mut self, floor: Revision) -> Result<()> {
        let current = self.head();
        if floor > current {
            return Err(Error::Future { current });
        }
        if floor > self.group.floor.unwrap_or(self.shared.floor()) {
            self.frame.floor(floor);
            self.group.floor = Some(floor);
        }
        Ok(())
    }

    /// Makes the group durable, then visible, then answers.
    fn finish(&mut self) {
        let group = std::mem::take(&mut self.group);
        if !self.frame.is_empty() {
            let first = self.shared.head().next();
            self.unmeasured = self.unmeasured.saturating_sub(self.frame.len() as u64);
            if let Err(error) = self.log.append(&mut self.frame, first) {
                return group.fail(&error);
            }
            self.shared.syncs.store(self.log.syncs(), Ordering::Relaxed);
        }
        if let Some(last) = group.records.last() {
            let applying = &self.shared.applying;
            applying.store(last.revision.get(), Ordering::Release);
        }
        for record in &group.records {
            self.shared.table.apply(record);
        }
        self.shared.feed.publish(&group.records, &self.shared.head);
        if let Some(floor) = group.floor {
            self.shared.table.set_floor(floor);
            self.shared.floor.store(floor.get(), Ordering::Release);
            self.signals.clean();
        }
        group.answer();
    }

    fn seal(&self) {
        // Read before sealing: the cleaner runs concurrently, and its later removals are not in the
        // sealed memory. The log must be kept for them.
        let marks = super::table::Marks {
            applied: self.shared.head(),
            floor: self.shared.floor(),
            swept: self.shared.swept(),
        };
        self.shared.table.seal(marks.applied);
        self.signals.flush(marks);
    }
}

impl Drop for Sequencer {
    fn drop(&mut self) {
        self.shared.feed.close();
    }
}

impl Group {
    /// A caller that no longer waits is not an error: its transaction happened.
    fn answer(self) {
        for (reply, answer) in self.commits {
            reply.send(answer).ok();
        }
        for (reply, answer) in self.compactions {
            reply.send(answer).ok();
        }
    }

    /// No effect of the group is known to have happened, so answers that assumed it are void too.
    fn fail(mut self, error: &Error) {
        let indeterminate = matches!(error, Error::Indeterminate(_));
        let unaffected = match error {
            Error::Indeterminate(reason) => Error::Unavailable(reason.clone()),
            other => other.clone(),
        };
        for (_, answer) in &mut self.commits {
            let committed = matches!(answer, Ok(Decision::Outcome(Outcome::Committed(_))));
            if answer.is_ok() {
                let error = if committed && indeterminate {
                    error
                } else {
                    &unaffected
                };
                *answer = Err(error.clone());
            }
        }
        for (_, answer) in &mut self.compactions {
            if answer.is_ok() {
                *answer = Err(error.clone());
            }
        }
        self.answer();
    }
}

fn conflict(check: usize, key: &Key, head: Option<Head>, revision: Revision) -> Decision {
    match head {
        Some(head) => Decision::Conflict {
            check,
            key: key.clone(),
            head,
            revision,
        },
        None => Decision::Outcome(Outcome::Conflict(Conflict {
            check,
            found: None,
            revision,
        })),
    }
}

/// The change as it is logged; `None` if it has no effect.
fn logged(change: &Change, before: Option<Head>, revision: Revision) -> Option<Logged> {
    let previous = before.map_or(Revision::ZERO, |head| head.modified);
    match change {
        Change::Put { key, value } => Some(Logged {
            key: key.clone(),
            value: Some(value.clone()),
            created: before.map_or(revision, |head| head.created),
            previous,
        }),
        Change::Delete { key } => before.map(|_| Logged {
            key: key.clone(),
            value: None,
            created: Revision::ZERO,
            previous,
        }),
    }
}

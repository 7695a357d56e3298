//! The background threads.
//!
//! | thread | task |
//! |---|---|
//! | sequencer | orders and logs writes |
//! | flush | writes sealed memory to tables, then removes unneeded log segments |
//! | clean | removes compacted versions, merges tables |

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use insula_core::Revision;
use tokio::sync::mpsc;

use super::Shared;
use super::disk_room::Sizes;
use super::log::Cursor;
use super::sequencer::{Request, Sequencer};
use super::table::Marks;
use crate::{Error, Result};

/// The delay before a failed flush is retried.
const FLUSH_RETRY_DELAY: Duration = Duration::from_millis(500);
/// How much history is swept before other work is checked.
const SWEEP_BYTES: usize = 256 << 10;
/// All tables are merged when more than this many tenths of their rows are removed versions. An
/// overwritten key leaves three rows behind each time: the version, its removal, and an old head.
/// So at most one third can be reached.
const MERGE_THRESHOLD_TENTHS: usize = 3;
/// Tables smaller than this are not merged for their space, unless room is low.
const MIN_MERGE_BYTES: u64 = 8 << 20;
/// How often the cleaner looks for room while it is low.
const RECLAIM_INTERVAL: Duration = Duration::from_secs(1);
/// While room is low, merges take at most one part in this many of the time.
const RECLAIM_SHARE: u32 = 10;

/// Owns the background threads; dropping it stops them, in order.
pub(super) struct BackgroundThreads {
    state: Arc<State>,
    requests: mpsc::Sender<Request>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Default)]
struct State {
    work: Mutex<Work>,
    changed: Condvar,
    closing: AtomicBool,
}

#[derive(Default)]
struct Work {
    /// Marks of the sealed memories to be flushed, oldest first.
    sealed: VecDeque<Marks>,
    /// The error of the last flush, until one succeeds.
    flush_error: Option<Error>,
    /// Removals up to here are in the tables on disk.
    swept: Revision,
    clean: bool,
    /// The sequencer has ended: no more memory will be sealed.
    sequencer_done: bool,
}

/// Held by the sequencer thread: tells the others when it ends, even by a panic.
struct SequencerGuard(Arc<State>);

impl Drop for SequencerGuard {
    fn drop(&mut self) {
        self.0.lock().sequencer_done = true;
        self.0.changed.notify_all();
    }
}

/// Held by the flush thread: reports a panic to the writers, so that they do not wait for it.
struct FlushGuard(Arc<State>);

impl Drop for FlushGuard {
    fn drop(&mut self) {
        if thread::panicking() {
            let reason = "the thread that writes tables has stopped; open the store again";
            self.0.lock().flush_error = Some(Error::Unavailable(reason.to_owned()));
            self.0.changed.notify_all();
        }
    }
}

/// How the sequencer signals the other threads.
#[derive(Clone)]
pub(super) struct Signals(Arc<State>);

impl Signals {
    /// Signals that memory with these marks was sealed.
    pub fn flush(&self, marks: Marks) {
        self.0.lock().sealed.push_back(marks);
        self.0.changed.notify_all();
    }

    /// Signals that the floor has moved.
    pub fn clean(&self) {
        self.0.lock().clean = true;
        self.0.changed.notify_all();
    }

    /// Waits until a flush has ended; returns its error if it failed.
    pub fn await_flush(&self) -> Result<()> {
        let work = self.0.lock();
        if let Some(flush_error) = &work.flush_error {
            return Err(flush_error.clone());
        }
        let waited = self.0.changed.wait_timeout(work, FLUSH_RETRY_DELAY);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
        Ok(())
    }
}

impl State {
    /// Every critical section leaves the work consistent.
    fn lock(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, work: MutexGuard<'a, Work>) -> MutexGuard<'a, Work> {
        let waited = self.changed.wait(work);
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    fn closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }
}

impl BackgroundThreads {
    /// Starts the flush and clean threads.
    pub fn start(shared: &Arc<Shared>, requests: &mpsc::Sender<Request>) -> Result<Self> {
        let background = Self {
            state: Arc::new(State {
                // What the tables say when they are opened is in the tables.
                work: Mutex::new(Work {
                    swept: shared.swept(),
                    ..Work::default()
                }),
                ..State::default()
            }),
            requests: requests.clone(),
            threads: Mutex::default(),
        };
        let flusher = Flusher {
            shared: Arc::clone(shared),
            state: Arc::clone(&background.state),
        };
        let guard = FlushGuard(Arc::clone(&background.state));
        background.spawn("insula-flush", move || {
            flusher.run();
            drop(guard);
        })?;
        let cleaner = Cleaner {
            shared: Arc::clone(shared),
            state: Arc::clone(&background.state),
            requests: requests.clone(),
            removed: 0,
            merged: false,
            next_reclaim: Instant::now(),
        };
        background.spawn("insula-clean", move || cleaner.run())?;
        background.signals().clean();
        Ok(background)
    }

    pub fn signals(&self) -> Signals {
        Signals(Arc::clone(&self.state))
    }

    pub fn run_sequencer(
        &self,
        sequencer: Sequencer,
        waiting: mpsc::Receiver<Request>,
    ) -> Result<()> {
        let sequencer_done = SequencerGuard(Arc::clone(&self.state));
        self.spawn("insula-store", move || {
            sequencer.run(waiting);
            drop(sequencer_done);
        })
    }

    fn spawn(&self, name: &str, run: impl FnOnce() + Send + 'static) -> Result<()> {
        let thread = thread::Builder::new().name(name.to_owned()).spawn(run);
        let failed = |error| Error::Unavailable(format!("cannot start a thread: {error}"));
        let thread = thread.map_err(failed)?;
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.push(thread);
        Ok(())
    }
}

impl Drop for BackgroundThreads {
    fn drop(&mut self) {
        self.state.closing.store(true, Ordering::Relaxed);
        // No caller is left: requests that still wait come before this one. A sequencer that has
        // already ended need not be told.
        let mut close = Request::Close;
        while let Err(mpsc::error::TrySendError::Full(back)) = self.requests.try_send(close) {
            close = back;
            thread::yield_now();
        }
        // Under the lock, so that no thread is between its check and its wait.
        drop(self.state.lock());
        self.state.changed.notify_all();
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        for thread in threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("store thread panicked");
            }
        }
    }
}

/// Writes sealed memory to tables.
struct Flusher {
    shared: Arc<Shared>,
    state: Arc<State>,
}

impl Flusher {
    fn run(self) {
        loop {
            let mut work = self.state.lock();
            while work.sealed.is_empty() {
                if work.sequencer_done {
                    return;
                }
                work = self.state.wait(work);
            }
            drop(work);
            let flushed = self.shared.table.flush();
            let mut work = self.state.lock();
            match flushed {
                Ok(()) => {
                    work.flush_error = None;
                    let done = work.sealed.pop_front();
                    work.clean = true;
                    work.swept = done.map_or(work.swept, |done| done.swept);
                    self.state.changed.notify_all();
                    drop(work);
                    if let Some(done) = done {
                        self.shared.catalog.trim(done.applied.min(done.swept));
                    }
                }
                Err(error) => {
                    if work.flush_error.is_none() {
                        tracing::error!(%error, "table flush failed");
                    }
                    work.flush_error = Some(error);
                    self.state.changed.notify_all();
                    if work.sequencer_done {
                        // The log has everything; the next start replays it.
                        return;
                    }
                    let waited = self.state.changed.wait_timeout(work, FLUSH_RETRY_DELAY);
                    drop(waited.unwrap_or_else(PoisonError::into_inner));
                }
            }
        }
    }
}

/// Removes compacted versions and merges tables.
struct Cleaner {
    shared: Arc<Shared>,
    state: Arc<State>,
    requests: mpsc::Sender<Request>,
    /// Rows removed since all tables were merged.
    removed: usize,
    /// Whether all tables were merged since the store was opened: before that, they may contain
    /// rows that were removed earlier.
    merged: bool,
    /// When tables may be merged again for lack of room.
    next_reclaim: Instant,
}

impl Cleaner {
    fn run(mut self) {
        loop {
            self.await_work();
            if self.state.closing() {
                return;
            }
            if let Err(error) = self.sweep().and_then(|()| self.merge()) {
                tracing::error!(%error, "table cleanup failed");
            }
            if self.shared.disk_room.is_low() {
                self.shared.disk_room.measure(Sizes::of(&self.shared.table));
            }
        }
    }

    /// Waits for a signal; while room is low, not for long: what is removed then is to be merged
    /// although nothing is written.
    fn await_work(&self) {
        let mut work = self.state.lock();
        while !work.clean && !self.state.closing() {
            if self.shared.disk_room.is_low() {
                let waited = self.state.changed.wait_timeout(work, RECLAIM_INTERVAL);
                work = waited.unwrap_or_else(PoisonError::into_inner).0;
                break;
            }
            work = self.state.wait(work);
        }
        work.clean = false;
    }

    fn sweep(&mut self) -> Result<()> {
        let floor = self.shared.floor();
        let mut cursor = Cursor::new(&self.shared.catalog, self.shared.swept());
        if cursor.after() >= floor {
            return Ok(());
        }
        while cursor.after() < floor && !self.state.closing() {
            let Some(records) = cursor.read(floor, SWEEP_BYTES)? else {
                break;
            };
            if records.is_empty() {
                break;
            }
            self.removed += records
                .iter()
                .map(|record| self.shared.table.sweep(record))
                .sum::<usize>();
            let swept = cursor.after();
            self.shared.table.set_swept(swept);
            self.shared.swept.store(swept.get(), Ordering::Release);
        }
        // A full channel is fine: with so many requests, memory will soon be sealed anyway.
        self.requests.try_send(Request::Seal).ok();
        Ok(())
    }

    fn merge(&mut self) -> Result<()> {
        let table = &self.shared.table;
        table.merge()?;
        // Removals that are only in memory cannot be merged yet.
        if self.state.lock().swept < self.shared.swept() {
            return Ok(());
        }
        let wasted = self.removed * 10 > table.rows() * MERGE_THRESHOLD_TENTHS;
        let reclaims = self.shared.disk_room.is_low()
            && (self.removed > 0 || !self.merged)
            && self.next_reclaim <= Instant::now();
        if reclaims || (wasted && table.disk_bytes() > MIN_MERGE_BYTES) {
            let begun = Instant::now();
            let merged = table.merge_all();
            self.next_reclaim = Instant::now() + begun.elapsed() * RECLAIM_SHARE;
            merged?;
            self.removed = 0;
            self.merged = true;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writers_do_not_wait_for_a_panicked_flusher() {
        let state = Arc::<State>::default();
        let guard = FlushGuard(Arc::clone(&state));
        let flusher = thread::spawn(move || {
            let _flushing = guard;
            panic!("on purpose")
        });
        assert!(flusher.join().is_err(), "it has panicked");
        let result = Signals(state).await_flush();
        assert!(matches!(result, Err(Error::Unavailable(_))), "{result:?}");
    }
}

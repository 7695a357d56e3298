//! The sink of audit events: one thread writes them, and requests wait while it is behind.

#[cfg(test)]
mod tests;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};

use super::file::{LogFile, Rotation};

/// The audit log.
///
/// Lines gather while the thread writes those before them, and go out together in one
/// write. There is no timer.
#[derive(Debug)]
pub struct Sink {
    shared: Arc<Shared>,
    /// Closed when the thread ends, which holds the other end.
    ended: watch::Receiver<()>,
    /// The file that lines are appended to, if it is one that can be read.
    file: Option<PathBuf>,
}

/// The counters of the audit log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events that were written.
    pub written: u64,
    /// Events that were lost.
    pub lost: u64,
    /// Failed writes.
    pub errors: u64,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// Notifies the thread of new lines or of the end.
    filled: Condvar,
    /// Notifies requests that there is room again.
    drained: Notify,
    written: AtomicU64,
    lost: AtomicU64,
    errors: AtomicU64,
}

#[derive(Debug, Default)]
struct Queue {
    lines: Vec<u8>,
    /// The bytes of lines that are about to be queued.
    reserved: usize,
    /// The bytes of lines that wait for room.
    waiting: usize,
    closed: bool,
}

/// Room for a line that is about to be queued.
pub struct Room<'a> {
    shared: &'a Shared,
    bytes: usize,
}

/// A line that waits for room.
struct Waiting<'a> {
    shared: &'a Shared,
    bytes: usize,
}

/// The queued bytes above which requests wait: some 5,000 events, which take little memory,
/// and a working disk at most a second.
const MAX_QUEUED_BYTES: usize = 4 << 20;

/// The most bytes of large lines that wait for room: some of the largest.
const MAX_WAITING_BYTES: usize = 32 << 20;

/// The memory that an idle queue keeps.
const MAX_IDLE_CAPACITY: usize = 64 << 10;

impl Sink {
    /// Appends to a file, which is created with access for its owner only.
    pub fn to_file(path: &Path, rotation: Rotation) -> io::Result<Self> {
        let mut sink = Self::to(LogFile::open(path, rotation)?)?;
        sink.file = path.is_file().then(|| path.to_owned());
        Ok(sink)
    }

    /// Appends to a writer, which is flushed when the log is closed.
    pub fn to(out: impl Write + Send + 'static) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let (end, ended) = watch::channel(());
        let queue = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("insula-audit".to_owned());
        thread.spawn(move || {
            Writer::new(&queue, out).run();
            drop(end);
        })?;
        Ok(Self {
            shared,
            ended,
            file: None,
        })
    }

    /// Waits until there is room for more.
    pub async fn room(&self) {
        while !self.shared.has_room() {
            let mut drained = pin!(self.shared.drained.notified());
            // Checked again, because room may have appeared before the registration.
            drained.as_mut().enable();
            if !self.shared.has_room() {
                drained.await;
            }
        }
    }

    /// Waits until there is room, and keeps it for a large line. Returns `None` at once if the
    /// lines that wait already take too much memory.
    pub async fn reserve(&self, bytes: usize) -> Option<Room<'_>> {
        let mut waiting = None;
        loop {
            let mut drained = pin!(self.shared.drained.notified());
            drained.as_mut().enable();
            {
                let mut queue = self.shared.queue();
                if queue.has_room() {
                    queue.reserved += bytes;
                    let shared = &*self.shared;
                    return Some(Room { shared, bytes });
                }
                if waiting.is_none() && queue.waiting + bytes > MAX_WAITING_BYTES {
                    return None;
                }
                waiting.get_or_insert_with(|| {
                    queue.waiting += bytes;
                    let shared = &*self.shared;
                    Waiting { shared, bytes }
                });
            }
            drained.await;
        }
    }

    /// Whether a line can be queued without exceeding the limit by more than itself.
    pub fn has_room(&self) -> bool {
        self.shared.has_room()
    }

    /// Queues a line without waiting: requests wait for room at their start.
    pub fn push(&self, line: &[u8]) {
        let mut queue = self.shared.queue();
        if queue.closed {
            self.shared.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let idle = queue.lines.is_empty();
        queue.lines.extend_from_slice(line);
        drop(queue);
        if idle {
            self.shared.filled.notify_one();
        }
    }

    /// Closes the log and waits until all lines are written.
    pub async fn close(&self) {
        self.shared.close();
        // No value is ever sent: the channel closes when the thread ends.
        self.ended.clone().changed().await.ok();
    }

    /// Returns the file that lines are appended to, if it can be read.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Returns the counters.
    pub fn counts(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            written: read(&self.shared.written),
            lost: read(&self.shared.lost),
            errors: read(&self.shared.errors),
        }
    }
}

impl Drop for Sink {
    /// Closes the log. The thread still writes the queued lines.
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        let mut queue = self.shared.queue();
        queue.reserved = queue.reserved.saturating_sub(self.bytes);
        drop(queue);
        self.shared.drained.notify_waiters();
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut queue = self.shared.queue();
        queue.waiting = queue.waiting.saturating_sub(self.bytes);
    }
}

impl Queue {
    fn has_room(&self) -> bool {
        self.lines.len() + self.reserved < MAX_QUEUED_BYTES || self.closed
    }
}

impl Shared {
    /// The lock is never poisoned: no code panics while it holds the queue.
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_room(&self) -> bool {
        self.queue().has_room()
    }

    fn close(&self) {
        self.queue().closed = true;
        self.filled.notify_one();
        self.drained.notify_waiters();
    }

    /// Waits for lines and takes all of them. Returns `false` once the log is closed and empty.
    fn take(&self, batch: &mut Vec<u8>) -> bool {
        batch.clear();
        batch.shrink_to(MAX_IDLE_CAPACITY);
        let idle = |queue: &mut Queue| queue.lines.is_empty() && !queue.closed;
        let waited = self.filled.wait_while(self.queue(), idle);
        let mut queue = waited.unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(&mut queue.lines, batch);
        drop(queue);
        self.drained.notify_waiters();
        !batch.is_empty()
    }
}

/// The state of the writing thread.
struct Writer<'a, W> {
    shared: &'a Shared,
    out: W,
    /// Whether the last line was written only in part.
    torn: bool,
    failing: bool,
}

impl<'a, W: Write> Writer<'a, W> {
    const fn new(shared: &'a Shared, out: W) -> Self {
        Self {
            shared,
            out,
            torn: false,
            failing: false,
        }
    }

    fn run(mut self) {
        let mut batch = Vec::new();
        while self.shared.take(&mut batch) {
            let (written, failed) = self.append(&batch);
            let count = |lines: &[u8]| lines.iter().filter(|byte| **byte == b'\n').count() as u64;
            let (kept, lost) = (count(&batch[..written]), count(&batch[written..]));
            self.shared.written.fetch_add(kept, Ordering::Relaxed);
            self.shared.lost.fetch_add(lost, Ordering::Relaxed);
            self.log_result(failed.err());
        }
        if let Err(error) = self.out.flush() {
            tracing::debug!(%error, "audit log not flushed");
        }
    }

    /// Writes whole lines, and returns how many bytes were written before an error.
    fn append(&mut self, lines: &[u8]) -> (usize, io::Result<()>) {
        if self.torn {
            // End a partial line first.
            if let Err(error) = self.out.write_all(b"\n") {
                return (0, Err(error));
            }
            self.torn = false;
        }
        let mut written = 0;
        while written < lines.len() {
            match self.out.write(&lines[written..]) {
                Ok(0) => return (written, Err(io::ErrorKind::WriteZero.into())),
                Ok(more) => {
                    written += more;
                    self.torn = lines[written - 1] != b'\n';
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return (written, Err(error)),
            }
        }
        (written, Ok(()))
    }

    /// Logs the first failure and the recovery. The counters have the rest.
    fn log_result(&mut self, error: Option<io::Error>) {
        let failed_before = std::mem::replace(&mut self.failing, error.is_some());
        match error {
            Some(error) => {
                self.shared.errors.fetch_add(1, Ordering::Relaxed);
                if !failed_before {
                    tracing::error!(%error, "audit events lost");
                }
            }
            None if failed_before => {
                let lost = self.shared.lost.load(Ordering::Relaxed);
                tracing::warn!(lost, "audit log recovered");
            }
            None => {}
        }
    }
}

//! The sink of audit events: one thread writes them, and requests wait while it is behind.

use std::io::{self, Write};
use std::path::Path;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};

use super::file::LogFile;

/// The audit log.
///
/// Lines gather while the thread writes those before them, and go out together in one
/// write. There is no timer.
#[derive(Debug)]
pub struct Sink {
    shared: Arc<Shared>,
    /// Closed when the thread ends, which holds the other end.
    ended: watch::Receiver<()>,
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
    closed: bool,
}

/// The queued bytes above which requests wait: some 5,000 events, which take little memory,
/// and a working disk at most a second.
const MAX_QUEUED_BYTES: usize = 4 << 20;

/// The memory that an idle queue keeps.
const MAX_IDLE_CAPACITY: usize = 64 << 10;

impl Sink {
    /// Appends to a file, which is created with access for its owner only.
    pub fn to_file(path: &Path) -> io::Result<Self> {
        Self::to(LogFile::open(path)?)
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
        Ok(Self { shared, ended })
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

impl Shared {
    /// The lock is never poisoned: no code panics while it holds the queue.
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_room(&self) -> bool {
        let queue = self.queue();
        queue.lines.len() < MAX_QUEUED_BYTES || queue.closed
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

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// What a disk does with each write.
    type Steps = Vec<io::Result<usize>>;

    /// A disk that does what the test says.
    struct Disk {
        steps: VecDeque<io::Result<usize>>,
        written: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let most = self.steps.pop_front().unwrap_or(Ok(usize::MAX))?;
            let taken = &bytes[..most.min(bytes.len())];
            self.written.lock().unwrap().extend_from_slice(taken);
            Ok(taken.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn partial_line_damages_no_other_and_lost_events_are_counted() {
        let full = || Err(io::ErrorKind::StorageFull.into());
        let again = || Err(io::ErrorKind::Interrupted.into());
        let cases: [(Steps, &str, [u64; 3]); 6] = [
            (vec![], "one\ntwo\nthree\n", [3, 0, 0]),
            (vec![Ok(2), again(), Ok(1)], "one\ntwo\nthree\n", [3, 0, 0]),
            (vec![full()], "two\nthree\n", [2, 1, 1]),
            (vec![Ok(2), full()], "on\ntwo\nthree\n", [2, 1, 1]),
            // Not even the end of the torn line could be written.
            (vec![Ok(2), full(), full()], "on\nthree\n", [1, 2, 2]),
            (vec![Ok(0)], "two\nthree\n", [2, 1, 1]),
        ];
        for (steps, text, [written, lost, errors]) in cases {
            let kept = Arc::new(Mutex::new(Vec::new()));
            let sink = Sink::to(Disk {
                steps: steps.into(),
                written: Arc::clone(&kept),
            });
            let sink = sink.unwrap();
            for (nth, line) in (1..).zip(["one\n", "two\n", "three\n"]) {
                sink.push(line.as_bytes());
                until(|| sink.counts().written + sink.counts().lost == nth).await;
            }
            sink.close().await;
            assert_eq!(String::from_utf8_lossy(&kept.lock().unwrap()), text);
            let expected = Counts {
                written,
                lost,
                errors,
            };
            assert_eq!(sink.counts(), expected, "{text}");
        }
    }

    /// A disk that blocks until the test releases it.
    struct Slow {
        go: mpsc::Receiver<()>,
        written: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // Fast once the test drops its end.
            self.go.recv().ok();
            self.written.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn slow_disk_delays_requests_and_loses_no_events() {
        let (go, held) = mpsc::channel();
        let kept = Arc::new(Mutex::new(Vec::new()));
        let slow = Slow {
            go: held,
            written: Arc::clone(&kept),
        };
        let sink = Sink::to(slow).unwrap();
        let line = [vec![b'x'; 1023], b"\n".to_vec()].concat();
        let mut pushed: usize = 0;
        // Twice the room: what the thread holds, and what waits for it.
        while let Ok(()) = tokio::time::timeout(Duration::from_millis(50), sink.room()).await {
            sink.push(&line);
            pushed += 1;
            assert!(
                pushed <= 2 * MAX_QUEUED_BYTES / line.len() + 1,
                "it takes without end"
            );
        }
        assert!(pushed >= MAX_QUEUED_BYTES / line.len());
        // The event of a started request is kept nevertheless.
        sink.push(&line);
        go.send(()).unwrap();
        sink.room().await;
        drop(go);
        sink.close().await;
        assert_eq!(kept.lock().unwrap().len(), (pushed + 1) * line.len());
        assert_eq!(sink.counts().lost, 0);
        sink.push(&line);
        assert_eq!(sink.counts().lost, 1, "after the end it takes no more");
        sink.room().await;
    }

    async fn until(mut holds: impl FnMut() -> bool) {
        let waiting = async {
            while !holds() {
                tokio::task::yield_now().await;
            }
        };
        let limit = Duration::from_secs(20);
        tokio::time::timeout(limit, waiting).await.unwrap();
    }
}

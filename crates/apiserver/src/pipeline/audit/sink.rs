//! Where events go: one thread writes them, and requests wait while it is behind.

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
    /// Its other end is the thread's.
    ended: watch::Receiver<()>,
}

/// What became of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Those that were written.
    pub written: u64,
    /// Those that the log did not take.
    pub lost: u64,
    /// How often writing failed.
    pub errors: u64,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// There is something to write, or nothing any more.
    filled: Condvar,
    /// There is room again.
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

/// How much may wait to be written before requests wait too: some 5,000 events, which is
/// little memory and a second or more for any disk that works.
const MAX_QUEUED_BYTES: usize = 4 << 20;

/// How much memory the queue keeps when there is little to do.
const MAX_IDLE_CAPACITY: usize = 64 << 10;

impl Sink {
    /// Appends to a file, which is made for its owner only if it is not there.
    pub fn to_file(path: &Path) -> io::Result<Self> {
        Self::to(LogFile::open(path)?)
    }

    /// Appends to whatever takes bytes. It is flushed when the log is closed.
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
            // Looked at once more, as there may have been room since, and nobody said so.
            drained.as_mut().enable();
            if !self.shared.has_room() {
                drained.await;
            }
        }
    }

    /// Adds a line. It does not wait: whoever begins something has waited for room.
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

    /// Takes no more, and waits until everything is written.
    pub async fn close(&self) {
        self.shared.close();
        // Nothing is ever sent: it ends with the thread.
        self.ended.clone().changed().await.ok();
    }

    /// What became of events so far.
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
    /// The thread still writes what is there.
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl Shared {
    /// Nothing panics while it holds the queue.
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

    /// Waits for lines and takes all of them; whether there were any, or it is over.
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

/// What the thread has.
struct Writer<'a, W> {
    shared: &'a Shared,
    out: W,
    /// A line was begun and could not be ended.
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
            tracing::debug!(%error, "the audit log could not be flushed");
        }
    }

    /// Writes whole lines, and how much of them if it fails.
    fn append(&mut self, lines: &[u8]) -> (usize, io::Result<()>) {
        if self.torn {
            // What comes after half a line is a line of its own.
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

    /// Says when it begins to fail and when it works again; the counters say the rest.
    fn log_result(&mut self, error: Option<io::Error>) {
        let failed_before = std::mem::replace(&mut self.failing, error.is_some());
        match error {
            Some(error) => {
                self.shared.errors.fetch_add(1, Ordering::Relaxed);
                if !failed_before {
                    tracing::error!(%error, "the audit log cannot be written, events are lost");
                }
            }
            None if failed_before => {
                let lost = self.shared.lost.load(Ordering::Relaxed);
                tracing::warn!(lost, "the audit log is written again");
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
    async fn a_line_that_was_torn_spoils_no_other_and_what_is_lost_is_counted() {
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

    /// A disk that takes nothing until it is told to.
    struct Slow {
        go: mpsc::Receiver<()>,
        written: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // Once whoever held it back is gone, it is fast.
            self.go.recv().ok();
            self.written.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn while_the_disk_is_slow_there_is_no_room_and_nothing_is_lost() {
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
        // What was begun before is kept all the same.
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

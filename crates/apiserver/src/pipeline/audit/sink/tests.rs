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

#[tokio::test]
async fn lines_that_wait_for_room_are_bounded() {
    let (go, held) = mpsc::channel();
    let slow = Slow {
        go: held,
        written: Arc::default(),
    };
    let sink = Sink::to(slow).unwrap();
    // The thread holds the first, and the second fills the queue.
    sink.push(&vec![b'\n'; MAX_QUEUED_BYTES]);
    sink.room().await;
    sink.push(&vec![b'\n'; MAX_QUEUED_BYTES]);
    let half = MAX_WAITING_BYTES / 2;
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    {
        let mut first = pin!(sink.reserve(half));
        assert!(first.as_mut().poll(&mut context).is_pending());
        assert!(first.as_mut().poll(&mut context).is_pending());
        let mut second = pin!(sink.reserve(half));
        assert!(second.as_mut().poll(&mut context).is_pending());
        assert!(sink.reserve(1).await.is_none());
    }
    // Those that are cancelled count no more.
    let mut third = pin!(sink.reserve(half));
    assert!(third.as_mut().poll(&mut context).is_pending());
    drop(go);
    assert!(third.await.is_some());
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

//! Waiting with a deadline.

use std::thread;
use std::time::{Duration, Instant};

/// The deadline of every wait.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The poll interval.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Waits until a probe finds something.
#[track_caller]
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}: it takes too long");
        thread::sleep(POLL_INTERVAL);
    }
}

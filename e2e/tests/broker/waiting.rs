//! Waiting for what is going to be.

use std::thread;
use std::time::{Duration, Instant};

/// Longer than anything takes that is going to happen at all.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// Waits until a look finds something.
#[track_caller]
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}: it takes too long");
        thread::sleep(PAUSE);
    }
}

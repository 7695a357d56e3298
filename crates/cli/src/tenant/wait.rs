//! Waiting for the server.

use std::time::{Duration, Instant};

/// Polls with increasing intervals until a deadline.
pub struct Wait {
    deadline: Instant,
    pause: Duration,
    progress: Progress,
}

struct Progress {
    after: Instant,
    last: String,
}

/// The first and the maximum interval: responsive for fast operations, sparing for slow ones.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(50);
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The wait before progress is printed.
const PROGRESS_DELAY: Duration = Duration::from_secs(1);

impl Wait {
    /// Starts a wait.
    pub fn with_timeout(timeout: Duration) -> Self {
        let now = Instant::now();
        Self {
            deadline: now + timeout,
            pause: MIN_POLL_INTERVAL,
            progress: Progress {
                after: now + PROGRESS_DELAY,
                last: String::new(),
            },
        }
    }

    /// Sleeps, unless the deadline has passed. Prints progress if it changed.
    pub async fn pause(&mut self, waiting_for: &str) -> Result<(), TimedOut> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(TimedOut);
        }
        if Instant::now() >= self.progress.after && self.progress.last != waiting_for {
            waiting_for.clone_into(&mut self.progress.last);
            print_progress(waiting_for);
        }
        tokio::time::sleep(self.pause.min(left)).await;
        self.pause = (self.pause * 2).min(MAX_POLL_INTERVAL);
        Ok(())
    }
}

/// The deadline has passed.
pub struct TimedOut;

#[expect(clippy::print_stderr, reason = "progress for the user")]
fn print_progress(waiting_for: &str) {
    eprintln!("waiting for {waiting_for}");
}

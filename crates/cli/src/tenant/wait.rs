//! Waiting for the server.

use std::time::{Duration, Instant};

/// Polls with increasing intervals until a deadline.
pub struct Wait {
    deadline: Instant,
    pause: Duration,
    told: Told,
}

struct Told {
    after: Instant,
    last: String,
}

/// The first and the maximum interval: responsive for fast operations, sparing for slow ones.
const SHORTEST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(1);

/// The wait before progress is printed.
const QUIET: Duration = Duration::from_secs(1);

impl Wait {
    /// Starts a wait.
    pub fn at_most(timeout: Duration) -> Self {
        let now = Instant::now();
        Self {
            deadline: now + timeout,
            pause: SHORTEST,
            told: Told {
                after: now + QUIET,
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
        if Instant::now() >= self.told.after && self.told.last != waiting_for {
            waiting_for.clone_into(&mut self.told.last);
            say(waiting_for);
        }
        tokio::time::sleep(self.pause.min(left)).await;
        self.pause = (self.pause * 2).min(LONGEST);
        Ok(())
    }
}

/// The deadline has passed.
pub struct TimedOut;

#[expect(clippy::print_stderr, reason = "progress for the user")]
fn say(waiting_for: &str) {
    eprintln!("waiting for {waiting_for}");
}

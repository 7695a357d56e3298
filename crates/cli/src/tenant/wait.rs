//! Waiting for the server to get something done.

use std::time::{Duration, Instant};

/// Waits between looks, longer each time, until a deadline.
pub struct Wait {
    deadline: Instant,
    pause: Duration,
    told: Told,
}

struct Told {
    after: Instant,
    last: String,
}

/// The first pause, and the longest: soon enough for what is quick, seldom enough for what
/// is slow.
const SHORTEST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(1);

/// What takes longer than this is said to be under way.
const QUIET: Duration = Duration::from_secs(1);

impl Wait {
    /// Beginning now, for so long.
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

    /// Pauses; not when there is no time left. Says what is waited for, when that is new.
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

#[expect(clippy::print_stderr, reason = "progress, to whoever waits")]
fn say(waiting_for: &str) {
    eprintln!("waiting for {waiting_for}");
}

//! Freed memory goes back to the system when nothing is allocated any more.
//!
//! The allocator returns pages that were free for a second, but only at the next time that a page
//! is freed. After a burst, or after thousands of watches were closed, an idle server frees none.

use std::hint::black_box;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

/// How often the allocator is given the opportunity.
const INTERVAL: Duration = Duration::from_secs(3);

/// An allocation of this size has pages of its own, which are freed at once. They are never
/// written to, so they cost no memory.
const LARGE: usize = 2 << 20;

/// Lets the allocator return free memory, again and again.
pub async fn keep_returning() {
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        drop(black_box(Vec::<u8>::with_capacity(black_box(LARGE))));
    }
}

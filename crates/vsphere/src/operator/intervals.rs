//! Polling intervals.

use std::time::Duration;

/// How often states are polled that are not watched.
#[derive(Clone, Copy, Debug)]
pub struct Intervals {
    /// The progress of a vCenter task.
    pub tasks: Duration,
    /// The addresses of a virtual machine: before it is ready, and after.
    pub addresses: (Duration, Duration),
    /// How long after a failure the next attempt is made.
    pub retry: Duration,
    /// How long a clone with a lost response may take to appear in the inventory. Until then, a
    /// terminating VSphereVM without a virtual machine is kept.
    pub lost_clone: Duration,
}

impl Default for Intervals {
    fn default() -> Self {
        Self {
            tasks: Duration::from_secs(1),
            addresses: (Duration::from_secs(2), Duration::from_secs(10)),
            retry: Duration::from_secs(60),
            // A copy of a large template rarely takes longer.
            lost_clone: Duration::from_secs(600),
        }
    }
}

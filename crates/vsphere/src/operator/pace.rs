//! How often is looked at what nobody tells of.

use std::time::Duration;

/// How often is looked at what nobody tells of.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// How far a task of a vCenter is.
    pub tasks: Duration,
    /// Whether a virtual machine has an address: while it is young, and when it is not.
    pub addresses: (Duration, Duration),
    /// How long after something failed it is tried again.
    pub again: Duration,
    /// How long a clone whose answer was lost may take to be seen: before, a virtual machine
    /// that goes does not count as never made.
    pub lost: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            tasks: Duration::from_secs(1),
            addresses: (Duration::from_secs(2), Duration::from_secs(10)),
            again: Duration::from_secs(60),
            // The longest that a copy of a large template usually takes.
            lost: Duration::from_secs(600),
        }
    }
}

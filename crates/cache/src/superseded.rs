//! The bytes of a space's recent history: versions of objects that were replaced or deleted.
//!
//! The store keeps them for minutes, and no quota counts them.

use std::time::{Duration, Instant};

/// The length of a slot of the window.
const SLOT: Duration = Duration::from_secs(60);
/// The number of slots: together at least the five minutes that the store keeps history for.
const SLOTS: usize = 6;

/// A sliding sum of superseded bytes.
#[derive(Debug)]
pub(super) struct Superseded {
    slots: [u64; SLOTS],
    current: usize,
    /// When the current slot began.
    began: Instant,
}

impl Superseded {
    pub fn new(now: Instant) -> Self {
        Self {
            slots: [0; SLOTS],
            current: 0,
            began: now,
        }
    }

    /// Adds bytes that were superseded at this time.
    pub fn add(&mut self, bytes: u64, now: Instant) {
        self.advance(now);
        let slot = &mut self.slots[self.current];
        *slot = slot.saturating_add(bytes);
    }

    /// Returns the bytes that were superseded within the window.
    pub fn sum(&mut self, now: Instant) -> u64 {
        self.advance(now);
        let slots = self.slots.iter();
        slots.fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }

    fn advance(&mut self, now: Instant) {
        let elapsed = now.saturating_duration_since(self.began);
        let steps = elapsed.as_secs() / SLOT.as_secs();
        if steps >= SLOTS as u64 {
            *self = Self::new(now);
            return;
        }
        for _ in 0..steps {
            self.current = (self.current + 1) % SLOTS;
            self.slots[self.current] = 0;
            self.began += SLOT;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_count_for_five_to_six_minutes() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut superseded = Superseded::new(start);
        superseded.add(10, at(0));
        superseded.add(1, at(59));
        superseded.add(100, at(60));
        for (seconds, sum) in [(60, 111), (359, 111), (360, 100), (419, 100), (420, 0)] {
            assert_eq!(superseded.sum(at(seconds)), sum, "{seconds}");
        }
        superseded.add(u64::MAX, at(430));
        superseded.add(1, at(431));
        assert_eq!(superseded.sum(at(432)), u64::MAX);
        assert_eq!(superseded.sum(at(9_999)), 0);
    }
}

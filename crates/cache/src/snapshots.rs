//! Snapshots that are kept for the next pages of lists.
//!
//! The pages of a list show one revision. The snapshot of its first page is kept, so that the
//! pages that follow cost no more than a page, however much is written meanwhile. What a
//! snapshot keeps alive is bounded: of a list that is not kept any more, pages are read from
//! the store.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use insula_core::{Revision, Space};

/// The snapshots of one collection, or of one kind over all spaces.
#[derive(Debug)]
pub(crate) struct Snapshots<T> {
    kept: Vec<Kept<T>>,
}

#[derive(Debug)]
struct Kept<T> {
    /// The state is that of the revisions from this one on…
    from: Revision,
    /// …to the one before this; `None` while nothing has changed.
    until: Option<Revision>,
    state: T,
    charge: Charge,
    used: Instant,
}

/// The memory that snapshots keep alive and indexes take, of each space and of all.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    used: Mutex<Used>,
}

#[derive(Debug, Default)]
struct Used {
    spaces: HashMap<Space, usize>,
    sum: usize,
}

/// What one snapshot or index takes of the budget, until it is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    budget: Arc<Budget>,
    space: Space,
    bytes: usize,
}

/// The most snapshots of one collection.
pub(crate) const MAX_SNAPSHOTS: usize = 8;

/// How long a snapshot is kept that no list reads.
const MAX_IDLE: Duration = Duration::from_secs(60);

/// The most bytes for the snapshots and indexes of one space, and for those of all.
const MAX_SPACE_BYTES: usize = 64 << 20;
const MAX_BYTES: usize = 256 << 20;

/// What a snapshot takes by itself.
const BASE_BYTES: usize = 4 << 10;

/// The nodes that a change copies beside a snapshot.
pub(crate) const CHANGE_BYTES: usize = 1 << 10;

impl<T> Default for Snapshots<T> {
    fn default() -> Self {
        Self { kept: Vec::new() }
    }
}

impl<T: Clone> Snapshots<T> {
    /// Keeps the state from a revision on, until the next change if there was one already.
    pub fn keep(
        &mut self,
        from: Revision,
        until: Option<Revision>,
        state: &T,
        budget: &Arc<Budget>,
        space: &Space,
    ) {
        let now = Instant::now();
        self.drop_idle(now);
        if self.at(from).is_some() {
            return;
        }
        if self.kept.len() == MAX_SNAPSHOTS {
            let oldest = self.kept.iter().enumerate();
            let oldest = oldest.min_by_key(|(_, kept)| kept.used).map(|(at, _)| at);
            self.kept.remove(oldest.unwrap_or_default());
        }
        if let Some(charge) = Charge::new(budget, space) {
            self.kept.push(Kept {
                from,
                until,
                state: state.clone(),
                charge,
                used: now,
            });
        }
    }

    /// Returns the state as of a revision, if it is kept.
    pub fn at(&mut self, revision: Revision) -> Option<T> {
        let is_of = |kept: &&mut Kept<T>| {
            kept.from <= revision && kept.until.is_none_or(|until| revision < until)
        };
        let kept = self.kept.iter_mut().find(is_of)?;
        kept.used = Instant::now();
        Some(kept.state.clone())
    }

    /// Notes a change, after which the snapshots alone keep so many bytes alive.
    pub fn note_change(&mut self, revision: Revision, bytes: usize) {
        let now = Instant::now();
        self.kept.retain_mut(|kept| {
            kept.until.get_or_insert(revision);
            now.duration_since(kept.used) < MAX_IDLE && kept.charge.add(bytes)
        });
    }

    /// Drops the snapshots that no list has read for a while. Returns whether none is left.
    pub fn drop_idle(&mut self, now: Instant) -> bool {
        let is_used = |kept: &Kept<T>| now.saturating_duration_since(kept.used) < MAX_IDLE;
        self.kept.retain(is_used);
        self.kept.is_empty()
    }
}

impl Budget {
    fn used(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn release(&self, space: &Space, bytes: usize) {
        let mut used = self.used();
        used.sum -= bytes;
        if let Some(of_space) = used.spaces.get_mut(space) {
            *of_space -= bytes;
            if *of_space == 0 {
                used.spaces.remove(space);
            }
        }
    }

    /// The bytes that are charged.
    #[cfg(test)]
    pub fn sum(&self) -> usize {
        self.used().sum
    }
}

impl Charge {
    pub fn new(budget: &Arc<Budget>, space: &Space) -> Option<Self> {
        let mut charge = Self {
            budget: Arc::clone(budget),
            space: space.clone(),
            bytes: 0,
        };
        charge.add(BASE_BYTES).then_some(charge)
    }

    /// Charges so much instead of what was charged. Returns whether it is within the budget.
    pub fn set(&mut self, bytes: usize) -> bool {
        let released = std::mem::take(&mut self.bytes);
        self.budget.release(&self.space, released);
        self.add(bytes)
    }

    /// Charges more. Returns whether it is within the budget.
    fn add(&mut self, bytes: usize) -> bool {
        let mut used = self.budget.used();
        let of_space = used.spaces.entry(self.space.clone()).or_default();
        *of_space += bytes;
        let within = *of_space <= MAX_SPACE_BYTES;
        used.sum += bytes;
        self.bytes += bytes;
        within && used.sum <= MAX_BYTES
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.release(&self.space, self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(revision: u64) -> Revision {
        Revision::new(revision)
    }

    #[test]
    fn snapshot_is_the_state_until_the_next_change() {
        let (mut snapshots, budget) = (Snapshots::default(), Arc::default());
        snapshots.keep(at(5), None, &"five", &budget, &Space::System);
        snapshots.keep(at(5), None, &"five", &budget, &Space::System);
        snapshots.note_change(at(8), 10);
        snapshots.keep(at(8), None, &"eight", &budget, &Space::System);
        snapshots.note_change(at(9), 10);
        let found = [4, 5, 7, 8, 9].map(|revision| snapshots.at(at(revision)));
        assert_eq!(
            found,
            [None, Some("five"), Some("five"), Some("eight"), None]
        );
        assert_eq!(budget.sum(), 2 * BASE_BYTES + 30);
        drop(snapshots);
        assert_eq!(budget.sum(), 0);
    }

    #[test]
    fn least_recently_read_snapshot_makes_room() {
        let (mut snapshots, budget) = (Snapshots::default(), Arc::default());
        for revision in 1..=MAX_SNAPSHOTS as u64 {
            snapshots.keep(at(revision), None, &revision, &budget, &Space::System);
            snapshots.note_change(at(revision + 1), 1);
        }
        assert_eq!(snapshots.at(at(1)), Some(1));
        snapshots.keep(at(100), None, &100, &budget, &Space::System);
        assert_eq!(snapshots.at(at(1)), Some(1));
        assert_eq!(snapshots.at(at(2)), None);
        assert_eq!(snapshots.at(at(100)), Some(100));
    }

    #[test]
    fn snapshots_of_a_space_are_dropped_at_its_limit_and_others_kept() {
        let budget = Arc::default();
        let space = |name: &str| Space::parse(name).unwrap();
        let (mut large, mut other) = (Snapshots::default(), Snapshots::default());
        large.keep(at(1), None, &(), &budget, &space("t1"));
        other.keep(at(1), None, &(), &budget, &space("t2"));
        large.note_change(at(2), MAX_SPACE_BYTES / 2);
        other.note_change(at(2), MAX_SPACE_BYTES / 2);
        assert!(large.at(at(1)).is_some());
        large.note_change(at(3), MAX_SPACE_BYTES / 2);
        assert!(large.at(at(1)).is_none());
        assert!(other.at(at(1)).is_some());
        assert_eq!(budget.sum(), BASE_BYTES + MAX_SPACE_BYTES / 2);
    }

    #[test]
    fn unread_snapshot_is_dropped_after_a_while() {
        let (mut snapshots, budget) = (Snapshots::default(), Arc::default());
        snapshots.keep(at(1), None, &(), &budget, &Space::System);
        assert!(!snapshots.drop_idle(Instant::now()));
        assert!(snapshots.drop_idle(Instant::now() + MAX_IDLE));
        assert_eq!(budget.sum(), 0);
    }
}

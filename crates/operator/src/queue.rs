//! The objects to reconcile, and when. The queue does no work and reads no clock.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use insula_workqueue::{Priority, WorkQueue};
use tokio::time::Instant;

use crate::retry::{Outcome, Row};

/// An event that calls for reconciliation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// The object itself is new or has changed.
    Changed(Arc<str>),
    /// A part of the object has changed.
    Touched(Arc<str>),
    /// Any object may be affected.
    All,
}

/// The known objects, by name, and when each is reconciled next.
///
/// A changed object has high priority: many objects that wait for the same missing thing must
/// not delay the others. Changes of an object's parts wait while the object is held.
#[derive(Debug, Default)]
pub struct Queue {
    objects: WorkQueue<Arc<str>, Instant>,
    /// The history of each known object that was reconciled.
    histories: HashMap<Arc<str>, History>,
}

/// What determines the pace of one object.
#[derive(Debug, Default)]
struct History {
    row: Row,
    /// When the last hold after a repair ended, or ends.
    truce_until: Option<Instant>,
}

/// An object that needs no repair for this long after such a hold is no longer being undone.
const QUIET: Duration = Duration::from_secs(10);

impl Queue {
    /// Adds the objects that a trigger concerns.
    pub fn call(&mut self, trigger: Trigger, now: Instant) {
        match trigger {
            Trigger::Changed(name) => self.objects.add(name, Priority::High, now),
            // The owner of an unknown part does not exist, or will be reported as changed.
            Trigger::Touched(name) if !self.objects.contains(&name) => {}
            Trigger::Touched(name) => self.objects.add(name, Priority::Normal, now),
            Trigger::All => {
                let names: Vec<_> = self.objects.keys().cloned().collect();
                for name in names {
                    self.objects.add(name, Priority::Normal, now);
                }
            }
        }
    }

    /// Takes the next object that is due, which is being reconciled until [`Self::done`].
    pub fn take(&mut self, now: Instant) -> Option<Arc<str>> {
        self.objects.take(now)
    }

    /// Records the outcome of a reconciliation and schedules the next.
    pub fn done(&mut self, name: &Arc<str>, outcome: Outcome, now: Instant) {
        if !self.objects.contains(name) {
            return;
        }
        let added = self.objects.done(name);
        if outcome == Outcome::Gone && added != Some(Priority::High) {
            self.objects.remove(name);
            self.histories.remove(name);
            return;
        }
        if outcome != Outcome::Progressed {
            self.objects.set_priority(name, Priority::Normal);
        }
        let history = self.histories.entry(Arc::clone(name)).or_default();
        history.count(outcome, now);
        let next = outcome.next(history.row);
        let held_until = (!next.rests.is_zero()).then(|| now + next.rests);
        if outcome == Outcome::Repaired {
            history.truce_until = held_until;
        }
        if let Some(until) = held_until {
            self.objects.hold(name, until);
        }
        if let Some(pause) = next.after {
            self.objects.add_at(Arc::clone(name), now + pause);
        }
        if let Some(priority) = added {
            self.objects.add(Arc::clone(name), priority, now);
        }
    }

    /// How many times in a row the reconciliation of an object failed.
    pub fn failures(&self, name: &str) -> u32 {
        let history = self.histories.get(name);
        history.map_or(0, |history| history.row.failures)
    }

    /// When the next object is due.
    pub fn next(&self) -> Option<Instant> {
        self.objects.next_due()
    }

    /// The number of objects that are due.
    pub fn waiting(&self, now: Instant) -> usize {
        self.objects.due(now)
    }

    /// The number of known objects.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether no object is known.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }
}

impl History {
    /// Adds an outcome.
    fn count(&mut self, outcome: Outcome, now: Instant) {
        let quiet = self.truce_until.is_none_or(|until| now > until + QUIET);
        let row = &mut self.row;
        row.failures = match outcome {
            Outcome::Failed(_) => row.failures.saturating_add(1),
            _ => 0,
        };
        row.rounds = match outcome {
            Outcome::Settled(_) => 0,
            _ => row.rounds.saturating_add(1),
        };
        if quiet {
            row.repairs = 0;
        }
        if outcome == Outcome::Repaired {
            row.repairs = row.repairs.saturating_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retry::{Class, ROUNDS};

    const SECOND: Duration = Duration::from_secs(1);
    const HOUR: Duration = Duration::from_secs(3600);

    fn changed(name: &str) -> Trigger {
        Trigger::Changed(name.into())
    }

    fn touched(name: &str) -> Trigger {
        Trigger::Touched(name.into())
    }

    /// A queue in which `a` was worked on, and this became of it.
    fn after(outcome: Outcome, now: Instant) -> Queue {
        let mut queue = Queue::default();
        queue.call(changed("a"), now);
        let name = queue.take(now).unwrap();
        queue.done(&name, outcome, now);
        queue
    }

    #[test]
    fn an_object_is_worked_on_by_one_at_a_time_and_nothing_is_forgotten() {
        let now = Instant::now();
        let mut queue = Queue::default();
        queue.call(changed("a"), now);
        queue.call(changed("a"), now);
        let a = queue.take(now).unwrap();
        assert_eq!(queue.take(now), None);
        queue.call(touched("a"), now);
        assert_eq!(queue.take(now), None, "it is being worked on");
        queue.done(&a, Outcome::Waits(HOUR), now);
        assert_eq!(
            queue.take(now).as_deref(),
            Some("a"),
            "what happened meanwhile"
        );
        queue.done(&a, Outcome::Settled(HOUR), now);
        assert_eq!(queue.take(now), None);
        assert_eq!(queue.next(), Some(now + HOUR));
    }

    #[test]
    fn what_happens_to_parts_waits_out_a_rest_and_what_happens_to_the_object_does_not() {
        let now = Instant::now();
        let table = [
            (Outcome::Settled(HOUR), SECOND),
            (Outcome::Repaired, SECOND),
            (Outcome::Failed(Class::Blocked), SECOND),
            (Outcome::Failed(Class::Mistaken), SECOND),
            (Outcome::Failed(Class::Transient), SECOND / 5),
        ];
        for (outcome, pause) in table {
            let mut queue = after(outcome, now);
            queue.call(touched("a"), now);
            queue.call(Trigger::All, now);
            assert_eq!(queue.take(now), None, "{outcome:?}");
            assert_eq!(queue.next(), Some(now + pause), "{outcome:?}");
            queue.call(changed("a"), now);
            assert_eq!(queue.take(now).as_deref(), Some("a"), "{outcome:?}");
        }
        let mut queue = after(Outcome::Waits(SECOND), now);
        queue.call(touched("a"), now);
        assert_eq!(queue.take(now).as_deref(), Some("a"));
    }

    #[test]
    fn what_happens_during_work_that_failed_waits_too() {
        let now = Instant::now();
        let mut queue = Queue::default();
        queue.call(changed("a"), now);
        let a = queue.take(now).unwrap();
        queue.call(touched("a"), now);
        queue.done(&a, Outcome::Failed(Class::Blocked), now);
        assert_eq!(queue.next(), Some(now + SECOND));
    }

    #[test]
    fn pauses_grow_with_failures_in_a_row_and_one_success_ends_the_row() {
        let mut now = Instant::now();
        let mut queue = Queue::default();
        queue.call(changed("a"), now);
        for pause in [1, 2, 4, 8, 10, 10] {
            let a = queue.take(now).unwrap();
            queue.done(&a, Outcome::Failed(Class::Blocked), now);
            now += pause * SECOND;
            assert_eq!(queue.next(), Some(now));
        }
        let a = queue.take(now).unwrap();
        queue.done(&a, Outcome::Progressed, now);
        let a = queue.take(now).unwrap();
        queue.done(&a, Outcome::Failed(Class::Blocked), now);
        assert_eq!(queue.next(), Some(now + SECOND));
    }

    #[test]
    fn work_that_does_not_come_to_an_end_is_slowed_down() {
        let now = Instant::now();
        let mut queue = Queue::default();
        queue.call(changed("a"), now);
        for _ in 0..ROUNDS {
            let a = queue.take(now).unwrap();
            queue.done(&a, Outcome::Progressed, now);
        }
        let a = queue.take(now).unwrap();
        queue.call(touched("a"), now);
        queue.done(&a, Outcome::Progressed, now);
        assert_eq!(queue.next(), Some(now + SECOND));
        let a = queue.take(now + SECOND).unwrap();
        queue.done(&a, Outcome::Settled(HOUR), now);
        queue.call(changed("a"), now);
        let a = queue.take(now).unwrap();
        queue.done(&a, Outcome::Progressed, now);
        assert_eq!(queue.next(), Some(now));
    }

    #[test]
    fn whoever_undoes_what_we_do_is_followed_more_and_more_slowly_until_they_stop() {
        let mut now = Instant::now();
        let mut queue = Queue::default();
        queue.call(changed("a"), now);
        let repair = |queue: &mut Queue, now: Instant| {
            queue.call(touched("a"), now);
            let a = queue.take(now).unwrap();
            queue.done(&a, Outcome::Repaired, now);
            let truce = queue.next().unwrap() - now;
            // It is looked at after the truce, and is as it should be.
            let a = queue.take(now + truce).unwrap();
            queue.done(&a, Outcome::Settled(HOUR), now + truce);
            truce
        };
        let mut truces = Vec::new();
        for _ in 0..19 {
            let truce = repair(&mut queue, now);
            truces.push(truce.as_secs());
            now += truce + SECOND;
        }
        let mut expected = vec![1; 11];
        expected.extend([2, 4, 8, 16, 32, 60, 60, 60]);
        assert_eq!(truces, expected);
        now += QUIET;
        assert_eq!(repair(&mut queue, now), SECOND);
    }

    #[test]
    fn the_object_itself_does_not_wait_for_a_truce() {
        let now = Instant::now();
        let mut queue = after(Outcome::Repaired, now);
        queue.call(changed("a"), now);
        assert_eq!(queue.take(now).as_deref(), Some("a"));
    }

    #[test]
    fn a_mistake_waits_for_any_change() {
        let now = Instant::now();
        let mut queue = after(Outcome::Failed(Class::Mistaken), now);
        assert_eq!(queue.next(), None);
        queue.call(Trigger::All, now);
        assert_eq!(queue.take(now + SECOND).as_deref(), Some("a"));
    }

    #[test]
    fn an_object_that_is_gone_is_forgotten_unless_it_came_back_meanwhile() {
        let now = Instant::now();
        let mut queue = after(Outcome::Gone, now);
        assert!(queue.is_empty());
        queue.call(touched("a"), now);
        queue.call(Trigger::All, now);
        assert_eq!(queue.take(now), None, "parts do not bring it back");
        queue.call(changed("a"), now);
        let a = queue.take(now).unwrap();
        queue.call(changed("a"), now);
        queue.done(&a, Outcome::Gone, now);
        assert_eq!(queue.take(now).as_deref(), Some("a"));
        assert_eq!(queue.len(), 1);
    }

    #[test]
    fn what_changed_goes_first_and_the_others_have_a_share() {
        let now = Instant::now();
        let mut queue = Queue::default();
        for number in 0..8 {
            let name: Arc<str> = format!("other-{number}").into();
            queue.call(Trigger::Changed(Arc::clone(&name)), now);
            let taken = queue.take(now).unwrap();
            queue.done(&taken, Outcome::Waits(SECOND), now);
        }
        let now = now + SECOND;
        for number in 0..4 {
            queue.call(changed(&format!("new-{number}")), now);
        }
        // One of those that waited has changed too, and is due already.
        queue.call(changed("other-7"), now);
        assert_eq!(queue.waiting(now), 12);
        let order: Vec<_> = std::iter::from_fn(|| queue.take(now)).collect();
        let order: Vec<&str> = order.iter().map(|name| &**name).collect();
        assert_eq!(
            order,
            [
                "new-0", "new-1", "new-2", "other-0", "new-3", "other-7", "other-1", "other-2",
                "other-3", "other-4", "other-5", "other-6"
            ]
        );
        assert_eq!(queue.next(), None);
    }

    #[test]
    fn what_is_not_done_with_stays_in_front_and_what_is_tried_again_does_not() {
        let now = Instant::now();
        for (outcome, first) in [
            (Outcome::Progressed, "a"),
            (Outcome::Waits(Duration::ZERO), "b"),
        ] {
            let mut queue = Queue::default();
            for name in ["b", "a"] {
                queue.call(changed(name), now);
            }
            let b = queue.take(now).unwrap();
            let a = queue.take(now).unwrap();
            assert_eq!((&*a, &*b), ("b", "a"));
            queue.done(&a, Outcome::Waits(Duration::ZERO), now);
            queue.done(&b, outcome, now + SECOND);
            let later = now + 2 * SECOND;
            assert_eq!(queue.take(later).as_deref(), Some(first), "{outcome:?}");
        }
    }

    #[test]
    fn who_came_first_is_taken_first() {
        let now = Instant::now();
        let mut queue = Queue::default();
        for (name, at) in [("b", 1), ("a", 2), ("c", 0)] {
            queue.call(changed(name), now + at * SECOND);
        }
        assert_eq!(queue.waiting(now), 1);
        let later = now + HOUR;
        assert_eq!(queue.waiting(later), 3);
        let order: Vec<_> = std::iter::from_fn(|| queue.take(later)).collect();
        assert_eq!(
            order.iter().map(|name| &**name).collect::<Vec<_>>(),
            ["c", "b", "a"]
        );
    }
}

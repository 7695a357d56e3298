//! What is to be worked on, and when. It does no work and asks no clock.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use tokio::time::Instant;

use crate::retry::Outcome;

/// What calls for work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// The object itself is new or has changed.
    Changed(Arc<str>),
    /// Something that belongs to the object has happened.
    Touched(Arc<str>),
    /// Something may have happened to any object.
    All,
}

/// The objects that there are, by name, and when each is worked on next. An object is worked
/// on by one at a time: what happens meanwhile is remembered.
#[derive(Debug, Default)]
pub struct Queue {
    places: HashMap<Arc<str>, Place>,
    due: BTreeSet<(Instant, Arc<str>)>,
}

/// What is known of an object. It is all that is held for one, so it is small.
#[derive(Debug, Default)]
struct Place {
    due: Option<Instant>,
    working: bool,
    /// Something happened while it was worked on.
    again: Option<Again>,
    /// What happens to its parts waits until then.
    held_until: Option<Instant>,
    failures: u32,
    /// How often there was more to do since it was last as it should be.
    rounds: u32,
}

/// How often there may be more to do before somebody must be undoing it.
const ROUNDS: u32 = 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Again {
    Touched,
    Changed,
}

impl Queue {
    /// Something calls for work.
    pub fn call(&mut self, trigger: Trigger, now: Instant) {
        match trigger {
            Trigger::Changed(name) => self.one(name, Again::Changed, now),
            Trigger::Touched(name) if self.places.contains_key(&name) => {
                self.one(name, Again::Touched, now);
            }
            // Whoever it belonged to is not there, or will be told of.
            Trigger::Touched(_) => {}
            Trigger::All => {
                let names: Vec<_> = self.places.keys().cloned().collect();
                for name in names {
                    self.one(name, Again::Touched, now);
                }
            }
        }
    }

    /// The next object whose time has come; it is being worked on from now.
    pub fn take(&mut self, now: Instant) -> Option<Arc<str>> {
        let (at, _) = self.due.first()?;
        if *at > now {
            return None;
        }
        let (_, name) = self.due.pop_first()?;
        let place = self.places.entry(Arc::clone(&name)).or_default();
        place.due = None;
        place.working = true;
        Some(name)
    }

    /// An object was worked on, and this became of it.
    pub fn done(&mut self, name: &Arc<str>, outcome: Outcome, now: Instant) {
        let Some(place) = self.places.get_mut(name) else {
            return;
        };
        place.working = false;
        place.failures = match outcome {
            Outcome::Failed(_) => place.failures.saturating_add(1),
            _ => 0,
        };
        let outcome = place.temper(outcome);
        let again = place.again.take();
        if outcome == Outcome::Gone && again != Some(Again::Changed) {
            self.places.remove(name);
            return;
        }
        let next = outcome.next(place.failures);
        let at = next.after.map(|pause| now + pause);
        place.held_until = at.filter(|_| next.holds);
        if let Some(at) = at {
            self.set(name, at);
        }
        if let Some(again) = again {
            self.one(Arc::clone(name), again, now);
        }
    }

    /// How many times in a row the work on an object failed.
    pub fn failures(&self, name: &str) -> u32 {
        self.places.get(name).map_or(0, |place| place.failures)
    }

    /// When the next object is due.
    pub fn next(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// How many wait whose time has come.
    pub fn waiting(&self, now: Instant) -> usize {
        self.due.iter().take_while(|(at, _)| *at <= now).count()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    fn one(&mut self, name: Arc<str>, again: Again, now: Instant) {
        let place = self.places.entry(Arc::clone(&name)).or_default();
        if place.working {
            place.again = place.again.max(Some(again));
            return;
        }
        let at = match (again, place.held_until) {
            (Again::Touched, Some(until)) => until.max(now),
            _ => now,
        };
        self.set(&name, at);
    }

    /// Makes an object due then, unless it is due before.
    fn set(&mut self, name: &Arc<str>, at: Instant) {
        let place = self.places.entry(Arc::clone(name)).or_default();
        if let Some(due) = place.due {
            if due <= at {
                return;
            }
            self.due.remove(&(due, Arc::clone(name)));
        }
        place.due = Some(at);
        self.due.insert((at, Arc::clone(name)));
    }
}

impl Place {
    /// Work that does not come to an end is not done as fast as it can be.
    fn temper(&mut self, outcome: Outcome) -> Outcome {
        match outcome {
            Outcome::Settled(_) => self.rounds = 0,
            Outcome::Progressed => self.rounds = self.rounds.saturating_add(1),
            _ => {}
        }
        match outcome {
            Outcome::Progressed if self.rounds > ROUNDS => Outcome::Repaired,
            _ => outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::retry::Class;

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
        queue.done(&a, Outcome::Settled(HOUR), now);
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
    fn what_happens_to_parts_waits_out_a_failure_or_a_repair_and_the_object_does_not() {
        let now = Instant::now();
        let table = [
            (Outcome::Repaired, SECOND),
            (Outcome::Failed(Class::Blocked), SECOND),
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
        for outcome in [Outcome::Settled(HOUR), Outcome::Waits(SECOND)] {
            let mut queue = after(outcome, now);
            queue.call(touched("a"), now);
            assert_eq!(queue.take(now).as_deref(), Some("a"), "{outcome:?}");
        }
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
        queue.call(touched("a"), now);
        let a = queue.take(now).unwrap();
        queue.done(&a, Outcome::Progressed, now);
        assert_eq!(queue.next(), Some(now));
    }

    #[test]
    fn a_mistake_waits_for_any_change() {
        let now = Instant::now();
        let mut queue = after(Outcome::Failed(Class::Mistaken), now);
        assert_eq!(queue.next(), None);
        queue.call(Trigger::All, now);
        assert_eq!(queue.take(now).as_deref(), Some("a"));
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

//! A keyed work queue for controllers and operators, without I/O and without a clock.
//!
//! Like the work queue of client-go: a key is queued at most once, it is processed by at most
//! one worker at a time, and a key that is added while it is processed is remembered. Keys can
//! be due in the future, and a key can be held, so that additions with normal priority wait.
//!
//! The queue decides only what is processed next. How often a key is retried, and for how long
//! it is held, is the policy of its user, who also passes the time into every call.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

/// Keys, and when each is processed next. `T` is a point in time.
///
/// Of the keys that are due, those with high priority are taken first, so that many keys that
/// are only retried do not delay a key that was just changed. One in
/// [`NORMAL_SHARE`](Self::NORMAL_SHARE) is taken from the others all the same.
#[derive(Debug)]
pub struct WorkQueue<K, T> {
    entries: HashMap<K, Entry<T>>,
    high: BTreeSet<(T, K)>,
    normal: BTreeSet<(T, K)>,
    taken: usize,
}

/// The priority of an addition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// After keys with high priority, and not while the key is held.
    Normal,
    /// Before other keys, even while the key is held.
    High,
}

/// The state of one key.
#[derive(Debug)]
struct Entry<T> {
    due: Option<T>,
    priority: Priority,
    processing: bool,
    /// The priority of additions since processing began.
    added: Option<Priority>,
    /// Additions with normal priority wait until then.
    held_until: Option<T>,
}

impl<K: Clone + Eq + Hash + Ord, T: Copy + Ord> WorkQueue<K, T> {
    /// One in this many keys is taken from those with normal priority, if any is due.
    pub(crate) const NORMAL_SHARE: usize = 4;

    /// An empty queue.
    pub fn new() -> Self {
        Self {
            entries: HashMap::new(),
            high: BTreeSet::new(),
            normal: BTreeSet::new(),
            taken: 0,
        }
    }

    /// Makes a key due now, or when its hold ends. A key that is being processed is only
    /// remembered, for [`Self::done`] to report.
    pub fn add(&mut self, key: K, priority: Priority, now: T) {
        let entry = self.entries.entry(key.clone()).or_default();
        if entry.processing {
            entry.added = entry.added.max(Some(priority));
            return;
        }
        let due = match (priority, entry.held_until) {
            (Priority::Normal, Some(until)) => until.max(now),
            _ => now,
        };
        if priority > entry.priority {
            self.set_priority(&key, priority);
        }
        self.add_at(key, due);
    }

    /// Makes a key due then, unless it is due before.
    pub fn add_at(&mut self, key: K, due: T) {
        let entry = self.entries.entry(key.clone()).or_default();
        let among = match entry.priority {
            Priority::High => &mut self.high,
            Priority::Normal => &mut self.normal,
        };
        if let Some(earlier) = entry.due {
            if earlier <= due {
                return;
            }
            among.remove(&(earlier, key.clone()));
        }
        entry.due = Some(due);
        among.insert((due, key));
    }

    /// Takes the next key that is due. It is being processed until [`Self::done`].
    pub fn take(&mut self, now: T) -> Option<K> {
        let is_due = |set: &BTreeSet<(T, K)>| set.first().is_some_and(|(due, _)| *due <= now);
        let share = self.taken % Self::NORMAL_SHARE == Self::NORMAL_SHARE - 1;
        let from = match (is_due(&self.high), is_due(&self.normal)) {
            (true, true) if share => &mut self.normal,
            (true, _) => &mut self.high,
            (false, true) => &mut self.normal,
            (false, false) => return None,
        };
        let (_, key) = from.pop_first()?;
        self.taken = self.taken.wrapping_add(1);
        let entry = self.entries.entry(key.clone()).or_default();
        entry.due = None;
        entry.processing = true;
        Some(key)
    }

    /// Ends the processing of a key, and its hold. The key is not due, but stays known, with
    /// its priority. Returns the highest priority it was added with meanwhile.
    pub fn done(&mut self, key: &K) -> Option<Priority> {
        let entry = self.entries.get_mut(key)?;
        entry.processing = false;
        entry.held_until = None;
        entry.added.take()
    }

    /// Lets additions of a known key with normal priority wait until then.
    pub fn hold(&mut self, key: &K, until: T) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.held_until = Some(until);
        }
    }

    /// Changes the priority of a known key.
    pub fn set_priority(&mut self, key: &K, priority: Priority) {
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        let before = std::mem::replace(&mut entry.priority, priority);
        if let Some(due) = entry.due
            && before != priority
        {
            let (from, to) = match priority {
                Priority::High => (&mut self.normal, &mut self.high),
                Priority::Normal => (&mut self.high, &mut self.normal),
            };
            from.remove(&(due, key.clone()));
            to.insert((due, key.clone()));
        }
    }

    /// Forgets a key.
    pub fn remove(&mut self, key: &K) {
        if let Some(Entry { due: Some(due), .. }) = self.entries.remove(key) {
            let place = (due, key.clone());
            self.high.remove(&place);
            self.normal.remove(&place);
        }
    }

    /// Whether the key is known.
    pub fn contains(&self, key: &K) -> bool {
        self.entries.contains_key(key)
    }

    /// All known keys.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.entries.keys()
    }

    /// The number of known keys.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no key is known.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// When the next key is due.
    pub fn next_due(&self) -> Option<T> {
        let first = |set: &BTreeSet<(T, K)>| set.first().map(|(due, _)| *due);
        let both = [first(&self.high), first(&self.normal)];
        both.into_iter().flatten().min()
    }

    /// The number of keys that are due.
    pub fn due(&self, now: T) -> usize {
        let due = |set: &BTreeSet<(T, K)>| set.iter().take_while(|(due, _)| *due <= now).count();
        due(&self.high) + due(&self.normal)
    }
}

impl<K: Clone + Eq + Hash + Ord, T: Copy + Ord> Default for WorkQueue<K, T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Default for Entry<T> {
    fn default() -> Self {
        Self {
            due: None,
            priority: Priority::Normal,
            processing: false,
            added: None,
            held_until: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Queue = WorkQueue<&'static str, u32>;

    fn queue(keys: &[(&'static str, Priority, u32)]) -> Queue {
        let mut queue = Queue::new();
        for (key, priority, now) in keys {
            queue.add(key, *priority, *now);
        }
        queue
    }

    #[test]
    fn key_is_queued_once_and_processed_by_one_worker() {
        let mut queue = queue(&[("a", Priority::Normal, 1), ("a", Priority::Normal, 2)]);
        assert_eq!((queue.len(), queue.due(2)), (1, 1));
        assert_eq!(queue.take(2), Some("a"));
        queue.add("a", Priority::Normal, 3);
        queue.add("a", Priority::High, 3);
        queue.add("a", Priority::Normal, 3);
        assert_eq!(queue.take(3), None);
        assert_eq!(queue.done(&"a"), Some(Priority::High));
        assert_eq!(queue.take(3), None, "adding it again is up to the caller");
        assert_eq!(queue.done(&"a"), None);
        assert!(queue.contains(&"a"));
    }

    #[test]
    fn earliest_due_time_of_a_key_counts() {
        let mut queue = Queue::new();
        queue.add_at("a", 5);
        queue.add_at("a", 7);
        assert_eq!((queue.next_due(), queue.take(4)), (Some(5), None));
        queue.add_at("a", 3);
        assert_eq!((queue.next_due(), queue.take(4)), (Some(3), Some("a")));
        assert_eq!(queue.next_due(), None);
    }

    #[test]
    fn hold_delays_normal_additions_until_the_key_was_processed() {
        let mut queue = queue(&[("a", Priority::Normal, 1)]);
        queue.take(1);
        queue.done(&"a");
        queue.hold(&"a", 5);
        queue.add("a", Priority::Normal, 2);
        assert_eq!((queue.take(4), queue.next_due()), (None, Some(5)));
        queue.add("a", Priority::High, 2);
        assert_eq!(queue.take(2), Some("a"));
        queue.done(&"a");
        queue.add("a", Priority::Normal, 3);
        assert_eq!(queue.take(3), Some("a"));
    }

    #[test]
    fn high_priority_goes_first_and_normal_priority_has_a_share() {
        let high = ["h1", "h2", "h3", "h4"].map(|key| (key, Priority::High, 2));
        let mut queue = queue(&high);
        for key in ["n1", "n2"] {
            queue.add(key, Priority::Normal, 1);
        }
        let order: Vec<_> = std::iter::from_fn(|| queue.take(2)).collect();
        assert_eq!(order, ["h1", "h2", "h3", "n1", "h4", "n2"]);
    }

    #[test]
    fn priority_of_a_queued_key_can_change() {
        let mut queue = queue(&[("a", Priority::Normal, 1), ("b", Priority::Normal, 2)]);
        queue.add("b", Priority::High, 3);
        assert_eq!(queue.take(3), Some("b"));
        queue.done(&"b");
        queue.set_priority(&"b", Priority::Normal);
        queue.add_at("b", 2);
        assert_eq!((queue.take(3), queue.take(3)), (Some("a"), Some("b")));
    }

    #[test]
    fn removed_key_leaves_nothing_behind() {
        let mut queue = queue(&[("a", Priority::Normal, 1), ("b", Priority::High, 1)]);
        queue.remove(&"a");
        queue.remove(&"b");
        queue.remove(&"c");
        assert!(queue.is_empty() && queue.next_due().is_none());
        assert_eq!((queue.take(9), queue.keys().count()), (None, 0));
    }
}

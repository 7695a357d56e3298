//! Checks whether a record of concurrent calls is consistent.
//!
//! Every acknowledged write has a revision of its own, so no search for an order is needed: the
//! revisions are the order. The check sorts by them, replays, and verifies
//!
//! - that each acknowledged transaction is in the log at its revision, with exactly its changes,
//!   and its checks held right before;
//! - that every unacknowledged transaction in the log was requested by a caller that never got an
//!   answer, and its checks held too;
//! - that no revision is used twice, and nothing else is in the log;
//! - that conflicts and reads show exactly the state at the revision they name;
//! - that an answer is never older than what was acknowledged before the request.

use std::collections::{BTreeMap, HashMap};

use crate::{Change, Changed, Conflict, Entry, Expect, Key, Outcome, Page, Revision, Transaction};

/// A logical time, shared by all recorders: larger is later.
pub type Time = u64;

/// One call and its result.
#[derive(Clone, Debug)]
pub struct Call {
    /// When it was made.
    pub called: Time,
    /// When the answer came; the largest time if none did.
    pub answered: Time,
    /// The request and the answer.
    pub operation: Operation,
}

/// The kinds of calls.
#[derive(Clone, Debug)]
pub enum Operation {
    /// A commit; `None`: its result is unknown.
    Commit(Transaction, Option<Outcome>),
    /// A read of the whole watched range.
    Read(Page),
}

/// The log as a watcher of everything received it.
pub type Log = Vec<(Revision, Vec<Changed>)>;

/// A complete recording.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// The entries at the start.
    pub initial: Vec<Entry>,
    /// The revision at the start.
    pub start: Revision,
    /// All calls, in any order.
    pub calls: Vec<Call>,
    /// All changes after `start`.
    pub log: Log,
}

impl History {
    /// Returns the first inconsistency.
    pub fn check(&self) -> Result<(), String> {
        self.check_order()?;
        let states = self.replay()?;
        self.check_calls(&states)?;
        self.check_time()
    }

    fn check_order(&self) -> Result<(), String> {
        let mut last = self.start;
        for (revision, _) in &self.log {
            if *revision <= last {
                return Err(format!("revision {revision} comes after {last} in the log"));
            }
            last = *revision;
        }
        Ok(())
    }

    /// Applies the log, and checks each step against the transaction it came from.
    fn replay(&self) -> Result<States, String> {
        let mut acknowledged: HashMap<Revision, &Transaction> = HashMap::new();
        let mut in_doubt: Vec<&Transaction> = Vec::new();
        for call in &self.calls {
            match &call.operation {
                Operation::Commit(transaction, Some(Outcome::Committed(revision))) => {
                    let other = acknowledged.insert(*revision, transaction);
                    if other.is_some() {
                        return Err(format!("revision {revision} was given twice"));
                    }
                }
                Operation::Commit(transaction, None) => in_doubt.push(transaction),
                _ => {}
            }
        }
        let mut states = States::new(self.start, &self.initial);
        for (revision, changes) in &self.log {
            let state = &states.last;
            match acknowledged.remove(revision) {
                Some(transaction) => explains(transaction, *revision, changes, state)
                    .map_err(|why| format!("acknowledged at {revision}: {why}"))?,
                None => {
                    let fits =
                        |called: &&Transaction| explains(called, *revision, changes, state).is_ok();
                    let Some(at) = in_doubt.iter().position(fits) else {
                        return Err(format!("no call wrote revision {revision}: {changes:?}"));
                    };
                    in_doubt.swap_remove(at);
                }
            }
            states.apply(*revision, changes);
        }
        if let Some((revision, transaction)) = acknowledged.into_iter().next() {
            return Err(format!("revision {revision} is lost: {transaction:?}"));
        }
        Ok(states)
    }

    fn check_calls(&self, states: &States) -> Result<(), String> {
        for call in &self.calls {
            match &call.operation {
                Operation::Commit(transaction, Some(Outcome::Conflict(conflict))) => {
                    check_conflict(transaction, conflict, states)?;
                }
                Operation::Read(page) => {
                    let expected = states.all_at(page.revision);
                    if page.entries != expected {
                        let revision = page.revision;
                        let found = &page.entries;
                        return Err(format!(
                            "a read at {revision} showed {found:?} and not {expected:?}"
                        ));
                    }
                }
                Operation::Commit(..) => {}
            }
        }
        Ok(())
    }

    /// A request made after an answer must not be answered with an older state.
    fn check_time(&self) -> Result<(), String> {
        let mut events: Vec<(Time, bool, Revision)> = Vec::new();
        for call in &self.calls {
            let (revision, is_new) = match &call.operation {
                Operation::Commit(_, Some(Outcome::Committed(revision))) => (*revision, true),
                Operation::Commit(_, Some(Outcome::Unchanged(revision))) => (*revision, false),
                Operation::Commit(_, Some(Outcome::Conflict(conflict))) => {
                    (conflict.revision, false)
                }
                Operation::Read(page) => (page.revision, false),
                Operation::Commit(_, None) => continue,
            };
            // A request is ordered by the revision it must reach: its own, or the one before a new
            // revision.
            let least = if is_new {
                revision.previous()
            } else {
                revision
            };
            events.push((call.called, true, least));
            events.push((call.answered, false, revision));
        }
        events.sort();
        let mut known = self.start;
        for (moment, is_question, revision) in events {
            if !is_question {
                known = known.max(revision);
            } else if revision < known {
                return Err(format!(
                    "called at {moment}, when {known} was known, and answered with {revision}"
                ));
            }
        }
        Ok(())
    }
}

/// The history of every key.
struct States {
    last: BTreeMap<Key, Entry>,
    versions: BTreeMap<Key, Vec<(Revision, Option<Entry>)>>,
}

impl States {
    fn new(start: Revision, initial: &[Entry]) -> Self {
        let last: BTreeMap<_, _> = initial
            .iter()
            .map(|entry| (entry.key.clone(), entry.clone()))
            .collect();
        let first =
            |(key, entry): (&Key, &Entry)| (key.clone(), vec![(start, Some(entry.clone()))]);
        let versions = last.iter().map(first).collect();
        Self { last, versions }
    }

    fn apply(&mut self, revision: Revision, changes: &[Changed]) {
        for change in changes {
            let key = change.key().clone();
            let entry = match change {
                Changed::Put(entry) => {
                    self.last.insert(key.clone(), entry.clone());
                    Some(entry.clone())
                }
                Changed::Deleted(_) => {
                    self.last.remove(&key);
                    None
                }
            };
            self.versions
                .entry(key)
                .or_default()
                .push((revision, entry));
        }
    }

    fn at(&self, key: &Key, revision: Revision) -> Option<&Entry> {
        let versions = self.versions.get(key)?;
        let version = versions.iter().rfind(|(since, _)| *since <= revision)?;
        version.1.as_ref()
    }

    fn all_at(&self, revision: Revision) -> Vec<Entry> {
        let keys = self.versions.keys();
        keys.filter_map(|key| self.at(key, revision).cloned())
            .collect()
    }
}

/// Whether the transaction, on this state, makes exactly these changes.
fn explains(
    transaction: &Transaction,
    revision: Revision,
    changes: &[Changed],
    state: &BTreeMap<Key, Entry>,
) -> Result<(), String> {
    for check in transaction.checks() {
        if !holds(check.expect, state.get(&check.key)) {
            return Err(format!("its check {check:?} did not hold"));
        }
    }
    let mut expected: Vec<Changed> = transaction
        .changes()
        .iter()
        .filter_map(|change| match change {
            Change::Put { key, value } => Some(Changed::Put(Entry {
                key: key.clone(),
                value: value.clone(),
                created: state.get(key).map_or(revision, |entry| entry.created),
                modified: revision,
            })),
            Change::Delete { key } => state.get(key).map(|_| Changed::Deleted(key.clone())),
        })
        .collect();
    expected.sort_by(|a, b| a.key().cmp(b.key()));
    if expected != changes {
        return Err(format!("the log has {changes:?} and not {expected:?}"));
    }
    Ok(())
}

fn holds(expect: Expect, found: Option<&Entry>) -> bool {
    match expect {
        Expect::Absent => found.is_none(),
        Expect::At(revision) => found.is_some_and(|entry| entry.modified == revision),
    }
}

fn check_conflict(
    transaction: &Transaction,
    conflict: &Conflict,
    states: &States,
) -> Result<(), String> {
    let Some(check) = transaction.checks().get(conflict.check) else {
        return Err(format!(
            "a conflict names check {} of {transaction:?}",
            conflict.check
        ));
    };
    let found = states.at(&check.key, conflict.revision);
    if found != conflict.found.as_ref() {
        return Err(format!("{conflict:?} where there was {found:?}"));
    }
    if holds(check.expect, found) {
        return Err(format!("{conflict:?} although {check:?} held"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn key() -> Key {
        Bytes::from_static(b"k")
    }

    fn entry(value: &'static str, created: u64, modified: u64) -> Entry {
        Entry {
            key: key(),
            value: Bytes::from_static(value.as_bytes()),
            created: Revision::new(created),
            modified: Revision::new(modified),
        }
    }

    fn commit(called: Time, answered: Time, transaction: Transaction, at: Option<u64>) -> Call {
        let outcome = at.map(|at| Outcome::Committed(Revision::new(at)));
        let operation = Operation::Commit(transaction, outcome);
        Call {
            called,
            answered,
            operation,
        }
    }

    fn create(called: Time, answered: Time, at: Option<u64>) -> Call {
        commit(called, answered, Transaction::create(key(), "1"), at)
    }

    fn update(called: Time, answered: Time, at: Option<u64>) -> Call {
        let transaction = Transaction::update(key(), Revision::new(2), "2");
        commit(called, answered, transaction, at)
    }

    fn read(called: Time, answered: Time, entries: Vec<Entry>, revision: u64) -> Call {
        let page = Page {
            entries,
            revision: Revision::new(revision),
            more: false,
        };
        let operation = Operation::Read(page);
        Call {
            called,
            answered,
            operation,
        }
    }

    fn history(calls: Vec<Call>) -> History {
        History {
            initial: vec![],
            start: Revision::new(1),
            calls,
            log: vec![
                (Revision::new(2), vec![Changed::Put(entry("1", 2, 2))]),
                (Revision::new(3), vec![Changed::Put(entry("2", 2, 3))]),
            ],
        }
    }

    #[test]
    fn consistent_history_is_accepted() {
        let calls = vec![
            create(1, 4, Some(2)),
            read(2, 3, vec![], 1),
            update(5, 8, Some(3)),
            read(6, 7, vec![entry("1", 2, 2)], 2),
            read(9, 10, vec![entry("2", 2, 3)], 3),
        ];
        assert_eq!(history(calls).check(), Ok(()));
        let in_doubt = vec![create(1, 4, Some(2)), update(5, Time::MAX, None)];
        assert_eq!(history(in_doubt).check(), Ok(()));
    }

    #[test]
    fn every_kind_of_inconsistency_is_found() {
        let lost = History {
            log: vec![],
            ..history(vec![create(1, 2, Some(2))])
        };
        let twice = history(vec![create(1, 2, Some(2)), update(3, 4, Some(2))]);
        let unexplained = history(vec![create(1, 2, Some(2))]);
        let swapped = history(vec![update(1, 2, Some(2)), create(3, 4, Some(3))]);
        let stale_read = history(vec![
            create(1, 2, Some(2)),
            update(3, 4, Some(3)),
            read(5, 6, vec![entry("1", 2, 2)], 2),
        ]);
        let wrong_read = history(vec![
            create(1, 2, Some(2)),
            update(3, 4, Some(3)),
            read(5, 6, vec![entry("1", 2, 2)], 3),
        ]);
        let backwards = history(vec![create(5, 6, Some(2)), update(1, 2, Some(3))]);
        let mut disordered = history(vec![create(1, 2, Some(2)), update(3, 4, Some(3))]);
        disordered.log.swap(0, 1);
        for (name, history, why) in [
            ("lost", lost, "is lost"),
            ("twice", twice, "given twice"),
            ("unexplained", unexplained, "no call wrote"),
            ("swapped", swapped, "did not hold"),
            ("stale read", stale_read, "was known"),
            ("wrong read", wrong_read, "a read at 3 showed"),
            ("backwards", backwards, "was known"),
            ("disordered", disordered, "comes after"),
        ] {
            let error = history.check().expect_err(name);
            assert!(error.contains(why), "{name}: {error}");
        }
    }
}

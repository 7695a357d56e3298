//! Indexes of a collection by a label or a field of its objects.
//!
//! An index is built when lists have asked for its term often enough, is part of every snapshot
//! from then on, and is dropped when no list asks for it or its memory is needed.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use insula_core::Space;
use insula_kinds::selector::field_value;
use insula_kinds::{KindId, kinds};

use crate::entry::Stored;
use crate::snapshots::{Budget, Charge};
use crate::tree::{Item, Tree};

/// What objects are indexed by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Term {
    /// The value of a label.
    Label(Arc<str>),
    /// The value of a field of a built-in kind, as field selectors compare it.
    Field(KindId, &'static str),
}

/// The objects of a collection by the values of one term. A clone is a snapshot.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    pub term: Term,
    values: Tree<WithValue>,
    /// The number of different values.
    distinct: usize,
    /// When a list last used the index, whichever snapshot of it.
    used: Arc<Mutex<Instant>>,
}

/// The objects with one value.
#[derive(Clone, Debug)]
struct WithValue {
    value: Arc<str>,
    objects: Tree<Arc<Stored>>,
}

impl Item for WithValue {
    type Key = str;
    type OwnedKey = Arc<str>;

    fn key(&self) -> &str {
        &self.value
    }

    fn owned_key(&self) -> Arc<str> {
        Arc::clone(&self.value)
    }

    fn weight(&self) -> usize {
        self.objects.weight()
    }
}

/// What lists have asked of a collection, and the indexes that it has for them.
#[derive(Debug, Default)]
pub(crate) struct Demand {
    /// The terms without an index, and when each was last asked for by a list that visited many
    /// objects.
    scans: Vec<(Term, Instant)>,
    kept: Vec<Kept>,
    /// When an index was last dropped because it took too much memory.
    refused: Option<Instant>,
}

#[derive(Debug)]
struct Kept {
    term: Term,
    charge: Charge,
}

/// The number of objects from which on a list that visited them all asks for an index.
pub const MIN_VISITED: usize = 1_000;

/// An index is built for the second of two lists within this time.
const SCAN_INTERVAL: Duration = Duration::from_secs(60);

/// How long an index is kept that no list uses.
const MAX_IDLE: Duration = Duration::from_secs(300);

/// The most indexes of a collection, and the most terms without one that are remembered.
const MAX_INDEXES: usize = 4;
const MAX_SCANS: usize = 8;

/// What an index takes for each object, and for each value beside its length.
const OBJECT_BYTES: usize = 16;
const VALUE_BYTES: usize = 256;

impl Term {
    fn value(&self, object: &Stored) -> Option<Arc<str>> {
        match self {
            Self::Label(name) => object.label(name).map(Arc::from),
            Self::Field(kind, field) => {
                let value = field_value(kinds().get(*kind), &object.tree(), field);
                Some(value.into())
            }
        }
    }
}

impl Index {
    pub fn new(term: Term) -> Self {
        Self {
            term,
            values: Tree::default(),
            distinct: 0,
            used: Arc::new(Mutex::new(Instant::now())),
        }
    }

    /// Adds an object.
    pub fn insert(&mut self, object: &Arc<Stored>) {
        let Some(value) = self.term.value(object) else {
            return;
        };
        // Taken out, so that its tree is changed in place unless a snapshot shares it.
        let found = self.values.remove(&value);
        self.distinct += usize::from(found.is_none());
        let mut with_value = found.unwrap_or_else(|| WithValue {
            value,
            objects: Tree::default(),
        });
        with_value.objects.insert(Arc::clone(object));
        self.values.insert(with_value);
    }

    /// Removes an object.
    pub fn remove(&mut self, object: &Stored) {
        let Some(value) = self.term.value(object) else {
            return;
        };
        let Some(mut with_value) = self.values.remove(&value) else {
            return;
        };
        with_value.objects.remove(&object.key);
        match with_value.objects.is_empty() {
            true => self.distinct -= 1,
            false => {
                self.values.insert(with_value);
            }
        }
    }

    /// Returns the objects with a value, if there are any, for a list.
    pub fn find(&self, value: &str) -> Option<&Tree<Arc<Stored>>> {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.values.get(value).map(|found| &found.objects)
    }

    fn is_idle(&self, now: Instant) -> bool {
        let used = *self.used.lock().unwrap_or_else(PoisonError::into_inner);
        now.saturating_duration_since(used) >= MAX_IDLE
    }

    /// Returns roughly how much memory the index takes.
    pub fn bytes(&self) -> usize {
        self.values.weight() * OBJECT_BYTES + self.distinct * VALUE_BYTES
    }
}

impl Demand {
    /// Notes that a list visited many objects for want of an index. Returns whether one should
    /// be built.
    pub fn note_scan(&mut self, term: &Term, now: Instant) -> bool {
        if !self.has_room_for(term) {
            return false;
        }
        // To build an index visits every object, so it is not tried again and again.
        let since = |at: Instant| now.saturating_duration_since(at);
        if self.refused.is_some_and(|at| since(at) < MAX_IDLE) {
            return false;
        }
        let is_recent = |at: Instant| now.saturating_duration_since(at) < SCAN_INTERVAL;
        self.scans.retain(|(_, at)| is_recent(*at));
        match self.scans.iter().position(|(other, _)| other == term) {
            Some(at) => {
                self.scans.remove(at);
                true
            }
            None => {
                if self.scans.len() == MAX_SCANS {
                    self.scans.remove(0);
                }
                self.scans.push((term.clone(), now));
                false
            }
        }
    }

    /// Whether there is neither an index for the term nor the most indexes.
    fn has_room_for(&self, term: &Term) -> bool {
        self.kept.len() < MAX_INDEXES && self.kept.iter().all(|kept| kept.term != *term)
    }

    /// Notes that no index can be built now.
    pub const fn refuse(&mut self, now: Instant) {
        self.refused = Some(now);
    }

    /// Notes a new index. Returns whether its memory is within the budget, and no other list has
    /// built one for the term meanwhile.
    pub fn keep(&mut self, index: &Index, budget: &Arc<Budget>, space: &Space) -> bool {
        if !self.has_room_for(&index.term) {
            return false;
        }
        let charge = Charge::new(budget, space);
        let charge = charge.and_then(|mut charge| charge.set(index.bytes()).then_some(charge));
        match charge {
            Some(charge) => self.kept.push(Kept {
                term: index.term.clone(),
                charge,
            }),
            None => {
                self.refuse(Instant::now());
                return false;
            }
        }
        true
    }

    /// Returns the terms of indexes that are idle or have outgrown the budget, and forgets them.
    pub fn take_unused(&mut self, indexes: &[Index], now: Instant) -> Vec<Term> {
        let mut dropped = Vec::new();
        self.kept.retain_mut(|kept| {
            let index = indexes.iter().find(|index| index.term == kept.term);
            let index = index.filter(|index| !index.is_idle(now));
            let fits = index.map(|index| kept.charge.set(index.bytes()));
            if fits == Some(false) {
                self.refused = Some(now);
            }
            let stays = fits == Some(true);
            if !stays {
                dropped.push(kept.term.clone());
            }
            stays
        });
        dropped
    }

    /// Whether there are indexes.
    pub const fn has_indexes(&self) -> bool {
        !self.kept.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use insula_core::Revision;

    fn object(key: &str, app: Option<&str>) -> Arc<Stored> {
        let labels = app.map_or_else(String::new, |app| format!(r#","labels":{{"app":"{app}"}}"#));
        let json = format!(r#"{{"metadata":{{"name":"{key}","uid":"u"{labels}}}}}"#);
        Arc::new(Stored::new(key.into(), Revision::new(1), json.as_bytes()))
    }

    fn keys(index: &Index, value: &str) -> Vec<String> {
        let found = index.find(value).into_iter().flatten();
        found.map(|object| object.key.to_string()).collect()
    }

    #[test]
    fn index_follows_its_objects_and_snapshots_do_not() {
        let mut index = Index::new(Term::Label("app".into()));
        for (key, app) in [
            ("a", Some("x")),
            ("b", None),
            ("c", Some("y")),
            ("d", Some("x")),
        ] {
            index.insert(&object(key, app));
        }
        let snapshot = index.clone();
        index.remove(&object("a", Some("x")));
        index.insert(&object("a", Some("y")));
        index.remove(&object("d", Some("x")));
        assert_eq!(
            (keys(&index, "x"), keys(&index, "y")),
            (vec![], vec!["a".into(), "c".into()])
        );
        assert_eq!(index.bytes(), 2 * OBJECT_BYTES + VALUE_BYTES);
        assert_eq!(keys(&snapshot, "x"), ["a", "d"]);
        assert_eq!(keys(&snapshot, "z"), Vec::<String>::new());
    }

    #[test]
    fn index_beyond_the_budget_is_not_tried_again_at_once() {
        let (mut demand, budget) = (Demand::default(), Arc::default());
        let mut index = Index::new(Term::Label("app".into()));
        let now = Instant::now();
        index.distinct = 1 << 30;
        assert!(!demand.keep(&index, &budget, &Space::System));
        assert_eq!(budget.sum(), 0);
        let scan = |demand: &mut Demand, at| demand.note_scan(&index.term, at);
        assert!(!scan(&mut demand, now) && !scan(&mut demand, now));
        let later = now + MAX_IDLE * 2;
        assert!(!scan(&mut demand, later) && scan(&mut demand, later));
    }

    #[test]
    fn second_scan_within_a_minute_asks_for_an_index() {
        let (mut demand, now) = (Demand::default(), Instant::now());
        let [app, other] = ["app", "other"].map(|name| Term::Label(name.into()));
        assert!(!demand.note_scan(&app, now));
        assert!(!demand.note_scan(&other, now));
        assert!(!demand.note_scan(&app, now + SCAN_INTERVAL));
        assert!(demand.note_scan(&app, now + SCAN_INTERVAL));
        let index = Index::new(app.clone());
        let budget = Arc::default();
        assert!(demand.keep(&index, &budget, &Space::System));
        assert!(!demand.note_scan(&app, now));
        let is_kept_twice = demand.keep(&index, &budget, &Space::System);
        assert!(!is_kept_twice, "two lists may build an index at once");
        let indexes = [index];
        assert!(demand.take_unused(&indexes, now).is_empty());
        assert_eq!(demand.take_unused(&indexes, now + MAX_IDLE * 2), [app]);
        assert_eq!(budget.sum(), 0);
    }

    #[test]
    fn build_that_writes_have_overtaken_is_not_repeated_at_once() {
        let (mut demand, now) = (Demand::default(), Instant::now());
        let app = Term::Label("app".into());
        assert!(!demand.note_scan(&app, now) && demand.note_scan(&app, now));
        demand.refuse(now);
        assert!(!demand.note_scan(&app, now) && !demand.note_scan(&app, now));
        let later = now + MAX_IDLE;
        assert!(!demand.note_scan(&app, later) && demand.note_scan(&app, later));
    }
}

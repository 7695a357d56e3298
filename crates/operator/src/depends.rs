//! Who depends on what: what an object was looked at with, so that a change of that calls for
//! work on the object. Nothing is kept of what it was like.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

/// Who depends on what, by names; `D` is what can be depended on.
#[derive(Debug)]
pub struct Depends<D>(Mutex<Table<D>>);

#[derive(Debug)]
struct Table<D> {
    on: HashMap<Arc<str>, BTreeSet<D>>,
    by: HashMap<D, BTreeSet<Arc<str>>>,
}

impl<D> Default for Depends<D> {
    fn default() -> Self {
        Self(Mutex::new(Table {
            on: HashMap::new(),
            by: HashMap::new(),
        }))
    }
}

/// What an object depends on now and did not before, and the reverse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed<D> {
    /// Now and not before.
    pub added: Vec<D>,
    /// Before and not now.
    pub removed: Vec<D>,
}

impl<D: Clone + Ord + Hash> Depends<D> {
    /// An object depends on exactly these from now.
    pub fn set(&self, object: &Arc<str>, on: BTreeSet<D>) -> Changed<D> {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = match on.is_empty() {
            true => table.on.remove(object),
            false => table.on.insert(Arc::clone(object), on.clone()),
        };
        let before = before.unwrap_or_default();
        let added: Vec<_> = on.difference(&before).cloned().collect();
        let removed: Vec<_> = before.difference(&on).cloned().collect();
        for one in &added {
            let users = table.by.entry(one.clone()).or_default();
            users.insert(Arc::clone(object));
        }
        for one in &removed {
            if let Some(users) = table.by.get_mut(one) {
                users.remove(object);
                if users.is_empty() {
                    table.by.remove(one);
                }
            }
        }
        Changed { added, removed }
    }

    /// An object depends on this too: said before it is looked at, so that no change of it
    /// is missed.
    pub fn add(&self, object: &Arc<str>, on: &D) {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = table.on.entry(Arc::clone(object)).or_default();
        if known.insert(on.clone()) {
            let users = table.by.entry(on.clone()).or_default();
            users.insert(Arc::clone(object));
        }
    }

    /// What an object depends on.
    pub fn of(&self, object: &str) -> BTreeSet<D> {
        let table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        table.on.get(object).cloned().unwrap_or_default()
    }

    /// Forgets everything, and says who depended on something.
    pub fn clear(&self) -> Vec<Arc<str>> {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        table.by.clear();
        table.on.drain().map(|(object, _)| object).collect()
    }

    /// Who depends on this.
    pub fn on(&self, what: &D) -> Vec<Arc<str>> {
        let table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        table
            .by
            .get(what)
            .map_or_else(Vec::new, |users| users.iter().cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[Arc<str>]) -> Vec<&str> {
        list.iter().map(|name| &**name).collect()
    }

    #[test]
    fn who_depends_on_something_is_found_until_they_do_not() {
        let depends = Depends::default();
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        let changed = depends.set(&a, BTreeSet::from([1, 2]));
        assert_eq!((changed.added, changed.removed), (vec![1, 2], vec![]));
        depends.set(&b, BTreeSet::from([2]));
        assert_eq!(names(&depends.on(&2)), ["a", "b"]);
        let changed = depends.set(&a, BTreeSet::from([2, 3]));
        assert_eq!((changed.added, changed.removed), (vec![3], vec![1]));
        assert_eq!(names(&depends.on(&1)), [""; 0]);
        depends.set(&a, BTreeSet::new());
        depends.set(&b, BTreeSet::new());
        let table = depends.0.lock().unwrap();
        assert!(table.on.is_empty() && table.by.is_empty());
    }

    #[test]
    fn what_is_added_before_it_is_looked_at_stays_until_it_is_not_named_any_more() {
        let depends = Depends::default();
        let cluster: Arc<str> = "cluster".into();
        depends.add(&cluster, &"identity");
        assert_eq!(depends.on(&"identity"), [Arc::clone(&cluster)]);
        let changed = depends.set(&cluster, BTreeSet::from(["secret"]));
        assert_eq!(changed.added, ["secret"]);
        assert_eq!(changed.removed, ["identity"]);
        assert_eq!(depends.of("cluster"), BTreeSet::from(["secret"]));
        assert_eq!(depends.clear(), [cluster]);
        assert_eq!(depends.on(&"secret"), Vec::<Arc<str>>::new());
    }
}

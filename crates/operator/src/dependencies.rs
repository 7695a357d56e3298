//! The dependencies of reconciled objects, so that a change of a dependency triggers the
//! reconciliation of its dependents. Contents are not stored.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

/// Dependencies and dependents by name; `D` is the type of a dependency.
#[derive(Debug)]
pub struct DependencyIndex<D>(Mutex<Table<D>>);

#[derive(Debug)]
struct Table<D> {
    on: HashMap<Arc<str>, BTreeSet<D>>,
    by: HashMap<D, BTreeSet<Arc<str>>>,
}

impl<D> Default for DependencyIndex<D> {
    fn default() -> Self {
        Self(Mutex::new(Table {
            on: HashMap::new(),
            by: HashMap::new(),
        }))
    }
}

/// The difference between two sets of dependencies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed<D> {
    /// Dependencies that were added.
    pub added: Vec<D>,
    /// Dependencies that were removed.
    pub removed: Vec<D>,
}

impl<D: Clone + Ord + Hash> DependencyIndex<D> {
    /// Replaces the dependencies of an object.
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

    /// Adds a dependency of an object. It is added before it is read, so that no change is
    /// missed.
    pub fn add(&self, object: &Arc<str>, on: &D) {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = table.on.entry(Arc::clone(object)).or_default();
        if known.insert(on.clone()) {
            let users = table.by.entry(on.clone()).or_default();
            users.insert(Arc::clone(object));
        }
    }

    /// Returns the dependencies of an object.
    pub fn of(&self, object: &str) -> BTreeSet<D> {
        let table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        table.on.get(object).cloned().unwrap_or_default()
    }

    /// Removes everything, and returns the objects that had dependencies.
    pub fn clear(&self) -> Vec<Arc<str>> {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        table.by.clear();
        table.on.drain().map(|(object, _)| object).collect()
    }

    /// Returns the dependents of a dependency.
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
    fn dependents_are_found_until_removed() {
        let index = DependencyIndex::default();
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        let changed = index.set(&a, BTreeSet::from([1, 2]));
        assert_eq!((changed.added, changed.removed), (vec![1, 2], vec![]));
        index.set(&b, BTreeSet::from([2]));
        assert_eq!(names(&index.on(&2)), ["a", "b"]);
        let changed = index.set(&a, BTreeSet::from([2, 3]));
        assert_eq!((changed.added, changed.removed), (vec![3], vec![1]));
        assert_eq!(names(&index.on(&1)), [""; 0]);
        index.set(&a, BTreeSet::new());
        index.set(&b, BTreeSet::new());
        let table = index.0.lock().unwrap();
        assert!(table.on.is_empty() && table.by.is_empty());
    }

    #[test]
    fn added_dependency_stays_until_replaced() {
        let index = DependencyIndex::default();
        let cluster: Arc<str> = "cluster".into();
        index.add(&cluster, &"identity");
        assert_eq!(index.on(&"identity"), [Arc::clone(&cluster)]);
        let changed = index.set(&cluster, BTreeSet::from(["secret"]));
        assert_eq!(changed.added, ["secret"]);
        assert_eq!(changed.removed, ["identity"]);
        assert_eq!(index.of("cluster"), BTreeSet::from(["secret"]));
        assert_eq!(index.clear(), [cluster]);
        assert_eq!(index.on(&"secret"), Vec::<Arc<str>>::new());
    }
}

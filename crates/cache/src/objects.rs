//! The objects of a collection in key order. A clone is a snapshot, and costs one pointer.

use std::sync::Arc;

use crate::entry::Stored;
use crate::index::{Index, Term};
use crate::tree::{Item, Iter, Tree};

/// The objects of one kind in one space, at one revision.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    all: Tree<Arc<Stored>>,
    indexes: Option<Arc<Vec<Index>>>,
}

/// Objects that were found one after the other, which nearly always is the order of their keys.
#[derive(Debug)]
pub(crate) struct Sorted {
    objects: Vec<Arc<Stored>>,
    is_sorted: bool,
}

/// The objects of a range of keys, in key order.
#[derive(Debug)]
pub struct Range<'a> {
    rest: Iter<'a, Arc<Stored>>,
    prefix: &'a str,
}

/// The objects that a selector may choose.
#[derive(Debug)]
pub struct Candidates<'a> {
    /// The objects.
    pub objects: Range<'a>,
    /// Whether they are from an index, and all others are left out.
    pub is_indexed: bool,
}

impl Item for Arc<Stored> {
    type Key = str;
    type OwnedKey = Arc<str>;

    fn key(&self) -> &str {
        &self.key
    }

    fn owned_key(&self) -> Arc<str> {
        Arc::clone(&self.key)
    }
}

impl Objects {
    /// The number of objects.
    pub const fn len(&self) -> usize {
        self.all.weight()
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns the object at `key`.
    pub fn get(&self, key: &str) -> Option<&Arc<Stored>> {
        self.all.get(key)
    }

    /// Returns the objects with keys that begin with `prefix` and follow `after`, in key order.
    pub fn range<'a>(&'a self, prefix: &'a str, after: Option<&str>) -> Range<'a> {
        Range::of(Some(&self.all), prefix, after)
    }

    /// Returns the objects of a range that a selector with these terms and values may choose:
    /// those of an index if there is one for a term, or else all.
    pub fn candidates<'a>(
        &'a self,
        terms: &[(Term, &str)],
        prefix: &'a str,
        after: Option<&str>,
    ) -> Candidates<'a> {
        for index in self.indexes() {
            if let Some((_, value)) = terms.iter().find(|(term, _)| *term == index.term) {
                return Candidates {
                    objects: Range::of(index.find(value), prefix, after),
                    is_indexed: true,
                };
            }
        }
        Candidates {
            objects: self.range(prefix, after),
            is_indexed: false,
        }
    }

    pub(crate) fn indexes(&self) -> &[Index] {
        self.indexes.as_ref().map_or(&[], |indexes| indexes)
    }

    pub(crate) fn add_index(&mut self, index: Index) {
        Arc::make_mut(self.indexes.get_or_insert_default()).push(index);
    }

    pub(crate) fn drop_indexes(&mut self, terms: &[Term]) {
        if let Some(indexes) = &mut self.indexes {
            Arc::make_mut(indexes).retain(|index| !terms.contains(&index.term));
        }
        self.indexes.take_if(|indexes| indexes.is_empty());
    }

    /// Returns the number of objects with keys that begin with `prefix` and follow `after`. They
    /// are not visited.
    pub fn count(&self, prefix: &str, after: Option<&str>) -> usize {
        if prefix.is_empty() && after.is_none() {
            return self.len();
        }
        let before = |key: &str| is_before(key, prefix, after);
        let until = |key: &str| before(key) || key < prefix || key.starts_with(prefix);
        self.all.weight_before(until) - self.all.weight_before(before)
    }

    /// Adds objects in key order, as a load finds them. The first ones are not inserted one by one.
    pub(crate) fn load(&mut self, sorted: Sorted) {
        let Sorted { objects, is_sorted } = sorted;
        match is_sorted && self.is_empty() && self.indexes.is_none() {
            true => self.all = Tree::from_sorted(objects.into_iter()),
            false => objects.into_iter().for_each(|object| {
                self.insert(object);
            }),
        }
    }

    pub(crate) fn insert(&mut self, object: Arc<Stored>) -> Option<Arc<Stored>> {
        let replaced = self.all.insert(Arc::clone(&object));
        for index in self.indexes_mut() {
            if let Some(replaced) = &replaced {
                index.remove(replaced);
            }
            index.insert(&object);
        }
        replaced
    }

    pub(crate) fn remove(&mut self, key: &str) -> Option<Arc<Stored>> {
        let removed = self.all.remove(key)?;
        for index in self.indexes_mut() {
            index.remove(&removed);
        }
        Some(removed)
    }

    fn indexes_mut(&mut self) -> &mut [Index] {
        match &mut self.indexes {
            Some(indexes) => Arc::<Vec<_>>::make_mut(indexes),
            None => &mut [],
        }
    }
}

impl Default for Sorted {
    fn default() -> Self {
        Self {
            objects: Vec::new(),
            is_sorted: true,
        }
    }
}

impl Sorted {
    pub const fn len(&self) -> usize {
        self.objects.len()
    }

    pub fn push(&mut self, object: Arc<Stored>) {
        self.is_sorted &= self.precedes(&object);
        self.objects.push(object);
    }

    /// Adds those that were found next.
    pub fn append(&mut self, mut next: Self) {
        let follow = next.objects.first();
        self.is_sorted &= next.is_sorted && follow.is_none_or(|first| self.precedes(first));
        match self.objects.is_empty() {
            true => self.objects = next.objects,
            false => self.objects.append(&mut next.objects),
        }
    }

    fn precedes(&self, next: &Stored) -> bool {
        let last = self.objects.last();
        last.is_none_or(|last| last.key < next.key)
    }
}

impl<'a> Range<'a> {
    fn of(objects: Option<&'a Tree<Arc<Stored>>>, prefix: &'a str, after: Option<&str>) -> Self {
        let rest = objects.map(|all| all.iter_from(|key| is_before(key, prefix, after)));
        Self {
            rest: rest.unwrap_or_else(Iter::empty),
            prefix,
        }
    }
}

impl<'a> Iterator for Range<'a> {
    type Item = &'a Arc<Stored>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.rest.next();
        next.filter(|object| object.key.starts_with(self.prefix))
    }
}

/// Whether a key is before the range of keys that begin with `prefix` and follow `after`.
fn is_before(key: &str, prefix: &str, after: Option<&str>) -> bool {
    key < prefix || after.is_some_and(|after| key <= after)
}

#[cfg(test)]
mod tests {
    use super::*;
    use insula_core::Revision;

    fn objects(keys: &[&str]) -> Objects {
        let mut objects = Objects::default();
        for key in keys {
            let object = Stored::new((*key).into(), Revision::new(1), b"{}");
            objects.insert(Arc::new(object));
        }
        objects
    }

    #[test]
    fn range_and_count_agree() {
        let keys = ["a", "a-b/x", "a/x", "a/y", "a/z", "ab/x", "b/x"];
        let objects = objects(&keys);
        for prefix in ["", "a", "a/", "a/y", "ab/", "b/", "c/"] {
            for after in [
                None,
                Some("a"),
                Some("a/"),
                Some("a/y"),
                Some("a/z"),
                Some("z"),
            ] {
                let wanted: Vec<_> = keys
                    .iter()
                    .filter(|key| {
                        key.starts_with(prefix) && after.is_none_or(|after| **key > after)
                    })
                    .collect();
                let found = objects.range(prefix, after);
                let found: Vec<_> = found.map(|object| object.key.to_string()).collect();
                assert_eq!(
                    found.iter().collect::<Vec<_>>(),
                    wanted,
                    "{prefix} {after:?}"
                );
                assert_eq!(
                    objects.count(prefix, after),
                    wanted.len(),
                    "{prefix} {after:?}"
                );
            }
        }
    }
}

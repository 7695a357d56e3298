//! Comparison of objects.

use std::cmp::Ordering;

use insula_kinds::{Object, Value};

use super::NotOfType;
use super::item::Item;
use super::problems::{Problems, not_scalar};
use crate::schema::{Handling, List, ListRelation, Map, Ref};
use crate::set::equal_values;
use crate::{Element, Schema, Set};

/// The differences between two objects. For a list or map that was added as a whole, the members
/// are those of Kubernetes' `typed.Comparison`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    /// The fields of the new object only.
    pub added: Set,
    /// The fields of the old object only.
    pub removed: Set,
    /// The fields of both with different values.
    pub modified: Set,
}

impl Comparison {
    /// Returns whether there are no differences.
    pub fn is_same(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.modified.is_empty()
    }

    /// Returns the comparison without these fields and the fields below them.
    #[must_use]
    pub fn without(self, fields: &Set) -> Self {
        if fields.is_empty() {
            return self;
        }
        Self {
            added: self.added.recursive_difference(fields),
            removed: self.removed.recursive_difference(fields),
            modified: self.modified.recursive_difference(fields),
        }
    }
}

/// Compares two objects.
pub fn compare(schema: &Schema, old: &Object, new: &Object) -> Result<Comparison, NotOfType> {
    let mut walk = Walk::default();
    let mut below = Comparison::default();
    match schema.root().atom().map {
        Some(map) if !map.atomic => walk.compare_maps(&map, Some(old), Some(new), &mut below),
        _ => {}
    }
    walk.problems.end()?;
    Ok(below)
}

#[derive(Default)]
struct Walk {
    problems: Problems,
}

/// The differences at a node and below it.
#[derive(Default)]
struct Marks {
    added: bool,
    removed: bool,
    modified: bool,
    below: Comparison,
}

impl Walk {
    /// Compares two values, of which at least one exists.
    fn compare_values(&mut self, of: Ref<'_>, old: Option<&Value>, new: Option<&Value>) -> Marks {
        let mut marks = Marks::default();
        let atom = of.atom();
        let alternative = |value: Option<&Value>| value.map(|value| atom.alternative(value));
        let leaf = match (alternative(old), alternative(new)) {
            (Some(alternative), None) | (None, Some(alternative)) => {
                self.handle(atom.handling(alternative), old, new, &mut marks)
            }
            (Some(one), Some(two)) if one == two => {
                self.handle(atom.handling(two), old, new, &mut marks)
            }
            (Some(one), Some(two)) => {
                // The type changed: both the old and the new value are visited.
                let mut first = Marks::default();
                self.handle(atom.handling(one), old, new, &mut first);
                let leaf = self.handle(atom.handling(two), old, new, &mut marks);
                marks.join(first);
                leaf
            }
            (None, None) => true,
        };
        if !leaf {
            marks.added |= old.is_none();
            marks.removed |= new.is_none();
        }
        marks
    }

    /// Returns whether the values were handled as a whole.
    fn handle(
        &mut self,
        handling: Handling<'_>,
        old: Option<&Value>,
        new: Option<&Value>,
        marks: &mut Marks,
    ) -> bool {
        match handling {
            Handling::Scalar(scalar) => {
                let wrong =
                    |value: Option<&Value>| value.and_then(|value| not_scalar(scalar, value));
                if let (Some(one), Some(two)) = (wrong(old), wrong(new)) {
                    self.problems.add(format!("lhs: {one}"));
                    self.problems.add(format!("rhs: {two}"));
                    return false;
                }
            }
            Handling::Map(map) => {
                let (one, two) = (old.and_then(as_map), new.and_then(as_map));
                if !map.atomic && (one.is_some() || two.is_some()) {
                    self.compare_maps(&map, one, two, &mut marks.below);
                    return false;
                }
            }
            Handling::List(list) => {
                let (one, two) = (old.and_then(as_list), new.and_then(as_list));
                let atomic = matches!(list.relation, ListRelation::Atomic);
                if !atomic && (one.is_some() || two.is_some()) {
                    let (one, two) = (one.unwrap_or_default(), two.unwrap_or_default());
                    self.compare_lists(&list, one, two, &mut marks.below);
                    return false;
                }
            }
            Handling::Nothing => {
                self.problems.add("schema error: invalid atom: inlined");
                return false;
            }
        }
        match (old, new) {
            (None, _) => marks.added = true,
            (_, None) => marks.removed = true,
            (Some(old), Some(new)) => marks.modified |= !equal_values(old, new),
        }
        true
    }

    fn compare_maps(
        &mut self,
        map: &Map<'_>,
        old: Option<&Object>,
        new: Option<&Object>,
        below: &mut Comparison,
    ) {
        let mut olds = old.into_iter().flatten().peekable();
        let mut news = new.into_iter().flatten().peekable();
        loop {
            let order = match (olds.peek(), news.peek()) {
                (None, None) => return,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((old, _)), Some((new, _))) => old.cmp(new),
            };
            let old = (order != Ordering::Greater).then(|| olds.next()).flatten();
            let new = (order != Ordering::Less).then(|| news.next()).flatten();
            let Some((name, _)) = old.or(new) else { return };
            let (old, new) = (old.map(|(_, value)| value), new.map(|(_, value)| value));
            if is_same(old, new) {
                continue;
            }
            let before = self.problems.count();
            let marks = self.compare_values(map.member(name), old, new);
            self.problems.put_below(before, || format!(".{name}"));
            marks.push(|| Element::Field(name.as_str().into()), below);
        }
    }

    fn compare_lists(
        &mut self,
        list: &List<'_>,
        old: &[Value],
        new: &[Value],
        below: &mut Comparison,
    ) {
        let (olds, news) = (self.index(list, old), self.index(list, new));
        let mut olds = olds.chunk_by(same_item).peekable();
        let mut news = news.chunk_by(same_item).peekable();
        loop {
            let order = match (olds.peek(), news.peek()) {
                (None, None) => return,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(old), Some(new)) => old[0].0.cmp(&new[0].0),
            };
            let old = (order != Ordering::Greater).then(|| olds.next()).flatten();
            let new = (order != Ordering::Less).then(|| news.next()).flatten();
            let (old, new) = (old.unwrap_or_default(), new.unwrap_or_default());
            let Some((item, _)) = old.first().or(new.first()) else {
                return;
            };
            let before = self.problems.count();
            let marks = self.compare_items(list.element, old, new);
            self.problems
                .put_below(before, || item.element().to_string());
            marks.push(|| item.element(), below);
        }
    }

    /// Compares list elements with the same key. Duplicates are compared as a whole.
    fn compare_items(&mut self, of: Ref<'_>, old: &[Indexed<'_>], new: &[Indexed<'_>]) -> Marks {
        let mut marks = Marks::default();
        match (old, new) {
            ([_, _, ..], [_, _, ..]) => {
                let pairs = || old.iter().zip(new);
                let same = pairs().all(|((_, old), (_, new))| equal_values(old, new));
                marks.modified = old.len() != new.len() || !same;
            }
            ([_, _, ..], new) => {
                if let [(_, new)] = new {
                    marks = self.compare_values(of, None, Some(new));
                }
                marks.removed = true;
            }
            (old, [_, _, ..]) => {
                if let [(_, old)] = old {
                    marks = self.compare_values(of, Some(old), None);
                }
                marks.added = true;
            }
            (old, new) => {
                let old = old.first().map(|(_, value)| *value);
                let new = new.first().map(|(_, value)| *value);
                if !is_same(old, new) {
                    marks = self.compare_values(of, old, new);
                }
            }
        }
        marks
    }

    /// Sorts elements by key; elements with the same key keep their order.
    fn index<'a>(&mut self, list: &List<'a>, values: &'a [Value]) -> Vec<Indexed<'a>> {
        let mut items = Vec::with_capacity(values.len());
        for (at, value) in values.iter().enumerate() {
            match Item::of(list, value) {
                Ok(item) => items.push((item, value)),
                Err(problem) => self.problems.add(format!("element {at}: {problem}")),
            }
        }
        items.sort_by(|(one, _), (two, _)| one.cmp(two));
        items
    }
}

type Indexed<'a> = (Item<'a>, &'a Value);

impl Marks {
    fn push(self, element: impl Fn() -> Element, below: &mut Comparison) {
        below.added.push(&element, self.added, self.below.added);
        below
            .removed
            .push(&element, self.removed, self.below.removed);
        below
            .modified
            .push(&element, self.modified, self.below.modified);
    }

    fn join(&mut self, other: Self) {
        self.added |= other.added;
        self.removed |= other.removed;
        self.modified |= other.modified;
        self.below.added = self.below.added.union(&other.below.added);
        self.below.removed = self.below.removed.union(&other.below.removed);
        self.below.modified = self.below.modified.union(&other.below.modified);
    }
}

fn same_item(one: &Indexed<'_>, two: &Indexed<'_>) -> bool {
    one.0.cmp(&two.0).is_eq()
}

/// Returns whether both values exist and are equal. Then nothing below differs, which holds for
/// most of an object in most updates. Objects are visited anyway, so that no value is compared
/// again at every level.
fn is_same(old: Option<&Value>, new: Option<&Value>) -> bool {
    match (old, new) {
        (Some(Value::Object(_)), Some(Value::Object(_))) => false,
        (Some(old), Some(new)) => equal_values(old, new),
        _ => false,
    }
}

/// Returns a map with members: an empty one is a leaf, like null.
fn as_map(value: &Value) -> Option<&Object> {
    value.as_object().filter(|map| !map.is_empty())
}

fn as_list(value: &Value) -> Option<&[Value]> {
    let list = value.as_array()?;
    (!list.is_empty()).then_some(list)
}

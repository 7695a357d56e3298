//! Merging of an applied configuration.

use insula_kinds::{Object, Value};

use super::NotOfType;
use super::item::{Item, repeated, sort};
use super::problems::{Problems, not_scalar};
use crate::Schema;
use crate::schema::{Handling, List, ListRelation, Map, Ref};
use crate::set::equal_values;

/// Merges a configuration into an object.
pub fn merge(schema: &Schema, live: &Object, config: &Object) -> Result<Object, NotOfType> {
    merge_without(schema, live, config, &[])
}

/// The same, without a member of the live object that the configuration does not have: a copy of it
/// would only be removed again.
pub fn merge_without(
    schema: &Schema,
    live: &Object,
    config: &Object,
    omitted: &[&str],
) -> Result<Object, NotOfType> {
    let mut walk = Walk::default();
    let merged = match schema.root().atom().map {
        Some(map) if !map.atomic => walk.merge_maps(&map, live, config, omitted),
        _ => config.clone(),
    };
    walk.problems.end()?;
    Ok(merged)
}

#[derive(Default)]
struct Walk {
    problems: Problems,
}

/// The elements of a list in order, with a lookup by key. A lookup finds the first of duplicates.
struct Index<'a> {
    items: Vec<Item<'a>>,
    values: Vec<&'a Value>,
    /// The elements sorted by key.
    found: Vec<Found>,
}

#[derive(Clone, Copy)]
struct Found {
    at: usize,
    alike: bool,
}

impl Walk {
    fn merge_values(
        &mut self,
        of: Ref<'_>,
        live: &Value,
        config: &Value,
        omitted: &[&str],
    ) -> Value {
        // Most applied values exist already, and then the schema does not matter. Objects are
        // visited anyway, so that no value is compared again at every level.
        if !config.is_object() && equal_values(live, config) {
            return config.clone();
        }
        match of.handling(config) {
            Handling::Scalar(scalar) => {
                let wrong = (not_scalar(scalar, live), not_scalar(scalar, config));
                if let (Some(one), Some(two)) = wrong {
                    self.problems.add(format!("lhs: {one}"));
                    self.problems.add(format!("rhs: {two}"));
                }
                config.clone()
            }
            Handling::Map(map) => {
                let none = Object::new();
                let (one, two) = (live.as_object(), config.as_object());
                let (one, two) = (one.unwrap_or(&none), two.unwrap_or(&none));
                match map.atomic || one.is_empty() && two.is_empty() {
                    true => config.clone(),
                    false => Value::Object(self.merge_maps(&map, one, two, omitted)),
                }
            }
            Handling::List(list) => {
                let elements =
                    |value: &Value| value.as_array().is_some_and(|list| !list.is_empty());
                let atomic = matches!(list.relation, ListRelation::Atomic);
                match atomic || !elements(live) && !elements(config) {
                    true => config.clone(),
                    false => self.merge_lists(&list, live, config),
                }
            }
            Handling::Nothing => {
                self.problems.add("schema error: invalid atom: inlined");
                config.clone()
            }
        }
    }

    fn merge_maps(
        &mut self,
        map: &Map<'_>,
        live: &Object,
        config: &Object,
        omitted: &[&str],
    ) -> Object {
        let mut merged = Object::new();
        for (name, live) in live {
            let below = match omitted {
                [first, below @ ..] if first == name => Some(below),
                _ => None,
            };
            let value = match config.get(name) {
                None if below == Some(&[]) => continue,
                None => live.clone(),
                Some(config) => {
                    let before = self.problems.count();
                    let below = below.unwrap_or_default();
                    let value = self.merge_values(map.member(name), live, config, below);
                    self.problems.put_below(before, || format!(".{name}"));
                    value
                }
            };
            merged.insert(name.clone(), value);
        }
        for (name, config) in config {
            if !live.contains_key(name) {
                merged.insert(name.clone(), config.clone());
            }
        }
        merged
    }

    /// Merges lists: applied elements have the order of the configuration, others keep their
    /// places.
    fn merge_lists(&mut self, list: &List<'_>, live: &Value, config: &Value) -> Value {
        let none = Vec::new();
        let config = self.index(list, config.as_array().unwrap_or(&none));
        self.refuse_repeated(&config);
        let live = self.index(list, live.as_array().unwrap_or(&none));
        let mut merged = Vec::with_capacity(live.items.len().max(config.items.len()));
        let shared = config.items.iter();
        let mut shared = shared.filter(|item| live.find(item).is_some()).peekable();
        let mut taken = vec![false; config.items.len()];
        let (mut one, mut two) = (0, 0);
        while one < live.items.len() || two < config.items.len() {
            if let Some(item) = live.items.get(one) {
                match config.find(item) {
                    // An element of the live list only: it keeps its place.
                    None => {
                        merged.push(live.values[one].clone());
                        one += 1;
                        continue;
                    }
                    Some(found) if two < config.items.len() => {
                        let next = shared.peek();
                        if found.at != two && next.is_some_and(|next| next.cmp(item).is_ne()) {
                            // An element that comes later, or came before.
                            one += 1;
                            continue;
                        }
                        one += usize::from(found.at == two || taken[found.at]);
                    }
                    Some(_) => one += 1,
                }
            }
            if let Some(item) = config.items.get(two) {
                taken[two] = true;
                merged.push(merge_item(list, &live, item, config.values[two]));
                two += 1;
                shared.next_if(|next| next.cmp(item).is_eq());
            }
        }
        Value::Array(merged)
    }

    fn refuse_repeated(&mut self, config: &Index<'_>) {
        if !config.found.iter().any(|found| found.alike) {
            return;
        }
        for (item, repeated) in config.items.iter().zip(repeated(&config.items)) {
            if repeated {
                let element = item.element();
                self.problems
                    .add(format!("duplicate entries for key {element}"));
            }
        }
    }

    fn index<'a>(&mut self, list: &List<'a>, values: &'a [Value]) -> Index<'a> {
        let mut index = Index {
            items: Vec::with_capacity(values.len()),
            values: Vec::with_capacity(values.len()),
            found: Vec::new(),
        };
        for (at, value) in values.iter().enumerate() {
            match Item::of(list, value) {
                Ok(item) => {
                    index.items.push(item);
                    index.values.push(value);
                }
                Err(problem) => self.problems.add(format!("element {at}: {problem}")),
            }
        }
        let alike = |one: &usize, two: &usize| index.items[*one].cmp(&index.items[*two]).is_eq();
        let order = sort(&index.items);
        let found = order.chunk_by(alike).map(|same| Found {
            at: same[0],
            alike: same.len() > 1,
        });
        index.found = found.collect();
        index
    }
}

/// Merges an element. Kubernetes does not report its problems here, and neither does this.
fn merge_item(list: &List<'_>, live: &Index<'_>, item: &Item<'_>, config: &Value) -> Value {
    let mut walk = Walk::default();
    match live.find(item) {
        None => config.clone(),
        // It is ambiguous which of the duplicates is meant.
        Some(found) if found.alike => walk.merge_values(list.element, &Value::Null, config, &[]),
        Some(found) => walk.merge_values(list.element, live.values[found.at], config, &[]),
    }
}

impl Index<'_> {
    fn find(&self, item: &Item<'_>) -> Option<Found> {
        let place = self
            .found
            .binary_search_by(|found| self.items[found.at].cmp(item));
        place.ok().map(|place| self.found[place])
    }
}

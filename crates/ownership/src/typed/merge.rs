//! What applying a configuration gives.

use insula_kinds::{Object, Value};

use super::NotOfType;
use super::item::Item;
use super::problems::{Problems, not_scalar};
use crate::Schema;
use crate::schema::{Handling, List, ListRelation, Map, Ref};
use crate::set::equal_values;

/// What applying a configuration over an object gives.
pub fn merge(schema: &Schema, live: &Object, config: &Object) -> Result<Object, NotOfType> {
    let mut walk = Walk::default();
    let merged = match schema.root().atom().map {
        Some(map) if !map.atomic => walk.merge_maps(&map, live, config),
        _ => config.clone(),
    };
    walk.problems.end()?;
    Ok(merged)
}

#[derive(Default)]
struct Walk {
    problems: Problems,
}

/// Elements of a list in their order, and where each is found. Those that are alike are
/// found at the first of them.
struct Index<'a> {
    items: Vec<(Item<'a>, &'a Value)>,
    /// Places of items in the order of what tells them apart.
    order: Vec<Found>,
}

#[derive(Clone, Copy)]
struct Found {
    at: usize,
    alike: bool,
}

impl Walk {
    fn merge_values(&mut self, of: Ref<'_>, live: &Value, config: &Value) -> Value {
        // Most of what is applied is there already, and then the schema does not matter.
        if equal_values(live, config) {
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
                    false => Value::Object(self.merge_maps(&map, one, two)),
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

    fn merge_maps(&mut self, map: &Map<'_>, live: &Object, config: &Object) -> Object {
        let mut merged = Object::new();
        for (name, live) in live {
            let value = match config.get(name) {
                None => live.clone(),
                Some(config) => {
                    let before = self.problems.count();
                    let value = self.merge_values(map.member(name), live, config);
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

    /// Applied elements come in the order of the configuration; others keep their places.
    fn merge_lists(&mut self, list: &List<'_>, live: &Value, config: &Value) -> Value {
        let none = Vec::new();
        let config = self.index(list, config.as_array().unwrap_or(&none), false);
        let live = self.index(list, live.as_array().unwrap_or(&none), true);
        let mut merged = Vec::with_capacity(live.items.len().max(config.items.len()));
        let shared: Vec<_> = config
            .items
            .iter()
            .map(|(item, _)| item)
            .filter(|item| live.find(item).is_some())
            .collect();
        let mut shared = shared.into_iter().peekable();
        let mut taken = vec![false; config.items.len()];
        let (mut one, mut two) = (0, 0);
        while one < live.items.len() || two < config.items.len() {
            if let Some((item, value)) = live.items.get(one) {
                match config.find(item) {
                    // Only here: it keeps its place.
                    None => {
                        merged.push((*value).clone());
                        one += 1;
                        continue;
                    }
                    Some(found) if two < config.items.len() => {
                        let next = shared.peek();
                        if found.at != two && next.is_some_and(|next| next.cmp(item).is_ne()) {
                            // It comes later, or was before.
                            one += 1;
                            continue;
                        }
                        one += usize::from(found.at == two || taken[found.at]);
                    }
                    Some(_) => one += 1,
                }
            }
            if let Some((item, value)) = config.items.get(two) {
                taken[two] = true;
                merged.push(merge_item(list, &live, item, value));
                two += 1;
                shared.next_if(|next| next.cmp(item).is_eq());
            }
        }
        Value::Array(merged)
    }

    fn index<'a>(&mut self, list: &List<'a>, values: &'a [Value], duplicates: bool) -> Index<'a> {
        let mut index = Index {
            items: Vec::with_capacity(values.len()),
            order: Vec::with_capacity(values.len()),
        };
        for (at, value) in values.iter().enumerate() {
            let item = match Item::of(list, value) {
                Ok(item) => item,
                Err(problem) => {
                    self.problems.add(format!("element {at}: {problem}"));
                    continue;
                }
            };
            match index.place(&item) {
                Ok(_) if !duplicates => {
                    let element = item.element();
                    self.problems
                        .add(format!("duplicate entries for key {element}"));
                    continue;
                }
                Ok(place) => index.order[place].alike = true,
                Err(place) => {
                    let found = Found {
                        at: index.items.len(),
                        alike: false,
                    };
                    index.order.insert(place, found);
                }
            }
            index.items.push((item, value));
        }
        index
    }
}

/// What is wrong with an element is not told, as Kubernetes does not tell it here.
fn merge_item(list: &List<'_>, live: &Index<'_>, item: &Item<'_>, config: &Value) -> Value {
    let mut walk = Walk::default();
    match live.find(item) {
        None => config.clone(),
        // Which of several is meant cannot be told.
        Some(found) if found.alike => walk.merge_values(list.element, &Value::Null, config),
        Some(found) => walk.merge_values(list.element, live.items[found.at].1, config),
    }
}

impl Index<'_> {
    fn find(&self, item: &Item<'_>) -> Option<Found> {
        self.place(item).ok().map(|place| self.order[place])
    }

    fn place(&self, item: &Item<'_>) -> Result<usize, usize> {
        self.order
            .binary_search_by(|found| self.items[found.at].0.cmp(item))
    }
}

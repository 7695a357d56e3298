//! Whether objects are as their schemas say.

use insula_kinds::{Object, Value};

use super::NotOfType;
use super::item::Item;
use super::problems::{Problems, not_a, not_scalar};
use crate::Schema;
use crate::schema::{Handling, List, ListRelation, Map, Ref};

/// Whether an object is as its schema says, and each element of a list is there once unless
/// duplicates are allowed.
pub fn check(schema: &Schema, object: &Object, duplicates: bool) -> Result<(), NotOfType> {
    let mut walk = Walk {
        duplicates,
        problems: Problems::default(),
    };
    if let Some(map) = schema.root().atom().map {
        walk.check_map(&map, object);
    }
    walk.problems.end()
}

struct Walk {
    duplicates: bool,
    problems: Problems,
}

impl Walk {
    fn check_value(&mut self, of: Ref<'_>, value: &Value) {
        match (of.handling(value), value) {
            (Handling::Scalar(scalar), value) => {
                if let Some(problem) = not_scalar(scalar, value) {
                    self.problems.add(problem);
                }
            }
            (Handling::Nothing, _) => self.problems.add("schema error: invalid atom: inlined"),
            (_, Value::Null) => {}
            (Handling::Map(map), Value::Object(value)) => self.check_map(&map, value),
            (Handling::Map(_), value) => self.problems.add(not_a("map", value)),
            (Handling::List(list), Value::Array(value)) => self.check_list(&list, value),
            (Handling::List(_), value) => self.problems.add(not_a("list", value)),
        }
    }

    fn check_map(&mut self, map: &Map<'_>, object: &Object) {
        for (name, value) in object {
            let before = self.problems.count();
            let of = map.member(name);
            match of {
                Ref::Nothing => self.problems.add("field not declared in schema"),
                of => self.check_value(of, value),
            }
            self.problems.put_below(before, || format!(".{name}"));
            if matches!(of, Ref::Nothing) {
                // Kubernetes looks no further.
                return;
            }
        }
    }

    fn check_list(&mut self, list: &List<'_>, values: &[Value]) {
        let mut seen: Vec<Item<'_>> = Vec::new();
        for (at, value) in values.iter().enumerate() {
            let before = self.problems.count();
            if matches!(list.relation, ListRelation::Atomic) {
                self.check_value(list.element, value);
                self.problems.put_below(before, || format!("[{at}]"));
                continue;
            }
            let item = match Item::of(list, value) {
                Ok(item) => item,
                Err(problem) => return self.problems.add(format!("element {at}: {problem}")),
            };
            let place = seen.binary_search_by(|other| other.cmp(&item));
            if place.is_ok() && !self.duplicates {
                let element = item.element();
                self.problems
                    .add(format!("duplicate entries for key {element}"));
            }
            let before = self.problems.count();
            self.check_value(list.element, value);
            self.problems
                .put_below(before, || item.element().to_string());
            if let Err(place) = place {
                seen.insert(place, item);
            }
        }
    }
}

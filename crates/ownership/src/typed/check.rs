//! Validation of objects against their schemas.

use insula_kinds::{Object, Value};

use super::NotOfType;
use super::item::{Item, repeated};
use super::problems::{Problems, not_a, not_scalar};
use crate::Schema;
use crate::schema::{Handling, List, ListRelation, Map, Ref};

/// Checks that an object matches its schema, and that lists have no duplicates unless they are
/// allowed.
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
                // Kubernetes stops at the first one here.
                return;
            }
        }
    }

    fn check_list(&mut self, list: &List<'_>, values: &[Value]) {
        if matches!(list.relation, ListRelation::Atomic) {
            for (at, value) in values.iter().enumerate() {
                self.check_element(list, value, || format!("[{at}]"));
            }
            return;
        }
        let mut items = Vec::with_capacity(values.len());
        let mut wrong = None;
        for (at, value) in values.iter().enumerate() {
            match Item::of(list, value) {
                Ok(item) => items.push(item),
                Err(problem) => {
                    // Kubernetes stops at the first one here.
                    wrong = Some(format!("element {at}: {problem}"));
                    break;
                }
            }
        }
        let repeated = match self.duplicates {
            true => Vec::new(),
            false => repeated(&items),
        };
        for (at, (item, value)) in items.iter().zip(values).enumerate() {
            if repeated.get(at) == Some(&true) {
                let element = item.element();
                self.problems
                    .add(format!("duplicate entries for key {element}"));
            }
            self.check_element(list, value, || item.element().to_string());
        }
        if let Some(problem) = wrong {
            self.problems.add(problem);
        }
    }

    fn check_element(&mut self, list: &List<'_>, value: &Value, step: impl FnOnce() -> String) {
        let before = self.problems.count();
        self.check_value(list.element, value);
        self.problems.put_below(before, step);
    }
}

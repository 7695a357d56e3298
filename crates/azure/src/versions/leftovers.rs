//! Fields that the version of an object does not have, kept in an annotation.
//!
//! API versions have no property bags, so that a client that reads and writes an object in one
//! would lose what another version has in addition. The annotation has these fields as property
//! bags, by the path of their objects.

use std::collections::{BTreeMap, HashMap};

use ring::digest;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::bag::{self, Bag};
use super::schema::Schema;

/// The annotation.
pub const ANNOTATION: &str = "azure.microsoft.com/conversion-data";

/// The property bag of an object.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Leftover {
    /// The names of fields, and keys of elements, that lead to the object.
    path: Vec<String>,
    bag: Bag,
}

/// Removes the property bags that a schema does not have.
pub(super) fn extract(value: &mut Value, schema: Option<&Schema>) -> Vec<Leftover> {
    let mut leftovers = Vec::new();
    match value {
        Value::Object(object) => {
            if !schema.is_some_and(Schema::has_bag) && object.contains_key(bag::FIELD) {
                let bag = bag::take(object);
                leftovers.push(Leftover { path: vec![], bag });
            }
            for (name, value) in object.iter_mut().filter(|(name, _)| *name != bag::FIELD) {
                // Free JSON is no object of a version, whatever it looks like.
                let Some(schema) = schema.and_then(|it| it.field(name)) else {
                    continue;
                };
                add(&mut leftovers, name, extract(value, Some(schema)));
            }
        }
        Value::Array(items) => {
            let Some(Schema::List(item)) = schema else {
                return leftovers;
            };
            let found: Vec<_> = items.iter_mut().map(|it| extract(it, Some(item))).collect();
            if found.iter().all(Vec::is_empty) {
                return leftovers;
            }
            for (key, found) in keys(items).iter().zip(found) {
                add(&mut leftovers, key, found);
            }
        }
        _ => {}
    }
    leftovers
}

fn add(leftovers: &mut Vec<Leftover>, name: &str, found: Vec<Leftover>) {
    leftovers.extend(found.into_iter().map(|mut leftover| {
        leftover.path.insert(0, name.to_owned());
        leftover
    }));
}

/// Returns a key for each element of a list, by which it is found again after the list was
/// changed: its name, or else a digest of its content, and how many elements before it have the
/// same.
fn keys(items: &[Value]) -> Vec<String> {
    let mut counts: HashMap<String, usize> = HashMap::new();
    let keys = items.iter().map(|item| {
        let key = match item.get("name").and_then(Value::as_str) {
            Some(name) => format!("name={name}"),
            None => {
                let digest = digest::digest(&digest::SHA256, item.to_string().as_bytes());
                let bytes = digest.as_ref().iter().take(8);
                let digits: String = bytes.map(|byte| format!("{byte:02x}")).collect();
                format!("content={digits}")
            }
        };
        let numbered = |count: usize| format!("{key}#{count}");
        match counts.get_mut(&key) {
            Some(count) => {
                *count += 1;
                numbered(*count)
            }
            None => {
                let first = numbered(0);
                counts.insert(key, 0);
                first
            }
        }
    });
    keys.collect()
}

/// Restores property bags in the objects that are still there.
///
/// A field that the version can express is not restored: admission has seen the object without
/// it.
pub(super) fn restore(value: &mut Value, schema: &Schema, leftovers: Vec<Leftover>) {
    let mut index = Index::default();
    let mut found: BTreeMap<String, Bag> = BTreeMap::new();
    for leftover in leftovers {
        let Some((pointer, schema)) = index.resolve(value, schema, &leftover.path) else {
            continue;
        };
        let mut bag = leftover.bag;
        bag.retain(|key, text| {
            let field = bag::field(schema, key);
            field.is_none_or(|(_, field)| bag::value(text, field).is_none())
        });
        // A client may have written several for one object.
        found.entry(pointer).or_default().extend(bag);
    }
    for (pointer, bag) in found {
        let object = value.pointer_mut(&pointer).and_then(Value::as_object_mut);
        if let Some(object) = object {
            bag::put(object, bag);
        }
    }
}

/// The positions of elements by their keys, for each list by its JSON pointer. They are computed
/// once for all leftovers of a list.
#[derive(Default)]
struct Index(HashMap<String, HashMap<String, usize>>);

impl Index {
    /// Returns the JSON pointer and the schema of the object at a path.
    fn resolve<'a>(
        &mut self,
        value: &Value,
        schema: &'a Schema,
        path: &[String],
    ) -> Option<(String, &'a Schema)> {
        let (mut value, mut schema) = (value, schema);
        let mut pointer = String::new();
        for step in path {
            let name = match (value, schema) {
                (Value::Array(items), Schema::List(item)) => {
                    let index = self.position(&pointer, items, step)?;
                    value = &items[index];
                    schema = item;
                    index.to_string()
                }
                _ => {
                    schema = schema.field(step)?;
                    value = value.get(step)?;
                    step.replace('~', "~0").replace('/', "~1")
                }
            };
            pointer += &format!("/{name}");
        }
        Some((pointer, schema))
    }

    fn position(&mut self, pointer: &str, items: &[Value], key: &str) -> Option<usize> {
        if !self.0.contains_key(pointer) {
            let positions = keys(items).into_iter().zip(0..).collect();
            self.0.insert(pointer.to_owned(), positions);
        }
        self.0.get(pointer)?.get(key).copied()
    }
}

/// Removes the annotation of an object and returns its content.
pub(super) fn take(object: &mut Map<String, Value>) -> Vec<Leftover> {
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
    let Some(metadata) = metadata else {
        return Vec::new();
    };
    let annotations = metadata.get_mut("annotations");
    let Some(annotations) = annotations.and_then(Value::as_object_mut) else {
        return Vec::new();
    };
    let annotation = annotations.remove(ANNOTATION);
    if annotation.is_some() && annotations.is_empty() {
        metadata.remove("annotations");
    }
    // A client may have written anything; what cannot be read is not restored.
    let text = annotation.as_ref().and_then(Value::as_str);
    text.and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default()
}

/// Writes the annotation of an object, if there is anything to keep.
pub(super) fn keep(object: &mut Map<String, Value>, leftovers: &[Leftover]) {
    if leftovers.is_empty() {
        return;
    }
    let Ok(text) = serde_json::to_string(leftovers) else {
        return;
    };
    let metadata = member(object, "metadata");
    let annotations = metadata.and_then(|it| member(it, "annotations"));
    if let Some(annotations) = annotations {
        annotations.insert(ANNOTATION.to_owned(), text.into());
    }
}

/// Returns a member that is an object, which is created if it is missing.
fn member<'a>(
    object: &'a mut Map<String, Value>,
    name: &str,
) -> Option<&'a mut Map<String, Value>> {
    let value = object.entry(name).or_insert_with(|| Map::new().into());
    value.as_object_mut()
}

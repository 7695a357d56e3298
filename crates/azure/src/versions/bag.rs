//! Property bags: fields that a storage version does not have, beside those that it has.
//!
//! Azure Service Operator has one in every object of its storage versions. A key is the name of
//! the field as Go writes it, such as `AofBackupEnabled` for `aof-backup-enabled`. A value is the
//! text of the field, or its JSON if it is no text.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::schema::Schema;

/// The field with the property bag.
pub(super) const FIELD: &str = "$propertyBag";

/// A property bag.
pub(super) type Bag = BTreeMap<String, String>;

/// Returns the key of a field.
pub(super) fn key(field: &str) -> String {
    let words = field.split(|it: char| !it.is_ascii_alphanumeric());
    words.map(capitalize).collect()
}

fn capitalize(word: &str) -> String {
    let mut letters = word.chars();
    match letters.next() {
        Some(first) => first.to_ascii_uppercase().to_string() + letters.as_str(),
        None => String::new(),
    }
}

/// Returns the field with this key. Go capitalizes some abbreviations, as in `OIDCIssuerProfile`,
/// so that only letters and digits are compared.
pub(super) fn field<'a>(schema: &'a Schema, key: &str) -> Option<(&'a str, &'a Schema)> {
    let Schema::Object(fields) = schema else {
        return None;
    };
    let mut fields = fields.iter().filter(|(name, _)| *name != FIELD);
    let (name, schema) = fields.find(|(name, _)| fold(name).eq(fold(key)))?;
    Some((name, schema))
}

fn fold(name: &str) -> impl Iterator<Item = char> {
    let letters = name.chars().filter(char::is_ascii_alphanumeric);
    letters.map(|letter| letter.to_ascii_lowercase())
}

/// Returns the text of a field.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Returns the field with this text, if it fits a schema.
pub(super) fn value(text: &str, schema: &Schema) -> Option<Value> {
    if let Schema::Text(_) = schema {
        return Some(text.into());
    }
    let value = serde_json::from_str(text).ok()?;
    schema.fits(&value).then_some(value)
}

/// Removes and returns the bag of an object.
pub(super) fn take(object: &mut Map<String, Value>) -> Bag {
    match object.remove(FIELD) {
        Some(Value::Object(bag)) => bag
            .iter()
            .map(|(key, it)| (key.clone(), text(it)))
            .collect(),
        _ => Bag::new(),
    }
}

/// Adds entries to the bag of an object.
pub(super) fn put(object: &mut Map<String, Value>, bag: Bag) {
    let mut all = take(object);
    all.extend(bag);
    if !all.is_empty() {
        let entries = all.into_iter().map(|(key, text)| (key, text.into()));
        object.insert(FIELD.to_owned(), Value::Object(entries.collect()));
    }
}

//! An object being printed, and access to its fields.

use crate::time::{Precision, human_duration, parse};
use crate::{Object, Value};

const NONE: &str = "<none>";

/// An object being printed, and the current time.
pub(super) struct Row<'a> {
    object: &'a Object,
    now: i64,
}

impl<'a> Row<'a> {
    pub(super) fn new(object: &'a Object, now: i64) -> Self {
        Self { object, now }
    }

    /// Returns the field at a dotted path.
    pub(super) fn at(&self, path: &str) -> At<'a> {
        let (first, rest) = path.split_once('.').unwrap_or((path, ""));
        let found = At(self.object.get(first));
        if rest.is_empty() {
            found
        } else {
            found.at(rest)
        }
    }

    /// Returns the name of the object.
    pub(super) fn name(&self) -> Value {
        self.text("metadata.name")
    }

    /// Returns the string at the path, empty if there is none.
    pub(super) fn text(&self, path: &str) -> Value {
        Value::from(self.at(path).text())
    }

    /// Returns the number at the path, 0 if there is none.
    pub(super) fn number(&self, path: &str) -> Value {
        Value::from(self.at(path).number())
    }

    /// Returns whether the boolean at the path is true.
    pub(super) fn flag(&self, path: &str) -> Value {
        Value::from(self.at(path).is_true())
    }

    /// Returns the number of items or members at the path.
    pub(super) fn count(&self, path: &str) -> Value {
        Value::from(self.at(path).len())
    }

    /// Returns the age of the object.
    pub(super) fn age(&self) -> Value {
        Value::from(self.since(self.at("metadata.creationTimestamp")))
    }

    /// Returns the creation time of the object.
    pub(super) fn created_at(&self) -> Value {
        let created = self.at("metadata.creationTimestamp").text();
        // Go prints its zero time for an unset time.
        let created = if created.is_empty() {
            "0001-01-01T00:00:00Z"
        } else {
            created
        };
        Value::from(created)
    }

    /// Whether the object is being deleted.
    pub(super) fn deleting(&self) -> bool {
        self.at("metadata.deletionTimestamp").exists()
    }

    /// Returns an annotation, empty if there is none.
    pub(super) fn annotation(&self, name: &str) -> &'a str {
        self.at("metadata.annotations").get(name).text()
    }

    /// Returns the time elapsed since `time`.
    pub(super) fn since(&self, time: At<'_>) -> String {
        match time.seconds() {
            Some(then) => human_duration(self.now.saturating_sub(then)),
            None => "<unknown>".to_owned(),
        }
    }
}

/// A value that may be missing; a value of an unexpected type counts as missing.
#[derive(Clone, Copy)]
pub(super) struct At<'a>(Option<&'a Value>);

impl<'a> At<'a> {
    /// Returns a member by its exact name, which may contain dots.
    pub(super) fn get(self, name: &str) -> Self {
        Self(self.0.and_then(|value| value.get(name)))
    }

    /// Returns the field at a dotted path.
    pub(super) fn at(self, path: &str) -> Self {
        path.split('.').fold(self, |at, name| at.get(name))
    }

    /// Whether the value is present.
    pub(super) fn exists(self) -> bool {
        self.0.is_some_and(|value| !value.is_null())
    }

    /// Returns itself if the value is present.
    pub(super) fn if_exists(self) -> Option<Self> {
        self.exists().then_some(self)
    }

    /// Returns the string.
    pub(super) fn text(self) -> &'a str {
        self.0.and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns the string, or `other` if it is empty.
    pub(super) fn text_or(self, other: &'a str) -> &'a str {
        match self.text() {
            "" => other,
            text => text,
        }
    }

    /// Returns the string, or `<none>`.
    pub(super) fn text_or_none(self) -> &'a str {
        self.text_or(NONE)
    }

    /// Returns the string, or `other` if the value is missing.
    pub(super) fn set_or(self, other: &'a str) -> &'a str {
        if self.exists() { self.text() } else { other }
    }

    /// Returns the number.
    pub(super) fn number(self) -> i64 {
        self.0.and_then(Value::as_i64).unwrap_or_default()
    }

    /// Whether the value is true.
    pub(super) fn is_true(self) -> bool {
        self.flag() == Some(true)
    }

    /// Returns the boolean, if there is one.
    pub(super) fn flag(self) -> Option<bool> {
        self.0.and_then(Value::as_bool)
    }

    /// Returns the string or number as text.
    pub(super) fn int_or_string(self) -> String {
        match self.0 {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) => number.to_string(),
            _ => String::new(),
        }
    }

    /// Returns the quantity; a missing one is zero.
    pub(super) fn quantity(self) -> String {
        match self.int_or_string() {
            text if text.is_empty() => "0".to_owned(),
            text => text,
        }
    }

    /// Returns the time in seconds since 1970.
    pub(super) fn seconds(self) -> Option<i64> {
        // A fraction of a second is dropped.
        let time = parse(self.text(), Precision::Seconds).ok()?;
        Some(time.seconds)
    }

    /// Iterates over the items.
    pub(super) fn items(self) -> impl DoubleEndedIterator<Item = Self> + ExactSizeIterator {
        let items = self.0.and_then(Value::as_array);
        items
            .map_or(&[][..], Vec::as_slice)
            .iter()
            .map(|item| Self(Some(item)))
    }

    /// Iterates over the members, ordered by name.
    pub(super) fn members(self) -> impl Iterator<Item = (&'a str, Self)> {
        let members = self.0.and_then(Value::as_object).into_iter().flatten();
        let mut members: Vec<_> = members
            .map(|(name, value)| (name.as_str(), Self(Some(value))))
            .collect();
        members.sort_unstable_by_key(|(name, _)| *name);
        members.into_iter()
    }

    /// Returns the number of items or members.
    pub(super) fn len(self) -> usize {
        match self.0 {
            Some(Value::Array(items)) => items.len(),
            Some(Value::Object(members)) => members.len(),
            _ => 0,
        }
    }

    /// Returns the first item with the `type`.
    pub(super) fn of_type(self, name: &str) -> Self {
        let mut found = self.items().filter(|item| item.get("type").text() == name);
        found.next().unwrap_or(Self(None))
    }

    /// Whether the first condition of the type is true.
    pub(super) fn has_true(self, condition: &str) -> bool {
        self.of_type(condition).get("status").text() == "True"
    }

    /// Returns the strings of the items, separated by commas.
    pub(super) fn joined(self) -> String {
        let texts: Vec<_> = self.items().map(Self::text).collect();
        texts.join(",")
    }

    /// Returns the members as `name=value` separated by commas, or `<none>`.
    pub(super) fn labels(self) -> String {
        let labels = self.members();
        let labels: Vec<_> = labels
            .map(|(name, value)| format!("{name}={}", value.text()))
            .collect();
        match labels.is_empty() {
            true => NONE.to_owned(),
            false => labels.join(","),
        }
    }

    /// Returns the names of the containers, and their images.
    pub(super) fn containers(self) -> [Value; 2] {
        ["name", "image"].map(|member| {
            let texts: Vec<_> = self.items().map(|item| item.get(member).text()).collect();
            Value::from(texts.join(","))
        })
    }
}

/// Joins strings with a separator; those after the first `max` are only counted.
pub(super) fn with_more(mut texts: Vec<String>, max: usize, comma: &str) -> String {
    let more = texts.len().saturating_sub(max);
    texts.truncate(max);
    let shown = texts.join(comma);
    match more {
        0 => shown,
        more => format!("{shown} + {more} more..."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excess_items_are_counted() {
        let texts = |count| (0..count).map(|number| number.to_string()).collect();
        assert_eq!(with_more(texts(3), 3, ","), "0,1,2");
        assert_eq!(with_more(texts(5), 3, ","), "0,1,2 + 2 more...");
    }
}

//! A writer of protobuf messages, and access to the JSON they are built from.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use serde::ser::{Serialize, Serializer};

use crate::Value;

/// A message being written.
#[derive(Default)]
pub struct Message(Vec<u8>);

impl Message {
    /// Returns the encoded message.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Writes any value as YAML in blocks, as Kubernetes does. JSON would be YAML, too, but there
    /// are readers that take the text as it is.
    pub fn yaml(&mut self, value: &Value) {
        let text = serde_saphyr::to_string(&Sorted(value)).unwrap_or_default();
        self.text(2, &text);
    }

    /// Writes a double, unless it is absent or zero.
    pub fn double(&mut self, number: u64, value: &Value) {
        if let Some(value) = value.as_f64().filter(|value| *value != 0.0) {
            self.fixed(number, value);
        }
    }

    /// Writes a double of a `oneof`, even if it is zero.
    pub fn fixed(&mut self, number: u64, value: f64) {
        const FIXED_64: u64 = 1;
        self.varint(number << 3 | FIXED_64);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// Writes a boolean of a `oneof`, even if it is false.
    pub fn choice(&mut self, number: u64, value: bool) {
        self.varint(number << 3);
        self.varint(u64::from(value));
    }

    /// Writes an integer, unless it is absent or zero.
    pub fn integer(&mut self, number: u64, value: &Value) {
        if let Some(value) = value.as_i64().filter(|value| *value != 0) {
            self.varint(number << 3);
            // Negative numbers take all ten bytes.
            self.varint(value as u64);
        }
    }

    /// Writes a string, even if it is empty.
    pub fn text(&mut self, number: u64, text: &str) {
        self.bytes(number, text.as_bytes());
    }

    /// Writes the string of a member, if it is present.
    pub fn member(&mut self, number: u64, value: &Value) {
        if let Some(text) = value.as_str() {
            self.text(number, text);
        }
    }

    /// Writes the strings of a list.
    pub fn texts(&mut self, number: u64, values: &Value) {
        for value in items(values) {
            self.member(number, value);
        }
    }

    /// Writes a boolean if it is true.
    pub fn flag(&mut self, number: u64, value: &Value) {
        if value == true {
            self.choice(number, true);
        }
    }

    /// Writes a nested message.
    pub fn nested(&mut self, number: u64, write: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        write(&mut inner);
        self.bytes(number, &inner.0);
    }

    /// Writes members as a list of names and values.
    pub fn named<'a, V: Borrow<Value>>(
        &mut self,
        number: u64,
        members: impl IntoIterator<Item = (&'a String, V)>,
        write: impl Fn(&mut Self, &Value),
    ) {
        for (name, value) in members {
            self.nested(number, |out| {
                out.text(1, name);
                out.nested(2, |out| write(out, value.borrow()));
            });
        }
    }

    /// Writes bytes, even if there are none.
    pub fn bytes(&mut self, number: u64, bytes: &[u8]) {
        const LENGTH_DELIMITED: u64 = 2;
        self.varint(number << 3 | LENGTH_DELIMITED);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

/// A value with its members in the order of their names.
struct Sorted<'a>(&'a Value);

impl Serialize for Sorted<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Object(members) => {
                let sorted: BTreeMap<_, _> = members
                    .iter()
                    .map(|(name, value)| (name, Sorted(value)))
                    .collect();
                serializer.collect_map(sorted)
            }
            Value::Array(items) => serializer.collect_seq(items.iter().map(Sorted)),
            scalar => scalar.serialize(serializer),
        }
    }
}

/// Iterates over the members of an object; anything else has none.
pub fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

/// Returns the items of a list; anything else has none.
pub fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_take_as_many_bytes_as_they_need() {
        let mut out = Message::default();
        out.varint(300);
        assert_eq!(out.0, [0xac, 0x02]);
    }

    #[test]
    fn values_are_yaml_in_blocks() {
        let kinds = json!([{"version": "v1", "kind": "Deployment", "group": "apps"}]);
        for (value, yaml) in [
            (json!("get"), "get\n"),
            (json!(true), "true\n"),
            (json!(["port", "protocol"]), "- port\n- protocol\n"),
            (kinds, "- group: apps\n  kind: Deployment\n  version: v1\n"),
            (json!({"group": ""}), "group: \"\"\n"),
        ] {
            let mut out = Message::default();
            out.yaml(&value);
            let head = [2 << 3 | 2, yaml.len() as u8];
            assert_eq!(out.0, [&head, yaml.as_bytes()].concat(), "{value}");
        }
    }
}

//! A YAML document whose members keep their order.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};
use serde_json::Value;

/// A value of a document.
#[derive(Clone, Debug, PartialEq)]
pub enum Ordered {
    /// A mapping, in the order of the document.
    Map(Vec<(String, Self)>),
    /// A sequence.
    List(Vec<Self>),
    /// A text, a number, a truth value or nothing.
    Scalar(Value),
}

impl Ordered {
    /// Parses YAML. An empty document is nothing.
    pub fn parse(text: &str) -> Result<Self, serde_saphyr::Error> {
        let parsed: Option<Self> = serde_saphyr::from_str(text)?;
        Ok(parsed.unwrap_or(Self::Scalar(Value::Null)))
    }

    /// An empty mapping.
    pub const fn map() -> Self {
        Self::Map(Vec::new())
    }

    /// Returns a member of a mapping.
    pub fn get(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Map(members) => members
                .iter()
                .find(|(known, _)| known == name)
                .map(|(_, value)| value),
            Self::List(_) | Self::Scalar(_) => None,
        }
    }

    /// Returns a text member of a mapping, unless it is empty.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.get(name) {
            Some(Self::Scalar(Value::String(text))) if !text.is_empty() => Some(text),
            _ => None,
        }
    }

    /// Sets a member in its place, or at the end. Of anything but a mapping it makes one.
    pub fn set(&mut self, name: &str, value: Self) {
        if !matches!(self, Self::Map(_)) {
            *self = Self::map();
        }
        let Self::Map(members) = self else {
            return;
        };
        match members.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => *old = value,
            None => members.push((name.to_owned(), value)),
        }
    }

    /// Removes a member of a mapping.
    pub fn remove(&mut self, name: &str) {
        if let Self::Map(members) = self {
            members.retain(|(known, _)| known != name);
        }
    }

    /// Whether the value is nothing, as empty files and `null` are.
    pub fn is_null(&self) -> bool {
        *self == Self::Scalar(Value::Null)
    }
}

impl From<Value> for Ordered {
    fn from(value: Value) -> Self {
        match value {
            Value::Object(members) => {
                let members = members.into_iter();
                Self::Map(members.map(|(name, value)| (name, value.into())).collect())
            }
            Value::Array(items) => Self::List(items.into_iter().map(Self::from).collect()),
            scalar => Self::Scalar(scalar),
        }
    }
}

impl Serialize for Ordered {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Map(members) => to.collect_map(members.iter().map(|(name, value)| (name, value))),
            Self::List(items) => to.collect_seq(items),
            Self::Scalar(scalar) => scalar.serialize(to),
        }
    }
}

impl<'de> Deserialize<'de> for Ordered {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(AnyValue)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Ordered;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Ordered, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(Ordered::Map(members))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Ordered, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Ordered::List(items))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Ordered, E> {
        Ok(Ordered::Scalar(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Ordered, E> {
        Ok(Ordered::Scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Ordered, E> {
        Ok(Ordered::Scalar(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Ordered, E> {
        Ok(Ordered::Scalar(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Ordered, E> {
        Ok(Ordered::Scalar(value.into()))
    }

    fn visit_string<E>(self, value: String) -> Result<Ordered, E> {
        Ok(Ordered::Scalar(value.into()))
    }

    fn visit_unit<E>(self) -> Result<Ordered, E> {
        Ok(Ordered::Scalar(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Ordered, E> {
        Ok(Ordered::Scalar(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Ordered, D::Error> {
        from.deserialize_any(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output;

    /// A text that reads like another type, or like syntax, must stay a text.
    #[test]
    fn document_is_written_as_it_was_read() {
        let document = r#"
z: 1
a: ["0123", "1e3", "true", "null", "~", "2026-01-01", "0x1f", "yes", "1_000", ".5", ""]
m: {b: true, a: ~, c: 1.5, d: -7}
n: "a: b #c"
l: |
  two
  lines
q: "- x"
"#;
        let read = Ordered::parse(document).unwrap();
        let Ordered::Map(members) = &read else {
            panic!("a mapping: {read:?}");
        };
        let names: Vec<_> = members.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["z", "a", "m", "n", "l", "q"]);
        let written = output::yaml(&read).unwrap();
        let again = Ordered::parse(&written).unwrap();
        assert_eq!(again, read, "{written}");
        assert_eq!(read.text("l"), Some("two\nlines\n"));
    }

    #[test]
    fn members_keep_their_place() {
        let mut document = Ordered::parse("b: 1\na: {}\n").unwrap();
        document.set("b", Ordered::Scalar("x".into()));
        document.set("c", Ordered::map());
        document.remove("a");
        let expected = Ordered::parse("b: x\nc: {}\n").unwrap();
        assert_eq!(document, expected);
        assert_eq!((document.text("b"), document.text("c")), (Some("x"), None));
        let mut nothing = Ordered::parse("").unwrap();
        assert!(nothing.is_null());
        nothing.set("a", Ordered::Scalar(1.into()));
        assert!(nothing.get("a").is_some());
    }
}

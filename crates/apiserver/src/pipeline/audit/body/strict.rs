//! JSON that every parser takes.
//!
//! A parser that skips what it does not know accepts more than one that builds a tree: numbers
//! beyond a double, halves of surrogate pairs, any nesting. Recorded as it is, such a body would
//! make whole events and whole batches unreadable for those who collect them.

use std::fmt;

use insula_kinds::decode::MAX_DEPTH;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// The most nesting of a body: that of objects, less that of the event and the list around it.
const MAX_BODY_DEPTH: usize = MAX_DEPTH - 4;

/// Whether a text is JSON that every parser takes.
pub fn is_strict(json: &[u8]) -> bool {
    let mut from = serde_json::Deserializer::from_slice(json);
    let read = Strict {
        depth: MAX_BODY_DEPTH,
    }
    .deserialize(&mut from);
    read.is_ok() && from.end().is_ok()
}

/// Reads a value without keeping it.
#[derive(Clone, Copy)]
struct Strict {
    /// The nesting that is left.
    depth: usize,
}

impl Strict {
    fn inner<E: Error>(self) -> Result<Self, E> {
        let depth = self.depth.checked_sub(1);
        let depth = depth.ok_or_else(|| E::custom("exceeded max depth"))?;
        Ok(Self { depth })
    }
}

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let item = self.inner()?;
        while list.next_element_seed(item)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let member = self.inner()?;
        while map.next_key_seed(member)?.is_some() {
            map.next_value_seed(member)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_every_parser_takes_is_strict() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        for (json, expected) in [
            (r#"{"a": [1, -2.5, null, true, "\ud83d\ude00"]} "#, true),
            ("1e308", true),
            (&nested(MAX_BODY_DEPTH), true),
            (&nested(MAX_BODY_DEPTH + 1), false),
            (&nested(100_000), false),
            (r#"{"\ud800": 1}"#, false),
            (r#""\ud800""#, false),
            ("1e999", false),
            ("[1] 2", false),
            ("{", false),
            ("", false),
        ] {
            assert_eq!(is_strict(json.as_bytes()), expected, "{json:.20}");
        }
        assert!(!is_strict(b"\"\xff\""));
    }
}

//! Unambiguous JSON.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Parses a JSON object. Returns `None` for any other value, and if an object at any level
/// has duplicate members, because another parser may have read the other one.
pub fn object(bytes: &[u8]) -> Option<Map<String, Value>> {
    match serde_json::from_slice(bytes) {
        Ok(Distinct(Value::Object(members))) => Some(members),
        _ => None,
    }
}

struct Distinct(Value);

impl<'de> Deserialize<'de> for Distinct {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Reader).map(Self)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON with distinct members")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut read = Vec::new();
        while let Some(Distinct(item)) = items.next_element()? {
            read.push(item);
        }
        Ok(Value::Array(read))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut read = Map::new();
        while let Some((name, Distinct(value))) = members.next_entry::<String, Distinct>()? {
            if read.insert(name, value).is_some() {
                return Err(de::Error::custom("duplicate member"));
            }
        }
        Ok(Value::Object(read))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_is_read_verbatim_and_duplicate_members_are_rejected() {
        let deep = |levels| format!("{{\"a\":{}{}}}", "[".repeat(levels), "]".repeat(levels));
        for good in [
            "{}",
            " { } ",
            r#"{"a":1,"b":-2,"c":1.5,"d":null,"e":true,"f":["x",{"a":"a"}]}"#,
            r#"{"a":{"a":{"a":1}},"A":2}"#,
            &deep(100),
        ] {
            let read = object(good.as_bytes()).map(Value::Object);
            assert_eq!(read, serde_json::from_str(good).ok(), "{good}");
            assert!(read.is_some(), "{good}");
        }
        for bad in [
            "",
            "[]",
            "1",
            "null",
            "{} {}",
            "{}x",
            "\u{feff}{}",
            r#"{"a":1,}"#,
            r#"{"a":1,"a":1}"#,
            r#"{"alg":"ES256","\u0061lg":"none"}"#,
            r#"{"a":{"b":1,"b":2}}"#,
            r#"{"a":[{"b":1,"b":2}]}"#,
            r#"{"a":"\ud800"}"#,
            &deep(10_000),
        ] {
            assert_eq!(object(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(object(b"{\"a\":\"\xff\"}"), None);
    }
}

//! YAML, decoded through the JSON that Kubernetes converts it to.
//!
//! Scalars follow YAML 1.1 (`yes`, `0644`), since manifests are written in it. Depth,
//! size and alias expansion are bounded.

use std::cell::RefCell;
use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_saphyr::options::{AliasLimits, DuplicateKeyPolicy};
use serde_saphyr::{Options, Spanned};

use super::type_meta::{TypeMeta, TypeMetaOnly, type_meta_json};
use super::{DecodeError, Decoded, document};
use crate::Object;
use crate::types::TypeId;
use insula_gotext::quote;

/// Maximum nesting of YAML. It is lower than for JSON, since the parser needs much more
/// stack for each level (22 KiB in an unoptimised build).
const MAX_YAML_DEPTH: usize = 64;

/// Maximum number of nodes that aliases may add to a document. Manifests repeat a label
/// or a container, not ten thousand of them, and a few lines of aliases must not keep a
/// server busy.
const MAX_REPEATED: usize = 10_000;

/// Reads an object from YAML. A second document is an error.
pub fn yaml(of: TypeId, text: &[u8]) -> Result<Decoded, DecodeError> {
    // Most bodies sent as YAML are JSON, which is read much faster. Duplicate keys are
    // still reported in the wording of YAML.
    if looks_like_json(text)
        && let Ok(decoded) = super::json(of, text)
        && !decoded.problems.iter().any(|text| text.starts_with("dup"))
    {
        return Ok(decoded);
    }
    let (value, duplicates) = tree(text)?;
    let mut decoded = super::value(of, value)?;
    if !duplicates.is_empty() {
        let duplicates = format!("yaml: unmarshal errors:\n  {}", duplicates.join("\n  "));
        decoded.problems.insert(0, duplicates);
    }
    Ok(decoded)
}

/// Reads the type metadata of a YAML document. Its syntax is checked to the end.
pub fn type_meta_yaml(text: &[u8]) -> Result<TypeMeta, DecodeError> {
    if looks_like_json(text)
        && let Ok(type_meta) = type_meta_json(text)
    {
        return Ok(type_meta);
    }
    let (value, _) = tree(text)?;
    TypeMetaOnly::deserialize(value)
        .map(|TypeMetaOnly(type_meta)| type_meta)
        .map_err(|error| DecodeError::not_json(&error.to_string()))
}

/// Reads any YAML document, with the keys that occur twice in it.
pub fn any_yaml(text: &[u8]) -> Result<(Value, Vec<String>), DecodeError> {
    if looks_like_json(text)
        && let Ok(read) = document::read(text)
        && read.problems.is_empty()
    {
        return Ok((read.value, Vec::new()));
    }
    tree(text)
}

fn looks_like_json(text: &[u8]) -> bool {
    text.trim_ascii_start().starts_with(b"{")
}

/// Returns the document as JSON, with the keys that occur twice in it.
pub(super) fn tree(text: &[u8]) -> Result<(Value, Vec<String>), DecodeError> {
    let text = std::str::from_utf8(text)
        .map_err(|_| DecodeError::Syntax("yaml: invalid leading UTF-8 octet".to_owned()))?;
    let duplicates = RefCell::new(Vec::new());
    let read = serde_saphyr::with_deserializer_from_str_with_options(text, options(), |from| {
        let duplicates = &duplicates;
        Tree { duplicates }.deserialize(from)
    });
    match read {
        Ok(value) => Ok((value, duplicates.take())),
        Err(error) => Err(DecodeError::Syntax(sentence(&error))),
    }
}

fn options() -> Options {
    let mut aliases = AliasLimits::default();
    aliases.max_total_replayed_events = MAX_REPEATED;
    let mut budget = serde_saphyr::Budget::default();
    budget.max_depth = MAX_YAML_DEPTH;
    let mut options = Options::default();
    options.budget = Some(budget);
    options.alias_limits = aliases;
    options.duplicate_keys = DuplicateKeyPolicy::LastWins;
    options.legacy_octal_numbers = true;
    options.with_snippet = false;
    options
}

fn sentence(error: &serde_saphyr::Error) -> String {
    let text = match error.without_snippet() {
        serde_saphyr::Error::MultipleDocuments { .. } => "more than one document".to_owned(),
        error => error.to_string(),
    };
    // The position goes first, as in Go's YAML.
    let text = text.split(" at line ").next().unwrap_or(&text);
    match error.location() {
        // Go's YAML does not mention the first line.
        Some(location) if location.line() > 1 => format!("yaml: line {}: {text}", location.line()),
        _ => format!("yaml: {text}"),
    }
}

/// Builds the JSON value of a node.
#[derive(Clone, Copy)]
struct Tree<'a> {
    duplicates: &'a RefCell<Vec<String>>,
}

impl<'de> DeserializeSeed<'de> for Tree<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tree<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    /// Go writes a whole double without a point, so that it can be read as an integer.
    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        if !value.is_finite() {
            return Err(E::custom("a number that JSON does not have"));
        }
        // In this range the conversion to i64 is exact.
        let whole = value.fract() == 0.0 && value.abs() < 9.2e18;
        Ok(if whole {
            Value::from(value as i64)
        } else {
            Value::from(value)
        })
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        Ok(Value::from(text))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Value, E> {
        Ok(Value::String(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(value) = from.next_element_seed(self)? {
            list.push(value);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut map = Object::new();
        while let Some(key) = from.next_key::<Spanned<Key>>()? {
            let Key { name, printed } = key.value;
            let value = from.next_value_seed(self)?;
            if map.insert(name, value).is_some() {
                let line = key.referenced.line();
                let mut duplicates = self.duplicates.borrow_mut();
                duplicates.push(format!("line {line}: key {printed} already set in map"));
            }
        }
        Ok(Value::Object(map))
    }
}

/// A map key as JSON has it, and as Go prints it.
struct Key {
    name: String,
    printed: String,
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Scalar;

        impl Visitor<'_> for Scalar {
            type Value = Key;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a scalar as key")
            }

            fn visit_bool<E: Error>(self, value: bool) -> Result<Key, E> {
                Ok(Key::bare(value))
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Key, E> {
                Ok(Key::bare(value))
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<Key, E> {
                Ok(Key::bare(value))
            }

            fn visit_f64<E: Error>(self, value: f64) -> Result<Key, E> {
                Ok(Key::bare(value))
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<Key, E> {
                Ok(Key {
                    name: name.to_owned(),
                    printed: quote(name),
                })
            }
        }

        from.deserialize_any(Scalar)
    }
}

impl Key {
    fn bare(value: impl fmt::Display) -> Self {
        let name = value.to_string();
        Self {
            printed: name.clone(),
            name,
        }
    }
}

//! The `apiVersion` and `kind` of a document.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::{DecodeError, scan, utf8};

/// The kind and version that a document declares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypeMeta {
    /// `apiVersion`, if it is present and not null.
    pub api_version: Option<String>,
    /// `kind`, if it is present and not null.
    pub kind: Option<String>,
}

/// Reads the type metadata of a JSON document. Its syntax is checked to the end.
pub fn type_meta_json(text: &[u8]) -> Result<TypeMeta, DecodeError> {
    let text = utf8(text)?;
    serde_json::from_str(text)
        .map(|TypeMetaOnly(type_meta)| type_meta)
        .map_err(|error| {
            let message = scan::syntax_error(text.as_bytes());
            DecodeError::not_json(&message.unwrap_or_else(|| super::without_location(&error)))
        })
}

/// Deserializes a [`TypeMeta`] and ignores all other members.
pub(super) struct TypeMetaOnly(pub(super) TypeMeta);

impl<'de> Deserialize<'de> for TypeMetaOnly {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(TypeMetaVisitor).map(Self)
    }
}

struct TypeMetaVisitor;

/// The name of the struct that Go decodes type metadata into.
const GO_STRUCT: &str = r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;

impl<'de> Visitor<'de> for TypeMetaVisitor {
    type Value = TypeMeta;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_unit<E: Error>(self) -> Result<TypeMeta, E> {
        Ok(TypeMeta::default())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<TypeMeta, E> {
        Err(no_object("bool"))
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<TypeMeta, E> {
        Err(no_object("number"))
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<TypeMeta, E> {
        Err(no_object("number"))
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<TypeMeta, E> {
        Err(no_object("number"))
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<TypeMeta, E> {
        Err(no_object("string"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<TypeMeta, A::Error> {
        Err(no_object("array"))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<TypeMeta, A::Error> {
        let mut type_meta = TypeMeta::default();
        while let Some(member) = map.next_key::<Member>()? {
            match member {
                Member::ApiVersion => type_meta.api_version = text(&mut map, "apiVersion")?,
                Member::Kind => type_meta.kind = text(&mut map, "kind")?,
                Member::Other => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(type_meta)
    }
}

enum Member {
    ApiVersion,
    Kind,
    Other,
}

impl<'de> Deserialize<'de> for Member {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Name;
        impl Visitor<'_> for Name {
            type Value = Member;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<Member, E> {
                Ok(match name {
                    "apiVersion" => Member::ApiVersion,
                    "kind" => Member::Kind,
                    _ => Member::Other,
                })
            }
        }
        from.deserialize_str(Name)
    }
}

/// Reads a member that must be a string or null.
fn text<'de, A: MapAccess<'de>>(map: &mut A, name: &str) -> Result<Option<String>, A::Error> {
    let found = match map.next_value::<serde_json::Value>()? {
        serde_json::Value::Null => return Ok(None),
        serde_json::Value::String(text) => return Ok(Some(text)),
        serde_json::Value::Bool(_) => "bool",
        serde_json::Value::Number(_) => "number",
        serde_json::Value::Array(_) => "array",
        serde_json::Value::Object(_) => "object",
    };
    Err(A::Error::custom(format!(
        "json: cannot unmarshal {found} into Go struct field .{name} of type string"
    )))
}

fn no_object<E: Error>(found: &str) -> E {
    E::custom(format!(
        "json: cannot unmarshal {found} into Go value of type {GO_STRUCT}"
    ))
}

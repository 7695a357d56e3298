//! The parts of an object that its table row shows.
//!
//! A row shows a few short texts. The values of a Secret or the managed fields of a Pod are not
//! decoded for it.

use serde_json::Value;

use crate::scan::Members;
use crate::{Kind, Object};

/// How much of a member is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    Whole,
    /// All of its members but `managedFields`: the metadata.
    Unmanaged,
    /// As many nulls as it has members.
    Count,
    /// Nothing.
    None,
}

/// Returns how much of a member of the kind's objects their cells show.
pub fn row_part(kind: &Kind, member: &str) -> Part {
    match (kind.kind.as_str(), member) {
        (_, "metadata") => Part::Unmanaged,
        _ if shows_only_metadata(kind) => Part::None,
        ("ConfigMap" | "Secret", "data" | "binaryData") => Part::Count,
        _ => Part::Whole,
    }
}

/// Whether the columns are the name and the age or time of creation.
fn shows_only_metadata(kind: &Kind) -> bool {
    let names: Vec<_> = kind
        .columns
        .iter()
        .map(|column| column.name.as_str())
        .collect();
    matches!(names.as_slice(), ["Name", "Age" | "Created At"])
}

/// Decodes the parts of the object with this JSON text. Text that is not as the server writes it
/// is decoded as a whole.
pub fn decode_parts(json: &[u8], part: impl Fn(&str) -> Part) -> Object {
    let decoded = try_decode(json, &part);
    decoded.unwrap_or_else(|| serde_json::from_slice(json).unwrap_or_default())
}

fn try_decode(json: &[u8], part: &dyn Fn(&str) -> Part) -> Option<Object> {
    let mut object = Object::new();
    let mut members = Members::new(json, 0);
    for (name, range) in members.by_ref() {
        let name = plain(name)?;
        let value = match part(name) {
            Part::None => continue,
            Part::Whole => serde_json::from_slice(&json[range]).ok()?,
            Part::Count => match json[range.start] {
                b'{' => {
                    let mut members = Members::new(json, range.start);
                    let nulls = members.by_ref().map(|_| Value::Null).collect();
                    Value::Array(members.has_ended().then_some(nulls)?)
                }
                _ => serde_json::from_slice(&json[range]).ok()?,
            },
            Part::Unmanaged => {
                let inner = |name: &str| match name {
                    "managedFields" => Part::None,
                    _ => Part::Whole,
                };
                match json[range.start] {
                    b'{' => Value::Object(try_decode(&json[range], &inner)?),
                    _ => serde_json::from_slice(&json[range]).ok()?,
                }
            }
        };
        object.insert(name.to_owned(), value);
    }
    members.has_ended().then_some(object)
}

/// Returns a name that has no escapes.
fn plain(name: &[u8]) -> Option<&str> {
    let name = std::str::from_utf8(name).ok()?;
    (!name.contains('\\')).then_some(name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{core_kind, kinds};

    #[test]
    fn values_of_secrets_are_only_counted() {
        let text = br#"{"kind":"Secret","apiVersion":"v1","metadata":{"name":"a","managedFields":[{}]},"data":{"a":"eA==","b":"}"},"type":"Opaque"}"#;
        let kind = kinds().get(core_kind("secrets"));
        let object = decode_parts(text, |member| row_part(kind, member));
        assert_eq!(
            Value::Object(object),
            json!({"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "a"},
                "data": [null, null], "type": "Opaque"})
        );
        for odd in [
            r#"{"metadata": {"name":"a"}}"#,
            r#"{"m\u0065tadata":{"name":"a"}}"#,
            r#"{"metadata":null,"data":null}"#,
        ] {
            let object = decode_parts(odd.as_bytes(), |member| row_part(kind, member));
            let whole: Value = serde_json::from_str(odd).unwrap();
            assert_eq!(Value::Object(object), whole, "{odd}");
        }
    }

    #[test]
    fn kinds_with_default_columns_show_only_metadata() {
        for (kind, member, part) in [
            ("limitranges", "spec", Part::None),
            ("pods", "spec", Part::Whole),
            ("pods", "metadata", Part::Unmanaged),
            ("configmaps", "binaryData", Part::Count),
        ] {
            let of = kinds().get(core_kind(kind));
            assert_eq!(row_part(of, member), part, "{kind} {member}");
        }
    }
}

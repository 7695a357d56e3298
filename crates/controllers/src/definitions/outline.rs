//! Definitions read without their schemas.
//!
//! Schemas are most of a definition: decoded, a large one takes 20 MB and as many milliseconds. A
//! group may have hundreds, and each is reconciled against all others.

use insula_kinds::{Object, Value};
use memchr::memmem;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

/// Returns the definition without `spec.versions`; an empty object if it cannot be decoded.
pub fn without_versions(body: &[u8]) -> Object {
    let Ok(Outline {
        metadata,
        spec,
        status,
    }) = serde_json::from_slice(body)
    else {
        return Object::new();
    };
    let members = [
        ("metadata", Some(metadata)),
        ("spec", Some(Value::Object(spec.0))),
        ("status", status),
    ];
    let members = members.into_iter();
    members
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect()
}

/// Returns an object with the definition's status alone.
pub fn status_only(body: &[u8]) -> Object {
    let status = last_status(body).or_else(|| {
        let outline: Result<StatusOnly, _> = serde_json::from_slice(body);
        outline.ok()?.status
    });
    status
        .map(|status| ("status".to_owned(), status))
        .into_iter()
        .collect()
}

#[derive(Deserialize)]
struct Outline {
    #[serde(default)]
    metadata: Value,
    #[serde(default)]
    spec: SpecOutline,
    status: Option<Value>,
}

#[derive(Deserialize)]
struct StatusOnly {
    status: Option<Value>,
}

/// A specification without its versions.
#[derive(Default)]
struct SpecOutline(Object);

impl<'de> Deserialize<'de> for SpecOutline {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(SpecVisitor)
    }
}

struct SpecVisitor;

impl<'de> Visitor<'de> for SpecVisitor {
    type Value = SpecOutline;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("the specification of a definition")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<SpecOutline, A::Error> {
        let mut spec = Object::new();
        while let Some(member) = map.next_key::<String>()? {
            if member == "versions" {
                map.next_value::<IgnoredAny>()?;
            } else {
                spec.insert(member, map.next_value()?);
            }
        }
        Ok(SpecOutline(spec))
    }
}

/// Returns the status if it is the last member of the object, as it is stored, without reading
/// what is before it.
fn last_status(body: &[u8]) -> Option<Value> {
    const MEMBER: &[u8] = br#""status":{"#;
    // Within the status, members of that name are strings. One within the specification is
    // followed by the ends of more than one object.
    let at = memmem::rfind(body, MEMBER)? + MEMBER.len() - 1;
    let mut values = serde_json::Deserializer::from_slice(&body[at..]).into_iter();
    let status = values.next()?.ok()?;
    let rest = &body[at + values.byte_offset()..];
    (rest == b"}").then_some(status)
}

#[cfg(test)]
mod tests {
    use insula_custom::names::Names;
    use serde_json::json;

    use super::*;

    fn definition() -> Value {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.example.com", "uid": "u"},
            "spec": {
                "group": "example.com",
                "names": {"plural": "widgets", "kind": "Widget"},
                "versions": [{"name": "v1", "schema": {"openAPIV3Schema": {"properties": {
                    "status": {"type": "object", "description": "has \"status\":{}}"}}}}}],
            },
            "status": {
                "acceptedNames": {"plural": "widgets", "kind": "Widget", "shortNames": ["w"]},
                "conditions": [{"type": "Established", "status": "True"}],
            },
        })
    }

    #[test]
    fn outline_has_everything_but_versions() {
        let mut expected = definition();
        let outline = without_versions(expected.to_string().as_bytes());
        expected["spec"].as_object_mut().unwrap().remove("versions");
        for member in ["metadata", "spec", "status"] {
            assert_eq!(outline.get(member), expected.get(member), "{member}");
        }
        assert_eq!(outline.len(), 3);
    }

    #[test]
    fn status_is_read_wherever_it_is() {
        let last = definition();
        let text = last.to_string();
        assert_eq!(last_status(text.as_bytes()), Some(last["status"].clone()));
        assert_eq!(status_only(text.as_bytes())["status"], last["status"]);
        let first = format!(r#"{{"status":{},"spec":{}}}"#, last["status"], last["spec"]);
        assert_eq!(last_status(first.as_bytes()), None);
        let names = Names::accepted(&status_only(first.as_bytes()));
        assert_eq!(
            (names.plural.as_str(), names.short_names.len()),
            ("widgets", 1)
        );
    }

    #[test]
    fn definition_without_status_has_none() {
        let mut without = definition();
        without.as_object_mut().unwrap().remove("status");
        let text = without.to_string();
        assert_eq!(status_only(text.as_bytes()), Object::new());
        assert_eq!(without_versions(text.as_bytes()).get("status"), None);
        assert_eq!(status_only(b"no JSON"), Object::new());
        assert_eq!(without_versions(b"no JSON"), Object::new());
    }
}

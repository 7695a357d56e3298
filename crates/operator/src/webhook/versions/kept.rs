//! Fields that the version of an object cannot express, kept in an annotation.
//!
//! The annotation lists the differences between an object and its conversion there and back. When
//! the object is converted back, a difference is restored if both are true:
//!
//! - The field has the value that the conversion gave it. A client that changed the field since
//!   does not lose the change.
//! - The version that is converted does not show the difference. Validation and admission see the
//!   object in the version of the request. So no client can use the annotation to write a field
//!   that these would have seen.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

/// The maximum number of fields that are restored.
const MAX_FIELDS: usize = 256;

/// The content of the annotation.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Kept {
    /// The version that the fields belong to.
    version: String,
    fields: Vec<Difference>,
}

/// A field that has another value after a conversion there and back.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Difference {
    /// The JSON pointer of the field.
    path: String,
    /// The value after the conversion; missing if the field is.
    #[serde(default, deserialize_with = "present")]
    #[serde(skip_serializing_if = "Option::is_none")]
    converted: Option<Value>,
    /// The value to restore; missing if the field is to be removed.
    #[serde(default, deserialize_with = "present")]
    #[serde(skip_serializing_if = "Option::is_none")]
    original: Option<Value>,
}

/// Reads `null` as a value of its own, not as a missing one.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// Removes the annotation and returns its content, if that is for this version.
pub(super) fn take(object: &mut Map<String, Value>, annotation: &str, version: &str) -> Kept {
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
    let Some(metadata) = metadata else {
        return Kept::default();
    };
    let annotations = metadata.get_mut("annotations");
    let Some(annotations) = annotations.and_then(Value::as_object_mut) else {
        return Kept::default();
    };
    let Some(annotation) = annotations.remove(annotation) else {
        return Kept::default();
    };
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
    let kept = annotation.as_str().and_then(|text| {
        // A client may have written anything; what cannot be read is not restored.
        serde_json::from_str::<Kept>(text).ok()
    });
    let mut kept = kept
        .filter(|kept| kept.version == version)
        .unwrap_or_default();
    kept.fields.truncate(MAX_FIELDS);
    kept
}

/// Restores the kept fields of a converted object. `back` converts it to the version that it was
/// converted from.
pub(super) fn restore(converted: Value, kept: &Kept, back: impl Fn(&Value) -> Value) -> Value {
    if kept.fields.is_empty() {
        return converted;
    }
    let shown = back(&converted);
    let mut restored = converted.clone();
    for field in &kept.fields {
        field.restore(&mut restored);
    }
    if back(&restored) == shown {
        return restored;
    }
    // At least one field is shown: restore the others.
    let mut restored = converted;
    for field in &kept.fields {
        let mut candidate = restored.clone();
        field.restore(&mut candidate);
        if back(&candidate) == shown {
            restored = candidate;
        }
    }
    restored
}

/// Returns what a conversion of a version there and back changed.
pub(super) fn compare(version: &str, converted: &Value, original: &Value) -> Kept {
    let mut fields = Vec::new();
    add_differences(String::new(), Some(converted), Some(original), &mut fields);
    Kept {
        version: version.to_owned(),
        fields,
    }
}

/// Writes the annotation, if there is anything to keep.
pub(super) fn keep(object: &mut Map<String, Value>, annotation: &str, kept: &Kept) {
    if kept.fields.is_empty() {
        return;
    }
    let Ok(text) = serde_json::to_string(kept) else {
        return;
    };
    let annotations = member(object, "metadata").and_then(|it| member(it, "annotations"));
    annotations.and_then(|it| it.insert(annotation.to_owned(), text.into()));
}

/// Returns a member that is an object, which is created if it is missing.
fn member<'a>(
    object: &'a mut Map<String, Value>,
    name: &str,
) -> Option<&'a mut Map<String, Value>> {
    if !object.get(name).is_some_and(Value::is_object) {
        object.insert(name.to_owned(), Map::new().into());
    }
    object.get_mut(name)?.as_object_mut()
}

/// Adds the fields that differ. A list is one field.
fn add_differences(
    path: String,
    converted: Option<&Value>,
    original: Option<&Value>,
    differences: &mut Vec<Difference>,
) {
    if converted == original {
        return;
    }
    let (Some(Value::Object(one)), Some(Value::Object(other))) = (converted, original) else {
        differences.push(Difference {
            path,
            converted: converted.cloned(),
            original: original.cloned(),
        });
        return;
    };
    let added = other.keys().filter(|name| !one.contains_key(*name));
    for name in one.keys().chain(added) {
        let escaped = name.replace('~', "~0").replace('/', "~1");
        let path = format!("{path}/{escaped}");
        add_differences(path, one.get(name), other.get(name), differences);
    }
}

impl Difference {
    /// Restores the field, unless it was changed since.
    fn restore(&self, content: &mut Value) {
        let Some((parent, name)) = self.path.rsplit_once('/') else {
            return;
        };
        let name = name.replace("~1", "/").replace("~0", "~");
        let parent = content.pointer_mut(parent).and_then(Value::as_object_mut);
        let Some(parent) = parent else { return };
        if parent.get(&name) != self.converted.as_ref() {
            return;
        }
        match &self.original {
            Some(value) => parent.insert(name, value.clone()),
            None => parent.remove(&name),
        };
    }
}

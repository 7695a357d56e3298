//! Decoding of custom resources: metadata is read by its type, everything else verbatim.
//! Fields that are not in the schema are pruned later, by the schema.

use std::sync::LazyLock;

use serde_json::Value;

use super::{DecodeError, Decoded, document, utf8, yaml};
use crate::Object;
use crate::types::{TypeId, types};

static METADATA: LazyLock<TypeId> = LazyLock::new(|| {
    let metadata = types().find("apimachinery.pkg.apis.meta.v1.ObjectMeta");
    metadata.expect("the table has the metadata type")
});

/// Reads a custom resource from JSON.
pub fn custom_json(text: &[u8]) -> Result<Decoded, DecodeError> {
    let text = utf8(text)?;
    let read = document::read(text.as_bytes());
    let read = read.map_err(|message| match super::scan::syntax_error(text.as_bytes()) {
        Some(message) => DecodeError::not_json(&message),
        None if message.starts_with("recursion limit") => DecodeError::too_deep(),
        None => DecodeError::not_json(&message),
    })?;
    let mut decoded = custom_value(read.value)?;
    decoded.problems.splice(0..0, read.problems);
    Ok(decoded)
}

/// Reads a custom resource from YAML.
pub fn custom_yaml(text: &[u8]) -> Result<Decoded, DecodeError> {
    let (value, duplicates) = yaml::tree(text)?;
    let mut decoded = custom_value(value)?;
    if !duplicates.is_empty() {
        let duplicates = format!("yaml: unmarshal errors:\n  {}", duplicates.join("\n  "));
        decoded.problems.insert(0, duplicates);
    }
    Ok(decoded)
}

/// Reads a custom resource from a tree.
pub fn custom_value(value: Value) -> Result<Decoded, DecodeError> {
    let mut object = match value {
        Value::Object(object) => object,
        Value::Null => Object::new(),
        other => {
            let what = match other {
                Value::Array(_) => "array",
                Value::String(_) => "string",
                Value::Bool(_) => "bool",
                _ => "number",
            };
            return Err(DecodeError::not_json(&format!(
                "json: cannot unmarshal {what} into Go value of type struct {{ APIVersion string \
                 \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \
                 \"json:\\\"kind,omitempty\\\"\" }}"
            )));
        }
    };
    let mut problems = Vec::new();
    if let Some(metadata) = object.remove("metadata").filter(|value| !value.is_null()) {
        let read = super::value(*METADATA, metadata)?;
        let in_metadata = |problem: String| problem.replacen("field \"", "field \"metadata.", 1);
        problems.extend(read.problems.into_iter().map(in_metadata));
        object.insert("metadata".to_owned(), Value::Object(read.object));
    }
    Ok(Decoded { object, problems })
}

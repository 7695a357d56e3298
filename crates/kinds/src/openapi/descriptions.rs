//! Descriptions of types and fields, which the tables leave out and an operator may supply.

use std::collections::HashMap;

use serde::Deserialize;

use crate::{Object, Value};

/// Descriptions by the OpenAPI name of the type, such as `io.k8s.api.core.v1.Pod`.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub struct Descriptions {
    types: HashMap<String, Described>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Described {
    #[serde(default)]
    description: String,
    #[serde(default)]
    properties: HashMap<String, String>,
}

impl Descriptions {
    /// Parses the JSON that `tools/kindgen/descriptions` writes.
    pub fn parse(json: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(json)
    }

    /// Returns a document of either version with the descriptions of its types.
    pub fn describe(&self, document: Vec<u8>) -> Vec<u8> {
        let Ok(mut parsed) = serde_json::from_slice::<Value>(&document) else {
            return document;
        };
        for path in ["/components/schemas", "/definitions"] {
            if let Some(Value::Object(schemas)) = parsed.pointer_mut(path) {
                self.describe_schemas(schemas);
            }
        }
        serde_json::to_vec(&parsed).unwrap_or(document)
    }

    /// Adds the descriptions to schemas by name.
    pub(super) fn describe_schemas(&self, schemas: &mut Object) {
        for (name, schema) in schemas {
            let Some(described) = self.types.get(name) else {
                continue;
            };
            if !described.description.is_empty() {
                schema["description"] = described.description.as_str().into();
            }
            let Some(Value::Object(properties)) = schema.get_mut("properties") else {
                continue;
            };
            for (field, property) in properties {
                if let Some(text) = described.properties.get(field) {
                    property["description"] = text.as_str().into();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{v2_document, v3_document};
    use super::*;

    const CONFIG_MAP: &[u8] = br#"{
        "io.k8s.api.core.v1.ConfigMap": {
            "description": "Holds small settings.",
            "properties": {"data": "The settings.", "metadata": "The name and labels."}
        },
        "io.k8s.api.core.v1.NoSuchType": {"properties": {"data": "Unused."}}
    }"#;

    fn parsed(document: &[u8]) -> Value {
        serde_json::from_slice(document).unwrap()
    }

    #[test]
    fn types_and_fields_get_the_descriptions_that_are_supplied() {
        let descriptions = Descriptions::parse(CONFIG_MAP).unwrap();
        let plain = v3_document("api/v1", &|_| true).unwrap();
        let described = parsed(&descriptions.describe(plain.clone()));
        let config_map = &described["components"]["schemas"]["io.k8s.api.core.v1.ConfigMap"];
        assert_eq!(config_map["description"], "Holds small settings.");
        assert_eq!(
            config_map["properties"]["data"]["description"],
            "The settings."
        );
        assert_eq!(
            config_map["properties"]["metadata"],
            json!({
                "allOf": [{"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}],
                "default": {},
                "description": "The name and labels.",
            })
        );
        // The rest of the document is as it was.
        let mut rest = parsed(&plain);
        rest["components"]["schemas"]["io.k8s.api.core.v1.ConfigMap"] = config_map.clone();
        assert_eq!(described, rest);
    }

    #[test]
    fn version_2_is_described_too() {
        let descriptions = Descriptions::parse(CONFIG_MAP).unwrap();
        let described = parsed(&descriptions.describe(v2_document(&|_| true)));
        let config_map = &described["definitions"]["io.k8s.api.core.v1.ConfigMap"];
        assert_eq!(config_map["description"], "Holds small settings.");
        assert_eq!(
            config_map["properties"]["data"]["description"],
            "The settings."
        );
    }

    #[test]
    fn a_file_of_another_form_is_rejected() {
        assert!(Descriptions::parse(b"[]").is_err());
        assert!(Descriptions::parse(br#"{"a.B": "text"}"#).is_err());
        assert!(Descriptions::parse(br#"{"a.B": {"fields": {}}}"#).is_err());
    }
}

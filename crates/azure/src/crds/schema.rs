//! Schemas in the short form of `data/definitions.json`.

use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The pattern of ARM ids: of a resource, or of a subscription or resource group.
const ARM_ID: &str = "(?i)(^(/subscriptions/([^/]+)(/resourcegroups/([^/]+))?)?/providers/([^/]+)/([^/]+/[^/]+)(/([^/]+/[^/]+))*$|^/subscriptions/([^/]+)(/resourcegroups/([^/]+))?$)";

/// The schemas of all object types, by number.
#[derive(Deserialize)]
#[serde(transparent)]
pub(super) struct Schemas(Vec<ObjectType>);

#[derive(Deserialize)]
struct ObjectType {
    #[serde(default)]
    required: Vec<String>,
    fields: Map<String, Value>,
}

impl Schemas {
    /// Returns the whole schema of an object type.
    pub(super) fn object(&self, number: usize) -> Value {
        let object = &self.0[number];
        let fields = object.fields.iter();
        let properties: Map<_, _> = fields
            .map(|(name, short)| (name.clone(), self.expand(short)))
            .collect();
        let mut schema = json!({"type": "object", "properties": properties});
        if !object.required.is_empty() {
            schema["required"] = json!(object.required);
        }
        schema
    }

    /// Expands the short form of a schema: the number of an object type, the name of a type, or an
    /// object with one of `type`, `list` and `map`, and limits.
    fn expand(&self, short: &Value) -> Value {
        let Value::Object(members) = short else {
            return match short
                .as_u64()
                .and_then(|number| usize::try_from(number).ok())
            {
                Some(number) => self.object(number),
                None => named(short.as_str().unwrap_or_default()),
            };
        };
        let mut schema = Map::new();
        for (key, value) in members {
            match key.as_str() {
                "list" => {
                    schema.insert("type".to_owned(), json!("array"));
                    schema.insert("items".to_owned(), self.expand(value));
                }
                "map" => {
                    schema.insert("type".to_owned(), json!("object"));
                    schema.insert("additionalProperties".to_owned(), self.expand(value));
                }
                _ => {
                    schema.insert(key.clone(), value.clone());
                }
            }
        }
        schema.into()
    }
}

/// Returns the schema of a type that Azure Service Operator has for all kinds, or of a scalar.
fn named(name: &str) -> Value {
    let text = json!({"type": "string"});
    let id = json!({"type": "string", "pattern": ARM_ID});
    let texts = json!({"type": "object", "additionalProperties": text});
    match name {
        "json" => json!({"x-kubernetes-preserve-unknown-fields": true}),
        "owner" => fields(json!({"armId": id, "name": text}), &[]),
        "reference" => fields(
            json!({"armId": id, "group": text, "kind": text, "name": text}),
            &[],
        ),
        "wellKnown" => fields(
            json!({"armId": id, "group": text, "kind": text, "name": text, "wellKnownName": text}),
            &[],
        ),
        "name" => fields(json!({"name": text}), &["name"]),
        "key" => fields(json!({"key": text, "name": text}), &["key", "name"]),
        "destination" => fields(
            json!({"annotations": texts, "key": text, "labels": texts, "name": text}),
            &["key", "name"],
        ),
        "expression" => fields(
            json!({"annotations": texts, "key": text, "labels": texts, "name": text, "value": text}),
            &["name", "value"],
        ),
        "condition" => condition(&text),
        scalar => json!({"type": scalar}),
    }
}

fn condition(text: &Value) -> Value {
    let properties = json!({
        "lastTransitionTime": {"type": "string", "format": "date-time"},
        "message": text,
        "observedGeneration": {"type": "integer", "format": "int64"},
        "reason": text,
        "severity": text,
        "status": text,
        "type": text,
    });
    let required = ["lastTransitionTime", "reason", "status", "type"];
    fields(properties, &required)
}

fn fields(properties: Value, required: &[&str]) -> Value {
    let mut schema = json!({"type": "object", "properties": properties});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

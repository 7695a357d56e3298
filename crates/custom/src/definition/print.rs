//! Parts of a definition as formatted in errors: Go's JSON of the internal types, which have no
//! JSON tags, so that every field appears under its Go name.

use insula_kinds::Value;

use super::internal_form::{InternalForm, Shared};
use super::props::Props;

/// Maximum length. A formatted schema has about thirty times its original size.
const MAX_LENGTH: usize = 256 << 10;

/// The fields of a schema: Go name, JSON name and format, in Go's order.
pub(super) const SCHEMA: &[Member] = &[
    ("ID", "id", Print::Text),
    ("Schema", "$schema", Print::Text),
    ("Ref", "$ref", Print::Pointer),
    ("Description", "description", Print::Text),
    ("Type", "type", Print::Text),
    ("Nullable", "nullable", Print::Flag),
    ("Format", "format", Print::Text),
    ("Title", "title", Print::Text),
    ("Default", "default", Print::Pointer),
    ("Maximum", "maximum", Print::Pointer),
    ("ExclusiveMaximum", "exclusiveMaximum", Print::Flag),
    ("Minimum", "minimum", Print::Pointer),
    ("ExclusiveMinimum", "exclusiveMinimum", Print::Flag),
    ("MaxLength", "maxLength", Print::Pointer),
    ("MinLength", "minLength", Print::Pointer),
    ("Pattern", "pattern", Print::Text),
    ("MaxItems", "maxItems", Print::Pointer),
    ("MinItems", "minItems", Print::Pointer),
    ("UniqueItems", "uniqueItems", Print::Flag),
    ("MultipleOf", "multipleOf", Print::Pointer),
    ("Enum", "enum", Print::Pointer),
    ("MaxProperties", "maxProperties", Print::Pointer),
    ("MinProperties", "minProperties", Print::Pointer),
    ("Required", "required", Print::Pointer),
    ("Items", "items", Print::Items),
    ("AllOf", "allOf", Print::Schemas),
    ("OneOf", "oneOf", Print::Schemas),
    ("AnyOf", "anyOf", Print::Schemas),
    ("Not", "not", Print::Schema),
    ("Properties", "properties", Print::Map(false)),
    (
        "AdditionalProperties",
        "additionalProperties",
        Print::OrBool,
    ),
    ("PatternProperties", "patternProperties", Print::Map(false)),
    ("Dependencies", "dependencies", Print::Map(true)),
    ("AdditionalItems", "additionalItems", Print::OrBool),
    ("Definitions", "definitions", Print::Map(false)),
    ("ExternalDocs", "externalDocs", Print::Struct(DOCS)),
    ("Example", "example", Print::Pointer),
    (
        "XPreserveUnknownFields",
        "x-kubernetes-preserve-unknown-fields",
        Print::Pointer,
    ),
    (
        "XEmbeddedResource",
        "x-kubernetes-embedded-resource",
        Print::Flag,
    ),
    ("XIntOrString", "x-kubernetes-int-or-string", Print::Flag),
    ("XListMapKeys", "x-kubernetes-list-map-keys", Print::Pointer),
    ("XListType", "x-kubernetes-list-type", Print::Pointer),
    ("XMapType", "x-kubernetes-map-type", Print::Pointer),
    (
        "XValidations",
        "x-kubernetes-validations",
        Print::List(RULE),
    ),
];

const DOCS: &[Member] = &[
    ("Description", "description", Print::Text),
    ("URL", "url", Print::Text),
];

const RULE: &[Member] = &[
    ("Rule", "rule", Print::Text),
    ("Message", "message", Print::Text),
    ("MessageExpression", "messageExpression", Print::Text),
    ("Reason", "reason", Print::Pointer),
    ("FieldPath", "fieldPath", Print::Text),
    ("OptionalOldSelf", "optionalOldSelf", Print::Pointer),
];

const VERSION: &[Member] = &[
    ("Name", "name", Print::Text),
    ("Served", "served", Print::Flag),
    ("Storage", "storage", Print::Flag),
    ("Deprecated", "deprecated", Print::Flag),
    ("DeprecationWarning", "deprecationWarning", Print::Pointer),
    ("Schema", "schema", Print::Struct(VALIDATION)),
    ("Subresources", "subresources", Print::Struct(SUBRESOURCES)),
    (
        "AdditionalPrinterColumns",
        "additionalPrinterColumns",
        Print::List(COLUMN),
    ),
    (
        "SelectableFields",
        "selectableFields",
        Print::List(SELECTABLE),
    ),
];

const VALIDATION: &[Member] = &[("OpenAPIV3Schema", "openAPIV3Schema", Print::Struct(SCHEMA))];

const SUBRESOURCES: &[Member] = &[
    ("Status", "status", Print::Struct(&[])),
    ("Scale", "scale", Print::Struct(SCALE)),
];

const SCALE: &[Member] = &[
    ("SpecReplicasPath", "specReplicasPath", Print::Text),
    ("StatusReplicasPath", "statusReplicasPath", Print::Text),
    ("LabelSelectorPath", "labelSelectorPath", Print::Pointer),
];

const COLUMN: &[Member] = &[
    ("Name", "name", Print::Text),
    ("Type", "type", Print::Text),
    ("Format", "format", Print::Text),
    ("Description", "description", Print::Text),
    ("Priority", "priority", Print::Number),
    ("JSONPath", "jsonPath", Print::Text),
];

const SELECTABLE: &[Member] = &[("JSONPath", "jsonPath", Print::Text)];

type Member = (&'static str, &'static str, Print);

/// The format of a field.
#[derive(Clone, Copy, Debug)]
pub(super) enum Print {
    /// A string, empty if absent.
    Text,
    /// A boolean, false if absent.
    Flag,
    /// A number, zero if absent.
    Number,
    /// The JSON value, null if absent.
    Pointer,
    /// An object with these fields, null if absent.
    Struct(&'static [Member]),
    /// A list of objects with these fields.
    List(&'static [Member]),
    /// A map of schemas, or of schemas and string lists.
    Map(bool),
    /// A schema.
    Schema,
    /// A list of schemas.
    Schemas,
    /// A schema or several.
    Items,
    /// A schema or a boolean.
    OrBool,
}

/// Formats all versions.
pub(super) fn versions(form: &InternalForm<'_>) -> String {
    let mut out = String::from("[");
    for (index, version) in form.versions().enumerate() {
        separate(index, &mut out);
        // Lifted properties are formatted elsewhere.
        let hide = |name: &str| {
            let shared = [
                Shared::Schema,
                Shared::Subresources,
                Shared::Columns,
                Shared::SelectableFields,
            ];
            let shared = shared.into_iter().find(|shared| shared.name() == name);
            shared.is_some_and(|shared| version.own(shared).is_none())
        };
        members(version.raw, VERSION, &hide, &mut out);
        if out.len() > MAX_LENGTH {
            break;
        }
    }
    out.push(']');
    cut(out)
}

/// Formats a schema.
pub(super) fn schema(schema: Props<'_>) -> String {
    let mut out = String::new();
    object(schema, SCHEMA, &mut out);
    cut(out)
}

/// Formats a rule of `x-kubernetes-validations`.
pub(super) fn rule(rule: Props<'_>) -> String {
    let mut out = String::new();
    object(rule, RULE, &mut out);
    cut(out)
}

/// Formats the `items` of a schema.
pub(super) fn items(items: Option<&Value>) -> String {
    let mut out = String::new();
    member(items, Print::Items, &mut out);
    cut(out)
}

/// Formats any JSON as Go does; null if absent.
pub(super) fn json(value: Option<&Value>) -> String {
    cut(crate::validate::print::json(value.unwrap_or(&Value::Null)))
}

fn object(props: Props<'_>, of: &[Member], out: &mut String) {
    members(props, of, &|_| false, out);
}

fn members(props: Props<'_>, of: &[Member], hide: &dyn Fn(&str) -> bool, out: &mut String) {
    if out.len() > MAX_LENGTH {
        return;
    }
    out.push('{');
    for (index, (name, json, print)) in of.iter().enumerate() {
        separate(index, out);
        out.push('"');
        out.push_str(name);
        out.push_str("\":");
        let value = props.get(json).filter(|_| !hide(json));
        member(value, *print, out);
    }
    out.push('}');
}

fn member(value: Option<&Value>, print: Print, out: &mut String) {
    let Some(value) = value else {
        out.push_str(match print {
            Print::Text => "\"\"",
            Print::Flag => "false",
            Print::Number => "0",
            _ => "null",
        });
        return;
    };
    let props = Props::of(Some(value));
    match print {
        Print::Text | Print::Flag | Print::Number | Print::Pointer => raw(value, out),
        Print::Struct(of) => object(props, of, out),
        Print::List(of) => list(value, of, out),
        Print::Schema => object(props, SCHEMA, out),
        Print::Schemas => list(value, SCHEMA, out),
        Print::Map(mixed) => map(value, mixed, out),
        Print::Items => match value {
            Value::Array(_) => {
                out.push_str("{\"Schema\":null,\"JSONSchemas\":");
                list(value, SCHEMA, out);
                out.push('}');
            }
            _ => {
                out.push_str("{\"Schema\":");
                object(props, SCHEMA, out);
                out.push_str(",\"JSONSchemas\":null}");
            }
        },
        Print::OrBool => match value {
            Value::Bool(truth) => out.push_str(&format!("{{\"Allows\":{truth},\"Schema\":null}}")),
            _ => {
                out.push_str("{\"Allows\":true,\"Schema\":");
                object(props, SCHEMA, out);
                out.push('}');
            }
        },
    }
}

fn list(value: &Value, of: &[Member], out: &mut String) {
    out.push('[');
    let list = value.as_array().map_or(&[][..], Vec::as_slice);
    for (index, item) in list.iter().enumerate() {
        if out.len() > MAX_LENGTH {
            break;
        }
        separate(index, out);
        object(Props::of(Some(item)), of, out);
    }
    out.push(']');
}

fn map(value: &Value, mixed: bool, out: &mut String) {
    out.push('{');
    let entries = value.as_object().into_iter().flatten();
    for (index, (key, entry)) in entries.enumerate() {
        if out.len() > MAX_LENGTH {
            break;
        }
        separate(index, out);
        raw(&key.as_str().into(), out);
        out.push(':');
        match (mixed, entry) {
            (false, _) => object(Props::of(Some(entry)), SCHEMA, out),
            (true, Value::Array(_)) => {
                out.push_str("{\"Schema\":null,\"Property\":");
                raw(entry, out);
                out.push('}');
            }
            (true, _) => {
                out.push_str("{\"Schema\":");
                object(Props::of(Some(entry)), SCHEMA, out);
                out.push_str(",\"Property\":null}");
            }
        }
    }
    out.push('}');
}

/// Formats any JSON as Go does.
fn raw(value: &Value, out: &mut String) {
    out.push_str(&crate::validate::print::json(value));
}

fn separate(index: usize, out: &mut String) {
    if index > 0 {
        out.push(',');
    }
}

fn cut(mut out: String) -> String {
    if out.len() > MAX_LENGTH {
        let end = (0..=MAX_LENGTH).rev().find(|at| out.is_char_boundary(*at));
        out.truncate(end.unwrap_or_default());
        out.push('…');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use insula_kinds::Object;
    use serde_json::json;

    #[test]
    fn rule_is_formatted_with_all_fields() {
        let value = json!({"rule": "self.n > 1 && true", "optionalOldSelf": true});
        assert_eq!(
            rule(Props::of(Some(&value))),
            r#"{"Rule":"self.n \u003e 1 \u0026\u0026 true","Message":"","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":true}"#
        );
    }

    #[test]
    fn items_are_formatted_as_one_schema_or_many() {
        let many = items(Some(&json!([{"type": "string"}])));
        assert!(many.starts_with(r#"{"Schema":null,"JSONSchemas":[{"ID":"","Schema":"","Ref":null,"Description":"","Type":"string","Nullable":false"#));
        let one = items(Some(
            &json!({"additionalProperties": true, "maximum": 1e21}),
        ));
        assert!(one.contains(r#""Maximum":1e+21,"#));
        assert!(one.contains(r#""AdditionalProperties":{"Allows":true,"Schema":null}"#));
        assert!(one.ends_with(r#""XValidations":null},"JSONSchemas":null}"#));
    }

    #[test]
    fn long_output_is_truncated() {
        let properties: Object = (0..10_000).map(|n| (format!("p{n}"), json!({}))).collect();
        let value = json!({"properties": properties});
        let printed = schema(Props::of(Some(&value)));
        assert_eq!(printed.chars().last(), Some('…'));
        assert!(printed.len() <= MAX_LENGTH + 3);
    }
}

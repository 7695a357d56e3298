//! The rules of fields, by their schemas.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::table::shape::{Shape, StoredRule};

/// The shapes of a derived kind.
#[derive(Default)]
pub(super) struct Fields {
    shapes: Vec<Shape>,
}

impl Fields {
    pub(super) fn into_shapes(self) -> Vec<Shape> {
        self.shapes
    }

    /// Adds the shape of a spec. The status tells how ARM names the fields of references.
    pub(super) fn add_root(&mut self, spec: &Value, status: &Value) -> Option<u32> {
        const OWN: [&str; 4] = ["azureName", "operatorSpec", "originalVersion", "owner"];
        let members = properties(spec)?;
        let members = members.iter().filter(|(name, _)| !OWN.contains(&&***name));
        let fields = self.fields(members, status);
        let below = spec.pointer("/properties/properties").is_some();
        let beside = below.then(|| "properties".into());
        self.push(Shape {
            fields,
            beside: beside.into_iter().collect(),
            ..Shape::default()
        })
    }

    fn add(&mut self, schema: &Value, status: &Value) -> Option<u32> {
        let fields = self.fields(properties(schema)?.iter(), status);
        self.push(Shape {
            fields,
            ..Shape::default()
        })
    }

    fn push(&mut self, shape: Shape) -> Option<u32> {
        if shape.fields.is_empty() && shape.beside.is_empty() {
            return None;
        }
        self.shapes.push(shape);
        u32::try_from(self.shapes.len() - 1).ok()
    }

    fn fields<'a>(
        &mut self,
        members: impl Iterator<Item = (&'a String, &'a Value)>,
        status: &Value,
    ) -> BTreeMap<Box<str>, StoredRule> {
        let rules = members.filter_map(|(name, schema)| {
            let rule = self.rule(name, schema, status)?;
            Some((name.as_str().into(), rule))
        });
        rules.collect()
    }

    fn rule(&mut self, name: &str, schema: &Value, status: &Value) -> Option<StoredRule> {
        let element = elements(schema);
        if is_json(element) || element.get("additionalProperties").is_some_and(is_json) {
            return Some(StoredRule::Json);
        }
        if has_only(element, &["name"]) && is_of_secret(&element["properties"]["name"]) {
            return Some(StoredRule::SecretMap(name.into()));
        }
        if name == "userAssignedIdentities" && has_only(element, &["reference"]) {
            return Some(StoredRule::Identities);
        }
        if has_only(element, &["armId", "group", "kind", "name"]) {
            return Some(StoredRule::Reference(arm_name(name, status)));
        }
        if has_only(
            element,
            &["armId", "group", "kind", "name", "wellKnownName"],
        ) {
            return Some(StoredRule::WellKnown(arm_name(name, status)));
        }
        if has_only(element, &["key", "name"]) {
            return Some(match name.strip_suffix("FromConfig") {
                Some(pair) => StoredRule::Config(pair.into()),
                None => StoredRule::Secret(name.strip_suffix("FromSecret").unwrap_or(name).into()),
            });
        }
        let below = elements(
            status
                .pointer(&format!("/properties/{name}"))
                .unwrap_or(&Value::Null),
        );
        if let Some(values) = schema.get("additionalProperties") {
            return Some(StoredRule::Map(self.add(elements(values), below)));
        }
        self.add(element, below).map(StoredRule::Object)
    }
}

fn properties(schema: &Value) -> Option<&Map<String, Value>> {
    schema.get("properties")?.as_object()
}

/// Returns the schema of the elements of a list, or of the value itself.
fn elements(schema: &Value) -> &Value {
    schema.get("items").map_or(schema, elements)
}

/// Tells whether a schema admits anything.
fn is_json(schema: &Value) -> bool {
    schema["x-kubernetes-preserve-unknown-fields"] == true
}

/// Tells whether a field is described as the name of a Secret. Other objects have a name as their
/// only field, too.
fn is_of_secret(schema: &Value) -> bool {
    let description = schema["description"].as_str().unwrap_or_default();
    description.to_lowercase().contains("kubernetes secret")
}

/// Tells whether a schema has exactly these fields.
fn has_only(schema: &Value, names: &[&str]) -> bool {
    properties(schema).is_some_and(|members| {
        members.len() == names.len() && names.iter().all(|name| members.contains_key(*name))
    })
}

/// Returns the name in ARM of a field with a reference: `id` of `reference`; `fooId`, or `foo` if
/// the status has it, of `fooReference`; `foos` of `foosReferences`; `fooIds`, or `foo` if the status
/// has it, of `fooReferences`.
fn arm_name(field: &str, status: &Value) -> Box<str> {
    let (stem, ids) = match (
        field.strip_suffix("Reference"),
        field.strip_suffix("References"),
    ) {
        (Some(stem), _) => (stem, ["Id", "ID", ""]),
        (_, Some(stem)) if stem.ends_with('s') => (stem, ["", "Ids", "IDs"]),
        (_, Some(stem)) => (stem, ["Ids", "IDs", ""]),
        _ => return if field == "reference" { "id" } else { field }.into(),
    };
    let candidates = ids.map(|end| format!("{stem}{end}"));
    let known = |name: &&String| status.pointer(&format!("/properties/{name}")).is_some();
    let [by_rule, ..] = &candidates;
    let found = candidates.iter().find(known);
    found.unwrap_or(by_rule).as_str().into()
}

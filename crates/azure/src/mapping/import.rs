//! Custom resources for resources that exist in Azure.

use ring::digest;
use serde_json::{Map, Value, json};

use super::needs::is_arm_id;
use super::status;
use crate::table::{Kind, Owner, Place, Rule, ShapeRef, Version};

/// The maximum length of an object's name.
const MAX_NAME_LENGTH: usize = 253;

/// Returns the custom resource of a response to GET. `schema` is that of the version's `spec` in
/// the installed definition: it tells the fields that a client may set from those that only Azure
/// sets. References have ARM ids. Secrets are not in responses and so not in the result.
pub fn import(kind: &Kind, version: &Version, response: &Value, schema: Option<&Value>) -> Value {
    let mut arm = response.as_object().cloned().unwrap_or_default();
    for own in ["id", "name", "type", "systemData", "etag"] {
        arm.remove(own);
    }
    let id = response["id"].as_str().unwrap_or_default();
    let azure_name = id.rsplit('/').next().unwrap_or_default();
    let mut spec = object(&arm, kind.spec(version));
    if kind.fixed_name().is_none() {
        spec.insert("azureName".to_owned(), azure_name.into());
    }
    if let Some(owner) = owner(kind, id) {
        spec.insert("owner".to_owned(), owner);
    }
    let mut spec = Value::Object(spec);
    if let Some(schema) = schema {
        prune(&mut spec, schema);
    }
    json!({
        "apiVersion": format!("{}/{}", kind.group(), version.name()),
        "kind": kind.kind(),
        "metadata": {"name": object_name(kind, id)},
        "spec": spec,
    })
}

/// Returns whether a resource has a use as a custom resource. Azure creates others by itself, such
/// as databases for its own use. `object` is the imported one, with the status of the response.
pub fn is_useful(kind: &Kind, object: &Value) -> bool {
    let mut rules = kind.not_imported().iter();
    !rules.any(|rule| {
        let value = rule.path.select(object);
        let Some(value) = value.filter(|value| !value.is_null()) else {
            return false;
        };
        let text = value.as_str().unwrap_or_default();
        let is_listed = rule.values.iter().any(|it| it.eq_ignore_ascii_case(text));
        let same = rule.same_as.as_ref().and_then(|path| path.select(object));
        let owner = object["spec"]["owner"]["armId"].as_str();
        let is_foreign = owner.is_some_and(|owner| !owner.eq_ignore_ascii_case(text));
        is_listed || same == Some(value) || (rule.not_owner && is_foreign)
    })
}

/// Returns an object as YAML.
///
/// # Errors
///
/// If it cannot be written.
pub fn yaml(object: &Value) -> Result<String, serde_saphyr::ser::Error> {
    serde_saphyr::to_string(object)
}

/// Returns the owner by its ARM id.
fn owner(kind: &Kind, id: &str) -> Option<Value> {
    if *kind.owner() == Owner::None {
        return None;
    }
    let types = kind.arm_type().split('/').count() - 1;
    let mut owner = id;
    // The last type and name are those of the resource itself.
    for _ in 0..2 {
        owner = owner.rsplit_once('/')?.0;
    }
    if types == 1 {
        // What remains ends with the provider.
        let at = owner.to_ascii_lowercase().rfind("/providers/")?;
        owner = &owner[..at];
    }
    (!owner.is_empty()).then(|| json!({ "armId": owner }))
}

/// Returns a name for the object: the names in the ARM id below the resource group, so that
/// children of two parents have two names.
fn object_name(kind: &Kind, id: &str) -> String {
    let types = kind.arm_type().split('/').count() - 1;
    let parts: Vec<_> = id.split('/').collect();
    let names: Vec<_> = parts
        .rchunks(2)
        .take(types)
        .map(|it| it[it.len() - 1])
        .collect();
    let text = names.iter().rev().copied().collect::<Vec<_>>().join("-");
    let letters = text.chars().map(|letter| match letter {
        'A'..='Z' => letter.to_ascii_lowercase(),
        'a'..='z' | '0'..='9' => letter,
        _ => '-',
    });
    let name: String = letters.collect();
    match limited(&name, MAX_NAME_LENGTH) {
        // A name such as `@` has no letter that an object's name may have.
        "" => kind.kind().to_ascii_lowercase(),
        name => name.to_owned(),
    }
}

/// Returns another name for an object, which depends on the ARM id.
pub fn distinct_name(name: &str, id: &str) -> String {
    let digest = digest::digest(&digest::SHA256, id.to_ascii_lowercase().as_bytes());
    let digest: String = digest.as_ref()[..4]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let name = limited(name, MAX_NAME_LENGTH - digest.len() - 1);
    format!("{name}-{digest}")
}

/// Returns the beginning of a text that begins and ends with a letter or digit.
fn limited(text: &str, max_length: usize) -> &str {
    let text = text.trim_start_matches('-');
    let end = text.len().min(max_length);
    text[..end].trim_end_matches('-')
}

/// Returns the fields of a specification that an object of ARM has.
fn object(arm: &Map<String, Value>, shape: ShapeRef<'_>) -> Map<String, Value> {
    if let Some(union) = shape.one_of() {
        let found = arm.get(&union.by).and_then(Value::as_str);
        let found = found.and_then(|value| union.member(value));
        let Some(member) = found else {
            return Map::new();
        };
        let value = Value::Object(arm.clone());
        let value = mapped(&value, shape.rule(member));
        return value.map_or_else(Map::new, |it| Map::from_iter([(member.to_owned(), it)]));
    }
    let mut spec = Map::new();
    add(&mut spec, arm, None, shape);
    spec
}

fn add(
    spec: &mut Map<String, Value>,
    arm: &Map<String, Value>,
    parent: Option<&str>,
    shape: ShapeRef<'_>,
) {
    for (arm_name, value) in arm.iter().filter(|(_, value)| !is_empty(value)) {
        if parent.is_none()
            && status::is_flattened(arm_name, shape)
            && let Value::Object(fields) = value
        {
            add(spec, fields, Some(arm_name), shape);
            continue;
        }
        let place = parent.map_or(Place::Beside, Place::Under);
        let name = field_name(arm_name, place, shape);
        if shape.place(name) == place
            && let Some(value) = mapped(value, shape.rule(name))
        {
            spec.insert(name.to_owned(), value);
        }
    }
}

/// Returns the name that a field of ARM has in the custom resource: that of a reference if there
/// is one.
fn field_name<'a>(arm_name: &'a str, place: Place<'_>, shape: ShapeRef<'a>) -> &'a str {
    let mut named = shape.fields().filter_map(|(name, rule)| match rule {
        Rule::Reference(to) | Rule::WellKnown(to) | Rule::Renamed(to, _) => {
            (to == arm_name && shape.place(name) == place).then_some(name)
        }
        _ => None,
    });
    named.next().unwrap_or(arm_name)
}

fn mapped(value: &Value, rule: Rule<'_>) -> Option<Value> {
    match rule {
        Rule::Object(shape) | Rule::Renamed(_, Some(shape)) => Some(shaped(value, shape)),
        Rule::Map(Some(shape)) => {
            let entries = value.as_object()?.iter();
            let entries = entries.map(|(key, value)| (key.clone(), shaped(value, shape)));
            Some(Value::Object(entries.collect()))
        }
        Rule::WellKnown(_) if value.as_str().is_some_and(|it| !is_arm_id(it)) => {
            Some(json!({ "wellKnownName": value }))
        }
        Rule::Reference(_) | Rule::WellKnown(_) => reference(value),
        Rule::Identities => {
            let ids = value.as_object()?.keys();
            Some(ids.map(|id| json!({"reference": {"armId": id}})).collect())
        }
        Rule::Secret(_)
        | Rule::SecretMap(_)
        | Rule::SecretCollection(_)
        | Rule::Config(_)
        | Rule::Omitted => None,
        Rule::Json => Some(value.clone()),
        Rule::Plain
        | Rule::Map(None)
        | Rule::KeepEmptyList
        | Rule::KeepEmptyMap
        | Rule::Renamed(_, None) => Some(without_nulls(value)),
    }
}

fn reference(value: &Value) -> Option<Value> {
    match value {
        Value::String(id) => Some(json!({ "armId": id })),
        Value::Array(ids) => Some(ids.iter().filter_map(reference).collect()),
        _ => None,
    }
}

fn shaped(value: &Value, shape: ShapeRef<'_>) -> Value {
    match value {
        Value::Object(fields) => object(fields, shape).into(),
        Value::Array(items) => items.iter().map(|item| shaped(item, shape)).collect(),
        other => other.clone(),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(_, value)| !is_empty(value));
            let fields = fields.map(|(name, value)| (name.clone(), without_nulls(value)));
            Value::Object(fields.collect())
        }
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}

/// Removes the fields that a schema does not have, and objects that are empty then. Values of
/// enumerations are written as the schema has them: Azure returns some of them in another case.
fn prune(value: &mut Value, schema: &Value) {
    match value {
        Value::Object(fields) => {
            if let Some(known) = schema["properties"].as_object() {
                fields.retain(|name, value| {
                    let Some(schema) = known.get(name) else {
                        return false;
                    };
                    prune(value, schema);
                    !is_empty(value)
                });
            } else if schema["additionalProperties"].is_object() {
                let schema = &schema["additionalProperties"];
                fields.values_mut().for_each(|value| prune(value, schema));
            }
        }
        Value::Array(items) => {
            let schema = &schema["items"];
            items.iter_mut().for_each(|item| prune(item, schema));
        }
        Value::String(text) => {
            let mut allowed = schema["enum"].as_array().into_iter().flatten();
            let same = |it: &&Value| it.as_str().is_some_and(|it| it.eq_ignore_ascii_case(text));
            if let Some(allowed) = allowed.find(same).and_then(Value::as_str) {
                allowed.clone_into(text);
            }
        }
        _ => {}
    }
}

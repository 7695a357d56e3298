//! Statuses from responses.

use serde_json::{Map, Value};

use crate::table::{Place, Rule, ShapeRef};

/// Returns the fields of a status that a response has.
pub(super) fn root(response: &Map<String, Value>, shape: ShapeRef<'_>) -> Map<String, Value> {
    object(response, shape)
}

fn object(arm: &Map<String, Value>, shape: ShapeRef<'_>) -> Map<String, Value> {
    if let Some(union) = shape.one_of() {
        return member(arm, shape, union);
    }
    let mut status = Map::new();
    add(&mut status, arm, None, shape);
    status
}

/// Adds the fields of ARM that stand below `parent`.
fn add(
    status: &mut Map<String, Value>,
    arm: &Map<String, Value>,
    parent: Option<&str>,
    shape: ShapeRef<'_>,
) {
    for (arm_name, value) in arm.iter().filter(|(_, value)| !value.is_null()) {
        if parent.is_none()
            && is_flattened(arm_name, shape)
            && let Value::Object(fields) = value
        {
            add(status, fields, Some(arm_name), shape);
            continue;
        }
        let name = field_name(arm_name, parent, shape);
        // Another field has this name: the one that stands elsewhere in ARM.
        if shape.place(name) != place(parent) {
            continue;
        }
        if let Some(value) = mapped(value, shape.rule(name)) {
            status.insert(name.to_owned(), value);
        }
    }
}

fn place(parent: Option<&str>) -> Place<'_> {
    parent.map_or(Place::Beside, Place::Under)
}

/// Returns whether the fields of a member stand beside it in the custom resource.
pub(super) fn is_flattened(arm_name: &str, shape: ShapeRef<'_>) -> bool {
    (shape.is_root() && arm_name == "properties" && shape.place(arm_name) != Place::Beside)
        || shape.flattened().any(|member| member == arm_name)
}

/// Returns the name that a field of ARM has in the custom resource.
fn field_name<'a>(arm_name: &'a str, parent: Option<&str>, shape: ShapeRef<'a>) -> &'a str {
    let mut fields = shape.fields();
    let renamed = fields.find(|(name, rule)| {
        let is_renamed = matches!(rule, Rule::Renamed(from, _) if *from == arm_name);
        is_renamed && shape.place(name) == place(parent)
    });
    renamed.map_or(arm_name, |(name, _)| name)
}

fn mapped(value: &Value, rule: Rule<'_>) -> Option<Value> {
    Some(match rule {
        Rule::Object(shape) | Rule::Renamed(_, Some(shape)) => shaped(value, shape),
        Rule::Map(Some(shape)) => match value {
            Value::Object(entries) => {
                let entries = entries.iter().filter(|(_, value)| !value.is_null());
                let entries = entries.map(|(key, value)| (key.clone(), shaped(value, shape)));
                Value::Object(entries.collect())
            }
            other => other.clone(),
        },
        Rule::Omitted => return None,
        _ => value.clone(),
    })
}

fn shaped(value: &Value, shape: ShapeRef<'_>) -> Value {
    match value {
        Value::Object(fields) => object(fields, shape).into(),
        Value::Array(items) => items.iter().map(|item| shaped(item, shape)).collect(),
        other => other.clone(),
    }
}

/// Returns the union with the member that the discriminator names.
fn member(
    arm: &Map<String, Value>,
    shape: ShapeRef<'_>,
    union: &crate::table::OneOf,
) -> Map<String, Value> {
    let discriminator = arm.get(&union.by).and_then(Value::as_str);
    let member = discriminator.and_then(|value| union.member(value));
    let Some(member) = member else {
        return Map::new();
    };
    let value = Value::Object(arm.clone());
    let value = mapped(&value, shape.rule(member)).unwrap_or_default();
    Map::from_iter([(member.to_owned(), value)])
}

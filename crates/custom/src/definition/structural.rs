//! Validation that a schema is structural: every value of an object has exactly one place in
//! it, which pruning and defaulting require.

use insula_gotext::regexp;
use insula_kinds::Value;

use super::place::{Place, Report};
use super::props::{Items, Props, SchemaOrBool};

const EMPTY: &str = "must be empty to be structural";
const UNDEFINED: &str = "must be undefined to be structural";
const FALSE: &str = "must be false to be structural";

/// The position of a schema.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Why a schema cannot be checked for being structural.
pub(super) fn unsupported(schema: Props<'_>) -> Option<&'static str> {
    if let Some(reason) = unsupported_here(schema) {
        return Some(reason);
    }
    let junctors = ["not", "allOf", "anyOf", "oneOf"].into_iter();
    let mut below = junctors.flat_map(|junctor| nested(schema, junctor));
    if let Some(reason) = below.find_map(unsupported) {
        return Some(reason);
    }
    if schema.has("x-kubernetes-preserve-unknown-fields")
        && !schema.flag("x-kubernetes-preserve-unknown-fields")
    {
        return Some(
            "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined",
        );
    }
    match schema.items() {
        Items::Many(many) if !many.is_empty() => {
            return Some("OpenAPIV3Schema 'items' must be a schema, but is an array");
        }
        _ => {}
    }
    let additional = match schema.schema_or_bool("additionalProperties") {
        SchemaOrBool::Schema(additional) => Some(additional),
        SchemaOrBool::None | SchemaOrBool::Bool(_) => None,
    };
    let properties = schema.entries("properties").map(|(_, property)| property);
    let mut below = schema
        .item()
        .into_iter()
        .chain(properties)
        .chain(additional);
    below.find_map(unsupported)
}

/// Returns what prevents a schema from being structural, sorted by text.
pub(super) fn validate(schema: Props<'_>, place: Place<'_>) -> Report {
    let mut report = Report::default();
    invariants(schema, Level::Root, place, &mut report);
    complete(schema, schema, place, place, &mut report);
    report.into_sorted()
}

/// Reports whether a schema is structural.
pub(super) fn is_structural(schema: Props<'_>) -> bool {
    unsupported(schema).is_none() && validate(schema, Place::root("")).is_empty()
}

fn unsupported_here(schema: Props<'_>) -> Option<&'static str> {
    let some = |name: &str| match schema.get(name) {
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Object(map)) => !map.is_empty(),
        _ => false,
    };
    if some("id") {
        Some("OpenAPIV3Schema 'id' is not supported")
    } else if some("$schema") {
        Some("OpenAPIV3Schema 'schema' is not supported")
    } else if some("$ref") {
        Some("OpenAPIV3Schema '$ref' is not supported")
    } else if some("patternProperties") {
        Some("OpenAPIV3Schema 'patternProperties' is not supported")
    } else if some("dependencies") {
        Some("OpenAPIV3Schema 'dependencies' is not supported")
    } else if schema.has("additionalItems") {
        Some("OpenAPIV3Schema 'additionalItems' is not supported")
    } else if some("definitions") {
        Some("OpenAPIV3Schema 'definitions' is not supported")
    } else {
        None
    }
}

/// The schemas of a junctor; `not` has one.
fn nested<'a>(schema: Props<'a>, junctor: &str) -> impl Iterator<Item = Props<'a>> + use<'a> {
    let not = schema.child(junctor).filter(|_| junctor == "not");
    not.into_iter().chain(schema.children(junctor))
}

fn invariants(schema: Props<'_>, level: Level, place: Place<'_>, report: &mut Report) {
    let kind = schema.text("type");
    match schema.item() {
        Some(item) => invariants(item, Level::Item, place.field("items"), report),
        None if kind == "array" => report.required(place.field("items"), "must be specified"),
        None => {}
    }
    let properties = place.field("properties");
    for (name, property) in schema.entries("properties") {
        invariants(property, Level::Field, properties.key(name), report);
    }
    let additional = schema.schema_or_bool("additionalProperties");
    let at = place.field("additionalProperties");
    if level == Level::Root && !matches!(additional, SchemaOrBool::None) {
        report.forbidden(at, "must not be used at the root");
    }
    if let SchemaOrBool::Schema(additional) = additional {
        invariants(additional, Level::Field, at, report);
    }
    extensions(schema, place, report);
    let skip = Skip {
        any_of: is_int_or_string(schema),
        first_all_of: schema
            .children("allOf")
            .next()
            .is_some_and(is_int_or_string),
    };
    values(schema, skip, place, report);
    typed(schema, level, place, report);
    metadata(schema, level, place, report);
}

fn extensions(schema: Props<'_>, place: Place<'_>, report: &mut Report) {
    if schema.flag("x-kubernetes-int-or-string") {
        let detail = "must be false if x-kubernetes-int-or-string is true";
        for name in [
            "x-kubernetes-preserve-unknown-fields",
            "x-kubernetes-embedded-resource",
        ] {
            if schema.flag(name) {
                report.invalid(place.field(name), &true.into(), detail);
            }
        }
    }
}

fn typed(schema: Props<'_>, level: Level, place: Place<'_>, report: &mut Report) {
    let kind = schema.text("type");
    let at = place.field("type");
    let embedded = schema.flag("x-kubernetes-embedded-resource");
    let free = schema.flag("x-kubernetes-int-or-string")
        || schema.flag("x-kubernetes-preserve-unknown-fields");
    if embedded && kind != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        if kind.is_empty() {
            report.required(at, detail);
        } else {
            report.invalid_text(at, kind, detail);
        }
    } else if kind.is_empty() && !free {
        let detail = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        report.required(at, detail);
    }
    if embedded && schema.has("additionalProperties") {
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        report.forbidden(place.field("additionalProperties"), detail);
    }
    if level == Level::Root && !kind.is_empty() && kind != "object" {
        report.invalid_text(at, kind, "must be object at the root");
    }
}

/// Validates what a resource, whole or embedded, specifies about its metadata.
fn metadata(schema: Props<'_>, level: Level, place: Place<'_>, report: &mut Report) {
    let embedded = schema.flag("x-kubernetes-embedded-resource");
    let checked = level == Level::Root || embedded;
    let properties = place.field("properties");
    for name in ["kind", "apiVersion"] {
        if let Some(property) = schema.property(name).filter(|_| checked)
            && property.text("type") != "string"
        {
            let at = properties.key(name);
            report.invalid_text(at.field("type"), property.text("type"), "must be string");
        }
    }
    if let Some(metadata) = schema.property("metadata") {
        let at = properties.key("metadata");
        if checked && metadata.text("type") != "object" {
            report.invalid_text(at.field("type"), metadata.text("type"), "must be object");
        }
        if level == Level::Root && !only_names(metadata) {
            let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
            report.forbidden(at, detail);
        }
    }
    if embedded && !schema.flag("x-kubernetes-preserve-unknown-fields") && !schema.has_properties()
    {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        report.required(properties, detail);
    }
}

/// Reports whether the schema of metadata only specifies the names.
fn only_names(metadata: Props<'_>) -> bool {
    let known = |name: &str| matches!(name, "name" | "generateName");
    let names = metadata.entries("properties").all(|(name, _)| known(name));
    let open = metadata.has("additionalProperties");
    names && !open && has_only(metadata, &["type", "default", "properties"])
}

/// Reports whether the schema has no keywords other than these.
fn has_only(schema: Props<'_>, members: &[&str]) -> bool {
    let nothing = |name: &str, value: &Value| match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => {
            list.is_empty() && matches!(name, "enum" | "allOf" | "anyOf" | "oneOf" | "items")
        }
        _ => false,
    };
    let mut rest = schema.members();
    rest.all(|(name, value)| members.contains(&name.as_str()) || nothing(name, value))
}

/// Reports whether it is the `anyOf` of integer and string, the only types allowed under a
/// junctor.
fn is_int_or_string(schema: Props<'_>) -> bool {
    let mut either = schema.children("anyOf");
    let mut next = |kind| {
        either
            .next()
            .is_some_and(|schema| schema.text("type") == kind && has_only(schema, &["type"]))
    };
    next("integer") && next("string") && either.next().is_none()
}

/// The parts to skip, because they express `integer` or `string`.
#[derive(Clone, Copy, Default)]
struct Skip {
    any_of: bool,
    first_all_of: bool,
}

/// Validates value keywords, inside or outside of junctors.
fn values(schema: Props<'_>, skip: Skip, place: Place<'_>, report: &mut Report) {
    for junctor in ["anyOf", "allOf", "oneOf"] {
        if junctor == "anyOf" && skip.any_of {
            continue;
        }
        let at = place.field(junctor);
        for (index, below) in schema.children(junctor).enumerate() {
            let skip = Skip {
                any_of: junctor == "allOf" && index == 0 && skip.first_all_of,
                ..Skip::default()
            };
            under_junctor(below, skip, at.index(index), report);
        }
    }
    if let Some(not) = schema.child("not") {
        under_junctor(not, Skip::default(), place.field("not"), report);
    }
    let pattern = schema.text("pattern");
    if let Err(fault) = regexp::check(pattern) {
        let detail = format!("must be a valid regular expression, but isn't: {fault}");
        report.invalid_text(place.field("pattern"), pattern, &detail);
    }
}

/// Validates a schema under a junctor, which may only constrain values.
fn under_junctor(schema: Props<'_>, skip: Skip, place: Place<'_>, report: &mut Report) {
    values(schema, skip, place, report);
    if let Some(item) = schema.item() {
        under_junctor(item, Skip::default(), place.field("items"), report);
    }
    let properties = place.field("properties");
    for (name, property) in schema.entries("properties") {
        under_junctor(property, Skip::default(), properties.key(name), report);
    }
    let mut forbid = |name: &'static str, such: bool, detail: &str| {
        if such {
            report.forbidden(place.field(name), detail);
        }
    };
    for name in ["type", "title", "description"] {
        forbid(name, !schema.text(name).is_empty(), EMPTY);
    }
    let additional = schema.get("additionalProperties");
    let additional = additional.is_some_and(|value| value != &Value::Bool(false));
    forbid("additionalProperties", additional, UNDEFINED);
    for name in ["default", "x-kubernetes-list-type", "x-kubernetes-map-type"] {
        forbid(name, schema.has(name), UNDEFINED);
    }
    for name in [
        "nullable",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-int-or-string",
    ] {
        forbid(name, schema.flag(name), FALSE);
    }
    for name in ["x-kubernetes-list-map-keys", "x-kubernetes-validations"] {
        forbid(name, !schema.list(name).is_empty(), EMPTY);
    }
    if schema.property("metadata").is_some() {
        let detail = "must not be specified in a nested context";
        report.forbidden(properties.key("metadata"), detail);
    }
}

/// Checks that everything specified under a junctor is also specified without it. `outer` is
/// the schema without junctors, `inner` the one under a junctor for the same value.
fn complete(
    inner: Props<'_>,
    outer: Props<'_>,
    outer_place: Place<'_>,
    inner_place: Place<'_>,
    report: &mut Report,
) {
    if let Some(not) = inner.child("not") {
        let at = inner_place.field("not");
        complete_below(not, outer, outer_place, at, report);
    }
    for junctor in ["allOf", "anyOf", "oneOf"] {
        let at = inner_place.field(junctor);
        for (index, below) in inner.children(junctor).enumerate() {
            complete_below(below, outer, outer_place, at.index(index), report);
        }
    }
}

fn complete_below(
    inner: Props<'_>,
    outer: Props<'_>,
    outer_place: Place<'_>,
    inner_place: Place<'_>,
    report: &mut Report,
) {
    complete(inner, outer, outer_place, inner_place, report);
    if let Some(item) = inner.item() {
        let (at, from) = (outer_place.field("items"), inner_place.field("items"));
        match outer.item() {
            Some(outer) => complete_below(item, outer, at, from, report),
            None => report.required(at, &format!("because it is defined in {from}")),
        }
    }
    let (at, from) = (
        outer_place.field("properties"),
        inner_place.field("properties"),
    );
    for (name, property) in inner.entries("properties") {
        let (at, from) = (at.key(name), from.key(name));
        match outer.property(name) {
            Some(outer) => complete_below(property, outer, at, from, report),
            None => report.required(at, &format!("because it is defined in {from}")),
        }
    }
}

//! Validation of list types, list-map keys and map types.

use std::collections::HashSet;

use super::place::{Place, Report};
use super::print;
use super::props::{Items, Props};
use super::requirements::Requirements;

const LIST: &str = "x-kubernetes-list-type";
const MAP: &str = "x-kubernetes-map-type";
const KEYS: &str = "x-kubernetes-list-map-keys";

/// Validates the list type and the map type of a schema.
pub(super) fn validate(
    schema: Props<'_>,
    place: Place<'_>,
    requirements: &Requirements<'_>,
    report: &mut Report,
) {
    if let Some(kind) = schema.maybe_text(MAP) {
        let detail = "must be object if x-kubernetes-map-type is specified";
        of_type(schema, "object", detail, place, report);
        let known = ["atomic", "granular"];
        if !known.contains(&kind) {
            report.not_supported(place.field(MAP), kind, &known);
        }
    }
    if let Some(kind) = schema.maybe_text(LIST) {
        let detail = "must be array if x-kubernetes-list-type is specified";
        let right = of_type(schema, "array", detail, place, report);
        if right && requirements.atomic_sets {
            atomic_items(schema, place, report);
        }
        let known = ["atomic", "set", "map"];
        if !known.contains(&kind) {
            report.not_supported(place.field(LIST), kind, &known);
        }
    }
    if !schema.list(KEYS).is_empty() {
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        match schema.maybe_text(LIST) {
            None => report.required(place.field(LIST), detail),
            Some("map") => {}
            Some(other) => report.invalid_text(place.field(LIST), other, detail),
        }
    }
    if schema.text(LIST) == "map" {
        by_keys(schema, place, report);
    }
    if requirements.valid_keys {
        keys(schema, place, report);
    }
}

/// Reports whether a set has items that are not compared as a whole.
pub(super) fn has_loose_set(schema: Props<'_>) -> bool {
    loose_item(schema).is_some()
}

/// Reports whether list-map keys are invalid.
pub(super) fn has_invalid_keys(schema: Props<'_>) -> bool {
    let mut report = Report::default();
    keys(schema, Place::root(""), &mut report);
    !report.is_empty()
}

fn of_type(
    schema: Props<'_>,
    wanted: &str,
    detail: &str,
    place: Place<'_>,
    report: &mut Report,
) -> bool {
    let at = place.field("type");
    match schema.text("type") {
        kind if kind == wanted => return true,
        "" => report.required(at, detail),
        kind => report.invalid_text(at, kind, detail),
    }
    false
}

/// The keyword that makes a set's items non-atomic.
fn loose_item(schema: Props<'_>) -> Option<&'static str> {
    let item = schema.item().filter(|_| schema.text(LIST) == "set")?;
    match item.text("type") {
        "array" => item
            .maybe_text(LIST)
            .filter(|kind| *kind != "atomic")
            .and(Some(LIST)),
        "object" if item.maybe_text(MAP) != Some("atomic") => Some(MAP),
        _ => None,
    }
}

fn atomic_items(schema: Props<'_>, place: Place<'_>, report: &mut Report) {
    if let (Some(name), Some(item)) = (loose_item(schema), schema.item()) {
        let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
        let at = place.field("items");
        // Kubernetes prints the list type in both cases.
        report.invalid_as(at.field(name), || print::json(item.get(LIST)), detail);
    }
}

fn by_keys(schema: Props<'_>, place: Place<'_>, report: &mut Report) {
    if schema.list(KEYS).is_empty() {
        let detail = "must not be empty if x-kubernetes-list-type is map";
        report.required(place.field(KEYS), detail);
    }
    let at = place.field("items");
    match schema.items() {
        Items::None => {
            report.required(at, "must have a schema if x-kubernetes-list-type is map");
        }
        Items::Many(_) => {
            let detail = "must only have a single schema if x-kubernetes-list-type is map";
            report.invalid_as(at, || print::items(schema.get("items")), detail);
        }
        Items::One(item) if item.text("type") != "object" => {
            let detail = "must be object if parent array's x-kubernetes-list-type is map";
            report.invalid_text(at.field("type"), item.text("type"), detail);
        }
        Items::One(item) => names_of_keys(schema, item, place, report),
    }
}

fn names_of_keys(schema: Props<'_>, item: Props<'_>, place: Place<'_>, report: &mut Report) {
    let mut seen = HashSet::new();
    let keys = || print::json(schema.get(KEYS));
    let items = place.field("items");
    let properties = items.field("properties");
    for key in schema.texts(KEYS) {
        match item.property(key).map(|property| property.text("type")) {
            Some("array" | "object") => {
                let detail =
                    "must be a scalar type if parent array's x-kubernetes-list-type is map";
                let at = properties.key(key);
                report.invalid_text(at.field("type"), item.text("type"), detail);
            }
            Some(_) => {}
            None => {
                let detail = "entries must all be names of item properties";
                report.invalid_as(place.field(KEYS), keys, detail);
            }
        }
        if !seen.insert(key) {
            let detail = "must not contain duplicate entries";
            report.invalid_as(place.field(KEYS), keys, detail);
        }
    }
}

/// Items of sets and maps must not be null, and keys must have a value.
fn keys(schema: Props<'_>, place: Place<'_>, report: &mut Report) {
    let Some(item) = schema.item() else {
        return;
    };
    let kind = schema.text(LIST);
    if kind != "set" && kind != "map" {
        return;
    }
    let at = place.field("items");
    if item.flag("nullable") {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {kind}");
        report.forbidden(at.field("nullable"), &detail);
    }
    if kind == "set" {
        return;
    }
    let required: HashSet<_> = item.texts("required").collect();
    let properties = at.field("properties");
    for key in schema.texts(KEYS) {
        let Some(property) = item.property(key) else {
            continue;
        };
        let at = properties.key(key);
        if !required.contains(key) && !property.has("default") {
            let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            report.required(at.field("default"), detail);
        }
        if property.flag("nullable") {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            report.forbidden(at.field("nullable"), detail);
        }
    }
}

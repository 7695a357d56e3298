//! Types as OpenAPI schemas.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::operation::GroupVersionKind;
use super::path::{Path, type_of};
use crate::{Field, Form, Kind, ListType, Object, Omit, Shape, Type, Value, kinds, types};

/// The OpenAPI version of a schema.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    V2,
    V3,
}

const QUANTITY: &str = "apimachinery.pkg.api.resource.Quantity";
const INT_OR_STRING: &str = "apimachinery.pkg.util.intstr.IntOrString";
const TIME: &str = "apimachinery.pkg.apis.meta.v1.Time";
const MICRO_TIME: &str = "apimachinery.pkg.apis.meta.v1.MicroTime";
const RAW: &str = "apimachinery.pkg.runtime.RawExtension";
const FIELDS: &str = "apimachinery.pkg.apis.meta.v1.FieldsV1";
const PATCH: &str = "apimachinery.pkg.apis.meta.v1.Patch";
const JSON: &str = "apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON";
/// The response of `/version`.
pub(super) const INFO: &str = "apimachinery.pkg.version.Info";
const META: &str = "apimachinery.pkg.apis.meta.v1.";

/// Returns all types that the paths refer to, directly or indirectly, as schemas by name.
pub(super) fn schemas(paths: &[Path], names: &Names, dialect: Dialect) -> Object {
    let operations = paths.iter().flat_map(|path| &path.operations);
    let named = operations.flat_map(|operation| {
        let body = operation.body.type_name();
        body.into_iter().chain(operation.response.type_name())
    });
    schemas_of(named, names, dialect)
}

/// Returns the types, and those that they refer to, as schemas by name.
pub(super) fn schemas_of(
    named: impl IntoIterator<Item = &'static str>,
    names: &Names,
    dialect: Dialect,
) -> Object {
    let mut reachable = BTreeSet::new();
    for name in named {
        collect_reachable(name, &mut reachable);
    }
    let schema = |name| (full_name(name), schema(name, names, dialect));
    reachable.into_iter().map(schema).collect()
}

/// Returns the name of the type in documents.
pub(super) fn full_name(name: &str) -> String {
    format!("io.k8s.{name}")
}

/// Returns a reference to the type.
pub(super) fn reference(name: &str, dialect: Dialect) -> Value {
    let place = match dialect {
        Dialect::V2 => "definitions",
        Dialect::V3 => "components/schemas",
    };
    json!({"$ref": format!("#/{place}/{}", full_name(name))})
}

fn collect_reachable(name: &'static str, reached: &mut BTreeSet<&'static str>) {
    if !reached.insert(name) {
        return;
    }
    let Some(id) = types().find(name) else {
        return;
    };
    if types().get(id).form == Form::Either {
        return;
    }
    for field in types().members(id) {
        if let Some(name) = named(&field.shape, name, field) {
            collect_reachable(name, reached);
        }
    }
}

/// Returns the type that a field refers to, directly or as the element of a list or map.
fn named(shape: &Shape, owner: &str, field: &Field) -> Option<&'static str> {
    match shape {
        Shape::List(of) | Shape::WrappedList(of) | Shape::Map(of) => named(of, owner, field),
        Shape::Struct(id) => Some(types().get(*id).name),
        Shape::Quantity => Some(QUANTITY),
        Shape::IntOrString => Some(INT_OR_STRING),
        Shape::Time => Some(TIME),
        Shape::MicroTime => Some(MICRO_TIME),
        // The table does not distinguish the types of raw JSON; only these two are
        // special.
        Shape::Raw if field.json == "fieldsV1" => Some(FIELDS),
        Shape::Raw if owner.starts_with("apiextensions-apiserver.") => Some(JSON),
        Shape::Raw => Some(RAW),
        _ => None,
    }
}

/// The kinds that each type represents, by type name.
pub(super) struct Names {
    by_type: BTreeMap<&'static str, BTreeSet<GroupVersionKind>>,
}

impl Names {
    /// Collects the kinds of all types; option types are kinds in every group that
    /// `filter` accepts.
    pub(super) fn new(filter: &dyn Fn(&Kind) -> bool) -> Self {
        let mut names = Self {
            by_type: BTreeMap::new(),
        };
        for (_, kind) in kinds().iter() {
            names.add_kind(kind);
            if filter(kind) {
                for shared in ["DeleteOptions", "WatchEvent"] {
                    names.add_shared(shared, &kind.group, &kind.version);
                }
            }
        }
        for shared in [
            "Status",
            "APIVersions",
            "APIGroup",
            "APIGroupList",
            "APIResourceList",
            "DeleteOptions",
            "WatchEvent",
        ] {
            names.add_shared(shared, "", "v1");
        }
        names
    }

    fn add_kind(&mut self, kind: &Kind) {
        let of = |name: &str| gvk(&kind.group, &kind.version, name);
        let type_name = types().get(kind.type_id()).name;
        self.add(type_name, of(&kind.kind));
        if let Some(id) = types().find(&format!("{type_name}List")) {
            self.add(types().get(id).name, of(kind.list_kind()));
        }
        for sub in kind
            .subresources
            .iter()
            .filter(|sub| !sub.version.is_empty())
        {
            let name = gvk(&sub.group, &sub.version, &sub.kind);
            if let Some(type_name) = type_of(&name) {
                self.add(type_name, name);
            }
        }
    }

    fn add_shared(&mut self, name: &str, group: &str, version: &str) {
        if let Some(id) = types().find(&format!("{META}{name}")) {
            self.add(types().get(id).name, gvk(group, version, name));
        }
    }

    fn add(&mut self, type_name: &'static str, kind: GroupVersionKind) {
        self.by_type.entry(type_name).or_default().insert(kind);
    }

    fn of(&self, type_name: &str) -> Option<&BTreeSet<GroupVersionKind>> {
        self.by_type.get(type_name)
    }
}

fn gvk(group: &str, version: &str, kind: &str) -> GroupVersionKind {
    GroupVersionKind {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
    }
}

/// Returns a kind as the `x-kubernetes-group-version-kind` extension states it.
pub(super) fn gvk_value(kind: &GroupVersionKind) -> Value {
    json!({"group": kind.group, "version": kind.version, "kind": kind.kind})
}

fn schema(name: &'static str, names: &Names, dialect: Dialect) -> Value {
    match types().find(name) {
        Some(id) if types().get(id).form == Form::Either => json!({}),
        Some(id) => object(types().get(id), names, dialect),
        None => leaf(name, dialect),
    }
}

/// Returns the schema of a type that is not a struct.
fn leaf(name: &str, dialect: Dialect) -> Value {
    match (name, dialect) {
        (QUANTITY, Dialect::V2) => json!({"type": "string"}),
        (QUANTITY, Dialect::V3) => json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
        (INT_OR_STRING, Dialect::V2) => json!({"type": "string", "format": "int-or-string"}),
        (INT_OR_STRING, Dialect::V3) => {
            json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]})
        }
        (TIME | MICRO_TIME, _) => json!({"type": "string", "format": "date-time"}),
        (RAW | FIELDS | PATCH, _) => json!({"type": "object"}),
        (INFO, _) => info(),
        _ => json!({}),
    }
}

/// Returns the schema of the server version: all strings.
fn info() -> Value {
    const REQUIRED: [&str; 9] = [
        "major",
        "minor",
        "gitVersion",
        "gitCommit",
        "gitTreeState",
        "buildDate",
        "goVersion",
        "compiler",
        "platform",
    ];
    const OPTIONAL: [&str; 4] = [
        "emulationMajor",
        "emulationMinor",
        "minCompatibilityMajor",
        "minCompatibilityMinor",
    ];
    let text = |name: &&str| ((*name).to_owned(), json!({"type": "string"}));
    let properties: Object = REQUIRED.iter().chain(&OPTIONAL).map(text).collect();
    json!({"type": "object", "required": REQUIRED, "properties": properties})
}

fn object(of: &Type, names: &Names, dialect: Dialect) -> Value {
    let mut schema = Object::new();
    let mut properties = Object::new();
    if let Some(kinds) = names.of(of.name) {
        // A WatchEvent has no type metadata.
        if of.kind() != "WatchEvent" {
            for member in ["apiVersion", "kind"] {
                properties.insert(member.to_owned(), json!({"type": "string"}));
            }
        }
        let kinds: Value = kinds.iter().map(gvk_value).collect();
        schema.insert("x-kubernetes-group-version-kind".to_owned(), kinds);
        schema.insert("description".to_owned(), description(of, names).into());
    }
    let id = types().find(of.name);
    let members = || id.into_iter().flat_map(|id| types().members(id));
    for field in members() {
        let property = property(field, of.name, dialect);
        properties.insert(field.json.to_owned(), property);
    }
    let required: Vec<_> = members()
        .filter(|field| field.required)
        .map(|field| field.json)
        .collect();
    if !required.is_empty() {
        schema.insert("required".to_owned(), json!(required));
    }
    if of.atomic {
        schema.insert("x-kubernetes-map-type".to_owned(), "atomic".into());
    }
    schema.insert("type".to_owned(), "object".into());
    if !properties.is_empty() {
        schema.insert("properties".to_owned(), Value::Object(properties));
    }
    Value::Object(schema)
}

/// Returns the description: kind, group and version, as the tables have no other.
fn description(of: &Type, names: &Names) -> String {
    let mut kinds = names.of(of.name).into_iter().flatten();
    match (kinds.next(), kinds.next()) {
        (Some(kind), None) if kind.group.is_empty() => {
            format!("{} of the core group, version {}.", kind.kind, kind.version)
        }
        (Some(kind), None) => {
            let (name, group, version) = (&kind.kind, &kind.group, &kind.version);
            format!("{name} of group {group}, version {version}.")
        }
        _ => format!("{} of every group.", of.kind()),
    }
}

fn property(field: &Field, owner: &str, dialect: Dialect) -> Value {
    let mut property = match &field.shape {
        Shape::List(of) | Shape::WrappedList(of) => {
            json!({"type": "array", "items": element(of, owner, field, dialect)})
        }
        Shape::Map(of) => {
            let values = element(of, owner, field, dialect);
            json!({"type": "object", "additionalProperties": values})
        }
        shape => single(shape, owner, field, dialect),
    };
    if dialect == Dialect::V3
        && let Some(default) = default(field)
    {
        property["default"] = default;
    }
    add_extensions(&mut property, field);
    property
}

/// Returns the schema of a field that is neither a list nor a map.
fn single(shape: &Shape, owner: &str, field: &Field, dialect: Dialect) -> Value {
    match (named(shape, owner, field), dialect) {
        // In version 3 a reference must not have siblings.
        (Some(name), Dialect::V3) => json!({"allOf": [reference(name, dialect)]}),
        (Some(name), Dialect::V2) => reference(name, dialect),
        (None, _) => scalar(shape),
    }
}

/// Returns the schema of a list or map element, which is never missing and so has a zero
/// value as default.
fn element(shape: &Shape, owner: &str, field: &Field, dialect: Dialect) -> Value {
    match shape {
        Shape::List(of) | Shape::WrappedList(of) => {
            json!({"type": "array", "items": element(of, owner, field, dialect)})
        }
        Shape::Struct(id) if dialect == Dialect::V3 && is_object(types().get(*id)) => {
            json!({"allOf": [reference(types().get(*id).name, dialect)], "default": {}})
        }
        shape => match (named(shape, owner, field), zero(shape)) {
            (Some(name), _) => reference(name, dialect),
            (None, Some(zero)) if dialect == Dialect::V3 => {
                let mut element = scalar(shape);
                element["default"] = zero;
                element
            }
            (None, _) => scalar(shape),
        },
    }
}

fn is_object(of: &Type) -> bool {
    of.form == Form::Object
}

fn scalar(shape: &Shape) -> Value {
    match shape {
        Shape::Bool => json!({"type": "boolean"}),
        Shape::Int32 => json!({"type": "integer", "format": "int32"}),
        Shape::Int64 => json!({"type": "integer", "format": "int64"}),
        Shape::Float64 => json!({"type": "number", "format": "double"}),
        Shape::Bytes => json!({"type": "string", "format": "byte"}),
        _ => json!({"type": "string"}),
    }
}

/// Returns the stated default, or the zero value of a field that is always written.
fn default(field: &Field) -> Option<Value> {
    if let Some(json) = field.default {
        return serde_json::from_str(json).ok();
    }
    match &field.shape {
        _ if field.pointer => None,
        Shape::Struct(id) if is_object(types().get(*id)) => Some(json!({})),
        shape if field.omit == Omit::Never => zero(shape),
        _ => None,
    }
}

fn zero(shape: &Shape) -> Option<Value> {
    match shape {
        Shape::String => Some(json!("")),
        Shape::Bool => Some(json!(false)),
        Shape::Int32 | Shape::Int64 | Shape::Float64 => Some(json!(0)),
        _ => None,
    }
}

fn map_type(field: &Field) -> Option<&'static str> {
    match (field.atomic_map, field.granular_map) {
        (true, _) => Some("atomic"),
        (_, true) => Some("granular"),
        _ => None,
    }
}

/// Adds the extensions for strategic merge patches and server-side apply.
fn add_extensions(property: &mut Value, field: &Field) {
    let strategy = match (field.merge, field.retain_keys) {
        (true, true) => Some("merge,retainKeys"),
        (true, false) => Some("merge"),
        (false, true) => Some("retainKeys"),
        (false, false) => None,
    };
    let list = field.list.map(|list| match list {
        ListType::Atomic => "atomic",
        ListType::Set => "set",
        ListType::Map => "map",
    });
    let keys = (!field.list_keys.is_empty()).then(|| json!(field.list_keys));
    let extensions = [
        ("patch-strategy", strategy.map(Value::from)),
        ("patch-merge-key", field.merge_key.map(Value::from)),
        ("list-type", list.map(Value::from)),
        ("list-map-keys", keys),
        ("map-type", map_type(field).map(Value::from)),
    ];
    for (name, value) in extensions {
        if let Some(value) = value {
            property[format!("x-kubernetes-{name}")] = value;
        }
    }
}

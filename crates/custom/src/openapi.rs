//! OpenAPI documents of custom kinds, in versions 2 and 3.
//!
//! Version 3 publishes the schema as written. Version 2 publishes less, because kubectl would
//! otherwise reject objects that the server accepts: it supports neither alternatives nor
//! nulls, and treats the published fields of an open object as complete.
//!
//! Documents depend only on the versions they are built from; the server caches them while
//! these are unchanged.

use std::collections::BTreeSet;

use insula_kinds::openapi::{self, LazySchemas, V2Part, schema_name};
use insula_kinds::{Value, kinds};
use serde_json::json;

mod schema;

use crate::kind::Version;
use schema::Dialect;

/// The sorted paths of the version 3 documents that contain these versions:
/// `apis/example.com/v1`, ... Built-in group versions have their own documents.
pub fn v3_paths<'a>(versions: impl IntoIterator<Item = &'a Version>) -> Vec<String> {
    let versions = versions.into_iter().filter(|version| !is_hidden(version));
    let paths: BTreeSet<String> = versions.map(v3_path).collect();
    paths.into_iter().collect()
}

/// The document at one of the paths that [`v3_paths`] returns for the same versions.
pub fn v3_document<'a>(
    path: &str,
    versions: impl IntoIterator<Item = &'a Version>,
) -> Option<Vec<u8>> {
    let versions: Vec<_> = versions
        .into_iter()
        .filter(|version| v3_path(version) == path && !is_hidden(version))
        .collect();
    if versions.is_empty() {
        return None;
    }
    let kinds = versions.iter().map(|version| &version.kind);
    let schemas = schemas(&versions, Dialect::V3);
    Some(openapi::v3_custom_document(kinds, &schemas))
}

/// The contribution of the versions to the version 2 document. Versions with the path of a
/// built-in kind contribute nothing.
pub fn v2_part<'a>(versions: impl IntoIterator<Item = &'a Version>) -> V2Part<'a> {
    let versions: Vec<_> = versions
        .into_iter()
        .filter(|version| {
            let kind = &version.kind;
            let built_in = kinds().find(&kind.group, &kind.version, &kind.resource);
            built_in.is_none()
        })
        .collect();
    let schemas = schemas(&versions, Dialect::V2);
    V2Part::new(versions.iter().map(|version| &version.kind), schemas)
}

fn v3_path(version: &Version) -> String {
    format!("apis/{}", version.kind.api_version())
}

/// Reports whether a built-in document takes the place of the version's.
fn is_hidden(version: &Version) -> bool {
    kinds().serves(&version.kind.group, &version.kind.version)
}

/// The schemas of all objects and lists, by name.
fn schemas<'a>(versions: &[&'a Version], dialect: Dialect) -> LazySchemas<'a> {
    let mut schemas = LazySchemas::new();
    for version in versions.iter().copied() {
        let name = |kind: &str| schema_name(&version.kind.group, &version.kind.version, kind);
        let object = Box::new(move || object(version, dialect));
        schemas.insert(name(&version.kind.kind), object);
        let list = Box::new(move || list(version, dialect));
        schemas.insert(name(version.kind.list_kind()), list);
    }
    schemas
}

fn object(version: &Version, dialect: Dialect) -> Value {
    let mut schema = Value::Object(schema::published(&version.schema.parse(), dialect));
    mark(&mut schema, version, &version.kind.kind);
    schema
}

fn list(version: &Version, dialect: Dialect) -> Value {
    let kind = &version.kind;
    let item = schema_name(&kind.group, &kind.version, &kind.kind);
    let mut schema = json!({
        "description": format!("{} is a list of {}", kind.list_kind(), kind.kind),
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": schema::metadata("ListMeta", dialect),
            "items": {"type": "array", "items": dialect.reference(&item)},
        },
    });
    mark(&mut schema, version, kind.list_kind());
    schema
}

/// Adds the group, version and kind, and the selectable fields.
fn mark(schema: &mut Value, version: &Version, kind: &str) {
    schema["x-kubernetes-group-version-kind"] = json!([{
        "group": version.kind.group, "version": version.kind.version, "kind": kind,
    }]);
    if !version.selectable.is_empty() {
        let fields = version.selectable.iter();
        let fields = fields.map(|path| json!({"fieldPath": path.field()}));
        schema["x-kubernetes-selectable-fields"] = fields.collect();
    }
}

//! What clients are told of custom kinds: documents of both versions of OpenAPI.
//!
//! Version 3 tells the schema as it was written. Version 2 tells less, as kubectl would
//! otherwise refuse what the server takes: it knows no alternatives and no nulls, and what
//! it is told of an object that may have any fields it takes for all of them.
//!
//! Documents are functions of the versions that they are made of; who serves them keeps
//! them as long as these are the same.

use insula_kinds::openapi::{self, V2Part, schema_name};
use insula_kinds::{Object, Value};
use serde_json::json;

mod schema;

use crate::kind::Version;
use schema::Dialect;

/// The document of version 3 of one group and version, in which these are all kinds.
pub fn v3_document<'a>(versions: impl IntoIterator<Item = &'a Version>) -> Vec<u8> {
    let versions: Vec<_> = versions.into_iter().collect();
    let schemas = schemas(&versions, Dialect::V3);
    openapi::v3_custom_document(versions.iter().map(|version| &version.kind), schemas)
}

/// The path of the document of version 3 in which the version is: `apis/example.com/v1`.
pub fn v3_path(version: &Version) -> String {
    format!("apis/{}", version.kind.api_version())
}

/// What the versions add to the one document of version 2.
pub fn v2_part<'a>(versions: impl IntoIterator<Item = &'a Version>) -> V2Part {
    let versions: Vec<_> = versions.into_iter().collect();
    let schemas = schemas(&versions, Dialect::V2);
    V2Part::new(versions.iter().map(|version| &version.kind), schemas)
}

/// The schemas of all objects and lists, by name.
fn schemas(versions: &[&Version], dialect: Dialect) -> Object {
    let schemas = versions.iter().flat_map(|version| {
        let name = |kind: &str| schema_name(&version.kind.group, &version.kind.version, kind);
        [
            (name(&version.kind.kind), object(version, dialect)),
            (name(version.kind.list_kind()), list(version, dialect)),
        ]
    });
    schemas.collect()
}

fn object(version: &Version, dialect: Dialect) -> Value {
    let mut schema = Value::Object(schema::published(&version.schema, dialect));
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

/// Says of which kind it is, and by which fields it can be selected.
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

//! The paths of custom resources, in both versions.
//!
//! They differ in details from those of built-in kinds: no protobuf, no legacy watch
//! paths, and delete-collection takes the parameters of a list. The schemas are supplied
//! by the caller, which has the definitions.

mod path;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde_json::json;

use super::gnostic::{Message, named_paths_and_definitions};
use super::json_members::JsonMembers;
use super::operation::Parameter;
use super::schema::{Dialect, Names, full_name, schemas_of};
use super::{tag, v2, v3};
use crate::{Kind, Object, Value};
use path::{Body, Operation, PLAIN, Path, paths};

const STATUS: &str = "apimachinery.pkg.apis.meta.v1.Status";
const DELETE_OPTIONS: &str = "apimachinery.pkg.apis.meta.v1.DeleteOptions";
const PATCH_BODY: &str = "apimachinery.pkg.apis.meta.v1.Patch";
const OBJECT_META: &str = "apimachinery.pkg.apis.meta.v1.ObjectMeta";
const LIST_META: &str = "apimachinery.pkg.apis.meta.v1.ListMeta";
const SCALE: &str = "api.autoscaling.v1.Scale";

/// The schemas shared by all version 3 documents, without and with `Scale`.
static SHARED: LazyLock<[Object; 2]> = LazyLock::new(|| {
    let names = Names::new(&|_| true);
    let plain = [STATUS, DELETE_OPTIONS, PATCH_BODY, OBJECT_META, LIST_META];
    let scaled = plain.into_iter().chain([SCALE]);
    [
        schemas_of(plain, &names, Dialect::V3),
        schemas_of(scaled, &names, Dialect::V3),
    ]
});

/// Schemas by name. Each is built when a document comes to it: all schemas of a tenant at once
/// take twenty times the memory of their document.
pub type LazySchemas<'a> = BTreeMap<String, Box<dyn Fn() -> Value + 'a>>;

/// The addition of custom resources to the version 2 document.
pub struct V2Part<'a> {
    paths: BTreeMap<String, Path<'a>>,
    schemas: LazySchemas<'a>,
}

impl<'a> V2Part<'a> {
    /// Builds the paths of the kinds, with all their schemas.
    pub fn new(kinds: impl IntoIterator<Item = &'a Kind>, schemas: LazySchemas<'a>) -> Self {
        Self {
            paths: by_path(kinds),
            schemas,
        }
    }

    /// The paths in their order.
    pub(super) fn paths(&self) -> impl Iterator<Item = (&String, Value)> {
        let paths = self.paths.iter();
        paths.map(|(name, path)| (name, path.written(Dialect::V2)))
    }

    /// The schemas in the order of their names.
    pub(super) fn schemas(&self) -> impl Iterator<Item = (&String, Value)> {
        self.schemas.iter().map(|(name, schema)| (name, schema()))
    }

    /// Encodes the part in protobuf. Appended to the document in protobuf it forms a
    /// whole, as consecutive messages are merged.
    pub fn protobuf(&self) -> Vec<u8> {
        let mut out = Message::default();
        named_paths_and_definitions(&mut out, self.paths(), self.schemas());
        out.into_bytes()
    }
}

/// Builds the version 3 document of a group and version that has only custom resources,
/// with all their schemas by name.
pub fn v3_custom_document<'a>(
    kinds: impl IntoIterator<Item = &'a Kind>,
    schemas: &LazySchemas<'_>,
) -> Vec<u8> {
    let paths = by_path(kinds);
    let scaled = paths.values().any(Path::scaled);
    let shared = &SHARED[usize::from(scaled)];
    let mut out = Vec::new();
    let mut document = JsonMembers::begin(&mut out);
    document.add("openapi", &"3.0.0".into());
    let info = json!({"title": "Kubernetes CRD Swagger", "version": "v0.1.0"});
    document.add("info", &info);
    document.add_object("paths", |members| {
        for (name, path) in &paths {
            members.add(name, &path.written(Dialect::V3));
        }
    });
    document.add_object("components", |components| {
        components.add_object("schemas", |members| {
            let names: BTreeSet<&String> = schemas.keys().chain(shared.keys()).collect();
            for name in names {
                match (shared.get(name), schemas.get(name)) {
                    (Some(schema), _) => members.add(name, schema),
                    (None, Some(schema)) => members.add(name, &schema()),
                    (None, None) => {}
                }
            }
        });
    });
    document.end();
    out
}

/// Returns the paths of kinds, in their order.
fn by_path<'a>(kinds: impl IntoIterator<Item = &'a Kind>) -> BTreeMap<String, Path<'a>> {
    let paths = kinds.into_iter().flat_map(paths);
    paths.map(|path| (path.path.clone(), path)).collect()
}

/// Returns the name of a schema: `com.example.v1.Foo` for `Foo` in `example.com/v1`.
pub fn schema_name(group: &str, version: &str, kind: &str) -> String {
    let domain: Vec<_> = group.rsplit('.').collect();
    format!("{}.{version}.{kind}", domain.join("."))
}

impl Path<'_> {
    /// Whether this is the path of a scale subresource.
    fn scaled(&self) -> bool {
        let scale = full_name(SCALE);
        self.operations.iter().any(|of| of.response == scale)
    }

    fn written(&self, dialect: Dialect) -> Value {
        let mut item = Object::new();
        for operation in &self.operations {
            let mut value = operation.written(dialect);
            value["tags"] = json!([tag(&self.kind.group, &self.kind.version)]);
            value["x-kubernetes-group-version-kind"] = json!({
                "group": self.kind.group, "version": self.kind.version, "kind": self.kind.kind,
            });
            item.insert(operation.method.to_owned(), value);
        }
        let parameters = self.parameters.iter().map(|of| parameter(of, dialect));
        item.insert("parameters".to_owned(), parameters.collect());
        Value::Object(item)
    }
}

impl Operation {
    fn written(&self, dialect: Dialect) -> Value {
        let mut value = json!({
            "operationId": self.id,
            "x-kubernetes-action": self.action,
            "responses": self.responses(dialect),
        });
        let parameters = self.parameters.iter().map(|of| parameter(of, dialect));
        let mut parameters: Vec<Value> = parameters.collect();
        match dialect {
            Dialect::V2 => {
                value["consumes"] = json!(self.consumes);
                value["produces"] = json!(PLAIN);
                value["schemes"] = json!(["https"]);
                parameters.splice(0..0, self.body.as_ref().map(Body::parameter));
            }
            Dialect::V3 => {
                if let Some(body) = &self.body {
                    let content = content(self.consumes, &body.schema);
                    value["requestBody"] = json!({"content": content});
                    if body.required {
                        value["requestBody"]["required"] = true.into();
                    }
                }
            }
        }
        if !parameters.is_empty() {
            value["parameters"] = parameters.into();
        }
        value
    }

    fn responses(&self, dialect: Dialect) -> Value {
        let mut responses = Object::new();
        for code in self.codes {
            let mut response = json!({"description": v3::code_text(*code)});
            match dialect {
                Dialect::V2 => response["schema"] = reference(&self.response, dialect),
                Dialect::V3 => response["content"] = content(PLAIN, &self.response),
            }
            responses.insert(code.to_string(), response);
        }
        responses.insert("401".to_owned(), json!({"description": v3::code_text(401)}));
        Value::Object(responses)
    }
}

impl Body {
    fn parameter(&self) -> Value {
        let schema = reference(&self.schema, Dialect::V2);
        let mut value = json!({"name": "body", "in": "body", "schema": schema});
        if self.required {
            value["required"] = true.into();
        }
        value
    }
}

fn parameter(of: &Parameter, dialect: Dialect) -> Value {
    match dialect {
        Dialect::V2 => v2::parameter(of),
        Dialect::V3 => v3::parameter(of),
    }
}

fn content(media_types: &[&str], schema: &str) -> Value {
    let media = |name: &&str| {
        let schema = reference(schema, Dialect::V3);
        ((*name).to_owned(), json!({"schema": schema}))
    };
    Value::Object(media_types.iter().map(media).collect())
}

fn reference(schema: &str, dialect: Dialect) -> Value {
    let place = match dialect {
        Dialect::V2 => "definitions",
        Dialect::V3 => "components/schemas",
    };
    json!({"$ref": format!("#/{place}/{schema}")})
}

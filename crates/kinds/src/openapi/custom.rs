//! The paths of custom resources, in both versions.
//!
//! They differ in details from those of built-in kinds: no protobuf, no legacy watch
//! paths, and delete-collection takes the parameters of a list. The schemas are supplied
//! by the caller, which has the definitions.

mod path;

use std::sync::LazyLock;

use serde::Serialize;
use serde_json::json;

use super::gnostic::{Message, named_paths_and_definitions};
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

/// The addition of custom resources to the version 2 document.
#[derive(Clone, Debug)]
pub struct V2Part {
    pub(super) paths: Object,
    pub(super) definitions: Object,
}

impl V2Part {
    /// Builds the paths of the kinds, with all their schemas by name.
    pub fn new<'a>(kinds: impl IntoIterator<Item = &'a Kind>, schemas: Object) -> Self {
        let paths = kinds.into_iter().flat_map(paths);
        Self {
            paths: paths.map(|path| path.written(Dialect::V2)).collect(),
            definitions: schemas,
        }
    }

    /// Encodes the part in protobuf. Appended to the document in protobuf it forms a
    /// whole, as consecutive messages are merged.
    pub fn protobuf(&self) -> Vec<u8> {
        let mut out = Message::default();
        named_paths_and_definitions(&mut out, &self.paths, &self.definitions);
        out.into_bytes()
    }
}

/// Builds the version 3 document of a group and version that has only custom resources,
/// with all their schemas by name.
pub fn v3_custom_document<'a>(
    kinds: impl IntoIterator<Item = &'a Kind>,
    mut schemas: Object,
) -> Vec<u8> {
    let paths: Vec<_> = kinds.into_iter().flat_map(paths).collect();
    let scaled = paths.iter().any(|path| path.scaled());
    let shared = &SHARED[usize::from(scaled)];
    schemas.extend(
        shared
            .iter()
            .map(|(name, schema)| (name.clone(), schema.clone())),
    );
    let paths: Object = paths.iter().map(|path| path.written(Dialect::V3)).collect();
    let document = Document {
        openapi: "3.0.0",
        info: json!({"title": "Kubernetes CRD Swagger", "version": "v0.1.0"}),
        paths,
        components: Components { schemas },
    };
    serde_json::to_vec(&document).expect("values are always JSON")
}

/// A version 3 document with its members in the usual order.
#[derive(Serialize)]
struct Document {
    openapi: &'static str,
    info: Value,
    paths: Object,
    components: Components,
}

#[derive(Serialize)]
struct Components {
    schemas: Object,
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

    fn written(&self, dialect: Dialect) -> (String, Value) {
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
        (self.path.clone(), Value::Object(item))
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

//! The paths of kinds that users defined, in both versions.
//!
//! They differ in small things from those of other kinds: nothing comes in protobuf, there
//! are no old watches, and a list is deleted by the parameters of a list. Their schemas are
//! made by whoever knows the definitions.

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

/// What every document of version 3 refers to, without and with scales.
static SHARED: LazyLock<[Object; 2]> = LazyLock::new(|| {
    let names = Names::new(&|_| true);
    let plain = [STATUS, DELETE_OPTIONS, PATCH_BODY, OBJECT_META, LIST_META];
    let scaled = plain.into_iter().chain([SCALE]);
    [
        schemas_of(plain, &names, Dialect::V3),
        schemas_of(scaled, &names, Dialect::V3),
    ]
});

/// What some kinds that users defined add to the document of version 2.
#[derive(Clone, Debug)]
pub struct V2Part {
    pub(super) paths: Object,
    pub(super) definitions: Object,
}

impl V2Part {
    /// The paths of the kinds, with the schemas of all of them by their names.
    pub fn new<'a>(kinds: impl IntoIterator<Item = &'a Kind>, schemas: Object) -> Self {
        let paths = kinds.into_iter().flat_map(paths);
        Self {
            paths: paths.map(|path| path.written(Dialect::V2)).collect(),
            definitions: schemas,
        }
    }

    /// The part in protobuf. It makes a whole when it follows the document in protobuf, as
    /// messages that follow each other are merged.
    pub fn protobuf(&self) -> Vec<u8> {
        let mut out = Message::default();
        named_paths_and_definitions(&mut out, &self.paths, &self.definitions);
        out.into_bytes()
    }
}

/// The document of version 3 of a group and version in which only users define kinds, with
/// the schemas of all of these by their names.
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

/// A document of version 3 with its members in the usual order.
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

/// The name of a schema: `com.example.v1.Foo` for `Foo` in `example.com/v1`.
pub fn schema_name(group: &str, version: &str, kind: &str) -> String {
    let domain: Vec<_> = group.rsplit('.').collect();
    format!("{}.{version}.{kind}", domain.join("."))
}

impl Path<'_> {
    /// Whether it is that of a scale.
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

//! The paths of one custom resource kind and their operations.

use super::{DELETE_OPTIONS, PATCH_BODY, SCALE, STATUS, schema_name};
use crate::Kind;
use crate::openapi::capitalized;
use crate::openapi::operation::{DELETE, NAME, NAMESPACE, PATCH, PRETTY, Parameter, WRITE, query};
use crate::openapi::path::{root, version_id};
use crate::openapi::schema::full_name;

/// The media types of objects.
pub(super) const PLAIN: &[&str] = &["application/json", "application/yaml"];
const PATCHES: &[&str] = &[
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/apply-patch+yaml",
];

const GET: &[Parameter] = &[query("resourceVersion", "string")];
const LIST: &[Parameter] = &[
    query("allowWatchBookmarks", "boolean"),
    query("continue", "string"),
    query("fieldSelector", "string"),
    query("labelSelector", "string"),
    query("limit", "integer"),
    query("resourceVersion", "string"),
    query("resourceVersionMatch", "string"),
    query("sendInitialEvents", "boolean"),
    query("shardSelector", "string"),
    query("timeoutSeconds", "integer"),
    query("watch", "boolean"),
];

/// A path and its operations.
pub(super) struct Path<'a> {
    pub(super) kind: &'a Kind,
    pub(super) path: String,
    pub(super) parameters: Vec<Parameter>,
    pub(super) operations: Vec<Operation>,
}

/// An operation on a path.
pub(super) struct Operation {
    pub(super) method: &'static str,
    pub(super) id: String,
    pub(super) action: &'static str,
    pub(super) parameters: &'static [Parameter],
    pub(super) consumes: &'static [&'static str],
    pub(super) body: Option<Body>,
    /// The name of the response schema.
    pub(super) response: String,
    pub(super) codes: &'static [u16],
}

pub(super) struct Body {
    pub(super) schema: String,
    pub(super) required: bool,
}

/// Returns all paths of a kind.
pub(super) fn paths(kind: &Kind) -> Vec<Path<'_>> {
    let paths = Paths::new(kind);
    let mut all = vec![paths.collection(), paths.item()];
    if kind.namespaced() {
        all.push(paths.all_namespaces());
    }
    for sub in &kind.subresources {
        let response = match sub.name.as_str() {
            "scale" => full_name(SCALE),
            _ => paths.object.clone(),
        };
        let name = format!("{}{}", paths.name, capitalized(&sub.name));
        let place = format!("{}/{{name}}/{}", paths.place, sub.name);
        all.push(paths.path(place, &[NAME], paths.object_operations(&name, &response)));
    }
    all
}

/// A kind, and the parts that make up its paths and operation IDs.
struct Paths<'a> {
    kind: &'a Kind,
    /// `namespaces/{namespace}/foos`.
    place: String,
    /// `NamespacedFoo`.
    name: String,
    /// `ExIoV1`.
    version: String,
    object: String,
    list: String,
}

impl<'a> Paths<'a> {
    fn new(kind: &'a Kind) -> Self {
        let (place, name) = match kind.namespaced() {
            true => (
                format!("namespaces/{{namespace}}/{}", kind.resource),
                format!("Namespaced{}", kind.kind),
            ),
            false => (kind.resource.clone(), kind.kind.clone()),
        };
        let schema = |name: &str| schema_name(&kind.group, &kind.version, name);
        Self {
            kind,
            place,
            name,
            version: version_id(&kind.group, &kind.version),
            object: schema(&kind.kind),
            list: schema(kind.list_kind()),
        }
    }

    fn collection(&self) -> Path<'a> {
        let create = Operation {
            parameters: WRITE,
            body: Some(Body::required(&self.object)),
            codes: &[200, 201, 202],
            ..self.operation("post", "create", &self.name, "post", &self.object)
        };
        let name = format!("Collection{}", self.name);
        let status = full_name(STATUS);
        let delete = Operation {
            parameters: LIST,
            ..self.operation("delete", "delete", &name, "deletecollection", &status)
        };
        let operations = vec![self.list(&self.name, LIST), create, delete];
        self.path(self.place.clone(), &[], operations)
    }

    fn list(&self, name: &str, parameters: &'static [Parameter]) -> Operation {
        Operation {
            parameters,
            ..self.operation("get", "list", name, "list", &self.list)
        }
    }

    /// The list across all namespaces. The query parameters belong to the path, as it has
    /// no other operation.
    fn all_namespaces(&self) -> Path<'a> {
        let name = format!("{}ForAllNamespaces", self.kind.kind);
        let mut parameters = LIST.to_vec();
        parameters.push(PRETTY);
        parameters.sort_by_key(|parameter| parameter.name);
        Path {
            kind: self.kind,
            path: format!("{}/{}", self.root(), self.kind.resource),
            parameters,
            operations: vec![self.list(&name, &[])],
        }
    }

    fn item(&self) -> Path<'a> {
        let mut operations = self.object_operations(&self.name, &self.object);
        let status = full_name(STATUS);
        operations.push(Operation {
            parameters: DELETE,
            body: Some(Body {
                schema: full_name(DELETE_OPTIONS),
                required: false,
            }),
            codes: &[200, 202],
            ..self.operation("delete", "delete", &self.name, "delete", &status)
        });
        self.path(format!("{}/{{name}}", self.place), &[NAME], operations)
    }

    /// Returns the operations on one object: read, replace, patch.
    fn object_operations(&self, name: &str, schema: &str) -> Vec<Operation> {
        let read = Operation {
            parameters: GET,
            ..self.operation("get", "read", name, "get", schema)
        };
        let replace = Operation {
            parameters: WRITE,
            body: Some(Body::required(schema)),
            codes: &[200, 201],
            ..self.operation("put", "replace", name, "put", schema)
        };
        let patch = Operation {
            parameters: PATCH,
            consumes: PATCHES,
            body: Some(Body::required(&full_name(PATCH_BODY))),
            ..self.operation("patch", "patch", name, "patch", schema)
        };
        vec![read, replace, patch]
    }

    fn operation(
        &self,
        method: &'static str,
        verb: &str,
        name: &str,
        action: &'static str,
        response: &str,
    ) -> Operation {
        Operation {
            method,
            id: format!("{verb}{}{name}", self.version),
            action,
            parameters: &[],
            consumes: PLAIN,
            body: None,
            response: response.to_owned(),
            codes: &[200],
        }
    }

    fn path(&self, place: String, own: &[Parameter], operations: Vec<Operation>) -> Path<'a> {
        let mut parameters = own.to_vec();
        if self.kind.namespaced() {
            parameters.push(NAMESPACE);
        }
        parameters.push(PRETTY);
        Path {
            kind: self.kind,
            path: format!("{}/{place}", self.root()),
            parameters,
            operations,
        }
    }

    fn root(&self) -> String {
        root(&self.kind.group, &self.kind.version)
    }
}

impl Body {
    fn required(schema: &str) -> Self {
        Self {
            schema: schema.to_owned(),
            required: true,
        }
    }
}

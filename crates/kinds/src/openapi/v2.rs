//! OpenAPI version 2: one document for all groups.

use serde::Serialize;
use serde_json::json;

use super::custom::V2Part;
use super::json_members::JsonMembers;
use super::operation::{Body, Operation, Parameter, Place};
use super::path::{Path, paths_of_kind};
use super::schema::{Dialect, Names, gvk_value, reference, schemas};
use super::v3::code_text;
use super::{VERSION, discovery};
use crate::{Kind, Object, Value, kinds};

/// Builds the document of all kinds that `filter` accepts.
pub fn v2_document(filter: &dyn Fn(&Kind) -> bool) -> Vec<u8> {
    V2Base::new(filter).json
}

/// The document of the built-in kinds, to which custom resources are added without
/// building it again.
#[derive(Clone, Debug)]
pub struct V2Base {
    json: Vec<u8>,
    /// The offset where the last path ends.
    paths_end: usize,
    /// The offset where the last schema ends.
    definitions_end: usize,
}

impl V2Base {
    /// Builds the document of all kinds that `filter` accepts.
    pub fn new(filter: &dyn Fn(&Kind) -> bool) -> Self {
        let document = document(filter);
        let mut json = Vec::new();
        member("swagger", &document.swagger, &mut json);
        member("info", &document.info, &mut json);
        let paths_end = member("paths", &document.paths, &mut json);
        let definitions_end = member("definitions", &document.definitions, &mut json);
        let schemes = &document.security_definitions;
        member("securityDefinitions", schemes, &mut json);
        member("security", &document.security, &mut json);
        json.push(b'}');
        Self {
            json,
            paths_end,
            definitions_end,
        }
    }

    /// Returns the document without additions.
    pub fn json(&self) -> &[u8] {
        &self.json
    }

    /// Returns the document with the paths and schemas of a part added.
    pub fn with(&self, part: &V2Part<'_>) -> Vec<u8> {
        let (paths, rest) = self.json.split_at(self.paths_end);
        let (definitions, rest) = rest.split_at(self.definitions_end - self.paths_end);
        let mut out = Vec::with_capacity(self.json.len() * 2);
        out.extend_from_slice(paths);
        add(part.paths(), &mut out);
        out.extend_from_slice(definitions);
        add(part.schemas(), &mut out);
        out.extend_from_slice(rest);
        out
    }
}

/// Writes a member of the document and returns the offset where its last entry ends.
fn member(name: &str, value: &impl Serialize, json: &mut Vec<u8>) -> usize {
    let before = if json.is_empty() { '{' } else { ',' };
    json.extend_from_slice(format!("{before}\"{name}\":").as_bytes());
    serde_json::to_writer(&mut *json, value).expect("values are always JSON");
    json.len() - 1
}

/// Appends members to existing ones.
fn add<'a>(members: impl Iterator<Item = (&'a String, Value)>, out: &mut Vec<u8>) {
    let mut json = JsonMembers::resume(out);
    for (name, value) in members {
        json.add(name, &value);
    }
}

pub(super) fn document(filter: &dyn Fn(&Kind) -> bool) -> Document {
    let paths = paths(filter);
    let names = Names::new(filter);
    Document {
        swagger: "2.0",
        info: json!({"title": "Kubernetes", "version": VERSION}),
        paths: paths.iter().map(path_item).collect(),
        definitions: schemas(&paths, &names, Dialect::V2),
        security_definitions: json!({
            "BearerToken": {"type": "apiKey", "name": "authorization", "in": "header"},
        }),
        security: json!([{"BearerToken": []}]),
    }
}

fn paths(filter: &dyn Fn(&Kind) -> bool) -> Vec<Path> {
    let mut paths = vec![discovery::api(), discovery::apis(), discovery::version()];
    // In the table, kinds of a version are adjacent, and so are versions of a group.
    let mut last = None;
    let mut last_group = None;
    for (_, kind) in kinds().iter().filter(|(_, kind)| filter(kind)) {
        if last_group.replace(&kind.group) != Some(&kind.group) && !kind.group.is_empty() {
            paths.push(discovery::group(&kind.group));
        }
        if last.replace(kind.api_version()) != Some(kind.api_version()) {
            paths.push(discovery::api_version(&kind.group, &kind.version));
        }
        paths.extend(paths_of_kind(kind));
    }
    paths
}

/// A document before serialization.
pub(super) struct Document {
    pub(super) swagger: &'static str,
    pub(super) info: Value,
    pub(super) paths: Object,
    pub(super) definitions: Object,
    pub(super) security_definitions: Value,
    pub(super) security: Value,
}

fn path_item(path: &Path) -> (String, Value) {
    let mut item = Object::new();
    for operation in &path.operations {
        let value = operation_value(operation, &path.tag);
        item.insert(operation.method.to_owned(), value);
    }
    if !path.parameters.is_empty() {
        let parameters: Value = path.parameters.iter().map(parameter).collect();
        item.insert("parameters".to_owned(), parameters);
    }
    (path.path.clone(), Value::Object(item))
}

fn operation_value(operation: &Operation, tag: &str) -> Value {
    let body = body(operation.body).into_iter();
    let parameters: Vec<_> = body
        .chain(operation.parameters.iter().map(parameter))
        .collect();
    let mut value = json!({
        "tags": [tag],
        "operationId": operation.id,
        "schemes": ["https"],
        "consumes": operation.body.media_types(),
        "produces": operation.response.media_types(),
        "responses": responses(operation),
    });
    if !parameters.is_empty() {
        value["parameters"] = parameters.into();
    }
    if !operation.action.is_empty() {
        value["x-kubernetes-action"] = operation.action.into();
    }
    if let Some(kind) = &operation.kind {
        value["x-kubernetes-group-version-kind"] = gvk_value(kind);
    }
    value
}

fn body(body: Body) -> Option<Value> {
    let schema = reference(body.type_name()?, Dialect::V2);
    let mut value = json!({"name": "body", "in": "body", "schema": schema});
    if body.required() {
        value["required"] = true.into();
    }
    Some(value)
}

fn responses(operation: &Operation) -> Value {
    let schema = match operation.response.type_name() {
        Some(name) => reference(name, Dialect::V2),
        None => json!({"type": "string"}),
    };
    let mut responses = Object::new();
    for code in operation.codes {
        let response = json!({"description": code_text(*code), "schema": schema});
        responses.insert(code.to_string(), response);
    }
    let unauthorized = json!({"description": code_text(401)});
    responses.insert("401".to_owned(), unauthorized);
    Value::Object(responses)
}

pub(super) fn parameter(parameter: &Parameter) -> Value {
    let mut value = json!({
        "name": parameter.name,
        "type": parameter.kind,
        "uniqueItems": true,
    });
    match parameter.place {
        Place::Query => value["in"] = "query".into(),
        Place::Path => {
            value["in"] = "path".into();
            value["required"] = true.into();
        }
    }
    value
}

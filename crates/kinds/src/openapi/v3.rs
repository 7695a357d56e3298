//! OpenAPI version 3: one document for each group and version.

use serde::Serialize;
use serde_json::json;

use super::operation::{Operation, Parameter, Place, Response};
use super::path::{Path, paths_of_kind, root};
use super::schema::{Dialect, Names, gvk_value, reference, schemas};
use super::{VERSION, discovery};
use crate::{Kind, Object, Value, kinds};

/// Returns the paths of all documents, in order: `api`, `api/v1`, `apis`, `apis/apps`,
/// ...
pub fn v3_paths(filter: &dyn Fn(&Kind) -> bool) -> Vec<String> {
    let mut paths = vec!["api".to_owned(), "apis".to_owned(), "version".to_owned()];
    for (_, kind) in kinds().iter().filter(|(_, kind)| filter(kind)) {
        paths.push(document_path(kind));
        if !kind.group.is_empty() {
            paths.push(format!("apis/{}", kind.group));
        }
    }
    paths.sort_unstable();
    paths.dedup();
    paths
}

/// Builds the document at one of the paths that [`v3_paths`] returns, with the kinds that
/// `filter` accepts.
pub fn v3_document(path: &str, filter: &dyn Fn(&Kind) -> bool) -> Option<Vec<u8>> {
    let paths = paths_of(path, filter)?;
    let names = Names::new(filter);
    let schemas = schemas(&paths, &names, Dialect::V3);
    let document = Document {
        openapi: "3.0.0",
        info: json!({"title": "Kubernetes", "version": VERSION}),
        paths: paths.iter().map(path_item).collect(),
        components: json!({
            "schemas": schemas,
            "securitySchemes": {
                "BearerToken": {"type": "apiKey", "name": "authorization", "in": "header"},
            },
        }),
    };
    Some(serde_json::to_vec(&document).expect("values are always JSON"))
}

fn document_path(kind: &Kind) -> String {
    let root = root(&kind.group, &kind.version);
    root.trim_start_matches('/').to_owned()
}

fn paths_of(path: &str, filter: &dyn Fn(&Kind) -> bool) -> Option<Vec<Path>> {
    match path {
        "api" => return Some(vec![discovery::api()]),
        "apis" => return Some(vec![discovery::apis()]),
        "version" => return Some(vec![discovery::version()]),
        _ => {}
    }
    let served = || {
        kinds()
            .iter()
            .map(|(_, kind)| kind)
            .filter(|kind| filter(kind))
    };
    let of_version: Vec<_> = served()
        .filter(|kind| document_path(kind) == path)
        .collect();
    if let Some(first) = of_version.first() {
        let mut paths = vec![discovery::api_version(&first.group, &first.version)];
        paths.extend(of_version.into_iter().flat_map(paths_of_kind));
        return Some(paths);
    }
    let group = path.strip_prefix("apis/")?;
    let known = served().any(|kind| kind.group == group && !group.is_empty());
    known.then(|| vec![discovery::group(group)])
}

/// A document with its members in the usual order.
#[derive(Serialize)]
struct Document {
    openapi: &'static str,
    info: Value,
    paths: Object,
    components: Value,
}

fn path_item(path: &Path) -> (String, Value) {
    let mut item = Object::new();
    for operation in &path.operations {
        let value = operation_value(operation, &path.tag);
        item.insert(operation.method.to_owned(), value);
    }
    if !path.parameters.is_empty() {
        item.insert("parameters".to_owned(), parameters(&path.parameters));
    }
    (path.path.clone(), Value::Object(item))
}

fn operation_value(operation: &Operation, tag: &str) -> Value {
    let mut value = json!({
        "tags": [tag],
        "operationId": operation.id,
        "responses": responses(operation),
    });
    if !operation.parameters.is_empty() {
        value["parameters"] = parameters(operation.parameters);
    }
    if let Some(name) = operation.body.type_name() {
        let schema = reference(name, Dialect::V3);
        value["requestBody"] = json!({"content": content(operation.body.media_types(), &schema)});
        if operation.body.required() {
            value["requestBody"]["required"] = true.into();
        }
    }
    if !operation.action.is_empty() {
        value["x-kubernetes-action"] = operation.action.into();
    }
    if let Some(kind) = &operation.kind {
        value["x-kubernetes-group-version-kind"] = gvk_value(kind);
    }
    value
}

fn responses(operation: &Operation) -> Value {
    let mut responses = Object::new();
    let content = content(
        operation.response.media_types(),
        &response(operation.response),
    );
    for code in operation.codes {
        let response = json!({"description": code_text(*code), "content": content});
        responses.insert(code.to_string(), response);
    }
    let unauthorized = json!({"description": code_text(401)});
    responses.insert("401".to_owned(), unauthorized);
    Value::Object(responses)
}

fn response(response: Response) -> Value {
    match response.type_name() {
        Some(name) => reference(name, Dialect::V3),
        None => json!({"type": "string"}),
    }
}

fn content(media_types: &[&str], schema: &Value) -> Value {
    let media = |name: &&str| ((*name).to_owned(), json!({"schema": schema}));
    Value::Object(media_types.iter().map(media).collect())
}

fn parameters(parameters: &[Parameter]) -> Value {
    parameters.iter().map(parameter).collect()
}

pub(super) fn parameter(parameter: &Parameter) -> Value {
    let schema = json!({"type": parameter.kind, "uniqueItems": true});
    match parameter.place {
        Place::Query => json!({"name": parameter.name, "in": "query", "schema": schema}),
        Place::Path => {
            json!({"name": parameter.name, "in": "path", "required": true, "schema": schema})
        }
    }
}

/// Returns the description of a status code.
pub(super) fn code_text(code: u16) -> &'static str {
    match code {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        _ => "Unauthorized",
    }
}

//! The discovery paths.

use super::operation::{Body, Operation, Response};
use super::path::{Path, root, version_id};
use super::schema::INFO;
use super::{group_id, tag};

/// Returns the path `/api/`.
pub(super) fn api() -> Path {
    let id = "getCoreAPIVersions".to_owned();
    path(
        "/api/",
        "core",
        id,
        "apimachinery.pkg.apis.meta.v1.APIVersions",
    )
}

/// Returns the path `/apis/`.
pub(super) fn apis() -> Path {
    let id = "getAPIVersions".to_owned();
    path(
        "/apis/",
        "apis",
        id,
        "apimachinery.pkg.apis.meta.v1.APIGroupList",
    )
}

/// Returns the path `/version/`.
pub(super) fn version() -> Path {
    path("/version/", "version", "getCodeVersion".to_owned(), INFO)
}

/// Returns the path `/apis/apps/`.
pub(super) fn group(group: &str) -> Path {
    let id = format!("get{}APIGroup", group_id(group));
    let place = format!("/apis/{group}/");
    path(
        &place,
        &tag(group, ""),
        id,
        "apimachinery.pkg.apis.meta.v1.APIGroup",
    )
}

/// Returns the path `/apis/apps/v1/`.
pub(super) fn api_version(group: &str, version: &str) -> Path {
    let id = format!("get{}APIResources", version_id(group, version));
    let place = format!("{}/", root(group, version));
    let list = "apimachinery.pkg.apis.meta.v1.APIResourceList";
    path(&place, &tag(group, version), id, list)
}

fn path(path: &str, tag: &str, id: String, response: &'static str) -> Path {
    Path {
        path: path.to_owned(),
        tag: tag.to_owned(),
        parameters: Vec::new(),
        operations: vec![Operation {
            method: "get",
            id,
            action: "",
            kind: None,
            parameters: &[],
            body: Body::None,
            response: Response::Object(response),
            codes: &[200],
        }],
    }
}

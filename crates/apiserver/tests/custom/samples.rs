//! Definitions and helpers for tests of custom resources.

pub use crate::fixtures::{create, names};
use insula_testkit::server::Answer;
use serde_json::{Value, json};

use super::{FOOS, foos};

/// `foos.ex.io` with all subresources.
pub fn foos_with_all() -> Value {
    let mut foos = foos();
    let version = &mut foos["spec"]["versions"][0];
    version["subresources"] = json!({
        "status": {},
        "scale": {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        },
    });
    let properties = &mut version["schema"]["openAPIV3Schema"]["properties"];
    properties["spec"]["properties"]["replicas"] = json!({"type": "integer"});
    foos
}

/// The path of a Foo.
pub fn foo_path(name: &str) -> String {
    format!("{FOOS}/{name}")
}

/// The raw warning texts of a response.
pub fn warnings(answer: &Answer) -> Vec<String> {
    let all = answer.headers.get_all("warning").iter();
    all.map(|text| text.to_str().unwrap_or("").to_owned())
        .collect()
}

//! Test cases: sequences of requests in YAML files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use http::Method;
use serde::Deserialize;
use serde_json::Value;

/// The cases of one file.
#[derive(Debug)]
pub struct Category {
    /// The file name without its extension.
    pub name: String,
    /// The cases.
    pub cases: Vec<Case>,
}

/// Steps that build on each other, in a namespace named after the case.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// A unique name.
    pub name: String,
    /// The requests, in order.
    pub steps: Vec<Step>,
}

/// One request.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The method and the path. `$ns` is the case's namespace, `${name}` a kept value.
    pub send: String,
    /// The content type, or `json`, `merge`, `strategic`, `apply`.
    #[serde(default, rename = "type")]
    pub content_type: String,
    /// The Accept header, or `table`, `partial`, `partial-list`.
    #[serde(default)]
    pub accept: String,
    /// Further headers.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// The body: text as it is, anything else as JSON.
    #[serde(default)]
    pub body: Value,
    /// Values to keep from the response: names and JSON pointers.
    #[serde(default)]
    pub keep: BTreeMap<String, String>,
    /// The request is repeated until the response matches.
    #[serde(default)]
    pub until: Option<Until>,
    /// A pattern of varying text in the response.
    #[serde(default)]
    pub mask: String,
    /// A comment for the reader.
    #[serde(default, rename = "note")]
    pub _note: String,
}

/// The condition that ends the repetition.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Until {
    /// The HTTP status code.
    pub status: u16,
    /// A JSON pointer into the body.
    #[serde(default)]
    pub at: String,
    /// The expected value.
    #[serde(default)]
    pub is: Value,
}

impl Category {
    /// All files, sorted by name.
    pub fn all() -> Vec<Self> {
        let mut paths: Vec<PathBuf> = std::fs::read_dir(folder().join("cases"))
            .expect("the cases are beside the tests")
            .map(|entry| entry.expect("it can be read").path())
            .collect();
        paths.sort();
        paths.iter().map(|path| Self::read(path)).collect()
    }

    fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).expect("it can be read");
        let cases = serde_saphyr::from_str(&text);
        let cases = cases.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let name = path.file_stem().expect("it has a name").to_string_lossy();
        Self {
            name: name.into_owned(),
            cases,
        }
    }
}

impl Step {
    /// The method and the path as written.
    pub fn target(&self) -> (Method, &str) {
        let (method, path) = self.send.split_once(' ').expect("a method and a path");
        (method.parse().expect("a method"), path)
    }

    /// The content type.
    pub fn sent_type(&self) -> &str {
        match self.content_type.as_str() {
            "" => "application/json",
            "json" => "application/json-patch+json",
            "merge" => "application/merge-patch+json",
            "strategic" => "application/strategic-merge-patch+json",
            "apply" => "application/apply-patch+yaml",
            other => other,
        }
    }

    /// The Accept header.
    pub fn accepted(&self) -> &str {
        match self.accept.as_str() {
            "" => "application/json",
            "table" => "application/json;as=Table;v=v1;g=meta.k8s.io",
            "partial" => "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
            "partial-list" => "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
            other => other,
        }
    }

    /// The body before replacements.
    pub fn text(&self) -> String {
        match &self.body {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        }
    }
}

/// The directory of the cases.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/differential")
}

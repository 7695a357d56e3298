//! What is asked: cases of steps, in files that people read.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use http::Method;
use serde::Deserialize;
use serde_json::Value;

/// Cases that belong together: a file.
#[derive(Debug)]
pub struct Category {
    /// The file's name without what follows the dot.
    pub name: String,
    /// What is in it.
    pub cases: Vec<Case>,
}

/// Steps that build on each other, in a namespace of their own that has the case's name.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Unlike that of any other.
    pub name: String,
    /// What is sent, in this order.
    pub steps: Vec<Step>,
}

/// One request.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The method and the path. `$ns` is the case's namespace, `${name}` what was kept.
    pub send: String,
    /// The content type, or `json`, `merge`, `strategic`, `apply`.
    #[serde(default, rename = "type")]
    pub content_type: String,
    /// What the client accepts, or `table`, `partial`, `partial-list`.
    #[serde(default)]
    pub accept: String,
    /// Further headers.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// What is sent: text as it stands, anything else as JSON.
    #[serde(default)]
    pub body: Value,
    /// What is kept of the answer for later: names and JSON pointers.
    #[serde(default)]
    pub keep: BTreeMap<String, String>,
    /// The request is repeated until it is answered like this.
    #[serde(default)]
    pub until: Option<Until>,
    /// A pattern of what is of this run only, in texts of the answer.
    #[serde(default)]
    pub mask: String,
    /// For those who read it.
    #[serde(default, rename = "note")]
    pub _note: String,
}

/// What an answer has to be before it counts.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Until {
    /// The HTTP code.
    pub status: u16,
    /// A JSON pointer into the body.
    #[serde(default)]
    pub at: String,
    /// What is there.
    #[serde(default)]
    pub is: Value,
}

impl Category {
    /// All that there are, in the order of their names.
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
    /// The method and the path, the latter as it is written.
    pub fn target(&self) -> (Method, &str) {
        let (method, path) = self.send.split_once(' ').expect("a method and a path");
        (method.parse().expect("a method"), path)
    }

    /// What it says of its body.
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

    /// What it accepts.
    pub fn accepted(&self) -> &str {
        match self.accept.as_str() {
            "" => "application/json",
            "table" => "application/json;as=Table;v=v1;g=meta.k8s.io",
            "partial" => "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
            "partial-list" => "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
            other => other,
        }
    }

    /// The body as it is sent, before anything in it is replaced.
    pub fn text(&self) -> String {
        match &self.body {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        }
    }
}

/// Where all this is.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/differential")
}

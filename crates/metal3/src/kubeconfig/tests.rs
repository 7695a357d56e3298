//! Kubeconfigs that are accepted and refused.

mod accepted;
mod refused;
mod resolution;
mod session_keys;

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use insula_identity::credential::Hidden;
use serde_json::{Value, json};

use super::*;

/// A word that no message may repeat.
const SECRET: &str = "s3same";

fn data(key: &str, text: impl Into<Vec<u8>>) -> BTreeMap<String, Hidden> {
    BTreeMap::from([(key.to_owned(), Hidden::new(text))])
}

fn pem(tag: &str, content: &str) -> String {
    let content = STANDARD.encode(content);
    format!("-----BEGIN {tag}-----\n{content}\n-----END {tag}-----\n")
}

fn pem_data(tag: &str, content: &str) -> String {
    STANDARD.encode(pem(tag, content))
}

/// A kubeconfig with the contexts `east` and `west`, and an entry of each kind that no context
/// names.
fn kubeconfig() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "preferences": {},
        "current-context": "east",
        "contexts": [
            {"name": "east", "context": {"cluster": "c-east", "user": "u-east", "namespace": "pool-a"}},
            {"name": "west", "context": {"cluster": "c-west", "user": "u-west"}},
        ],
        "clusters": [
            {"name": "c-east", "cluster": {"server": "https://east.example:6443"}},
            {"name": "c-west", "cluster": {"server": "https://west.example"}},
            {"name": "c-unused", "cluster": {"server": "https://unused.example"}},
        ],
        "users": [
            {"name": "u-east", "user": {"token": SECRET}},
            {"name": "u-west", "user": {"username": "admin", "password": SECRET}},
            {"name": "u-unused", "user": {"token": SECRET}},
        ],
    })
}

fn read(kubeconfig: &Value, context: Option<&str>) -> Result<HostAccess, InvalidKubeconfig> {
    Kubeconfig::VERIFIED.access(&data("kubeconfig", kubeconfig.to_string()), context)
}

/// Returns the kubeconfig with some fields of the entry `east` set.
fn with(cluster: Value, user: Value) -> Value {
    let mut whole = kubeconfig();
    extend(&mut whole["clusters"][0]["cluster"], cluster);
    extend(&mut whole["users"][0]["user"], user);
    whole
}

fn extend(entry: &mut Value, fields: Value) {
    let Value::Object(fields) = fields else {
        panic!("fields are an object")
    };
    entry.as_object_mut().unwrap().extend(fields);
}

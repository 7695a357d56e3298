//! Custom resource definitions and their objects.

mod all_spaces;
mod authorization;
mod cel_rules;
mod cleanup;
mod conversion;
#[path = "../support/fixtures.rs"]
#[expect(dead_code, reason = "other programs use the rest")]
mod fixtures;
mod golden;
mod names;
mod orphans;
mod paths;
mod published;
mod published_deletion;
mod published_watch;
mod reading;
mod samples;
mod schemas;
mod separate_definitions;
mod serving;
mod shared_memory;
mod spaces;
mod subresources;
mod withdrawal;
mod writing;

use insula_testkit::server::{Client, DEFINITIONS};
use serde_json::{Value, json};

const FOOS: &str = "/apis/ex.io/v1/namespaces/default/foos";

/// A definition of `foos.ex.io` with a few fields.
fn foos() -> Value {
    let spec = json!({"type": "object", "properties": {
        "size": {"type": "integer", "minimum": 1, "default": 3},
        "color": {"type": "string"},
    }});
    insula_testkit::server::definition("ex.io", "foos", "Foo", spec)
}

fn foo(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "ex.io/v1", "kind": "Foo", "metadata": {"name": name}, "spec": spec})
}

const PUBLISHED: &str = "multi-tenancy.k8s.io/published";

/// The path of a definition.
fn path(name: &str) -> String {
    format!("{DEFINITIONS}/{name}")
}

/// The definition, published to tenants.
fn published(mut definition: Value) -> Value {
    definition["metadata"]["annotations"][PUBLISHED] = "true".into();
    definition
}

/// The definition with one more field in `spec`, as a tenant's own variant.
fn own(mut definition: Value, field: &str) -> Value {
    let schema = &mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    schema["properties"]["spec"]["properties"][field] = json!({"type": "string"});
    definition
}

/// Creates Foos with these names.
async fn create_foos(client: &Client, names: &[&str]) -> anyhow::Result<()> {
    for name in names {
        let created = client.post(FOOS, &foo(name, json!({}))).await?;
        anyhow::ensure!(created.status == 201, "{}", created.text());
    }
    Ok(())
}

/// The distinct names in a list.
fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().into_iter().flatten();
    let name = |item: &Value| item["metadata"]["name"].as_str().unwrap_or("").to_owned();
    items.map(name).collect()
}

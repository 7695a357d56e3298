//! Kinds that users define, as a space serves them.

mod conversion;
mod ends;
mod golden;
mod names;
mod paths;
mod reading;
mod rights;
mod ruled;
mod samples;
mod schemas;
mod serving;
mod spaces;
mod subresources;
mod writing;

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

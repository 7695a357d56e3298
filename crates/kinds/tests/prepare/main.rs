//! Fields that the server sets in objects on create, update, scale and binding.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod create;
mod pods;
mod update;

use insula_kinds::{Kind, Object, Value, defaults, kinds, prepare};

const NOW: &str = "2026-01-02T03:04:05Z";

fn kind(group: &str, resource: &str) -> &'static Kind {
    let found = kinds().find(group, "v1", resource);
    kinds().get(found.unwrap_or_else(|| panic!("{resource} is served")))
}

fn object(value: Value) -> Object {
    match value {
        Value::Object(object) => object,
        other => panic!("{other} is no object"),
    }
}

fn created(kind: &Kind, value: Value) -> Value {
    let mut created = object(value);
    defaults::apply(kind, &mut created);
    let mut port = 30000;
    let mut with = prepare::CreateContext {
        uid: "u-1",
        now: NOW,
        ip_family: "IPv4",
        cluster_ip: &mut || "10.0.0.1".to_owned(),
        node_port: &mut || {
            port += 1;
            port
        },
    };
    prepare::create(kind, &mut created, &mut with);
    Value::Object(created)
}

fn updated(kind: &Kind, subresource: Option<&str>, old: &Value, new: Value) -> Value {
    let mut new = object(new);
    defaults::apply(kind, &mut new);
    prepare::update(kind, subresource, old.as_object().unwrap(), &mut new);
    Value::Object(new)
}

/// Returns the value at a path such as `spec.ports.0.nodePort`; null if there is none.
fn at(value: &Value, path: &str) -> Value {
    let pointer = format!("/{}", path.replace('.', "/"));
    value.pointer(&pointer).cloned().unwrap_or_default()
}

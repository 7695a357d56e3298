//! Decisions about hosts.

mod association;
mod choice;
mod deletion;
mod labels;
mod nodes;
mod pauses;
mod restarts;
mod selectors;

use serde_json::{Value, json};

use super::consumer::Consumer;
use super::patch::{Guard, between};
use crate::kinds::host::BareMetalHost;

/// Returns a host of the namespace `pool-a`, with some fields set.
fn host(name: &str, fields: Value) -> BareMetalHost {
    let mut whole = json!({
        "apiVersion": "metal3.io/v1alpha1",
        "kind": "BareMetalHost",
        "metadata": {"name": name, "namespace": "pool-a", "resourceVersion": "7", "uid": "u-1"},
        "spec": {"online": false},
        "status": {"provisioning": {"state": "available", "ID": "1"}},
    });
    merge(&mut whole, &fields);
    serde_json::from_value(whole).unwrap()
}

fn merge(into: &mut Value, fields: &Value) {
    match (into, fields) {
        (Value::Object(into), Value::Object(fields)) => {
            for (key, value) in fields {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, fields) => *into = fields.clone(),
    }
}

fn state(state: &str) -> Value {
    json!({"status": {"provisioning": {"state": state}}})
}

fn machine() -> Consumer {
    Consumer::machine("team-a", "m-1")
}

fn consumer(kind: &str, version: &str, namespace: &str, name: &str) -> Value {
    json!({"spec": {"consumerRef": {
        "kind": kind, "apiVersion": version, "namespace": namespace, "name": name,
    }}})
}

/// Returns a host of [`machine`], with some fields set.
fn own(fields: Value) -> BareMetalHost {
    let version = "infrastructure.cluster.x-k8s.io/v1beta1";
    let mut whole = consumer("Metal3Machine", version, "team-a", "m-1");
    merge(&mut whole, &fields);
    host("h-1", whole)
}

/// Returns the patch for a change of a host.
fn change(before: &BareMetalHost, change: impl FnOnce(&mut BareMetalHost)) -> Option<Value> {
    let mut after = before.clone();
    change(&mut after);
    between(before, &after, Guard::AnyVersion)
}

//! Changes of a host as a patch.

use serde_json::{Map, Value, json};

use crate::kinds::host::BareMetalHost;

/// Whether a patch may be applied to another version of the host than was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// It may not: the server refuses it with a conflict.
    SameVersion,
    /// It may: only fields of this operator are changed.
    AnyVersion,
}

/// Returns the JSON merge patch of labels, annotations, owner references and spec between two
/// versions of a host; none if they are equal. Fields that are not known are not touched. A change
/// of owner references needs [`Guard::SameVersion`], because a list is replaced as a whole.
pub fn between(before: &BareMetalHost, after: &BareMetalHost, guard: Guard) -> Option<Value> {
    let parts = |host: &BareMetalHost| {
        json!({
            "metadata": {
                "labels": host.metadata.labels.clone().unwrap_or_default(),
                "annotations": host.metadata.annotations.clone().unwrap_or_default(),
                "ownerReferences": host.metadata.owner_references.clone().unwrap_or_default(),
            },
            "spec": host.spec,
        })
    };
    let mut patch = difference(&parts(before), &parts(after))?;
    if let (Guard::SameVersion, Some(version)) = (guard, &before.metadata.resource_version) {
        patch["metadata"]["resourceVersion"] = json!(version);
    }
    Some(patch)
}

fn difference(before: &Value, after: &Value) -> Option<Value> {
    if before == after {
        return None;
    }
    let (Value::Object(before), Value::Object(after)) = (before, after) else {
        return Some(after.clone());
    };
    let mut patch = Map::new();
    for (key, value) in after {
        let changed = match before.get(key) {
            Some(old) => difference(old, value),
            None => Some(value.clone()),
        };
        if let Some(changed) = changed {
            patch.insert(key.clone(), changed);
        }
    }
    let removed = before.keys().filter(|key| !after.contains_key(*key));
    patch.extend(removed.map(|key| (key.clone(), Value::Null)));
    Some(Value::Object(patch))
}

//! Semantic equality of objects as in Kubernetes: for plain values, absent and zero are
//! equal; for pointers they are not; empty lists and maps equal absent ones.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::Object;
use crate::defaults::tree;
use crate::kind::Kind;
use crate::quantity;
use crate::types::{Form, Shape, TypeId, types};

/// Whether everything except metadata and status is equal.
pub(super) fn specs(kind: &Kind, old: &Object, new: &Object) -> bool {
    types()
        .members(kind.type_id())
        .filter(|field| !matches!(field.json, "metadata" | "status" | "apiVersion" | "kind"))
        .all(|field| {
            same(
                &field.shape,
                field.pointer,
                old.get(field.json),
                new.get(field.json),
            )
        })
}

/// Whether two custom resources are equal except for metadata and, if it is a
/// subresource, status.
pub(super) fn custom_objects(kind: &Kind, old: &Object, new: &Object) -> bool {
    let counts = |member: &&String| match member.as_str() {
        "metadata" | "apiVersion" | "kind" => false,
        "status" => kind.subresource("status").is_none(),
        _ => true,
    };
    let mut members = old.keys().chain(new.keys()).filter(counts);
    members.all(|member| old.get(member) == new.get(member))
}

/// Whether a field of a top-level field is equal in both.
pub(super) fn fields(kind: &Kind, path: [&str; 2], old: &Object, new: &Object) -> bool {
    let [top, json] = path;
    let empty = Object::new();
    let of = match types()
        .member(kind.type_id(), top)
        .map(|field| &field.shape)
    {
        Some(Shape::Struct(of)) => *of,
        _ => return old.get(top) == new.get(top),
    };
    let left = tree::child(old, top).unwrap_or(&empty).get(json);
    let right = tree::child(new, top).unwrap_or(&empty).get(json);
    match types().member(of, json) {
        Some(field) => same(&field.shape, field.pointer, left, right),
        None => left == right,
    }
}

/// Whether labels or annotations are equal.
pub(super) fn metadata(old: &Object, new: &Object, json: &str) -> bool {
    let of = |object: &Object| {
        let metadata = tree::child(object, "metadata");
        metadata
            .and_then(|metadata| tree::child(metadata, json))
            .cloned()
            .unwrap_or_default()
    };
    of(old) == of(new)
}

fn same(shape: &Shape, pointer: bool, left: Option<&Value>, right: Option<&Value>) -> bool {
    let left = left.filter(|value| !value.is_null());
    let right = right.filter(|value| !value.is_null());
    if left.is_none() && right.is_none() {
        // Stop here, as types may be recursive.
        return true;
    }
    if pointer && left.is_some() != right.is_some() {
        return false;
    }
    match shape {
        Shape::Struct(of) if types().get(*of).form == Form::Object => {
            same_structs(*of, left, right)
        }
        Shape::List(of) | Shape::WrappedList(of) => {
            let (left, right) = (elements(left), elements(right));
            let mut pairs = left.iter().zip(right);
            left.len() == right.len()
                && pairs.all(|(left, right)| same(of, false, Some(left), Some(right)))
        }
        Shape::Map(of) => same_maps(of, left, right),
        Shape::Quantity if quantity::is_same(left, right) => true,
        _ if pointer => left == right,
        _ => left == right || (left.is_none_or(tree::is_zero) && right.is_none_or(tree::is_zero)),
    }
}

fn same_structs(of: TypeId, left: Option<&Value>, right: Option<&Value>) -> bool {
    let empty = Object::new();
    let left = left.and_then(Value::as_object).unwrap_or(&empty);
    let right = right.and_then(Value::as_object).unwrap_or(&empty);
    types().members(of).all(|field| {
        same(
            &field.shape,
            field.pointer,
            left.get(field.json),
            right.get(field.json),
        )
    })
}

fn same_maps(of: &Shape, left: Option<&Value>, right: Option<&Value>) -> bool {
    let empty = Object::new();
    let left = left.and_then(Value::as_object).unwrap_or(&empty);
    let right = right.and_then(Value::as_object).unwrap_or(&empty);
    let keys: BTreeSet<&String> = left.keys().collect();
    keys == right.keys().collect()
        && left
            .iter()
            .all(|(key, value)| same(of, false, Some(value), right.get(key)))
}

fn elements(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::kinds;
    use serde_json::json;

    #[test]
    fn recursive_types_terminate() {
        let definitions = kinds().find("apiextensions.k8s.io", "v1", "customresourcedefinitions");
        let kind = kinds().get(definitions.unwrap());
        let of = |schema: Value| {
            let version = json!({"name": "v1", "schema": {"openAPIV3Schema": schema}});
            json!({"spec": {"versions": [version]}})
        };
        let (one, other) = (
            of(json!({"type": "object"})),
            of(json!({"type": "object", "not": {}})),
        );
        let [one, other] = [&one, &other].map(|value| value.as_object().unwrap());
        assert!(specs(kind, one, one));
        assert!(!specs(kind, one, other));
    }

    #[test]
    fn zero_equals_absent_except_for_pointers() {
        let deployments = kinds().find("apps", "v1", "deployments").unwrap();
        let kind = kinds().get(deployments);
        let check = |left: Value, right: Value| {
            specs(kind, left.as_object().unwrap(), right.as_object().unwrap())
        };
        let requests = |memory: &str| {
            let resources = json!({"requests": {"memory": memory}});
            json!({"spec": {"template": {"spec": {"containers": [{"resources": resources}]}}}})
        };
        let cases = [
            (
                json!({}),
                json!({"spec": {"paused": false, "minReadySeconds": 0}}),
                true,
            ),
            (json!({}), json!({"spec": {"replicas": 0}}), false),
            (json!({"spec": {"selector": null}}), json!({}), true),
            (json!({"spec": {"selector": {}}}), json!({}), false),
            (
                json!({"spec": {"template": {"spec": {"volumes": []}}}}),
                json!({}),
                true,
            ),
            (
                json!({"spec": {"template": {"spec": {"nodeSelector": {"a": ""}}}}}),
                json!({"spec": {"template": {"spec": {"nodeSelector": {}}}}}),
                false,
            ),
            (
                json!({"metadata": {"name": "a"}, "status": {"replicas": 1}}),
                json!({}),
                true,
            ),
            (requests("1Gi"), requests("1073741824"), true),
            (requests("1Gi"), requests("2Gi"), false),
            (requests("1Gi"), requests("none"), false),
        ];
        for (left, right, wanted) in cases {
            assert_eq!(check(left.clone(), right.clone()), wanted, "{left} {right}");
        }
    }
}

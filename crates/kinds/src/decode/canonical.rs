//! Trees that decoding would return as they are.
//!
//! A patch changes little of an object that was decoded before, so decoding its result nearly
//! always builds the same tree again. Looking is cheaper: it allocates nothing.

use std::borrow::Cow;

use serde_json::{Number, Value};

use super::bytes;
use super::node::{META, NAMED};
use crate::time::{self, Precision};
use crate::types::{Form, Shape, TypeId, types};
use crate::{Object, quantity};

/// The nesting up to which trees are looked at; deeper ones are decoded, which limits the depth.
const MAX_DEPTH: usize = 64;

/// Returns whether decoding the object of a type returns it unchanged and without problems. A
/// tree for which this is false may still decode to itself.
pub(super) fn is_canonical(of: TypeId, object: &Object) -> bool {
    members_are_canonical(of, object, 0)
}

fn members_are_canonical(of: TypeId, object: &Object, depth: usize) -> bool {
    let is_named = depth == 0 || NAMED.contains(&of);
    depth < MAX_DEPTH
        && types().get(of).form == Form::Object
        && object
            .iter()
            .all(|(name, value)| match types().member(of, name) {
                Some(field) => value_is_canonical(&field.shape, value, depth + 1),
                None => is_named && META.contains(&name.as_str()) && value.is_string(),
            })
}

fn value_is_canonical(shape: &Shape, value: &Value, depth: usize) -> bool {
    match (shape, value) {
        (_, Value::Null) => false,
        (Shape::Raw, value) => is_shallow(value, depth),
        (Shape::String | Shape::IntOrString, Value::String(_)) | (Shape::Bool, Value::Bool(_)) => {
            true
        }
        (Shape::Int32 | Shape::IntOrString, Value::Number(number)) => {
            integer(number).is_some_and(|integer| i32::try_from(integer).is_ok())
        }
        (Shape::Int64, Value::Number(number)) => integer(number).is_some(),
        (Shape::Time, Value::String(text)) => is_time(text, Precision::Seconds),
        (Shape::MicroTime, Value::String(text)) => is_time(text, Precision::Micros),
        (Shape::Bytes, Value::String(text)) => {
            matches!(bytes::canonical(text), Ok(Cow::Borrowed(_)))
        }
        (Shape::Quantity, Value::String(text)) => {
            quantity::canonical(text).is_ok_and(|canonical| canonical == *text)
        }
        (Shape::Struct(of), Value::Object(object)) => members_are_canonical(*of, object, depth),
        (Shape::List(of) | Shape::WrappedList(of), Value::Array(list)) => {
            depth < MAX_DEPTH
                && list
                    .iter()
                    .all(|item| value_is_canonical(of, item, depth + 1))
        }
        (Shape::Map(of), Value::Object(map)) => {
            depth < MAX_DEPTH
                && map
                    .values()
                    .all(|value| value_is_canonical(of, value, depth + 1))
        }
        // Floats and what does not fit its type.
        _ => false,
    }
}

fn integer(number: &Number) -> Option<i64> {
    number.as_i64()
}

fn is_time(text: &str, precision: Precision) -> bool {
    matches!(time::canonical(text, precision), Ok(Some(Cow::Borrowed(_))))
}

/// Whether the nesting of a value of any type is within the limit.
fn is_shallow(value: &Value, depth: usize) -> bool {
    match value {
        Value::Array(list) => {
            depth < MAX_DEPTH && list.iter().all(|item| is_shallow(item, depth + 1))
        }
        Value::Object(map) => {
            depth < MAX_DEPTH && map.values().all(|value| is_shallow(value, depth + 1))
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{rebuilt, value};
    use super::*;
    use crate::kind::kinds;

    fn object(kind: &str, value: Value) -> (TypeId, Object) {
        let (_, kind) = kinds().iter().find(|(_, one)| one.kind == kind).unwrap();
        (kind.type_id(), value.as_object().unwrap().clone())
    }

    #[test]
    fn canonical_trees_decode_to_themselves() {
        for (kind, tree) in [
            (
                "ConfigMap",
                json!({"kind": "ConfigMap", "apiVersion": "v1", "data": {"a": "1"}}),
            ),
            (
                "ConfigMap",
                json!({"binaryData": {"a": "AAEC"}, "metadata": {"name": "a", "managedFields": [
                    {"time": "2026-01-02T15:04:05Z", "fieldsV1": {"f:data": {".": {}, "x": null}}},
                ]}}),
            ),
            (
                "Pod",
                json!({"spec": {"containers": [{"name": "c", "ports": [{"containerPort": 80}],
                    "resources": {"limits": {"cpu": "100m"}}, "livenessProbe":
                    {"httpGet": {"port": "http"}}}], "hostNetwork": true, "priority": -1}}),
            ),
        ] {
            let (of, object) = object(kind, tree);
            assert!(is_canonical(of, &object), "{object:?}");
            let rebuilt = rebuilt(of, Value::Object(object.clone())).unwrap();
            assert_eq!((rebuilt.object, rebuilt.problems), (object, vec![]));
        }
    }

    #[test]
    fn what_decoding_changes_or_refuses_is_not_canonical() {
        for (kind, tree) in [
            ("ConfigMap", json!({"data": {"a": null}})),
            ("ConfigMap", json!({"data": {"a": 1}})),
            ("ConfigMap", json!({"data": null})),
            ("ConfigMap", json!({"immutable": "true"})),
            ("ConfigMap", json!({"unknown": 1})),
            ("ConfigMap", json!({"metadata": {"kind": "x"}})),
            ("ConfigMap", json!({"metadata": {"labels": []}})),
            ("ConfigMap", json!({"binaryData": {"a": "AA=E"}})),
            (
                "ConfigMap",
                json!({"metadata": {"creationTimestamp": "2026-01-02T15:04:05+01:00"}}),
            ),
            ("Pod", json!({"spec": {"containers": [null]}})),
            ("Pod", json!({"spec": {"priority": 3_000_000_000_u64}})),
            (
                "Pod",
                json!({"spec": {"containers": [{"resources": {"limits": {"cpu": "0.1"}}}]}}),
            ),
            (
                "Pod",
                json!({"spec": {"containers": [{"resources": {"limits": {"cpu": 1}}}]}}),
            ),
            (
                "Pod",
                json!({"spec": {"terminationGracePeriodSeconds": 1.5}}),
            ),
        ] {
            let (of, object) = object(kind, tree);
            assert!(!is_canonical(of, &object), "{object:?}");
            let tree = || Value::Object(object.clone());
            assert_eq!(value(of, tree()), rebuilt(of, tree()), "{object:?}");
        }
    }

    #[test]
    fn deep_trees_are_decoded() {
        let deep = (0..200).fold(json!({}), |below, _| json!({"f:a": below}));
        let tree = json!({"metadata": {"managedFields": [{"fieldsV1": deep}]}});
        let (of, object) = object("ConfigMap", tree);
        assert!(!is_canonical(of, &object));
        assert!(value(of, Value::Object(object)).is_err());
    }
}

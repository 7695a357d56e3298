//! Encoding of trees to messages.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::Value;

use super::plan::{is_wrapped, plan};
use super::wire::{FIXED64, put_bytes, put_nested, put_number, put_tag};
use crate::Object;
use crate::types::{Field, Form, Shape, TypeId};

/// `metadata.tenant`, which Kubernetes does not have: an object without it has the same
/// bytes as in Kubernetes.
const TENANT: (&str, u32) = ("tenant", 18);

/// Appends the message of an object of the type with the same bytes as Go: fields other
/// than pointers are written even if they are zero, fields are ordered by number and map
/// entries by key.
///
/// The tree must have been decoded by its type; mismatching values are written as zero.
pub fn encode(of: TypeId, object: &Object, out: &mut Vec<u8>) {
    for field in plan(of).fields() {
        match &field.shape {
            Shape::Struct(inner) if field.inline => {
                put_nested(out, field.number, |out| encode(*inner, object, out));
            }
            shape => put_field(field, shape, object.get(field.json), out),
        }
    }
}

pub(super) fn put_field(field: &Field, shape: &Shape, value: Option<&Value>, out: &mut Vec<u8>) {
    let value = value.filter(|value| !value.is_null());
    match (shape, value) {
        (Shape::List(inner), value) => put_elements(inner, field.number, value, out),
        (Shape::WrappedList(inner), value) if !is_wrapped(inner) => {
            put_elements(inner, field.number, value, out);
        }
        (Shape::Map(inner), Some(Value::Object(map))) => put_map(inner, field.number, map, out),
        (Shape::Map(_), _) => {}
        (Shape::Bytes | Shape::WrappedList(_), None) => {}
        (_, None) if field.pointer || (field.json, field.number) == TENANT => {}
        (shape, value) => put_value(shape, field.number, value, out),
    }
}

fn put_elements(shape: &Shape, number: u32, list: Option<&Value>, out: &mut Vec<u8>) {
    let list = list.and_then(Value::as_array).into_iter().flatten();
    for element in list {
        put_value(shape, number, Some(element), out);
    }
}

fn put_map(shape: &Shape, number: u32, map: &Object, out: &mut Vec<u8>) {
    for (key, value) in map {
        put_nested(out, number, |out| {
            put_bytes(out, 1, key.as_bytes());
            // Only byte values can be nil in Go.
            if !(shape == &Shape::Bytes && value.is_null()) {
                put_value(shape, 2, Some(value), out);
            }
        });
    }
}

pub(super) fn put_value(shape: &Shape, number: u32, value: Option<&Value>, out: &mut Vec<u8>) {
    let text = value.and_then(Value::as_str).unwrap_or_default();
    match shape {
        Shape::String => put_bytes(out, number, text.as_bytes()),
        Shape::Bool => put_number(out, number, i64::from(value == Some(&Value::Bool(true)))),
        Shape::Int32 | Shape::Int64 => put_number(out, number, whole(value)),
        Shape::Float64 => {
            let value = value.and_then(Value::as_f64).unwrap_or_default();
            put_tag(out, number, FIXED64);
            out.extend_from_slice(&value.to_bits().to_le_bytes());
        }
        Shape::Bytes => put_bytes(out, number, &STANDARD.decode(text).unwrap_or_default()),
        Shape::Time => put_nested(out, number, |out| put_time(text, false, out)),
        Shape::MicroTime => put_nested(out, number, |out| put_time(text, true, out)),
        Shape::Quantity => put_nested(out, number, |out| put_quantity(value, out)),
        Shape::IntOrString => put_nested(out, number, |out| put_int_or_string(value, out)),
        Shape::Raw => put_nested(out, number, |out| put_raw(value, out)),
        Shape::Struct(id) => put_nested(out, number, |out| put_struct(*id, value, out)),
        Shape::WrappedList(inner) | Shape::List(inner) => {
            put_nested(out, number, |out| put_elements(inner, 1, value, out));
        }
        // Kubernetes has no maps in lists or in maps.
        Shape::Map(_) => {}
    }
}

fn put_struct(id: TypeId, value: Option<&Value>, out: &mut Vec<u8>) {
    let empty = Object::new();
    match plan(id).of.form {
        Form::Object => {
            let object = value.and_then(Value::as_object).unwrap_or(&empty);
            encode(id, object, out);
        }
        Form::Either => put_either(id, value, out),
    }
}

fn put_either(id: TypeId, value: Option<&Value>, out: &mut Vec<u8>) {
    for field in plan(id).fields() {
        match (&field.shape, value) {
            // A schema implies that additional values are allowed.
            (Shape::Bool, Some(Value::Object(_))) => put_number(out, field.number, 1),
            (Shape::Bool, value)
            | (Shape::Struct(_), value @ Some(Value::Object(_)))
            | (Shape::List(_), value @ Some(Value::Array(_))) => {
                put_field(field, &field.shape, value, out);
            }
            _ => {}
        }
    }
}

pub(super) fn put_time(text: &str, micros: bool, out: &mut Vec<u8>) {
    let Ok(time) = text.parse::<Timestamp>() else {
        return;
    };
    let nanos = time.as_nanosecond();
    let second = 1_000_000_000;
    put_number(out, 1, nanos.div_euclid(second) as i64);
    let below = if micros { nanos.rem_euclid(second) } else { 0 };
    put_number(out, 2, (below - below % 1_000) as i64);
}

fn put_quantity(value: Option<&Value>, out: &mut Vec<u8>) {
    match value {
        Some(Value::String(text)) => put_bytes(out, 1, text.as_bytes()),
        Some(Value::Number(number)) => put_bytes(out, 1, number.to_string().as_bytes()),
        _ => put_bytes(out, 1, b"0"),
    }
}

fn put_int_or_string(value: Option<&Value>, out: &mut Vec<u8>) {
    let text = value.and_then(Value::as_str);
    put_number(out, 1, i64::from(text.is_some()));
    put_number(out, 2, whole(value));
    put_bytes(out, 3, text.unwrap_or_default().as_bytes());
}

fn put_raw(value: Option<&Value>, out: &mut Vec<u8>) {
    if let Some(value) = value.filter(|value| !value.is_null()) {
        put_bytes(out, 1, value.to_string().as_bytes());
    }
}

fn whole(value: Option<&Value>) -> i64 {
    let Some(Value::Number(number)) = value else {
        return 0;
    };
    let whole = number.as_i64();
    whole.unwrap_or_else(|| number.as_f64().unwrap_or_default() as i64)
}

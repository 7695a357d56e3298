//! Encoding of objects to JSON, in the member order and with the omissions of Go.

pub(crate) mod text;

use std::sync::LazyLock;

use serde::de::IgnoredAny;
use serde_json::Value;

use crate::Object;
use crate::types::{Field, Form, Omit, Shape, TypeId, types};

static METADATA: LazyLock<TypeId> = LazyLock::new(|| {
    let metadata = types().find("apimachinery.pkg.apis.meta.v1.ObjectMeta");
    metadata.expect("the table has the metadata type")
});

static MANAGED_FIELDS: LazyLock<Shape> = LazyLock::new(|| {
    let entry = types().find("apimachinery.pkg.apis.meta.v1.ManagedFieldsEntry");
    Shape::Struct(entry.expect("the table has the type of managed fields"))
});

/// Writes an object as compact JSON without a newline: `kind`, `apiVersion`, then the
/// members in the order of Go. The type metadata inside the object is ignored. Managed fields may
/// be a string with a list in JSON, which is written as it is.
pub fn json(api_version: &str, kind: &str, of: TypeId, object: &Object, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"kind\":");
    text::string(kind, out);
    out.extend_from_slice(b",\"apiVersion\":");
    text::string(api_version, out);
    members(of, object, true, out);
    out.push(b'}');
}

/// Writes a custom resource: `kind`, `apiVersion`, the metadata in the order of Go, then
/// all other members ordered by name.
pub fn custom(api_version: &str, kind: &str, object: &Object, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"kind\":");
    text::string(kind, out);
    out.extend_from_slice(b",\"apiVersion\":");
    text::string(api_version, out);
    custom_members(object, out);
    out.push(b'}');
}

fn custom_members(object: &Object, out: &mut Vec<u8>) {
    let empty = Object::new();
    let metadata = object.get("metadata").and_then(Value::as_object);
    member_name("metadata", &mut true, out);
    nested(*METADATA, metadata.unwrap_or(&empty), out);
    let rest = object
        .iter()
        .filter(|(name, _)| !["kind", "apiVersion", "metadata"].contains(&name.as_str()));
    for (key, value) in rest {
        out.push(b',');
        text::string(key, out);
        out.push(b':');
        text::raw(value, out);
    }
}

/// Writes an object without type metadata, such as a part of another object.
pub fn nested(of: TypeId, object: &Object, out: &mut Vec<u8>) {
    out.push(b'{');
    members(of, object, false, out);
    out.push(b'}');
}

/// Removes everything that encoding would omit or add, so that objects are equal if and
/// only if their JSON is. Members that the type does not have are removed, too, except
/// the type metadata.
pub fn normalize(of: TypeId, object: &mut Object) {
    object.retain(|name, value| match types().member(of, name) {
        Some(field) => {
            normalize_value(&field.shape, value);
            !is_significant(field, value)
        }
        None => META.contains(&name.as_str()) && value != "",
    });
}

/// Makes an object equal to the result of decoding its JSON: zero values that Go always
/// writes are added, and members that Go omits are removed.
pub fn complete(of: TypeId, object: &mut Object) {
    object.retain(|name, value| match types().member(of, name) {
        Some(field) => {
            complete_value(&field.shape, value);
            !value.is_null() && !omitted(field, Some(value))
        }
        None => META.contains(&name.as_str()) && value != "",
    });
    for field in types().always_written(of) {
        if !object.contains_key(field.json) {
            object.insert(field.json.to_owned(), zero_value(field));
        }
    }
}

/// Type metadata in the order in which it is written.
const META: [&str; 2] = ["kind", "apiVersion"];

fn members(of: TypeId, object: &Object, mut begun: bool, out: &mut Vec<u8>) {
    for field in types().members(of) {
        let value = object.get(field.json).filter(|value| !value.is_null());
        if omitted(field, value) {
            continue;
        }
        member_name(field.json, &mut begun, out);
        match value {
            Some(value) => write(&field.shape, value, out),
            None => zero(field, out),
        }
    }
}

/// Writes an embedded object that may have type metadata, such as a claim template of a
/// StatefulSet.
fn nested_object(of: TypeId, object: &Object, out: &mut Vec<u8>) {
    out.push(b'{');
    let mut begun = false;
    for meta in META {
        if let Some(Value::String(value)) = object.get(meta)
            && types().member(of, meta).is_none()
            && !value.is_empty()
        {
            member_name(meta, &mut begun, out);
            text::string(value, out);
        }
    }
    members(of, object, begun, out);
    out.push(b'}');
}

/// Writes a member name. Names are plain ASCII and need no escapes.
fn member_name(name: &str, begun: &mut bool, out: &mut Vec<u8>) {
    if std::mem::replace(begun, true) {
        out.push(b',');
    }
    out.push(b'"');
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
}

/// Whether a text is one list in JSON. Anything else would end the object early.
fn is_list(text: &str) -> bool {
    text.starts_with('[') && serde_json::from_str::<IgnoredAny>(text).is_ok()
}

fn write(shape: &Shape, value: &Value, out: &mut Vec<u8>) {
    match (shape, value) {
        (Shape::Struct(id), Value::Object(object)) => {
            nested_object(alternative(*id, value), object, out)
        }
        (Shape::Struct(id), Value::Array(list)) => match types().get(*id).form {
            Form::Either => match alternative_shape(*id, value) {
                Some(Shape::List(of)) => elements(of, list, out),
                _ => text::raw(value, out),
            },
            Form::Object => text::raw(value, out),
        },
        (Shape::List(of) | Shape::WrappedList(of), Value::Array(list)) => elements(of, list, out),
        (Shape::List(of), Value::String(text)) if **of == *MANAGED_FIELDS && is_list(text) => {
            out.extend_from_slice(text.as_bytes());
        }
        (Shape::Map(of), Value::Object(map)) => {
            let mut begun = false;
            out.push(b'{');
            for (key, value) in map {
                if std::mem::replace(&mut begun, true) {
                    out.push(b',');
                }
                text::string(key, out);
                out.push(b':');
                write(of, value, out);
            }
            out.push(b'}');
        }
        (Shape::Float64, Value::Number(number)) => match number.as_f64() {
            Some(value) => text::float(value, out),
            None => text::raw(value, out),
        },
        _ => text::raw(value, out),
    }
}

fn elements(of: &Shape, list: &[Value], out: &mut Vec<u8>) {
    out.push(b'[');
    for (index, element) in list.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write(of, element, out);
    }
    out.push(b']');
}

/// Returns the type of an object: itself, or the alternative that is an object.
fn alternative(id: TypeId, value: &Value) -> TypeId {
    match alternative_shape(id, value) {
        Some(Shape::Struct(inner)) => *inner,
        _ => id,
    }
}

/// Returns the alternative that the value is, if its type has alternatives.
fn alternative_shape(id: TypeId, value: &Value) -> Option<&'static Shape> {
    let of = types().get(id);
    if of.form != Form::Either {
        return None;
    }
    let mut shapes = of.fields.iter().map(|field| &field.shape);
    shapes.find(|shape| match shape {
        Shape::Struct(_) => value.is_object(),
        Shape::List(_) => value.is_array(),
        _ => value.is_boolean(),
    })
}

/// Writes Go's zero value of an unset field.
fn zero(field: &Field, out: &mut Vec<u8>) {
    if field.pointer {
        out.extend_from_slice(b"null");
        return;
    }
    match &field.shape {
        Shape::Struct(id) if types().get(*id).form == Form::Object => {
            nested(*id, &Object::new(), out);
        }
        shape => out.extend_from_slice(zero_text(shape)),
    }
}

fn zero_text(shape: &Shape) -> &'static [u8] {
    match shape {
        Shape::String => b"\"\"",
        Shape::Bool => b"false",
        Shape::Int32 | Shape::Int64 | Shape::Float64 | Shape::IntOrString => b"0",
        Shape::Quantity => b"\"0\"",
        Shape::Bytes
        | Shape::Time
        | Shape::MicroTime
        | Shape::Raw
        | Shape::Struct(_)
        | Shape::List(_)
        | Shape::WrappedList(_)
        | Shape::Map(_) => b"null",
    }
}

/// Returns Go's zero value of an unset field.
fn zero_value(field: &Field) -> Value {
    match &field.shape {
        _ if field.pointer => Value::Null,
        Shape::Struct(id) if types().get(*id).form == Form::Object => {
            let mut object = Object::new();
            complete(*id, &mut object);
            Value::Object(object)
        }
        Shape::String => "".into(),
        Shape::Bool => false.into(),
        Shape::Int32 | Shape::Int64 | Shape::Float64 | Shape::IntOrString => 0.into(),
        Shape::Quantity => "0".into(),
        _ => Value::Null,
    }
}

/// Whether Go omits the member.
fn omitted(field: &Field, value: Option<&Value>) -> bool {
    match (field.omit, value) {
        (_, None) => !field.is_always_written(),
        (Omit::Never, _) => false,
        (Omit::Empty, Some(value)) => !field.pointer && is_empty(&field.shape, value),
        (Omit::Zero, Some(value)) => !field.pointer && is_zero(&field.shape, value),
    }
}

fn is_empty(shape: &Shape, value: &Value) -> bool {
    !shape.is_go_struct()
        && match value {
            Value::Null => true,
            Value::Bool(value) => !value,
            Value::Number(number) => number.as_f64() == Some(0.0),
            Value::String(text) => text.is_empty(),
            Value::Array(list) => list.is_empty(),
            Value::Object(map) => map.is_empty(),
        }
}

/// Whether the value is Go's zero value.
fn is_zero(shape: &Shape, value: &Value) -> bool {
    match (shape, value) {
        (_, Value::Null) => true,
        (Shape::Struct(id), Value::Object(object)) => object.iter().all(|(name, value)| {
            let field = types().member(*id, name);
            field.is_none_or(|field| !field.pointer && is_zero(&field.shape, value))
        }),
        // An empty list differs from an absent one.
        (Shape::List(_) | Shape::WrappedList(_) | Shape::Map(_) | Shape::Bytes, _) => false,
        (Shape::Quantity, value) => value.as_str() == Some("0"),
        (Shape::IntOrString, value) => value.as_i64() == Some(0),
        (Shape::Struct(_) | Shape::Raw | Shape::Time | Shape::MicroTime, _) => false,
        _ => is_empty(shape, value),
    }
}

/// Whether removing the member would change the encoding.
fn is_significant(field: &Field, value: &Value) -> bool {
    if value.is_null() || omitted(field, Some(value)) {
        return true;
    }
    !field.pointer && is_zero(&field.shape, value)
}

fn normalize_value(shape: &Shape, value: &mut Value) {
    each_object(shape, value, normalize);
}

fn complete_value(shape: &Shape, value: &mut Value) {
    each_object(shape, value, complete);
}

/// Applies a function to each object of a type inside a value.
fn each_object(shape: &Shape, value: &mut Value, act: fn(TypeId, &mut Object)) {
    match shape {
        Shape::Struct(id) => {
            let side = alternative_shape(*id, value);
            match (side, value) {
                (None, Value::Object(object)) => act(*id, object),
                (Some(shape), value) => each_object(shape, value, act),
                _ => {}
            }
        }
        Shape::List(of) | Shape::WrappedList(of) => {
            if let Value::Array(list) = value {
                list.iter_mut()
                    .for_each(|element| each_object(of, element, act));
            }
        }
        Shape::Map(of) => {
            if let Value::Object(map) = value {
                map.values_mut()
                    .for_each(|value| each_object(of, value, act));
            }
        }
        _ => {}
    }
}

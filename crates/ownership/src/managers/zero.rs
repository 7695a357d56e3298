//! Objects in which nothing was set.

use std::borrow::Cow;
use std::sync::LazyLock;

use insula_kinds::{Form, Kind, Object, Omit, Shape, TypeId, Value, kinds, types};

static ZEROS: LazyLock<Vec<(TypeId, Object)>> = LazyLock::new(|| {
    let zero = |kind: &Kind| (kind.type_id(), of_kind(kind));
    let mut zeros: Vec<_> = kinds().iter().map(|(_, kind)| zero(kind)).collect();
    zeros.sort_by_key(|(of, _)| *of);
    zeros
});

/// An object of the kind before anything is set: with what Go writes of an empty value of
/// the type, and so with nothing for kinds that users define. Who creates an object owns
/// what is different from this.
pub fn zero(kind: &Kind) -> Cow<'static, Object> {
    if kind.is_custom() {
        return Cow::Owned(named(kind.api_version(), &kind.kind));
    }
    let of = kind.type_id();
    match ZEROS.binary_search_by_key(&of, |(of, _)| *of) {
        Ok(at) => Cow::Borrowed(&ZEROS[at].1),
        Err(_) => Cow::Owned(of_kind(kind)),
    }
}

/// The same for a type that is served only below other objects, such as a Scale.
pub fn of_type(api_version: &str, kind: &str, of: TypeId) -> Object {
    let mut object = named(api_version, kind);
    complete(of, &mut object);
    object
}

/// Adds to an object of a type whatever Go writes of it though it is not set, everywhere:
/// who owns fields is said of objects as they are written. What Go leaves out though it is
/// set is to be gone already, as it is from what was written or normalized.
pub fn complete(of: TypeId, object: &mut Object) {
    for field in types().members(of) {
        match object.get_mut(field.json) {
            Some(value) if !value.is_null() => descend(&field.shape, value),
            _ if field.json.is_empty() => {}
            _ => {
                let zero = unset(&field.shape, field.pointer, field.omit);
                object.extend(zero.map(|zero| (field.json.to_owned(), zero)));
            }
        }
    }
}

fn descend(shape: &Shape, value: &mut Value) {
    match (shape, value) {
        (Shape::Struct(of), Value::Object(object)) if types().get(*of).form == Form::Object => {
            complete(*of, object);
        }
        (Shape::List(of) | Shape::WrappedList(of), Value::Array(list)) if nests(of) => {
            list.iter_mut().for_each(|element| descend(of, element));
        }
        (Shape::Map(of), Value::Object(map)) if nests(of) => {
            map.values_mut().for_each(|value| descend(of, value));
        }
        _ => {}
    }
}

fn nests(shape: &Shape) -> bool {
    matches!(
        shape,
        Shape::Struct(_) | Shape::List(_) | Shape::WrappedList(_) | Shape::Map(_)
    )
}

fn of_kind(kind: &Kind) -> Object {
    of_type(kind.api_version(), &kind.kind, kind.type_id())
}

fn named(api_version: &str, kind: &str) -> Object {
    let members = [("apiVersion", api_version), ("kind", kind)];
    let member = |(name, text): (&str, &str)| (name.to_owned(), Value::from(text));
    members.into_iter().map(member).collect()
}

/// What Go writes of a field that is not set; nothing if it leaves it out.
fn unset(shape: &Shape, pointer: bool, omit: Omit) -> Option<Value> {
    // In Go, and it takes no struct for empty.
    let is_struct = matches!(
        shape,
        Shape::Struct(_)
            | Shape::Time
            | Shape::MicroTime
            | Shape::Quantity
            | Shape::IntOrString
            | Shape::Raw
    );
    match omit {
        Omit::Never => Some(nothing(shape, pointer)),
        Omit::Empty if is_struct && !pointer => Some(nothing(shape, pointer)),
        Omit::Empty | Omit::Zero => None,
    }
}

fn nothing(shape: &Shape, pointer: bool) -> Value {
    match shape {
        _ if pointer => Value::Null,
        Shape::String => "".into(),
        Shape::Bool => false.into(),
        Shape::Int32 | Shape::Int64 | Shape::Float64 | Shape::IntOrString => 0.into(),
        Shape::Quantity => "0".into(),
        Shape::Struct(of) if types().get(*of).form == Form::Object => {
            let mut object = Object::new();
            complete(*of, &mut object);
            Value::Object(object)
        }
        _ => Value::Null,
    }
}

//! Optional values.

use super::{Body, Scope, no_overload};
use crate::error::EvalError;
use crate::value::{List, Outcome, Value};

pub(super) fn body(function: &str, arguments: usize) -> Option<Body> {
    Some(match (function, arguments) {
        ("optional.none", 0) => Body::None(|| Value::NONE),
        ("optional.of", 1) => Body::One(|_, value| Ok(Value::some(value))),
        ("optional.ofNonZeroValue", 1) => Body::One(of_non_zero),
        ("value", 1) => Body::One(held),
        ("hasValue", 1) => Body::One(has_value),
        ("optional.unwrap", 1) => Body::One(|_, list| unwrap("optional.unwrap", list)),
        ("unwrapOpt", 1) => Body::One(|_, list| unwrap("unwrapOpt", list)),
        ("first", 1) => Body::One(|_, list| pick("first", list, |_| 0)),
        ("last", 1) => Body::One(|_, list| pick("last", list, |list| list.len().wrapping_sub(1))),
        _ => return None,
    })
}

fn of_non_zero<'a>(_: &mut Scope, value: Value<'a>) -> Outcome<'a> {
    Ok(if value.is_zero() {
        Value::NONE
    } else {
        Value::some(value)
    })
}

fn held<'a>(_: &mut Scope, value: Value<'a>) -> Outcome<'a> {
    match &value {
        Value::Optional(Some(held)) => Ok((**held).clone()),
        Value::Optional(None) => Err(EvalError::new("optional.none() dereference")),
        _ => Err(no_overload("value", &[&value])),
    }
}

fn has_value<'a>(_: &mut Scope, value: Value<'a>) -> Outcome<'a> {
    match &value {
        Value::Optional(held) => Ok(Value::Bool(held.is_some())),
        _ => Err(no_overload("hasValue", &[&value])),
    }
}

fn unwrap<'a>(function: &str, value: Value<'a>) -> Outcome<'a> {
    let first = |list: &List<'a>| matches!(list.get(0), None | Some(Ok(Value::Optional(_))));
    let list = match &value {
        Value::List(list) if first(list) => list,
        _ => return Err(no_overload(function, &[&value])),
    };
    let mut values = Vec::new();
    for value in list.iter() {
        match value? {
            Value::Optional(Some(held)) => values.push((*held).clone()),
            Value::Optional(None) => {}
            other => return Err(EvalError::new(format!("value {other} is not optional"))),
        }
    }
    Ok(values.into())
}

fn pick<'a>(function: &str, value: Value<'a>, at: fn(&List<'a>) -> usize) -> Outcome<'a> {
    let Value::List(list) = &value else {
        return Err(no_overload(function, &[&value]));
    };
    match list.get(at(list)) {
        Some(value) => value.map(Value::some),
        None => Ok(Value::NONE),
    }
}

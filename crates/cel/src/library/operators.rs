//! Operators: arithmetic, order, membership and size.

use std::cmp::Ordering;

use super::{Body, Scope};
use crate::error::EvalError;
use crate::value::{Duration, List, Outcome, Value};

pub(super) fn body(function: &str, arguments: usize) -> Option<Body> {
    Some(match (function, arguments) {
        ("_+_", 2) => Body::Two(add),
        ("_-_", 2) => Body::Two(subtract),
        ("_*_", 2) => Body::Two(multiply),
        ("_/_", 2) => Body::Two(divide),
        ("_%_", 2) => Body::Two(modulo),
        ("-_", 1) => Body::One(negate),
        ("!_", 1) => Body::One(not),
        ("_<_", 2) => Body::Two(|_, one, two| order("_<_", &one, &two, Ordering::is_lt)),
        ("_<=_", 2) => Body::Two(|_, one, two| order("_<=_", &one, &two, Ordering::is_le)),
        ("_>_", 2) => Body::Two(|_, one, two| order("_>_", &one, &two, Ordering::is_gt)),
        ("_>=_", 2) => Body::Two(|_, one, two| order("_>=_", &one, &two, Ordering::is_ge)),
        ("@in" | "_in_" | "in", 2) => Body::Two(contains),
        ("size", 1) => Body::One(size),
        ("cel.@mapInsert", 2) => Body::Two(insert_all),
        ("cel.@mapInsert", 3) => Body::Many(insert),
        _ => return None,
    })
}

const OVERFLOW: &str = "integer overflow";
const UNSIGNED_OVERFLOW: &str = "unsigned integer overflow";

fn int<'a>(value: Option<i64>) -> Outcome<'a> {
    value
        .map(Value::Int)
        .ok_or_else(|| EvalError::new(OVERFLOW))
}

fn uint<'a>(value: Option<u64>) -> Outcome<'a> {
    value
        .map(Value::Uint)
        .ok_or_else(|| EvalError::new(UNSIGNED_OVERFLOW))
}

fn duration<'a>(nanos: Option<i64>) -> Outcome<'a> {
    let nanos = nanos.ok_or_else(|| EvalError::new(OVERFLOW))?;
    Ok(Value::Duration(Duration { nanos }))
}

/// The error for an operator that the left value supports, but not with the right one.
fn mismatch(operator: &str, one: &Value<'_>, known: bool) -> EvalError {
    if known {
        EvalError::no_such_overload()
    } else {
        unknown(operator, one)
    }
}

/// The error for an operator that the value does not support. It is shorter for types with
/// functions of their own.
fn unknown(operator: &str, one: &Value<'_>) -> EvalError {
    match one {
        Value::String(_) | Value::Timestamp(_) | Value::Duration(_) => {
            EvalError::no_such_overload()
        }
        _ => EvalError::new(format!("no such overload: {operator}")),
    }
}

pub(super) fn add<'a>(scope: &mut Scope, one: Value<'a>, two: Value<'a>) -> Outcome<'a> {
    match (one, two) {
        (Value::Int(one), Value::Int(two)) => int(one.checked_add(two)),
        (Value::Uint(one), Value::Uint(two)) => uint(one.checked_add(two)),
        (Value::Double(one), Value::Double(two)) => Ok(Value::Double(one + two)),
        (Value::String(one), Value::String(two)) => super::new_string([&*one, &*two].concat()),
        (Value::Bytes(one), Value::Bytes(two)) => {
            if one.len() + two.len() > super::MAX_STRING_LENGTH {
                return Err(EvalError::Cancelled);
            }
            Ok(Value::Bytes([&*one, &*two].concat().into()))
        }
        (Value::List(one), Value::List(two)) => join(scope, one, two),
        (Value::Duration(one), Value::Duration(two)) => duration(one.nanos.checked_add(two.nanos)),
        (Value::Duration(one), Value::Timestamp(two)) => two.plus(one).map(Value::Timestamp),
        (Value::Timestamp(one), Value::Duration(two)) => one.plus(two).map(Value::Timestamp),
        (one, _) => {
            let known = one.is_ordered() && !matches!(one, Value::Bool(_));
            let known = known || matches!(one, Value::List(_));
            Err(mismatch("_+_", &one, known))
        }
    }
}

/// Concatenates lists. The price is one unit, so that the copied elements are counted apart.
fn join<'a>(scope: &mut Scope, one: List<'a>, two: List<'a>) -> Outcome<'a> {
    scope.meter.count_elements(one.copied(&two) as u64)?;
    one.plus(two).map(Value::List)
}

fn subtract<'a>(_: &mut Scope, one: Value<'a>, two: Value<'a>) -> Outcome<'a> {
    match (one, two) {
        (Value::Int(one), Value::Int(two)) => int(one.checked_sub(two)),
        (Value::Uint(one), Value::Uint(two)) => uint(one.checked_sub(two)),
        (Value::Double(one), Value::Double(two)) => Ok(Value::Double(one - two)),
        (Value::Duration(one), Value::Duration(two)) => duration(one.nanos.checked_sub(two.nanos)),
        (Value::Timestamp(one), Value::Timestamp(two)) => one.since(two).map(Value::Duration),
        (Value::Timestamp(one), Value::Duration(two)) => {
            let nanos = two.nanos.checked_neg();
            let nanos = nanos.ok_or_else(|| EvalError::new(OVERFLOW))?;
            one.plus(Duration { nanos }).map(Value::Timestamp)
        }
        (one, _) => {
            let known = is_number(&one) || matches!(one, Value::Duration(_) | Value::Timestamp(_));
            Err(mismatch("_-_", &one, known))
        }
    }
}

fn multiply<'a>(_: &mut Scope, one: Value<'a>, two: Value<'a>) -> Outcome<'a> {
    match (one, two) {
        (Value::Int(one), Value::Int(two)) => int(one.checked_mul(two)),
        (Value::Uint(one), Value::Uint(two)) => uint(one.checked_mul(two)),
        (Value::Double(one), Value::Double(two)) => Ok(Value::Double(one * two)),
        (one, _) => Err(mismatch("_*_", &one, is_number(&one))),
    }
}

fn divide<'a>(_: &mut Scope, one: Value<'a>, two: Value<'a>) -> Outcome<'a> {
    match (one, two) {
        (Value::Int(_), Value::Int(0)) | (Value::Uint(_), Value::Uint(0)) => {
            Err(EvalError::new("division by zero"))
        }
        (Value::Int(one), Value::Int(two)) => int(one.checked_div(two)),
        (Value::Uint(one), Value::Uint(two)) => uint(one.checked_div(two)),
        (Value::Double(one), Value::Double(two)) => Ok(Value::Double(one / two)),
        (one, _) => Err(mismatch("_/_", &one, is_number(&one))),
    }
}

fn modulo<'a>(_: &mut Scope, one: Value<'a>, two: Value<'a>) -> Outcome<'a> {
    match (one, two) {
        (Value::Int(_), Value::Int(0)) | (Value::Uint(_), Value::Uint(0)) => {
            Err(EvalError::new("modulus by zero"))
        }
        (Value::Int(one), Value::Int(two)) => int(one.checked_rem(two)),
        (Value::Uint(one), Value::Uint(two)) => uint(one.checked_rem(two)),
        (one, _) => {
            let known = matches!(one, Value::Int(_) | Value::Uint(_));
            Err(mismatch("_%_", &one, known))
        }
    }
}

fn is_number(value: &Value<'_>) -> bool {
    matches!(value, Value::Int(_) | Value::Uint(_) | Value::Double(_))
}

fn negate<'a>(_: &mut Scope, value: Value<'a>) -> Outcome<'a> {
    match value {
        Value::Int(value) => int(value.checked_neg()),
        Value::Double(value) => Ok(Value::Double(-value)),
        Value::Duration(value) => duration(value.nanos.checked_neg()),
        Value::Bool(_) => Err(EvalError::no_such_overload()),
        other => Err(unknown("-_", &other)),
    }
}

fn not<'a>(_: &mut Scope, value: Value<'a>) -> Outcome<'a> {
    match value {
        Value::Bool(value) => Ok(Value::Bool(!value)),
        _ => Err(EvalError::no_such_overload()),
    }
}

fn order<'a>(
    operator: &str,
    one: &Value<'_>,
    two: &Value<'_>,
    wanted: fn(Ordering) -> bool,
) -> Outcome<'a> {
    if !one.is_ordered() {
        return Err(unknown(operator, one));
    }
    Ok(Value::Bool(wanted(one.order(two)?)))
}

fn contains<'a>(scope: &mut Scope, value: Value<'a>, aggregate: Value<'a>) -> Outcome<'a> {
    match aggregate {
        Value::List(list) => {
            scope.meter.count_elements(list.len() as u64)?;
            value.is_in(&list).map(Value::Bool)
        }
        Value::Map(map) => match map.find(&value) {
            Some(Err(error)) => Err(error),
            found => Ok(Value::Bool(found.is_some())),
        },
        _ => Err(EvalError::no_such_overload()),
    }
}

fn size<'a>(_: &mut Scope, value: Value<'a>) -> Outcome<'a> {
    match value.size() {
        Some(size) => Ok(Value::Int(size as i64)),
        None => Err(unknown("size", &value)),
    }
}

/// Inserts a member into a map; a duplicate key is an error.
fn insert<'a>(_: &mut Scope, arguments: Vec<Value<'a>>) -> Outcome<'a> {
    match <[Value<'_>; 3]>::try_from(arguments) {
        Ok([Value::Map(map), key, value]) => map.insert(key, value).map(Value::Map),
        _ => Err(EvalError::no_such_overload()),
    }
}

fn insert_all<'a>(scope: &mut Scope, one: Value<'a>, two: Value<'a>) -> Outcome<'a> {
    let (Value::Map(mut map), Value::Map(more)) = (one, two) else {
        return Err(EvalError::no_such_overload());
    };
    for key in more.keys() {
        scope.meter.count_elements(1)?;
        let value = more.find(&key);
        let value = value.unwrap_or_else(|| Err(EvalError::no_such_key(&key)))?;
        map = map.insert(key, value)?;
    }
    Ok(Value::Map(map))
}

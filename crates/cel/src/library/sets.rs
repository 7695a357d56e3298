//! The functions of lists as sets.

use super::{Body, no_overload};
use crate::error::EvalError;
use crate::value::{List, Outcome, Value};

pub(super) fn body(function: &str, arguments: usize) -> Option<Body> {
    if arguments != 2 {
        return None;
    }
    Some(Body::Two(match function {
        "sets.contains" => |_, one, two| ask("sets.contains", &one, &two, contains),
        "sets.equivalent" => |_, one, two| ask("sets.equivalent", &one, &two, equivalent),
        "sets.intersects" => |_, one, two| ask("sets.intersects", &one, &two, intersects),
        _ => return None,
    }))
}

type Question = for<'l> fn(&List<'l>, &List<'l>) -> Result<bool, EvalError>;

fn ask<'a>(function: &str, one: &Value<'a>, two: &Value<'a>, question: Question) -> Outcome<'a> {
    match (one, two) {
        (Value::List(one), Value::List(two)) => question(one, two).map(Value::Bool),
        _ => Err(no_overload(function, &[one, two])),
    }
}

fn contains<'l>(list: &List<'l>, part: &List<'l>) -> Result<bool, EvalError> {
    for value in part.iter() {
        if !value?.is_in(list)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn equivalent<'l>(one: &List<'l>, two: &List<'l>) -> Result<bool, EvalError> {
    Ok(contains(one, two)? && contains(two, one)?)
}

fn intersects<'l>(one: &List<'l>, two: &List<'l>) -> Result<bool, EvalError> {
    for value in one.iter() {
        if value?.is_in(two) == Ok(true) {
            return Ok(true);
        }
    }
    Ok(false)
}

//! The functions of semantic versions.

use std::sync::Arc;

use super::{Body, no_overload};
use crate::error::EvalError;
use crate::value::{Opaque, Outcome, Semver, Value};

pub(super) fn body(function: &str, arguments: usize) -> Option<Body> {
    Some(match (function, arguments) {
        ("semver", 1) => Body::One(|_, text| make(&text, None)),
        ("semver", 2) => Body::Two(|_, text, tidy| make(&text, Some(&tidy))),
        ("isSemver", 1) => Body::One(|_, text| test(&text, None)),
        ("isSemver", 2) => Body::Two(|_, text, tidy| test(&text, Some(&tidy))),
        ("major", 1) => Body::One(|_, value| number("major", &value, 0)),
        ("minor", 1) => Body::One(|_, value| number("minor", &value, 1)),
        ("patch", 1) => Body::One(|_, value| number("patch", &value, 2)),
        _ => return None,
    })
}

fn parse(
    function: &str,
    text: &Value<'_>,
    tidy: Option<&Value<'_>>,
) -> Result<Result<Semver, EvalError>, EvalError> {
    match (text, tidy) {
        (Value::String(text), None | Some(Value::Bool(false))) => Ok(Semver::parse(text)),
        (Value::String(text), Some(Value::Bool(true))) => Ok(Semver::parse_tidy(text)),
        (text, None) => Err(no_overload(function, &[text])),
        (text, Some(tidy)) => Err(no_overload(function, &[text, tidy])),
    }
}

fn make<'a>(text: &Value<'_>, tidy: Option<&Value<'_>>) -> Outcome<'a> {
    let version = parse("semver", text, tidy)??;
    Ok(Value::Opaque(Opaque::Semver(Arc::new(version))))
}

fn test<'a>(text: &Value<'_>, tidy: Option<&Value<'_>>) -> Outcome<'a> {
    Ok(Value::Bool(parse("isSemver", text, tidy)?.is_ok()))
}

fn number<'a>(function: &str, value: &Value<'_>, at: usize) -> Outcome<'a> {
    match value {
        // Numbers that exceed `int` become negative, as in Go.
        Value::Opaque(Opaque::Semver(version)) => Ok(Value::Int(version.numbers[at] as i64)),
        _ => Err(no_overload(function, &[value])),
    }
}

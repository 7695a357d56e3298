//! The functions that expressions can call: CEL's own and those that Kubernetes adds.
//!
//! A function is found by its name and the number of its arguments; the overload is chosen by the
//! values of the arguments.

mod authorizer;
mod convert;
mod format;
mod lists;
mod named_format;
mod net;
mod operators;
mod optional;
mod price;
mod quantity;
mod regex;
mod semver;
mod sets;
mod strings;
mod times;
mod url;

use crate::budget::CostMeter;
use crate::error::EvalError;
use crate::value::{Outcome, Value};

pub(crate) use price::{Price, equality_cost, price};
pub(crate) use regex::Pattern;
pub use regex::Regexes;

/// The state that functions share during an evaluation.
pub(crate) struct Scope {
    pub(crate) meter: CostMeter,
    pub(crate) regexes: Regexes,
}

/// The implementation of a function.
#[derive(Debug)]
pub(crate) enum Body {
    None(fn() -> Value<'static>),
    One(for<'a> fn(&mut Scope, Value<'a>) -> Outcome<'a>),
    Two(for<'a> fn(&mut Scope, Value<'a>, Value<'a>) -> Outcome<'a>),
    Many(for<'a> fn(&mut Scope, Vec<Value<'a>>) -> Outcome<'a>),
    /// A regular expression function with a constant pattern.
    Pattern(Box<Pattern>),
}

/// The maximum length of a string that a function creates: several times the largest request.
const MAX_STRING_LENGTH: usize = 16 << 20;

/// Returns the function of this name and number of arguments, the target included. The overload
/// matters if there are no arguments that decide.
pub(crate) fn body(function: &str, arguments: usize, overload: Option<&str>) -> Option<Body> {
    if let ("sum", 1) = (function, arguments) {
        return Some(lists::sum_of(overload));
    }
    let libraries = [
        operators::body,
        convert::body,
        times::body,
        strings::body,
        lists::body,
        regex::body,
        sets::body,
        optional::body,
        quantity::body,
        url::body,
        net::body,
        semver::body,
        named_format::body,
        authorizer::body,
    ];
    libraries
        .iter()
        .find_map(|library| library(function, arguments))
}

/// Returns whether the function is a type conversion, which is constant if its argument is.
pub(crate) fn converts(function: &str) -> bool {
    matches!(
        function,
        "bool"
            | "bytes"
            | "double"
            | "duration"
            | "dyn"
            | "int"
            | "string"
            | "timestamp"
            | "type"
            | "uint"
    )
}

/// Returns whether the arguments are evaluated only up to the first error. This holds where the
/// values decide which overload is called, except for operators.
pub(crate) fn stops_at_first_error(function: &str, overload: Option<&str>) -> bool {
    match (function, overload) {
        ("format", _) => true,
        ("matches" | "sort" | "@sortByAssociatedKeys" | "@in" | "size" | "type", _) => false,
        (operator, None) => !operator.starts_with('_'),
        _ => false,
    }
}

/// Returns a regular expression function with its pattern compiled.
pub(crate) fn with_pattern(function: &str, pattern: &str) -> Result<Body, EvalError> {
    Ok(Body::Pattern(Box::new(Pattern::new(function, pattern)?)))
}

/// The error for arguments that no overload accepts.
fn no_overload(function: &str, arguments: &[&Value<'_>]) -> EvalError {
    let types: Vec<_> = arguments.iter().map(|value| value.type_name()).collect();
    EvalError::new(format!(
        "no such overload: {function}({})",
        types.join(", ")
    ))
}

/// Returns a string, if it is not too long.
fn new_string<'a>(text: String) -> Outcome<'a> {
    if text.len() > MAX_STRING_LENGTH {
        return Err(EvalError::Cancelled);
    }
    Ok(text.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::function::function;

    /// Operators that the planner implements.
    const OPERATORS: [&str; 12] = [
        "_&&_",
        "_||_",
        "_?_:_",
        "_==_",
        "_!=_",
        "_[_]",
        "_[?_]",
        "_?._",
        "@not_strictly_false",
        "__not_strictly_false__",
        "or",
        "orValue",
    ];

    #[test]
    fn every_overload_that_can_be_checked_can_be_called() {
        let mut seen = 0;
        for line in include_str!("../tests/data/functions.txt").lines() {
            let known = function(line).expect(line);
            for overload in &known.overloads {
                seen += 1;
                let found = body(line, overload.args.len(), Some(overload.id));
                let planned = OPERATORS.contains(&line);
                assert!(found.is_some() || planned, "{line} {}", overload.id);
            }
        }
        assert!(seen > 300, "only {seen} overloads");
    }
}

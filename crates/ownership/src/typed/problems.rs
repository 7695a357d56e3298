//! The problems of a value.

use std::fmt::{self, Display, Write};

use insula_gotext::quote::Quoted;
use insula_kinds::Value;
use insula_kinds::go::{self, Printed};

use super::NotOfType;
use crate::schema::Scalar;

/// The maximum number of problems. Kubernetes lists all of them, however many a request has.
const MAX_PROBLEMS: usize = 1_000;

/// The problems found so far. Paths are completed from their ends, as the walk returns.
#[derive(Debug, Default)]
pub(super) struct Problems(Vec<Problem>);

#[derive(Debug)]
struct Problem {
    path: String,
    message: String,
}

impl Problems {
    /// Adds a problem at this node.
    pub fn add(&mut self, message: impl Into<String>) {
        if self.0.len() == MAX_PROBLEMS {
            return;
        }
        self.0.push(Problem {
            path: String::new(),
            message: message.into(),
        });
    }

    /// Returns the number of problems, for [`Problems::put_below`].
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Prepends a step to the paths of all problems found since there were `since`.
    pub fn put_below(&mut self, since: usize, step: impl FnOnce() -> String) {
        if let Some(found @ [_, ..]) = self.0.get_mut(since..) {
            let step = step();
            for problem in found {
                problem.path.insert_str(0, &step);
            }
        }
    }

    /// Returns all problems as an error, if there are any.
    pub fn end(self) -> Result<(), NotOfType> {
        match self.0.as_slice() {
            [] => Ok(()),
            [problem] => Err(NotOfType(problem.to_string())),
            problems => {
                let mut text = "errors:".to_owned();
                for problem in problems {
                    text.push_str("\n  ");
                    text.push_str(&problem.to_string());
                }
                Err(NotOfType(text))
            }
        }
    }
}

impl Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)
    }
}

/// Returns why a value is not a scalar of this type. Null is always one.
pub(super) fn not_scalar(scalar: Scalar, value: &Value) -> Option<String> {
    let plain = matches!(value, Value::Bool(_) | Value::Number(_) | Value::String(_));
    match scalar {
        _ if value.is_null() => None,
        Scalar::Numeric if !value.is_number() => {
            let name = go::type_name(value);
            Some(format!("expected numeric (int or float), got {name}"))
        }
        Scalar::String if !value.is_string() => Some(format!(
            "expected string, got &value.valueUnstructured{{Value:{}}}",
            Source(value)
        )),
        Scalar::Boolean if !value.is_boolean() => Some(not_a("boolean", value)),
        Scalar::Untyped if !plain => Some(not_a("any scalar", value)),
        _ => None,
    }
}

/// Returns the message for a value of the wrong type.
pub(super) fn not_a(what: &str, value: &Value) -> String {
    format!("expected {what}, got &{{{}}}", Printed(value))
}

/// A value in Go syntax: `%#v`.
struct Source<'a>(&'a Value);

impl Display for Source<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Null => f.write_str("interface {}(nil)"),
            Value::String(text) => Quoted(text).fmt(f),
            Value::Array(list) => {
                f.write_str("[]interface {}{")?;
                for (at, element) in list.iter().enumerate() {
                    f.write_str(if at == 0 { "" } else { ", " })?;
                    Source(element).fmt(f)?;
                }
                f.write_char('}')
            }
            Value::Object(map) => {
                f.write_str("map[string]interface {}{")?;
                for (at, (name, value)) in map.iter().enumerate() {
                    f.write_str(if at == 0 { "" } else { ", " })?;
                    write!(f, "{}:{}", Quoted(name), Source(value))?;
                }
                f.write_char('}')
            }
            plain => Printed(plain).fmt(f),
        }
    }
}

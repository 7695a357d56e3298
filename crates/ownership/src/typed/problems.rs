//! What is wrong with a value.

use std::fmt::{self, Display, Write};

use insula_gotext::quote::Quoted;
use insula_kinds::Value;
use insula_kinds::go::{self, Printed};

use super::NotOfType;
use crate::schema::Scalar;

/// Nobody reads more. Kubernetes lists them all, however many somebody provokes.
const MOST: usize = 1_000;

/// What is wrong so far. Paths grow from their ends, while walks return.
#[derive(Debug, Default)]
pub(super) struct Problems(Vec<Problem>);

#[derive(Debug)]
struct Problem {
    path: String,
    message: String,
}

impl Problems {
    /// Something is wrong here.
    pub fn add(&mut self, message: impl Into<String>) {
        if self.0.len() == MOST {
            return;
        }
        self.0.push(Problem {
            path: String::new(),
            message: message.into(),
        });
    }

    /// How many there are, for [`Problems::put_below`].
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// What was found since there were so many is below this step.
    pub fn put_below(&mut self, since: usize, step: impl FnOnce() -> String) {
        if let Some(found @ [_, ..]) = self.0.get_mut(since..) {
            let step = step();
            for problem in found {
                problem.path.insert_str(0, &step);
            }
        }
    }

    /// Nothing, or all of it.
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

/// Why a value is not such a scalar. Null is every one.
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

/// That a value is not what it should be.
pub(super) fn not_a(what: &str, value: &Value) -> String {
    format!("expected {what}, got &{{{}}}", Printed(value))
}

/// A value as it stands in Go's sources: `%#v`.
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

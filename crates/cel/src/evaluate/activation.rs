//! The values of variables.

use super::{EvalError, Outcome};
use crate::value::{Shape, Value};

/// The values that variables have for one evaluation.
#[derive(Clone, Debug, Default)]
pub struct Activation<'a> {
    // There are never more than a handful.
    variables: Vec<(&'a str, Outcome<'a>)>,
}

impl<'a> Activation<'a> {
    /// No variable has a value.
    pub fn new() -> Self {
        Self::default()
    }

    /// The variable has that value. Names may have dots, as declared.
    pub fn with(mut self, name: &'a str, value: Value<'a>) -> Self {
        self.variables.push((name, Ok(value)));
        self
    }

    /// The variable is the JSON, read as the shape says.
    pub fn with_json(
        mut self,
        name: &'a str,
        json: &'a serde_json::Value,
        shape: &'a Shape,
    ) -> Self {
        self.variables.push((name, Value::of(json, shape)));
        self
    }

    pub(super) fn get(&self, name: &str) -> Option<Result<Value<'a>, EvalError>> {
        let mut known = self.variables.iter();
        let (_, value) = known.find(|(known, _)| *known == name)?;
        Some(value.clone())
    }
}

//! The values of variables.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Plan, evaluate_with};
use crate::budget::Budget;
use crate::error::EvalError;
use crate::value::{Outcome, Shape, Value};

/// The name of the variable that holds the composed variables.
pub(super) const COMPOSED: &str = "variables";

/// The values of variables, for any number of evaluations.
#[derive(Default)]
pub struct Activation<'a> {
    // A handful at most, so that a linear search is fastest.
    given: Vec<(&'a str, Given<'a>)>,
    composed: Vec<Composed<'a>>,
    spent: AtomicU64,
}

enum Given<'a> {
    Value(Outcome<'a>),
    Lazy(Source<'a>, OnceLock<Outcome<'a>>),
}

/// A function that computes a value on demand.
type Source<'a> = &'a (dyn Fn() -> Result<Value<'a>, EvalError> + Sync);

struct Composed<'a> {
    name: &'a str,
    plan: &'a Plan,
    budget: Budget,
    value: OnceLock<Outcome<'a>>,
}

impl<'a> Activation<'a> {
    /// Creates an activation without values.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a variable. Its name may have dots, as declared.
    #[must_use]
    pub fn with(mut self, name: &'a str, value: Value<'a>) -> Self {
        self.given.push((name, Given::Value(Ok(value))));
        self
    }

    /// Sets a variable to JSON, read with a shape.
    #[must_use]
    pub fn with_json(
        mut self,
        name: &'a str,
        json: &'a serde_json::Value,
        shape: &'a Shape,
    ) -> Self {
        let value = Given::Value(Value::of(json, shape));
        self.given.push((name, value));
        self
    }

    /// Sets a variable to the value of a function, which is called at most once and only if needed.
    #[must_use]
    pub fn with_lazy(mut self, name: &'a str, source: Source<'a>) -> Self {
        self.given
            .push((name, Given::Lazy(source, OnceLock::new())));
        self
    }

    /// Sets `variables.name` to the value of a plan, which is evaluated at most once and only if
    /// needed. The plan sees all variables, and the composed ones that were set before.
    #[must_use]
    pub fn with_composed(mut self, name: &'a str, plan: &'a Plan, budget: Budget) -> Self {
        self.composed.push(Composed {
            name,
            plan,
            budget,
            value: OnceLock::new(),
        });
        self
    }

    /// Returns the cost of composed variables since the last call. It is not part of the cost of
    /// the evaluations that use them.
    pub fn take_composed_cost(&self) -> u64 {
        self.spent.swap(0, Ordering::Relaxed)
    }

    pub(super) fn get(&self, name: &str) -> Option<Outcome<'a>> {
        let mut known = self.given.iter();
        let (_, given) = known.find(|(known, _)| *known == name)?;
        Some(match given {
            Given::Value(value) => value.clone(),
            Given::Lazy(source, value) => value.get_or_init(source).clone(),
        })
    }

    /// Returns the number of composed variables.
    pub(super) fn composed(&self) -> usize {
        self.composed.len()
    }

    /// Returns a composed variable, if it is one of the first `visible`.
    pub(super) fn compose(&self, name: &str, visible: usize) -> Option<Outcome<'a>> {
        let mut known = self.composed[..visible].iter();
        let at = known.rposition(|known| known.name == name)?;
        let Composed {
            plan,
            budget,
            value,
            ..
        } = &self.composed[at];
        if let Some(known) = value.get() {
            return Some(known.clone());
        }
        let evaluation = evaluate_with(plan, self, at, *budget);
        self.spent.fetch_add(evaluation.cost, Ordering::Relaxed);
        let result = evaluation.result.map_err(|error| {
            EvalError::new(format!(
                "composited variable {name:?} fails to evaluate: {error}"
            ))
        });
        Some(value.get_or_init(|| result).clone())
    }
}

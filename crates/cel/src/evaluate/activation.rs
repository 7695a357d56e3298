//! The values of variables.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{EvalError, Outcome, Plan, evaluate_with};
use crate::budget::Budget;
use crate::value::{Shape, Value};

/// Under this name are the variables that are computed from others.
pub(super) const COMPOSED: &str = "variables";

/// The values that variables have, for any number of evaluations.
#[derive(Default)]
pub struct Activation<'a> {
    // There are never more than a handful.
    given: Vec<(&'a str, Given<'a>)>,
    composed: Vec<Composed<'a>>,
    spent: AtomicU64,
}

enum Given<'a> {
    Value(Outcome<'a>),
    Lazy(Source<'a>, OnceLock<Outcome<'a>>),
}

/// What computes a value when it is asked for.
type Source<'a> = &'a (dyn Fn() -> Result<Value<'a>, EvalError> + Sync);

struct Composed<'a> {
    name: &'a str,
    plan: &'a Plan,
    budget: Budget,
    value: OnceLock<Outcome<'a>>,
}

impl<'a> Activation<'a> {
    /// No variable has a value.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The variable has that value. Names may have dots, as declared.
    #[must_use]
    pub fn with(mut self, name: &'a str, value: Value<'a>) -> Self {
        self.given.push((name, Given::Value(Ok(value))));
        self
    }

    /// The variable is the JSON, read as the shape says.
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

    /// The variable has the value that the source computes, once and only if it is asked for.
    #[must_use]
    pub fn with_lazy(mut self, name: &'a str, source: Source<'a>) -> Self {
        self.given
            .push((name, Given::Lazy(source, OnceLock::new())));
        self
    }

    /// `variables.name` has the value of the plan, computed once and only if it is asked for.
    /// The plan sees all variables, and of the composed ones those that were there before.
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

    /// What composed variables cost since this was asked last: it is not a part of the cost of
    /// the evaluations that asked for them.
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

    /// How many variables are composed.
    pub(super) fn composed(&self) -> usize {
        self.composed.len()
    }

    /// A composed variable, if it is one of the first so many.
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

//! Expressions, evaluated against a request.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;

use insula_cel::{Activation, Budget, EvalError, Fields, Value, evaluate};

use crate::expression::Expression;

/// What comes of an expression, as far as anybody wants to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Bool(bool),
    Text(String),
    Null,
    /// Something of this type.
    Other(String),
}

/// A value with a name, which is computed when somebody asks for it.
pub(crate) type Variable = (String, Expression);

/// What all conditions of a webhook or a policy may cost together.
pub(crate) const CONDITIONS: u64 = 2_500_000;

/// What all expressions of one sort may cost together.
pub(crate) const EXPRESSIONS: u64 = 10_000_000;

/// The budget is spent.
pub(crate) const SPENT: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// How deep variables may lie in each other, in levels of their expressions.
const DEEPEST: usize = 1000;

/// How deep they may lie where we are: beyond that it is done on a stack that has room.
const SHALLOW: usize = 48;

/// Room for the deepest, even without optimization.
const STACK: usize = 128 << 20;

/// Evaluates the expressions one after the other. Each may fail by itself; if `left` is
/// spent, that is the end of it all.
pub(crate) fn run(
    expressions: &[Option<&Expression>],
    variables: &[Variable],
    activation: &Activation<'_>,
    left: &mut u64,
) -> Result<Vec<Option<Result<Outcome, String>>>, String> {
    let meter = Meter::default();
    let mut work = || {
        let mut outcomes = Ok(Vec::new());
        let bottom: &dyn Fields = &Nothing;
        layered(variables, bottom, activation, &meter, &mut |fields| {
            outcomes = all(expressions, activation, fields, &meter, left);
        });
        outcomes
    };
    let depths = variables.iter().map(|(_, variable)| variable.depth);
    if depths.sum::<usize>() < SHALLOW && variables.len() < SHALLOW {
        return work();
    }
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("insula-policy".to_owned());
        let worker = thread.stack_size(STACK).spawn_scoped(scope, work);
        let worker = worker.map_err(|error| error.to_string())?;
        let panicked = |_| Err("an expression could not be evaluated".to_owned());
        worker.join().unwrap_or_else(panicked)
    })
}

fn all(
    expressions: &[Option<&Expression>],
    activation: &Activation<'_>,
    fields: &dyn Fields,
    meter: &Meter,
    left: &mut u64,
) -> Result<Vec<Option<Result<Outcome, String>>>, String> {
    let activation = activation.clone().with("variables", Value::lazy(fields));
    let mut outcomes = Vec::with_capacity(expressions.len());
    for expression in expressions {
        let Some(expression) = expression else {
            outcomes.push(None);
            continue;
        };
        outcomes.push(Some(match &expression.plan {
            Err(why) => Err(format!("compilation error: {why}")),
            Ok(plan) => {
                let done = evaluate(plan, &activation, Budget::CALL);
                let cost = done.cost.saturating_add(meter.take());
                let rest = left.checked_sub(cost);
                *left = rest.unwrap_or_default();
                rest.ok_or(SPENT)?;
                let source = &expression.source;
                let failed = |error| format!("expression '{source}' resulted in error: {error}");
                done.result.map(|value| owned(&value)).map_err(failed)
            }
        }));
    }
    Ok(outcomes)
}

fn owned(value: &Value<'_>) -> Outcome {
    match value {
        Value::Bool(value) => Outcome::Bool(*value),
        Value::Null => Outcome::Null,
        value => match value.message() {
            Some(text) => Outcome::Text(text.to_owned()),
            None => Outcome::Other(value.type_name().to_owned()),
        },
    }
}

/// What variables cost, and how deep they lie in each other.
#[derive(Default)]
struct Meter {
    cost: AtomicU64,
    depth: AtomicUsize,
}

impl Meter {
    fn take(&self) -> u64 {
        self.cost.swap(0, Ordering::Relaxed)
    }
}

/// Where no variable is declared.
struct Nothing;

impl Fields for Nothing {
    fn field(&self, _: &str) -> Option<Result<Value<'_>, EvalError>> {
        None
    }

    fn names(&self) -> Vec<&str> {
        Vec::new()
    }
}

/// A variable, above those that it may speak of. It is computed once at most.
struct Layer<'l> {
    variable: &'l Variable,
    below: &'l dyn Fields,
    activation: &'l Activation<'l>,
    meter: &'l Meter,
    made: OnceLock<Result<Value<'l>, EvalError>>,
}

/// Puts the variables on top of each other, in their order, and lets `run` see them all.
fn layered(
    variables: &[Variable],
    below: &dyn Fields,
    activation: &Activation<'_>,
    meter: &Meter,
    run: &mut dyn FnMut(&dyn Fields),
) {
    let Some((variable, above)) = variables.split_first() else {
        return run(below);
    };
    let layer = Layer {
        variable,
        below,
        activation,
        meter,
        made: OnceLock::new(),
    };
    layered(above, &layer, activation, meter, run);
}

impl<'l> Layer<'l> {
    fn make(&self) -> Result<Value<'l>, EvalError> {
        let (name, expression) = self.variable;
        let plan = expression.plan.as_ref().map_err(|why| {
            EvalError::new(format!(
                "composited variable \"{name}\" fails to compile: {why}"
            ))
        })?;
        let depth = &self.meter.depth;
        let deep = expression.depth + 1;
        if depth.fetch_add(deep, Ordering::Relaxed) > DEEPEST {
            depth.fetch_sub(deep, Ordering::Relaxed);
            let why = format!("composited variable \"{name}\" is nested too deeply");
            return Err(EvalError::new(why));
        }
        let activation = self.activation.clone();
        let activation = activation.with("variables", Value::lazy(self.below));
        let done = evaluate(plan, &activation, Budget::CALL);
        depth.fetch_sub(deep, Ordering::Relaxed);
        self.meter.cost.fetch_add(done.cost, Ordering::Relaxed);
        done.result.map_err(|error| {
            EvalError::new(format!(
                "composited variable \"{name}\" fails to evaluate: {error}"
            ))
        })
    }
}

impl Fields for Layer<'_> {
    fn field(&self, name: &str) -> Option<Result<Value<'_>, EvalError>> {
        if self.variable.0 != name {
            return self.below.field(name);
        }
        Some(self.made.get_or_init(|| self.make()).clone())
    }

    fn names(&self) -> Vec<&str> {
        let mut names = self.below.names();
        names.push(&self.variable.0);
        names
    }
}

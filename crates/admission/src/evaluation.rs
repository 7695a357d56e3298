//! Evaluation of expressions for a request.

use std::thread;

use insula_cel::{Activation, Budget, Value, evaluate};

use crate::expression::Expression;

/// The result of an expression, reduced to what admission needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Bool(bool),
    Text(String),
    Null,
    /// A value of another type, by its name.
    Other(String),
}

/// A named expression, evaluated on first use.
pub(crate) type Variable = (String, Expression);

/// Cost budget of all match conditions of a webhook or policy.
pub(crate) const CONDITIONS_COST_BUDGET: u64 = 2_500_000;

/// Cost budget of all expressions of one role in a policy.
pub(crate) const EXPRESSIONS_COST_BUDGET: u64 = 10_000_000;

/// The error when a budget is exhausted.
pub(crate) const BUDGET_EXHAUSTED: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// Maximum nesting of variables, as the sum of their expressions' depths.
const MAX_VARIABLES_DEPTH: usize = 2000;

/// Nesting up to which evaluation runs on the caller's stack; beyond, a larger one is used.
const MAX_INLINE_DEPTH: usize = 48;

/// Stack size for the maximum nesting, sufficient for unoptimised builds.
const STACK_SIZE: usize = 128 << 20;

/// Evaluates expressions in order. Each may fail individually; exhausting the budget `left`
/// fails all.
pub(crate) fn evaluate_all<'a>(
    expressions: &[Option<&Expression>],
    variables: &'a [Variable],
    activation: Activation<'a>,
    left: &mut u64,
) -> Result<Vec<Option<Result<Outcome, String>>>, String> {
    let depths = variables.iter().map(|(_, variable)| variable.depth + 1);
    let depth: usize = depths.sum();
    if depth > MAX_VARIABLES_DEPTH {
        return Err("the variables are nested too deeply".to_owned());
    }
    let activation = with_variables(activation, variables);
    let mut work = || evaluate_in_order(expressions, &activation, left);
    if depth < MAX_INLINE_DEPTH {
        return work();
    }
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("insula-policy".to_owned());
        let worker = thread.stack_size(STACK_SIZE).spawn_scoped(scope, work);
        let worker = worker.map_err(|error| error.to_string())?;
        let panicked = |_| Err("an expression could not be evaluated".to_owned());
        worker.join().unwrap_or_else(panicked)
    })
}

/// Adds the variables. One that no longer compiles has no value.
fn with_variables<'a>(activation: Activation<'a>, variables: &'a [Variable]) -> Activation<'a> {
    variables.iter().fold(
        activation,
        |activation, (name, expression)| match &expression.plan {
            Ok(plan) => activation.with_composed(name, plan, Budget::CALL),
            Err(_) => activation,
        },
    )
}

fn evaluate_in_order(
    expressions: &[Option<&Expression>],
    activation: &Activation<'_>,
    left: &mut u64,
) -> Result<Vec<Option<Result<Outcome, String>>>, String> {
    let mut outcomes = Vec::with_capacity(expressions.len());
    for expression in expressions {
        let Some(expression) = expression else {
            outcomes.push(None);
            continue;
        };
        outcomes.push(Some(match &expression.plan {
            Err(why) => Err(format!("compilation error: {why}")),
            Ok(plan) => {
                let done = evaluate(plan, activation, Budget::CALL);
                let cost = done.cost.saturating_add(activation.take_composed_cost());
                let rest = left.checked_sub(cost);
                *left = rest.unwrap_or_default();
                rest.ok_or(BUDGET_EXHAUSTED)?;
                let source = &expression.source;
                let failed = |error| format!("expression '{source}' resulted in error: {error}");
                done.result.map(|value| outcome_of(&value)).map_err(failed)
            }
        }));
    }
    Ok(outcomes)
}

fn outcome_of(value: &Value<'_>) -> Outcome {
    match value {
        Value::Bool(value) => Outcome::Bool(*value),
        Value::Null => Outcome::Null,
        value => match value.message() {
            Some(text) => Outcome::Text(text.to_owned()),
            None => Outcome::Other(value.type_name().to_owned()),
        },
    }
}

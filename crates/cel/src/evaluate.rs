//! Evaluation of a plan with values for its variables and a budget.
//!
//! Errors are values: `false && error` is false. Only an exhausted budget stops the evaluation.
//! Costs are counted exactly as Kubernetes counts them.

mod activation;
mod attribute;
mod fold;
mod plan;
mod step;

use crate::budget::{Budget, CostMeter};
use crate::error::EvalError;
use crate::library::{Regexes, Scope};
use crate::stack::with_stack;
use crate::value::{Outcome, Value};

pub use activation::Activation;
pub use plan::{Plan, PlanError};
use step::{Call, Step};

/// The outcome of an evaluation.
#[derive(Debug)]
pub struct Evaluation<'a> {
    /// The value, or the error.
    pub result: Result<Value<'a>, EvalError>,
    /// The cost, also of an evaluation that failed.
    pub cost: u64,
}

/// Evaluates a plan within a budget.
pub fn evaluate<'a, 'd: 'a>(
    plan: &'a Plan,
    activation: &Activation<'d>,
    budget: Budget,
) -> Evaluation<'a> {
    evaluate_with(plan, activation, activation.composed(), budget)
}

/// Evaluates a plan that sees the first `visible` composed variables.
fn evaluate_with<'a, 'd: 'a>(
    plan: &'a Plan,
    activation: &Activation<'d>,
    visible: usize,
    budget: Budget,
) -> Evaluation<'a> {
    // Steps are nested as deeply as the expression.
    with_stack(plan.depth, || {
        let mut evaluator = Evaluator {
            activation,
            visible,
            slots: Vec::new(),
            scope: Scope {
                meter: CostMeter::new(budget),
                regexes: Regexes::default(),
            },
        };
        evaluator.slots.resize_with(plan.slots, || Slot::Empty);
        let result = evaluator.eval(&plan.root);
        Evaluation {
            result,
            cost: evaluator.scope.meter.cost(),
        }
    })
}

/// The state of an evaluation. Computed values live as long as the plan, given ones longer.
struct Evaluator<'a, 'd, 'v> {
    activation: &'v Activation<'d>,
    /// The number of composed variables that the plan sees.
    visible: usize,
    slots: Vec<Slot<'a>>,
    scope: Scope,
}

/// The slot of a loop variable.
enum Slot<'a> {
    Empty,
    /// A variable that is computed on first use.
    Pending(&'a Step),
    Ready(Outcome<'a>),
}

impl<'a, 'd: 'a> Evaluator<'a, 'd, '_> {
    fn eval(&mut self, step: &'a Step) -> Outcome<'a> {
        match step {
            Step::Constant(value) => Ok(borrow(value)),
            Step::Attribute(attribute) => self.attribute(attribute),
            Step::And(terms) => self.logic(terms, false),
            Step::Or(terms) => self.logic(terms, true),
            Step::Equal(sides) => self.compare(sides, false),
            Step::Differ(sides) => self.compare(sides, true),
            Step::NotFalse(term) => self.not_false(term),
            Step::Call(call) => self.call(call),
            Step::Member(member) => {
                let value = self.eval(&member.value)?;
                Ok(Value::Bool(member.holds(&value)))
            }
            Step::OrElse(sides) => match self.eval(&sides[0])? {
                Value::Optional(None) => self.eval(&sides[1]),
                other => Ok(other),
            },
            Step::OrValue(sides) => match self.eval(&sides[0])? {
                Value::Optional(None) => self.eval(&sides[1]),
                Value::Optional(Some(value)) => Ok((*value).clone()),
                other => Ok(other),
            },
            Step::List(list) => {
                let made = self.list(list);
                self.charged(made, step::LIST_COST)
            }
            Step::Map(map) => {
                let made = self.map(map);
                self.charged(made, step::MAP_COST)
            }
            Step::Struct(made) => {
                let made = self.structure(made);
                self.charged(made, step::STRUCT_COST)
            }
            Step::Fold(fold) => self.fold(fold),
            Step::Grow(grow) => self.grow(grow),
        }
    }

    /// Charges for an outcome. Errors cost as much as values.
    fn charged(&mut self, outcome: Outcome<'a>, cost: u64) -> Outcome<'a> {
        if !matches!(outcome, Err(EvalError::Cancelled)) {
            self.scope.meter.charge(cost)?;
        }
        outcome
    }

    /// Evaluates `&&` and `||`: a `decisive` operand decides even if another one fails.
    fn logic(&mut self, terms: &'a [Step], decisive: bool) -> Outcome<'a> {
        let mut failed = None;
        for term in terms {
            match self.eval(term) {
                Ok(Value::Bool(value)) if value == decisive => return Ok(Value::Bool(value)),
                Ok(Value::Bool(_)) => {}
                Ok(_) => failed = failed.or(Some(EvalError::no_such_overload())),
                Err(EvalError::Cancelled) => return Err(EvalError::Cancelled),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(Value::Bool(!decisive)), Err)
    }

    fn compare(&mut self, sides: &'a [Step; 2], differ: bool) -> Outcome<'a> {
        let one = self.argument(&sides[0])?;
        let two = self.argument(&sides[1])?;
        let cost = crate::library::equality_cost(priced_value(&one), priced_value(&two), differ);
        self.scope.meter.charge(cost)?;
        let answer = one?.equals(&two?);
        match answer {
            // Values that cannot be compared differ.
            Err(_) if differ => Ok(Value::Bool(true)),
            Ok(same) => Ok(Value::Bool(same != differ)),
            Err(error) => Err(error),
        }
    }

    /// Evaluates a loop condition: only `false` ends the loop.
    fn not_false(&mut self, term: &'a Step) -> Outcome<'a> {
        let value = self.argument(term)?;
        self.scope.meter.charge(1)?;
        Ok(Value::Bool(!matches!(value, Ok(Value::Bool(false)))))
    }

    /// Evaluates an argument, which may be an error. An exhausted budget is returned as failure.
    fn argument(&mut self, step: &'a Step) -> Result<Outcome<'a>, EvalError> {
        match self.eval(step) {
            Err(EvalError::Cancelled) => Err(EvalError::Cancelled),
            outcome => Ok(outcome),
        }
    }

    fn call(&mut self, call: &'a Call) -> Outcome<'a> {
        use crate::library::Body;
        match (&call.body, &call.arguments[..]) {
            (Body::None(body), _) => {
                self.scope.meter.charge(1)?;
                Ok(body())
            }
            (Body::One(body), [one]) => {
                let one = self.argument(one)?;
                self.charge(call, &[priced_value(&one)])?;
                let made = body(&mut self.scope, one?);
                self.charge_for_result(call, made)
            }
            (Body::Two(body), [one, two]) => {
                let one = self.argument(one)?;
                if call.stops_at_first_error && one.is_err() {
                    return one;
                }
                let two = self.argument(two)?;
                self.charge(call, &[priced_value(&one), priced_value(&two)])?;
                let made = body(&mut self.scope, one?, two?);
                self.charge_for_result(call, made)
            }
            (Body::Many(body), steps) => {
                let arguments = self.arguments(call, steps)?;
                let made = body(&mut self.scope, arguments);
                self.charge_for_result(call, made)
            }
            (Body::Pattern(pattern), steps) => {
                let arguments = self.arguments(call, steps)?;
                pattern.apply(&mut self.scope, arguments)
            }
            // The planner checks the number of arguments.
            _ => Err(EvalError::new(format!(
                "no such overload: {}",
                call.function
            ))),
        }
    }

    /// Evaluates the arguments up to the first error. The call is charged if all of them were
    /// evaluated.
    fn arguments(&mut self, call: &Call, steps: &'a [Step]) -> Result<Vec<Value<'a>>, EvalError> {
        let mut arguments = Vec::with_capacity(steps.len());
        let mut failed = Ok(());
        for (at, step) in steps.iter().enumerate() {
            match self.argument(step)? {
                Ok(value) => arguments.push(value),
                Err(error) if at + 1 < steps.len() => return Err(error),
                Err(error) => {
                    arguments.push(Value::Null);
                    failed = Err(error);
                }
            }
        }
        let priced_value: Vec<_> = arguments.iter().collect();
        self.charge(call, &priced_value)?;
        failed.map(|()| arguments)
    }

    /// Charges for a call before it is made, if its price depends on the arguments.
    fn charge(&mut self, call: &Call, arguments: &[&Value<'_>]) -> Result<(), EvalError> {
        match call.price.before(arguments) {
            Some(cost) => self.scope.meter.charge(cost),
            None => Ok(()),
        }
    }

    /// Charges for a call with a price that depends on the result.
    fn charge_for_result(&mut self, call: &Call, made: Outcome<'a>) -> Outcome<'a> {
        let size = || made.as_ref().ok().and_then(Value::size).unwrap_or(1);
        match call.price.after(size) {
            Some(cost) => self.charged(made, cost),
            None => made,
        }
    }

    fn list(&mut self, list: &'a step::List) -> Outcome<'a> {
        let mut values = Vec::with_capacity(list.elements.len());
        for (element, optional) in &list.elements {
            let value = self.eval(element)?;
            match (optional, value) {
                (false, value) => values.push(value),
                (true, Value::Optional(Some(value))) => values.push((*value).clone()),
                (true, Value::Optional(None)) => {}
                (true, value) => {
                    return Err(EvalError::new(format!(
                        "cannot initialize optional list element from non-optional value {value}"
                    )));
                }
            }
        }
        Ok(values.into())
    }

    fn map(&mut self, map: &'a step::Map) -> Outcome<'a> {
        let mut entries = crate::value::Entries::default();
        for entry in &map.entries {
            let key = self.eval(&entry.key)?;
            let value = self.eval(&entry.value)?;
            let made =
                crate::value::Key::of(&key).ok_or_else(|| crate::value::unsupported(&key))?;
            match entry.value_of(value, &key)? {
                Some(value) => entries.insert(made, value),
                None => entries.remove(&made),
            }
        }
        Ok(Value::Map(entries.into()))
    }

    fn structure(&mut self, made: &'a step::Structure) -> Outcome<'a> {
        let mut fields: Vec<(std::sync::Arc<str>, Value<'a>)> = Vec::new();
        for (name, entry) in &made.fields {
            let value = self.eval(&entry.value)?;
            fields.retain(|(known, _)| known != name);
            if let Some(value) = entry.value_of(value, &Value::text(name.clone()))? {
                fields.push((name.clone(), value));
            }
        }
        Ok(Value::Struct(std::sync::Arc::new(crate::value::Struct {
            name: made.name.clone(),
            fields,
        })))
    }
}

/// The value that a price is computed with: an error counts as `null`.
fn priced_value<'s, 'a>(outcome: &'s Outcome<'a>) -> &'s Value<'a> {
    outcome.as_ref().unwrap_or(&Value::Null)
}

/// Borrows a constant from the plan, without reference counting.
fn borrow<'a>(value: &'a Value<'static>) -> Value<'a> {
    match value {
        Value::String(text) => Value::from(&**text),
        other => other.clone(),
    }
}

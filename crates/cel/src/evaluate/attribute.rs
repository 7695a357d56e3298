//! Variables and selections.
//!
//! `self.a.b` is one attribute: the variable and each selection have a price.

use super::activation::COMPOSED;
use super::step::{Attribute, By, Qualifier, Root, Step};
use super::{Evaluator, Slot};
use crate::error::EvalError;
use crate::value::{List, Outcome, Value, double_to_int};

impl<'a, 'd: 'a> Evaluator<'a, 'd, '_> {
    pub(super) fn attribute(&mut self, attribute: &'a Attribute) -> Outcome<'a> {
        // The fast path for loop variables.
        if let (Root::Slot(slot) | Root::Accumulator { slot, take: false }, []) =
            (&attribute.root, &attribute.qualifiers[..])
            && let Slot::Ready(value) = &self.slots[*slot]
        {
            self.scope.meter.charge(1)?;
            return value.clone();
        }
        let value = self.resolve(attribute);
        let choice = matches!(attribute.root, Root::Choice { .. });
        // A presence test is refunded, and a conditional is free: together they make the
        // conditional cheaper than nothing, as in the reference implementation.
        match (choice, attribute.test) {
            (false, false) => self.charged(value, 1),
            (false, true) => value.map(truth),
            (true, false) => value,
            (true, true) => {
                self.scope.meter.refund(1);
                value.map(truth)
            }
        }
    }

    /// Returns the value without charging for the attribute itself, as for the branches of a
    /// conditional and the keys of an index.
    pub(super) fn resolve(&mut self, attribute: &'a Attribute) -> Outcome<'a> {
        if let (Root::Variable(name), [first, rest @ ..]) =
            (&attribute.root, &attribute.qualifiers[..])
            && let By::Name(field) = &first.by
            && **name == *COMPOSED
            && self.visible > 0
        {
            return self.composed(field, first, rest);
        }
        let value = self.root(&attribute.root)?;
        if attribute.qualifiers.is_empty() {
            return Ok(value);
        }
        let (value, optional) = match value {
            Value::Optional(None) => return Ok(Value::NONE),
            Value::Optional(Some(held)) => ((*held).clone(), true),
            value => (value, false),
        };
        self.qualify(value, &attribute.qualifiers, optional)
    }

    /// Resolves `variables.name` and its selections: there is no value for `variables` alone.
    fn composed(&mut self, name: &str, first: &'a Qualifier, rest: &'a [Qualifier]) -> Outcome<'a> {
        let found = self.activation.compose(name, self.visible);
        if found.is_none() && first.optional {
            return Ok(Value::NONE);
        }
        self.scope.meter.charge(1)?;
        if first.test {
            return Ok(Value::Bool(found.is_some()));
        }
        let value = found.unwrap_or_else(|| Err(EvalError::new(format!("no such key: {name}"))))?;
        self.qualify(value, rest, first.optional)
    }

    fn root(&mut self, root: &'a Root) -> Outcome<'a> {
        match root {
            Root::Variable(name) => self
                .activation
                .get(name)
                .unwrap_or_else(|| Err(EvalError::new(format!("no such attribute(s): {name}")))),
            Root::Slot(slot) => self.slot(*slot),
            Root::Accumulator { slot, take } => {
                if let Slot::Pending(init) = self.slots[*slot] {
                    let value = self.argument(init)?;
                    self.slots[*slot] = Slot::Ready(value);
                }
                if *take {
                    let taken = Slot::Ready(Ok(Value::Null));
                    return match std::mem::replace(&mut self.slots[*slot], taken) {
                        Slot::Ready(value) => value,
                        _ => Err(unset()),
                    };
                }
                self.slot(*slot)
            }
            Root::Value(step) => self.eval(step),
            Root::Choice {
                condition,
                then,
                otherwise,
            } => match self.eval(condition)? {
                Value::Bool(true) => self.branch(then),
                Value::Bool(false) => self.branch(otherwise),
                _ => Err(EvalError::no_such_overload()),
            },
        }
    }

    fn slot(&self, slot: usize) -> Outcome<'a> {
        match &self.slots[slot] {
            Slot::Ready(value) => value.clone(),
            _ => Err(unset()),
        }
    }

    fn branch(&mut self, step: &'a Step) -> Outcome<'a> {
        match step {
            Step::Attribute(attribute) => self.resolve(attribute),
            other => self.eval(other),
        }
    }

    fn qualify(
        &mut self,
        mut value: Value<'a>,
        qualifiers: &'a [Qualifier],
        mut optional: bool,
    ) -> Outcome<'a> {
        for qualifier in qualifiers {
            optional |= qualifier.optional;
            let found = self.select(&value, qualifier, optional);
            if matches!(found, Err(EvalError::Cancelled)) {
                return Err(EvalError::Cancelled);
            }
            value = if optional {
                match found? {
                    // A test needs only the presence of the value.
                    Some(_) if qualifier.test => Value::Null,
                    Some(found) => found,
                    None => return Ok(Value::NONE),
                }
            } else {
                self.scope.meter.charge(1)?;
                match (found?, qualifier.test) {
                    (found, true) => Value::Bool(found.is_some()),
                    (Some(found), false) => found,
                    (None, false) => return Err(missing(&value, &self.key(qualifier)?)),
                }
            };
            if optional {
                self.scope.meter.charge(1)?;
            }
        }
        Ok(if optional { Value::some(value) } else { value })
    }

    fn select(
        &mut self,
        value: &Value<'a>,
        qualifier: &'a Qualifier,
        optional: bool,
    ) -> Result<Option<Value<'a>>, EvalError> {
        match (&qualifier.by, value) {
            (By::Name(name), Value::Map(map)) => map.field(name).transpose(),
            (By::Name(name), _) => find(value, &Value::from(&**name)),
            (By::Constant(key), _) => find(value, key),
            (By::Step(step), _) => {
                let key = self.branch(step)?;
                match find(value, &key)? {
                    // Keys are evaluated once.
                    None if !optional => Err(missing(value, &key)),
                    found => Ok(found),
                }
            }
        }
    }

    /// Returns the key of a qualifier with a constant key.
    fn key(&self, qualifier: &'a Qualifier) -> Outcome<'a> {
        Ok(match &qualifier.by {
            By::Name(name) => Value::from(&**name),
            By::Constant(key) => key.clone(),
            By::Step(_) => return Err(unset()),
        })
    }
}

/// Returns the value of the key, or none if it is absent. Values without members have none.
fn find<'a>(value: &Value<'a>, key: &Value<'_>) -> Result<Option<Value<'a>>, EvalError> {
    match value {
        Value::Map(map) => map.find(key).transpose(),
        Value::List(list) => element(list, key),
        Value::Struct(made) => {
            let Value::String(name) = key else {
                return Err(EvalError::no_such_overload());
            };
            let mut fields = made.fields.iter();
            let field = fields.find(|(known, _)| **known == **name);
            Ok(field.map(|(_, value)| value.clone()))
        }
        _ => Ok(None),
    }
}

fn element<'a>(list: &List<'a>, key: &Value<'_>) -> Result<Option<Value<'a>>, EvalError> {
    let at = match *key {
        Value::Int(at) => Some(at),
        Value::Uint(at) => i64::try_from(at).ok(),
        Value::Double(at) => double_to_int(at).filter(|whole| *whole as f64 == at),
        _ => {
            return Err(EvalError::new(format!(
                "unsupported index type '{}' in list",
                key.type_name()
            )));
        }
    };
    let Some(at) = at else {
        return Err(EvalError::new(format!(
            "unsupported index value {key} in list"
        )));
    };
    let Some(found) = usize::try_from(at).ok().and_then(|at| list.get(at)) else {
        return Ok(None);
    };
    if list.is_typed() && !matches!(key, Value::Int(_)) {
        return Err(EvalError::new(format!("unsupported index: {key}")));
    }
    found.map(Some)
}

fn missing(value: &Value<'_>, key: &Value<'_>) -> EvalError {
    match value {
        Value::List(_) => EvalError::new(format!("index out of bounds: {key}")),
        _ => EvalError::no_such_key(key),
    }
}

fn truth(value: Value<'_>) -> Value<'_> {
    match value {
        Value::Optional(held) => Value::Bool(held.is_some()),
        other => other,
    }
}

fn unset() -> EvalError {
    EvalError::new("no such attribute(s): a variable of a loop that has not begun")
}

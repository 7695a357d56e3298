//! Loops.

use super::step::{Fold, Grow, LIST_COST};
use super::{Evaluator, Slot};
use crate::error::EvalError;
use crate::value::{List, Map, Outcome, Value};

impl<'a, 'd: 'a> Evaluator<'a, 'd, '_> {
    pub(super) fn fold(&mut self, fold: &'a Fold) -> Outcome<'a> {
        let range = self.eval(&fold.range)?;
        self.slots[fold.accumulator] = Slot::Pending(&fold.init);
        match (&range, fold.second) {
            (Value::List(list), second) => self.over_list(fold, list, second)?,
            (Value::Map(map), second) => self.over_map(fold, map, second)?,
            (other, None) => {
                let name = go_name(other);
                return Err(EvalError::new(format!(
                    "got '{name}', expected iterable type"
                )));
            }
            (other, Some(_)) => {
                let name = go_name(other);
                return Err(EvalError::new(format!(
                    "unsupported comprehension range type: {name}"
                )));
            }
        }
        let result = self.eval(&fold.result);
        self.slots[fold.accumulator] = Slot::Empty;
        result
    }

    fn over_list(
        &mut self,
        fold: &'a Fold,
        list: &List<'a>,
        second: Option<usize>,
    ) -> Result<(), EvalError> {
        for (at, element) in list.iter().enumerate() {
            match second {
                Some(second) => {
                    self.slots[fold.first] = Slot::Ready(Ok(Value::Int(at as i64)));
                    self.slots[second] = Slot::Ready(element);
                }
                None => self.slots[fold.first] = Slot::Ready(element),
            }
            if !self.round(fold)? {
                break;
            }
        }
        Ok(())
    }

    fn over_map(
        &mut self,
        fold: &'a Fold,
        map: &Map<'a>,
        second: Option<usize>,
    ) -> Result<(), EvalError> {
        for key in map.keys() {
            if let Some(second) = second {
                let value = map.find(&key);
                let value = value.unwrap_or_else(|| Err(EvalError::no_such_key(&key)));
                self.slots[second] = Slot::Ready(value);
            }
            self.slots[fold.first] = Slot::Ready(Ok(key));
            if !self.round(fold)? {
                break;
            }
        }
        Ok(())
    }

    /// Appends an element to the list that a loop builds, at the price of a list and an addition.
    pub(super) fn grow(&mut self, grow: &'a Grow) -> Outcome<'a> {
        let list = self.attribute(&grow.accumulator);
        if matches!(list, Err(EvalError::Cancelled)) {
            return list;
        }
        let element = self.argument(&grow.element)?;
        self.scope.meter.charge(LIST_COST)?;
        self.scope.meter.charge(1)?;
        match (list?, element?) {
            (Value::List(list), element) => list.push(element).map(Value::List),
            (list, _) => Err(EvalError::new(match list {
                Value::Bool(_) | Value::Null | Value::Map(_) => "no such overload: _+_",
                _ => "no such overload",
            })),
        }
    }

    /// Runs one iteration; returns whether there is another.
    fn round(&mut self, fold: &'a Fold) -> Result<bool, EvalError> {
        self.scope.meter.count_iteration()?;
        // An error is not false, and does not end the loop.
        if let Ok(Value::Bool(false)) = self.argument(&fold.condition)? {
            return Ok(false);
        }
        let value = self.argument(&fold.step)?;
        self.slots[fold.accumulator] = Slot::Ready(value);
        Ok(true)
    }
}

/// The name of the Go type, which is in the error message.
fn go_name(value: &Value<'_>) -> &'static str {
    match value {
        Value::Null => "types.Null",
        Value::Bool(_) => "types.Bool",
        Value::Int(_) => "types.Int",
        Value::Uint(_) => "types.Uint",
        Value::Double(_) => "types.Double",
        Value::String(_) => "types.String",
        Value::Bytes(_) => "types.Bytes",
        Value::Type(_) => "*types.Type",
        Value::Timestamp(_) => "types.Timestamp",
        Value::Duration(_) => "types.Duration",
        Value::Optional(_) => "*types.Optional",
        _ => "ref.Val",
    }
}

//! Order of values.

use std::cmp::Ordering;

use super::Value;
use super::number::{compare_double_int, compare_double_uint, compare_doubles, compare_int_uint};
use crate::error::EvalError;

impl Value<'_> {
    /// Returns whether values of this type can be compared.
    pub(crate) fn is_ordered(&self) -> bool {
        matches!(
            self,
            Self::Bool(_)
                | Self::Int(_)
                | Self::Uint(_)
                | Self::Double(_)
                | Self::String(_)
                | Self::Bytes(_)
                | Self::Timestamp(_)
                | Self::Duration(_)
        )
    }

    /// Compares two values. Numbers of all types are compared by value.
    pub fn order(&self, other: &Value<'_>) -> Result<Ordering, EvalError> {
        let unordered = |value: &Value<'_>| matches!(value, Value::Double(d) if d.is_nan());
        let number =
            |value: &Value<'_>| matches!(value, Value::Int(_) | Value::Uint(_) | Value::Double(_));
        if unordered(self) || number(self) && unordered(other) {
            return Err(EvalError::new("NaN values cannot be ordered"));
        }
        Ok(match (self, other) {
            (Self::Bool(one), Value::Bool(two)) => one.cmp(two),
            (Self::Int(one), Value::Int(two)) => one.cmp(two),
            (Self::Int(one), Value::Uint(two)) => compare_int_uint(*one, *two),
            (Self::Int(one), Value::Double(two)) => compare_double_int(*two, *one).reverse(),
            (Self::Uint(one), Value::Uint(two)) => one.cmp(two),
            (Self::Uint(one), Value::Int(two)) => compare_int_uint(*two, *one).reverse(),
            (Self::Uint(one), Value::Double(two)) => compare_double_uint(*two, *one).reverse(),
            (Self::Double(one), Value::Double(two)) => compare_doubles(*one, *two),
            (Self::Double(one), Value::Int(two)) => compare_double_int(*one, *two),
            (Self::Double(one), Value::Uint(two)) => compare_double_uint(*one, *two),
            (Self::String(one), Value::String(two)) => (**one).cmp(&**two),
            (Self::Bytes(one), Value::Bytes(two)) => one.cmp(two),
            (Self::Timestamp(one), Value::Timestamp(two)) => one.order(*two),
            (Self::Duration(one), Value::Duration(two)) => one.nanos.cmp(&two.nanos),
            _ => return Err(EvalError::no_such_overload()),
        })
    }
}

//! The functions of quantities.

use std::cmp::Ordering;
use std::sync::Arc;

use insula_kinds::quantity::Quantity;

use super::{Body, Scope, no_overload};
use crate::error::EvalError;
use crate::value::{Opaque, Outcome, QuantityValue, Value};

pub(super) fn body(function: &str, arguments: usize) -> Option<Body> {
    Some(match (function, arguments) {
        ("quantity", 1) => Body::One(quantity),
        ("isQuantity", 1) => Body::One(is_quantity),
        ("sign", 1) => Body::One(|_, value| read("sign", &value, sign)),
        ("isInteger", 1) => Body::One(|_, value| {
            read("isInteger", &value, |amount| {
                Ok(amount.integer().is_some().into())
            })
        }),
        ("asInteger", 1) => Body::One(|_, value| read("asInteger", &value, as_integer)),
        ("asApproximateFloat", 1) => Body::One(|_, value| {
            read("asApproximateFloat", &value, |amount| {
                Ok(Value::Double(amount.double()))
            })
        }),
        ("add", 2) => Body::Two(|_, one, two| change("add", &one, &two, Quantity::plus)),
        ("sub", 2) => Body::Two(|_, one, two| change("sub", &one, &two, Quantity::minus)),
        ("isGreaterThan", 2) => Body::Two(|_, one, two| {
            let order = compare("isGreaterThan", &one, &two)?;
            Ok(Value::Bool(order.is_gt()))
        }),
        ("isLessThan", 2) => Body::Two(|_, one, two| {
            let order = compare("isLessThan", &one, &two)?;
            Ok(Value::Bool(order.is_lt()))
        }),
        ("compareTo", 2) => Body::Two(|_, one, two| {
            let order = compare("compareTo", &one, &two)?;
            Ok(Value::Int(order as i64))
        }),
        _ => return None,
    })
}

fn amount<'v>(value: &'v Value<'_>) -> Option<&'v QuantityValue> {
    match value {
        Value::Opaque(Opaque::Quantity(amount)) => Some(amount),
        _ => None,
    }
}

fn of<'a>(amount: QuantityValue) -> Value<'a> {
    Value::Opaque(Opaque::Quantity(Arc::new(amount)))
}

fn read<'a>(
    function: &str,
    value: &Value<'_>,
    answer: fn(&QuantityValue) -> Outcome<'static>,
) -> Outcome<'a> {
    match amount(value) {
        Some(amount) => answer(amount),
        None => Err(no_overload(function, &[value])),
    }
}

fn quantity<'a>(_: &mut Scope, value: Value<'a>) -> Outcome<'a> {
    match &value {
        Value::String(text) => QuantityValue::parse(text).map(of),
        _ => Err(no_overload("quantity", &[&value])),
    }
}

fn is_quantity<'a>(_: &mut Scope, value: Value<'a>) -> Outcome<'a> {
    match &value {
        Value::String(text) => Ok(Value::Bool(QuantityValue::parse(text).is_ok())),
        _ => Err(no_overload("isQuantity", &[&value])),
    }
}

fn sign(amount: &QuantityValue) -> Outcome<'static> {
    Ok(Value::Int(amount.quantity.nanos().signum() as i64))
}

fn as_integer(amount: &QuantityValue) -> Outcome<'static> {
    let integer = amount.integer().map(Value::Int);
    integer.ok_or_else(|| EvalError::new("cannot convert value to integer"))
}

fn change<'a>(
    function: &str,
    one: &Value<'_>,
    two: &Value<'_>,
    change: fn(Quantity, Quantity) -> Quantity,
) -> Outcome<'a> {
    let other = match two {
        Value::Int(number) => Some(QuantityValue::from_int(*number)),
        other => amount(other).copied(),
    };
    match (amount(one), other) {
        (Some(one), Some(two)) => {
            let sum = change(one.quantity, two.quantity);
            Ok(of(one.combined(two, sum)))
        }
        _ => Err(no_overload(function, &[one, two])),
    }
}

/// Compares quantities and versions, which have functions of the same names.
fn compare(function: &str, one: &Value<'_>, two: &Value<'_>) -> Result<Ordering, EvalError> {
    match (one, two) {
        (Value::Opaque(Opaque::Quantity(one)), Value::Opaque(Opaque::Quantity(two))) => {
            Ok(one.quantity.cmp(&two.quantity))
        }
        (Value::Opaque(Opaque::Semver(one)), Value::Opaque(Opaque::Semver(two))) => {
            Ok(one.order(two))
        }
        _ => Err(no_overload(function, &[one, two])),
    }
}

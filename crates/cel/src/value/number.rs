//! Exact comparison and conversion of numbers of different types.

use std::cmp::Ordering;

/// Compares a double with an `int`.
pub(super) fn compare_double_int(one: f64, two: i64) -> Ordering {
    // The limits are rounded to the nearest double.
    if one < i64::MIN as f64 {
        Ordering::Less
    } else if one > i64::MAX as f64 {
        Ordering::Greater
    } else {
        compare_doubles(one, two as f64)
    }
}

pub(super) fn compare_double_uint(one: f64, two: u64) -> Ordering {
    if one < 0.0 {
        Ordering::Less
    } else if one > u64::MAX as f64 {
        Ordering::Greater
    } else {
        compare_doubles(one, two as f64)
    }
}

pub(super) fn compare_int_uint(one: i64, two: u64) -> Ordering {
    match u64::try_from(one) {
        Ok(one) => one.cmp(&two),
        Err(_) => Ordering::Less,
    }
}

/// Compares doubles. NaN counts as equal: callers check for it first.
pub(super) fn compare_doubles(one: f64, two: f64) -> Ordering {
    one.partial_cmp(&two).unwrap_or(Ordering::Equal)
}

/// Truncates to an `int`; none if it is out of range.
pub(crate) fn double_to_int(value: f64) -> Option<i64> {
    (value > i64::MIN as f64 && value < i64::MAX as f64).then_some(value as i64)
}

/// Truncates to a `uint`; none if it is out of range.
pub(crate) fn double_to_uint(value: f64) -> Option<u64> {
    (value >= 0.0 && value < u64::MAX as f64).then_some(value as u64)
}

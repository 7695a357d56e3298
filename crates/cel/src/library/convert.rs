//! Conversions between types.

use super::{Body, Scope, no_overload};
use crate::error::EvalError;
use crate::value::{
    Opaque, Outcome, Text, Timestamp, Value, double_to_int, double_to_uint, parse_duration,
    parse_timestamp,
};

pub(super) fn body(function: &str, arguments: usize) -> Option<Body> {
    if arguments != 1 {
        return None;
    }
    Some(Body::One(match function {
        "bool" => to_bool,
        "bytes" => to_bytes,
        "double" => to_double,
        "duration" => to_duration,
        "dyn" => |_, value| Ok(value),
        "int" => to_int,
        "string" => to_string,
        "timestamp" => to_timestamp,
        "type" => to_type,
        "uint" => to_uint,
        _ => return None,
    }))
}

/// The error for a string that cannot be converted.
fn unreadable(wanted: &str) -> EvalError {
    EvalError::new(format!("type conversion error from 'string' to '{wanted}'"))
}

fn to_bool<'a>(_: &mut Scope, value: Value<'a>) -> Outcome<'a> {
    match &value {
        Value::Bool(_) => Ok(value),
        Value::String(text) => match &**text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
            _ => Err(unreadable("bool")),
        },
        _ => Err(no_overload("bool", &[&value])),
    }
}

fn to_bytes<'a>(_: &mut Scope, value: Value<'a>) -> Outcome<'a> {
    match &value {
        Value::Bytes(_) => Ok(value),
        Value::String(text) => Ok(Value::Bytes(text.as_bytes().into())),
        _ => Err(no_overload("bytes", &[&value])),
    }
}

fn to_double<'a>(_: &mut Scope, value: Value<'a>) -> Outcome<'a> {
    match &value {
        Value::Double(_) => Ok(value),
        Value::Int(value) => Ok(Value::Double(*value as f64)),
        Value::Uint(value) => Ok(Value::Double(*value as f64)),
        Value::String(text) => match parse_double(text) {
            Some(value) => Ok(Value::Double(value)),
            None => Err(unreadable("double")),
        },
        _ => Err(no_overload("double", &[&value])),
    }
}

/// Parses a number as Go does. A number that is too large is an error, where Rust returns infinity.
pub(super) fn parse_double(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if !unsigned.starts_with(|first: char| first.is_ascii_digit() || first == '.') {
        let named = ["inf", "infinity", "nan"];
        let known = named.iter().any(|name| unsigned.eq_ignore_ascii_case(name));
        let signed = unsigned.len() < text.len() && unsigned.eq_ignore_ascii_case("nan");
        return (known && !signed).then(|| text.parse().ok())?;
    }
    if unsigned.len() > 1 && unsigned[..2].eq_ignore_ascii_case("0x") {
        return parse_hex_double(text);
    }
    // Underscores may group digits; each must be between two of them.
    let bytes = text.as_bytes();
    let digit = |at: Option<usize>| {
        at.and_then(|at| bytes.get(at))
            .is_some_and(u8::is_ascii_digit)
    };
    let grouped = |(at, _)| digit(usize::checked_sub(at, 1)) && digit(Some(at + 1));
    if !text.match_indices('_').all(grouped) {
        return None;
    }
    let value = text.replace('_', "").parse::<f64>();
    value.ok().filter(|value| value.is_finite())
}

/// Parses `0x1.8p3`; the binary exponent is required.
fn parse_hex_double(text: &str) -> Option<f64> {
    let negative = text.starts_with('-');
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let lower = unsigned.to_ascii_lowercase();
    let (digits, exponent) = lower.strip_prefix("0x")?.split_once('p')?;
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let mantissa = u64::from_str_radix(&format!("{whole}{fraction}"), 16).ok()?;
    let exponent = exponent.parse::<i32>().ok()?;
    let exponent = exponent.checked_sub(4 * i32::try_from(fraction.len()).ok()?)?;
    let value = mantissa as f64 * 2f64.powi(exponent);
    value
        .is_finite()
        .then_some(if negative { -value } else { value })
}

fn to_int<'a>(_: &mut Scope, value: Value<'a>) -> Outcome<'a> {
    let overflow = || EvalError::new("integer overflow");
    match &value {
        Value::Int(_) => Ok(value),
        Value::Uint(value) => i64::try_from(*value)
            .map(Value::Int)
            .map_err(|_| overflow()),
        Value::Double(value) => double_to_int(*value).map(Value::Int).ok_or_else(overflow),
        Value::String(text) => match text.parse() {
            Ok(value) => Ok(Value::Int(value)),
            Err(_) => Err(unreadable("int")),
        },
        Value::Timestamp(time) => Ok(Value::Int(time.seconds)),
        Value::Duration(duration) => Ok(Value::Int(duration.nanos)),
        _ => Err(no_overload("int", &[&value])),
    }
}

fn to_uint<'a>(_: &mut Scope, value: Value<'a>) -> Outcome<'a> {
    let overflow = || EvalError::new("unsigned integer overflow");
    match &value {
        Value::Uint(_) => Ok(value),
        Value::Int(value) => u64::try_from(*value)
            .map(Value::Uint)
            .map_err(|_| overflow()),
        Value::Double(value) => double_to_uint(*value).map(Value::Uint).ok_or_else(overflow),
        // Unlike Rust, Go refuses a sign before an unsigned number.
        Value::String(text) => match text.parse() {
            Ok(value) if !text.starts_with('+') => Ok(Value::Uint(value)),
            _ => Err(unreadable("uint")),
        },
        _ => Err(no_overload("uint", &[&value])),
    }
}

fn to_string<'a>(_: &mut Scope, value: Value<'a>) -> Outcome<'a> {
    match &value {
        Value::String(_) => Ok(value),
        Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_owned().into()),
            Err(_) => Err(EvalError::new(
                "invalid UTF-8 in bytes, cannot convert to string",
            )),
        },
        Value::Bool(_)
        | Value::Int(_)
        | Value::Uint(_)
        | Value::Double(_)
        | Value::Timestamp(_)
        | Value::Duration(_)
        | Value::Opaque(Opaque::Ip(_) | Opaque::Cidr(_)) => Ok(value.to_string().into()),
        _ => Err(no_overload("string", &[&value])),
    }
}

fn to_timestamp<'a>(_: &mut Scope, value: Value<'a>) -> Outcome<'a> {
    match &value {
        Value::Timestamp(_) => Ok(value),
        Value::Int(seconds) => Timestamp::of_seconds(*seconds).map(Value::Timestamp),
        Value::String(text) => match parse_timestamp(text) {
            Some(time) => time.map(Value::Timestamp),
            None => Err(unreadable("google.protobuf.Timestamp")),
        },
        _ => Err(no_overload("timestamp", &[&value])),
    }
}

fn to_duration<'a>(_: &mut Scope, value: Value<'a>) -> Outcome<'a> {
    match &value {
        Value::Duration(_) => Ok(value),
        // Kubernetes declares this conversion, but does not implement it.
        Value::Int(_) => Err(EvalError::new(
            "type conversion error from 'int' to 'google.protobuf.Duration'",
        )),
        Value::String(text) => match parse_duration(text) {
            Some(duration) => Ok(Value::Duration(duration)),
            None => Err(unreadable("google.protobuf.Duration")),
        },
        _ => Err(no_overload("duration", &[&value])),
    }
}

fn to_type<'a>(_: &mut Scope, value: Value<'a>) -> Outcome<'a> {
    Ok(Value::Type(Text::Shared(value.type_name().into())))
}

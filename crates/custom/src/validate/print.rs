//! Values as Go prints them in errors.

use std::fmt::Write;

use insula_kinds::field::quote;
use serde_json::{Number, Value};

/// A value: texts in quotes, numbers plainly, the rest as JSON.
pub(crate) fn value(value: &Value) -> String {
    match value {
        Value::String(text) => quote(text),
        Value::Number(number) => plain(number),
        other => json(other),
    }
}

/// A value as JSON.
pub(crate) fn json(value: &Value) -> String {
    let mut out = String::new();
    write(value, &mut out);
    out
}

/// A number as `%v` prints it.
pub(crate) fn plain(number: &Number) -> String {
    match number.as_i64() {
        Some(int) => int.to_string(),
        None => float(number.as_f64().unwrap_or_default()),
    }
}

/// A float as `%v` prints it: with an exponent if it is small or reaches a million.
pub(crate) fn float(value: f64) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let size = value.abs();
    if size != 0.0 && !(1e-4..1e6).contains(&size) {
        return with_exponent(value, 2);
    }
    format!("{value}")
}

/// The shortest digits and an exponent that has its sign and at least so many digits.
fn with_exponent(value: f64, least: usize) -> String {
    let text = format!("{value:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ('-', exponent),
        None => ('+', exponent),
    };
    format!("{digits}e{sign}{exponent:0>least$}")
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => out.push_str(&json_number(number)),
        Value::String(text) => string(text, out),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write(item, out);
            }
            out.push(']');
        }
        Value::Object(members) => {
            out.push('{');
            for (index, (name, member)) in members.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                string(name, out);
                out.push(':');
                write(member, out);
            }
            out.push('}');
        }
    }
}

fn json_number(number: &Number) -> String {
    let (Some(value), None) = (number.as_f64(), number.as_i64()) else {
        return number.to_string();
    };
    let size = value.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        return with_exponent(value, 1);
    }
    format!("{value}")
}

/// A text with the escapes of Go, which keep it harmless in HTML.
fn string(text: &str, out: &mut String) {
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\x1f' => {
                // Writing to a string does not fail.
                let _ = write!(out, "\\u{:04x}", u32::from(letter));
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

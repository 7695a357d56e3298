//! Values as Go formats them in errors.

use std::fmt::Write;

use insula_gotext::quote;
use serde_json::{Number, Value};

/// A value: strings quoted, numbers plain, everything else as JSON.
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

/// A value as `%v` formats it, without quotes.
pub(crate) fn loosely(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => plain(number),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(loosely).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(members) => {
            let members = members.iter();
            let members: Vec<_> = members
                .map(|(name, member)| format!("{name}:{}", loosely(member)))
                .collect();
            format!("map[{}]", members.join(" "))
        }
    }
}

/// A number as `%v` formats it.
pub(crate) fn plain(number: &Number) -> String {
    match number.as_i64() {
        Some(int) => int.to_string(),
        None => float(number.as_f64().unwrap_or_default()),
    }
}

/// A float as `%v` formats it: with an exponent if it is small or reaches a million.
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

/// The shortest digits, and an exponent with a sign and at least `least` digits.
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

/// A JSON string with Go's escapes, which make it safe in HTML.
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
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{:04x}", u32::from(letter));
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_formatted_as_in_go() {
        for (given, printed, as_json) in [
            (json!(5), "5", "5"),
            (json!(2.0), "2", "2"),
            (json!(0.3), "0.3", "0.3"),
            (json!(999_999.5), "999999.5", "999999.5"),
            (json!(1e6), "1e+06", "1000000"),
            (json!(1_234_567.5), "1.2345675e+06", "1234567.5"),
            (json!(1e20), "1e+20", "100000000000000000000"),
            (json!(1e21), "1e+21", "1e+21"),
            (json!(-1e-7), "-1e-07", "-1e-7"),
            (json!(0.00005), "5e-05", "0.00005"),
            (
                json!(18_446_744_073_709_551_615_u64),
                "1.8446744073709552e+19",
                "18446744073709552000",
            ),
            (
                json!("a\"<\u{1}"),
                "\"a\\\"<\\x01\"",
                "\"a\\\"\\u003c\\u0001\"",
            ),
            (
                json!({"b": [1, null], "a": {}}),
                "{\"a\":{},\"b\":[1,null]}",
                "{\"a\":{},\"b\":[1,null]}",
            ),
            (json!(null), "null", "null"),
        ] {
            assert_eq!(value(&given), printed);
            assert_eq!(json(&given), as_json);
        }
    }
}

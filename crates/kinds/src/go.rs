//! Values and types as Go prints them, in errors and in table cells.

use std::fmt;

use serde_json::{Number, Value};

use crate::Object;
use crate::encode::text;

/// A value as Go's `%v` prints it.
#[derive(Debug)]
pub struct Printed<'a>(pub &'a Value);

/// A map as Go's `%v` prints it.
#[derive(Debug)]
pub(crate) struct PrintedMap<'a>(pub &'a Object);

/// A list as Go's `%v` prints it.
#[derive(Debug)]
pub(crate) struct PrintedList<'a>(pub &'a [Value]);

/// Returns the name of the Go type that holds a value.
pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "%!s(<nil>)",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// Formats a value as Go's `%s` does, which is meant for strings only.
pub(crate) fn as_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "%!s(<nil>)".to_owned(),
        other => format!("%!s({}={})", type_name(other), Printed(other)),
    }
}

/// Formats a value as Go's JSON encoder does: HTML-safe, and without a fraction for whole
/// numbers.
pub fn json(value: &Value) -> String {
    let mut out = Vec::new();
    write_json(value, &mut out);
    // Only whole strings and ASCII were written.
    String::from_utf8(out).unwrap_or_default()
}

impl fmt::Display for Printed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Null => f.write_str("<nil>"),
            Value::Bool(value) => write!(f, "{value}"),
            Value::Number(number) => write_number(number, f),
            Value::String(text) => f.write_str(text),
            Value::Array(list) => PrintedList(list).fmt(f),
            Value::Object(map) => PrintedMap(map).fmt(f),
        }
    }
}

impl fmt::Display for PrintedMap<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("map[")?;
        for (at, (name, value)) in self.0.iter().enumerate() {
            let space = if at == 0 { "" } else { " " };
            write!(f, "{space}{name}:{}", Printed(value))?;
        }
        f.write_str("]")
    }
}

impl fmt::Display for PrintedList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (at, value) in self.0.iter().enumerate() {
            let space = if at == 0 { "" } else { " " };
            write!(f, "{space}{}", Printed(value))?;
        }
        f.write_str("]")
    }
}

fn write_json(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
            Some(double) => text::float(double, out),
            None => out.extend_from_slice(number.to_string().as_bytes()),
        },
        Value::Array(list) => {
            out.push(b'[');
            for (at, element) in list.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                write_json(element, out);
            }
            out.push(b']');
        }
        Value::Object(map) => {
            out.push(b'{');
            for (at, (name, value)) in map.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                text::string(name, out);
                out.push(b':');
                write_json(value, out);
            }
            out.push(b'}');
        }
        plain => text::raw(plain, out),
    }
}

fn write_number(number: &Number, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Some(value) = number.as_f64().filter(|_| number.is_f64()) else {
        return write!(f, "{number}");
    };
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    // Go switches to exponents at these sizes, with at least two digits.
    if (-4..6).contains(&exponent) {
        return write!(f, "{value}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    write!(f, "{digits}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_printed_as_go_prints_them() {
        let value = json!({"b": [1, "x y", null, true], "a": {"c": 1.5, "d": {}}});
        let printed = Printed(&value).to_string();
        assert_eq!(printed, "map[a:map[c:1.5 d:map[]] b:[1 x y <nil> true]]");
        let numbers = json!([
            1e21, 1e6, 1234567.5, 1e-5, 0.0001, 100000.0, 123456.5, -2.5e-7
        ]);
        let printed = Printed(&numbers).to_string();
        assert_eq!(
            printed,
            "[1e+21 1e+06 1.2345675e+06 1e-05 0.0001 100000 123456.5 -2.5e-07]"
        );
        assert_eq!(as_text(&json!(5)), "%!s(int64=5)");
    }
}

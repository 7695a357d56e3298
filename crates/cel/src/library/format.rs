//! The function `format`: `'%s'.format([...])`.

use insula_gotext::quote;

use super::convert::parse_double;
use crate::error::EvalError;
use crate::value::{List, Map, Value};

/// The default precision.
const DEFAULT_PRECISION: usize = 6;

/// The maximum precision: all further digits are zero.
const MAX_PRECISION: usize = 1100;

type Formatted = Result<String, EvalError>;

/// Returns the text with its clauses replaced.
pub(super) fn format(text: &str, values: &List<'_>) -> Formatted {
    let mut formatted = String::new();
    let mut rest = text;
    let mut next = 0;
    while let Some(at) = rest.find('%') {
        formatted.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            formatted.push('%');
            rest = after;
            continue;
        }
        let value = values.get(next);
        let value = value.ok_or_else(|| EvalError::new(format!("index {next} out of range")))??;
        let clause;
        (clause, rest) = parse(rest)?;
        let part = clause.apply(&value);
        let part = part.map_err(|error| wrap("error during formatting", &error))?;
        formatted.push_str(&part);
        next += 1;
        if formatted.len() > super::MAX_STRING_LENGTH {
            return Err(EvalError::Cancelled);
        }
    }
    formatted.push_str(rest);
    Ok(formatted)
}

struct Clause {
    letter: char,
    precision: usize,
}

fn parse(text: &str) -> Result<(Clause, &str), EvalError> {
    const WRONG: &str = "could not parse formatting clause";
    if text.is_empty() {
        return Err(EvalError::new("unexpected end of string"));
    }
    let mut rest = text;
    let mut precision = DEFAULT_PRECISION;
    if let Some(after) = text.strip_prefix('.') {
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        if digits == after.len() {
            let reason = "error while parsing precision: could not find end of precision specifier";
            return Err(EvalError::new(format!("{WRONG}: {reason}")));
        }
        let (number, after) = after.split_at(digits);
        precision = number.parse().map_err(|_| {
            let reason =
                "error while parsing precision: error while converting precision to integer";
            let cause = if number.is_empty() {
                "invalid syntax"
            } else {
                "value out of range"
            };
            EvalError::new(format!(
                "{WRONG}: {reason}: strconv.Atoi: parsing {number:?}: {cause}"
            ))
        })?;
        rest = after;
    }
    let Some(letter) = rest.chars().next() else {
        return Err(EvalError::new("unexpected end of string"));
    };
    if !"sdfebxXo".contains(letter) {
        // Go reads a byte, even of a multi-byte character.
        let letter = char::from(rest.as_bytes()[0]);
        return Err(EvalError::new(format!(
            "{WRONG}: unrecognized formatting clause \"{letter}\""
        )));
    }
    Ok((Clause { letter, precision }, &rest[1..]))
}

fn wrap(what: &str, error: &EvalError) -> EvalError {
    match error {
        EvalError::Cancelled => EvalError::Cancelled,
        error => EvalError::new(format!("{what}: {error}")),
    }
}

impl Clause {
    fn apply(&self, value: &Value<'_>) -> Formatted {
        match self.letter {
            's' => plain(value),
            'd' => decimal(value),
            'f' => fixed(value, self.precision.min(MAX_PRECISION)),
            'e' => scientific(value, self.precision),
            'b' => binary(value),
            'o' => octal(value),
            'x' => hex(value),
            _ => hex(value).map(|text| text.to_uppercase()),
        }
    }
}

fn refuse(what: &str, value: &Value<'_>) -> EvalError {
    EvalError::new(format!("{what}, was given {}", value.type_name()))
}

fn plain(value: &Value<'_>) -> Formatted {
    match value {
        Value::List(list) => list_text(list),
        Value::Map(map) => map_text(map),
        Value::Bytes(bytes) if std::str::from_utf8(bytes).is_err() => Err(EvalError::new(
            "could not convert argument \"invalid UTF-8 in bytes, cannot convert to string\" to string",
        )),
        Value::Null
        | Value::Bool(_)
        | Value::Int(_)
        | Value::Uint(_)
        | Value::Double(_)
        | Value::String(_)
        | Value::Bytes(_)
        | Value::Type(_)
        | Value::Timestamp(_)
        | Value::Duration(_) => Ok(value.to_string()),
        _ => Err(refuse(
            "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps",
            value,
        )),
    }
}

/// Formats a value inside a list or a map.
fn member(value: &Value<'_>) -> Formatted {
    match value {
        Value::String(text) => Ok(quote(text)),
        Value::Bytes(_) => Ok(format!("b{}", quote(&plain(value)?))),
        Value::Timestamp(_) => Ok(format!("timestamp(\"{value}\")")),
        Value::Duration(_) => Ok(format!("duration(\"{value}\")")),
        Value::Double(number) if number.is_nan() => Ok("\"NaN\"".to_owned()),
        Value::Double(number) if number.is_infinite() => Ok(if *number > 0.0 {
            "\"+Inf\""
        } else {
            "\"-Inf\""
        }
        .to_owned()),
        Value::Double(number) => Ok(format!("{number:.6}")),
        Value::Optional(_) | Value::Opaque(_) | Value::Struct(_) => Err(EvalError::new(format!(
            "no formatting function for {}",
            value.type_name()
        ))),
        other => plain(other),
    }
}

fn list_text(list: &List<'_>) -> Formatted {
    let mut text = "[".to_owned();
    for (at, value) in list.iter().enumerate() {
        if at > 0 {
            text.push_str(", ");
        }
        text.push_str(&member(&value?)?);
    }
    text.push(']');
    Ok(text)
}

fn map_text(map: &Map<'_>) -> Formatted {
    let mut members = Vec::with_capacity(map.len());
    for key in map.keys() {
        if matches!(key, Value::Double(_)) {
            return Err(EvalError::new(
                "no formatting function for map key of type double",
            ));
        }
        if let Some(value) = map.find(&key) {
            members.push((member(&key)?, member(&value?)?));
        }
    }
    members.sort();
    let members: Vec<_> = members
        .iter()
        .map(|(key, value)| format!("{key}:{value}"))
        .collect();
    Ok(format!("{{{}}}", members.join(", ")))
}

fn decimal(value: &Value<'_>) -> Formatted {
    match value {
        Value::Int(number) => Ok(number.to_string()),
        Value::Uint(number) => Ok(number.to_string()),
        _ => Err(refuse("decimal clause can only be used on integers", value)),
    }
}

/// Returns a double, or the special value that a string names.
fn double(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Double(number) => Some(*number),
        Value::String(text) if matches!(&**text, "NaN" | "Infinity" | "-Infinity") => {
            parse_double(text)
        }
        _ => None,
    }
}

fn unusual(number: f64) -> Option<&'static str> {
    if number.is_nan() {
        Some("NaN")
    } else if number.is_infinite() {
        Some(if number > 0.0 { "∞" } else { "-∞" })
    } else {
        None
    }
}

/// Formats a number in the English locale: `1,234,567.89`.
fn fixed(value: &Value<'_>, precision: usize) -> Formatted {
    let number = double(value)
        .ok_or_else(|| refuse("fixed-point clause can only be used on doubles", value))?;
    if let Some(name) = unusual(number) {
        return Ok(name.to_owned());
    }
    let printed = format!("{number:.precision$}");
    let (sign, printed) = match printed.strip_prefix('-') {
        Some(printed) => ("-", printed),
        None => ("", &*printed),
    };
    let (whole, fraction) = printed.split_once('.').unwrap_or((printed, ""));
    let mut text = sign.to_owned();
    for (at, digit) in whole.char_indices() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if !fraction.is_empty() {
        text.push('.');
        text.push_str(fraction);
    }
    Ok(text)
}

/// Formats a number in the English locale: `1.052033×10⁰³`. As in the reference implementation, the
/// precision is taken for the minimum width, and there are always six digits.
fn scientific(value: &Value<'_>, width: usize) -> Formatted {
    let number = double(value)
        .ok_or_else(|| refuse("scientific clause can only be used on doubles", value))?;
    if width > MAX_PRECISION {
        return Err(EvalError::Cancelled);
    }
    let text = match unusual(number) {
        Some(name) => name.to_owned(),
        None => {
            let printed = format!("{number:.6e}");
            let (digits, exponent) = printed.split_once('e').unwrap_or((&printed, "0"));
            let exponent: i32 = exponent.parse().unwrap_or_default();
            let power = format!("{:02}", exponent.abs());
            let power: String = power.chars().map(superscript).collect();
            let sign = if exponent < 0 { "⁻" } else { "" };
            format!("{digits}×10{sign}{power}")
        }
    };
    let missing = width.saturating_sub(text.chars().count());
    Ok(format!("{}{text}", " ".repeat(missing)))
}

fn superscript(digit: char) -> char {
    match digit {
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        '4' => '⁴',
        '5' => '⁵',
        '6' => '⁶',
        '7' => '⁷',
        '8' => '⁸',
        '9' => '⁹',
        _ => '⁰',
    }
}

fn signed(number: i64, digits: impl Fn(u64) -> String) -> String {
    let sign = if number < 0 { "-" } else { "" };
    format!("{sign}{}", digits(number.unsigned_abs()))
}

fn binary(value: &Value<'_>) -> Formatted {
    match value {
        Value::Int(number) => Ok(signed(*number, |number| format!("{number:b}"))),
        Value::Uint(number) => Ok(format!("{number:b}")),
        Value::Bool(value) => Ok(if *value { "1" } else { "0" }.to_owned()),
        _ => Err(refuse(
            "only integers and bools can be formatted as binary",
            value,
        )),
    }
}

fn octal(value: &Value<'_>) -> Formatted {
    match value {
        Value::Int(number) => Ok(signed(*number, |number| format!("{number:o}"))),
        Value::Uint(number) => Ok(format!("{number:o}")),
        _ => Err(refuse("octal clause can only be used on integers", value)),
    }
}

fn hex(value: &Value<'_>) -> Formatted {
    let digits = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    match value {
        Value::Int(number) => Ok(signed(*number, |number| format!("{number:x}"))),
        Value::Uint(number) => Ok(format!("{number:x}")),
        Value::String(text) => Ok(digits(text.as_bytes())),
        Value::Bytes(bytes) => Ok(digits(bytes)),
        _ => Err(refuse(
            "only integers, byte buffers, and strings can be formatted as hex",
            value,
        )),
    }
}

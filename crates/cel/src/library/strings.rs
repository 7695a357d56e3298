//! The functions of strings. Positions are in characters.

use super::{Body, MAX_STRING_LENGTH, Scope, format, new_string, no_overload};
use crate::error::EvalError;
use crate::value::{List, Outcome, Text, Value};

pub(super) fn body(function: &str, arguments: usize) -> Option<Body> {
    Some(match (function, arguments) {
        ("contains", 2) => Body::Two(|_, one, two| test(&one, &two, |one, two| one.contains(two))),
        ("startsWith", 2) => {
            Body::Two(|_, one, two| test(&one, &two, |one, two| one.starts_with(two)))
        }
        ("endsWith", 2) => Body::Two(|_, one, two| test(&one, &two, |one, two| one.ends_with(two))),
        ("charAt", 2) => Body::Two(char_at),
        ("format", 2) => Body::Two(format_text),
        ("join", 1) => Body::One(join_all),
        ("join", 2) => Body::Two(join),
        ("lowerAscii", 1) => {
            Body::One(|_, value| map_text("lowerAscii", value, str::to_ascii_lowercase))
        }
        ("upperAscii", 1) => {
            Body::One(|_, value| map_text("upperAscii", value, str::to_ascii_uppercase))
        }
        ("replace", 3 | 4) => Body::Many(replace),
        ("split", 2) => Body::Two(|_, one, two| split(vec![one, two])),
        ("split", 3) => Body::Many(|_, arguments| split(arguments)),
        ("strings.quote", 1) => Body::One(quote),
        ("substring", 2 | 3) => Body::Many(|_, arguments| substring(arguments)),
        ("trim", 1) => Body::One(trim),
        ("jsonpatch.escapeKey", 1) => Body::One(|_, value| {
            map_text("jsonpatch.escapeKey", value, |text| {
                text.replace('~', "~0").replace('/', "~1")
            })
        }),
        _ => return None,
    })
}

fn test<'a>(one: &Value<'_>, two: &Value<'_>, test: fn(&str, &str) -> bool) -> Outcome<'a> {
    match (one, two) {
        (Value::String(one), Value::String(two)) => Ok(Value::Bool(test(one, two))),
        _ => Err(EvalError::no_such_overload()),
    }
}

fn map_text<'a>(function: &str, value: Value<'a>, change: fn(&str) -> String) -> Outcome<'a> {
    match &value {
        Value::String(text) => new_string(change(text)),
        _ => Err(no_overload(function, &[&value])),
    }
}

fn out_of_range(index: i64) -> EvalError {
    EvalError::new(format!("index out of range: {index}"))
}

/// Returns the byte offset of a character; the index after the last is the end of the string.
fn place(text: &str, index: i64) -> Result<usize, EvalError> {
    let wanted = usize::try_from(index).map_err(|_| out_of_range(index))?;
    let mut places = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    places.nth(wanted).ok_or_else(|| out_of_range(index))
}

fn char_at<'a>(_: &mut Scope, text: Value<'a>, index: Value<'a>) -> Outcome<'a> {
    match (&text, &index) {
        (Value::String(text), Value::Int(index)) => {
            let start = place(text, *index)?;
            let length = text[start..].chars().next().map_or(0, char::len_utf8);
            Ok(Value::String(text.part(|_| start..start + length)))
        }
        _ => Err(no_overload("charAt", &[&text, &index])),
    }
}

fn substring<'a>(arguments: Vec<Value<'a>>) -> Outcome<'a> {
    match &arguments[..] {
        [Value::String(text), Value::Int(start)] => {
            let start = place(text, *start)?;
            Ok(Value::String(text.part(|text| start..text.len())))
        }
        [Value::String(text), Value::Int(start), Value::Int(end)] => {
            if start > end {
                return Err(EvalError::new(format!(
                    "invalid substring range. start: {start}, end: {end}"
                )));
            }
            let (start, end) = (place(text, *start)?, place(text, *end)?);
            Ok(Value::String(text.part(|_| start..end)))
        }
        _ => Err(no_overload(
            "substring",
            &arguments.iter().collect::<Vec<_>>(),
        )),
    }
}

fn trim<'a>(_: &mut Scope, value: Value<'a>) -> Outcome<'a> {
    let Value::String(text) = &value else {
        return Err(no_overload("trim", &[&value]));
    };
    Ok(Value::String(text.part(|text| {
        let start = text.len() - text.trim_start().len();
        start..start + text.trim().len()
    })))
}

fn join<'a>(scope: &mut Scope, list: Value<'a>, separator: Value<'a>) -> Outcome<'a> {
    let (list, separator) = match (&list, &separator) {
        (Value::List(list), Value::String(separator)) if texts(list) => (list, separator),
        _ => return Err(no_overload("join", &[&list, &separator])),
    };
    let mut joined = String::new();
    for (at, value) in list.iter().enumerate() {
        if at > 0 {
            joined.push_str(separator);
        }
        match value? {
            Value::String(text) => joined.push_str(&text),
            other => return Err(EvalError::new(format!("join: invalid input: {other}"))),
        }
        // Repeating a string makes a long one without a charge, so that it is limited here.
        if joined.len() > MAX_STRING_LENGTH {
            scope.meter.charge(u64::MAX)?;
        }
    }
    new_string(joined)
}

fn join_all<'a>(scope: &mut Scope, list: Value<'a>) -> Outcome<'a> {
    let is_list = matches!(&list, Value::List(list) if texts(list));
    if is_list {
        join(scope, list, Value::from(""))
    } else {
        Err(no_overload("join", &[&list]))
    }
}

/// Returns whether the list is one of strings, by its first element only.
fn texts(list: &List<'_>) -> bool {
    matches!(list.get(0), None | Some(Ok(Value::String(_))))
}

fn replace<'a>(_: &mut Scope, arguments: Vec<Value<'a>>) -> Outcome<'a> {
    let (text, old, new, limit) = match &arguments[..] {
        [Value::String(text), Value::String(old), Value::String(new)] => (text, old, new, -1),
        [
            Value::String(text),
            Value::String(old),
            Value::String(new),
            Value::Int(limit),
        ] => (text, old, new, *limit),
        _ => {
            return Err(no_overload(
                "replace",
                &arguments.iter().collect::<Vec<_>>(),
            ));
        }
    };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let times = text.matches(&**old).take(limit).count();
    let grown = new.len().saturating_sub(old.len()).saturating_mul(times);
    if text.len().saturating_add(grown) > MAX_STRING_LENGTH {
        return Err(EvalError::Cancelled);
    }
    new_string(text.replacen(&**old, new, limit))
}

fn split<'a>(arguments: Vec<Value<'a>>) -> Outcome<'a> {
    let (text, separator, limit) = match &arguments[..] {
        [Value::String(text), Value::String(separator)] => (text, separator, -1),
        [
            Value::String(text),
            Value::String(separator),
            Value::Int(limit),
        ] => (text, separator, *limit),
        _ => return Err(no_overload("split", &arguments.iter().collect::<Vec<_>>())),
    };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let parts = cuts(text, separator, limit);
    let parts = parts
        .into_iter()
        .map(|range| Value::String(text.part(|_| range)));
    Ok(Value::List(List::from(parts.collect::<Vec<_>>())))
}

/// Splits at a separator into at most `limit` parts; an empty separator splits characters.
fn cuts(text: &str, separator: &str, limit: usize) -> Vec<std::ops::Range<usize>> {
    let mut parts = Vec::new();
    if limit == 0 || (separator.is_empty() && text.is_empty()) {
        return parts;
    }
    let mut start = 0;
    while parts.len() + 1 < limit {
        let next = if separator.is_empty() {
            let length = text[start..].chars().next().map_or(0, char::len_utf8);
            (start + length < text.len()).then_some(length)
        } else {
            text[start..].find(separator)
        };
        let Some(next) = next else { break };
        parts.push(start..start + next);
        start += next + separator.len();
    }
    parts.push(start..text.len());
    parts
}

fn quote<'a>(_: &mut Scope, value: Value<'a>) -> Outcome<'a> {
    let Value::String(text) = &value else {
        return Err(no_overload("strings.quote", &[&value]));
    };
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for letter in str::chars(text) {
        match letter {
            '\x07' => quoted.push_str("\\a"),
            '\x08' => quoted.push_str("\\b"),
            '\x0c' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\x0b' => quoted.push_str("\\v"),
            '\\' => quoted.push_str("\\\\"),
            '"' => quoted.push_str("\\\""),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    new_string(quoted)
}

fn format_text<'a>(_: &mut Scope, text: Value<'a>, values: Value<'a>) -> Outcome<'a> {
    match (&text, &values) {
        (Value::String(text), Value::List(list)) => new_string(format::format(text, list)?),
        _ => Err(no_overload("format", &[&text, &values])),
    }
}

/// Implements `indexOf` of strings; none if the arguments are not strings.
pub(super) fn index_of<'a>(arguments: &[Value<'a>]) -> Option<Outcome<'a>> {
    let (text, part, offset) = match arguments {
        [Value::String(text), Value::String(part)] => (text, part, 0),
        [Value::String(text), Value::String(part), Value::Int(offset)] => (text, part, *offset),
        _ => return None,
    };
    Some(find_from(text, part, offset).map(Value::Int))
}

fn find_from(text: &Text<'_>, part: &str, offset: i64) -> Result<i64, EvalError> {
    if part.is_empty() {
        return Ok(offset);
    }
    if offset < 0 {
        return Err(out_of_range(offset));
    }
    let Ok(start) = place(text, offset) else {
        return Ok(-1);
    };
    let found = text[start..].find(part);
    Ok(found.map_or(-1, |at| text[..start + at].chars().count() as i64))
}

/// Implements `lastIndexOf` of strings; none if the arguments are not strings.
pub(super) fn last_index_of<'a>(arguments: &[Value<'a>]) -> Option<Outcome<'a>> {
    let found = match arguments {
        [Value::String(text), Value::String(part)] if part.is_empty() => Ok(text.chars() as i64),
        [Value::String(text), Value::String(part)] if text.len() < part.len() => Ok(-1),
        [Value::String(text), Value::String(part)] => {
            find_back(text, part, text.chars() as i64 - 1)
        }
        [Value::String(_), Value::String(part), Value::Int(offset)] if part.is_empty() => {
            Ok(*offset)
        }
        [Value::String(text), Value::String(part), Value::Int(offset)] => {
            find_back(text, part, *offset)
        }
        _ => return None,
    };
    Some(found.map(Value::Int))
}

fn find_back(text: &Text<'_>, part: &str, offset: i64) -> Result<i64, EvalError> {
    if offset < 0 {
        return Err(out_of_range(offset));
    }
    if offset >= text.chars() as i64 {
        return Ok(-1);
    }
    let mut end = (place(text, offset)? + part.len()).min(text.len());
    // A match that starts here ends at a character boundary.
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let found = text[..end].rfind(part);
    Ok(found.map_or(-1, |at| text[..at].chars().count() as i64))
}

//! Checks the arguments of `format` against its clauses.

use super::Checked;
use crate::ast::{Expr, Id, Node};
use crate::types::Type;

/// An error in a format.
pub(super) struct Mistake {
    /// The argument that does not fit; none if the format itself is invalid.
    pub(super) at: Option<Id>,
    /// The error message.
    pub(super) message: String,
}

impl Mistake {
    fn new(message: impl Into<String>) -> Self {
        Self {
            at: None,
            message: message.into(),
        }
    }
}

/// Checks the clauses of a format against the values.
pub(super) fn check(format: &str, values: &[Expr], checked: &Checked) -> Result<(), Mistake> {
    let mut rest = format;
    let mut seen = 0;
    while let Some(at) = rest.find('%') {
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            rest = after;
            continue;
        }
        if rest.is_empty() {
            return Err(Mistake::new("unexpected end of string"));
        }
        let Some(value) = values.get(seen) else {
            return Err(Mistake::new(format!("index {seen} out of range")));
        };
        rest = clause(rest, value, checked)?;
        seen += 1;
    }
    if values.len() > seen {
        let given = values.len();
        let message =
            format!("too many arguments supplied to string.format (expected {seen}, got {given})");
        return Err(Mistake::new(message));
    }
    Ok(())
}

/// Checks one clause, and returns the text after it.
fn clause<'a>(text: &'a str, value: &Expr, checked: &Checked) -> Result<&'a str, Mistake> {
    let rest = precision(text).map_err(|why| {
        let why = format!("error while parsing precision: {why}");
        Mistake::new(format!("could not parse formatting clause: {why}"))
    })?;
    let mut characters = rest.chars();
    let Some(verb) = characters.next() else {
        return Err(Mistake::new("unexpected end of string"));
    };
    let flaw = match verb {
        's' => printable(value, checked).err().map(|at| (at, STRING)),
        'd' => unless(
            value,
            checked,
            is_whole,
            "decimal clause can only be used on integers",
        ),
        'f' => unless(
            value,
            checked,
            is_real,
            "fixed-point clause can only be used on doubles",
        ),
        'e' => unless(
            value,
            checked,
            is_real,
            "scientific clause can only be used on doubles",
        ),
        'b' => unless(
            value,
            checked,
            is_binary,
            "only integers and bools can be formatted as binary",
        ),
        'x' | 'X' => unless(
            value,
            checked,
            is_hex,
            "only integers, byte buffers, and strings can be formatted as hex",
        ),
        'o' => unless(
            value,
            checked,
            is_whole,
            "octal clause can only be used on integers",
        ),
        other => {
            let why = format!("unrecognized formatting clause \"{other}\"");
            return Err(Mistake::new(format!(
                "could not parse formatting clause: {why}"
            )));
        }
    };
    match flaw {
        None => Ok(characters.as_str()),
        Some((at, why)) => {
            let given = type_of(at, checked).name().to_owned();
            let message = format!("error during formatting: {why}, was given {given}");
            Err(Mistake {
                at: Some(at),
                message,
            })
        }
    }
}

const STRING: &str = "string clause can only be used on strings, bools, bytes, ints, doubles, maps, \
                      lists, types, durations, and timestamps";

fn unless(
    value: &Expr,
    checked: &Checked,
    fits: fn(&Type) -> bool,
    why: &'static str,
) -> Option<(Id, &'static str)> {
    let of = type_of(value.id, checked);
    (*of != Type::Dyn && !fits(of)).then_some((value.id, why))
}

fn is_whole(of: &Type) -> bool {
    matches!(of, Type::Int | Type::Uint)
}

fn is_real(of: &Type) -> bool {
    matches!(of, Type::Double | Type::String)
}

fn is_binary(of: &Type) -> bool {
    matches!(of, Type::Int | Type::Uint | Type::Bool)
}

fn is_hex(of: &Type) -> bool {
    matches!(of, Type::Int | Type::Uint | Type::String | Type::Bytes)
}

/// Checks that the value and all its elements can be printed; returns the first that cannot.
fn printable(value: &Expr, checked: &Checked) -> Result<(), Id> {
    if matches!(
        type_of(value.id, checked),
        Type::Optional(_) | Type::Object(_) | Type::Opaque(_) | Type::Error | Type::Param(_)
    ) {
        return Err(value.id);
    }
    match &value.node {
        Node::List { elements, .. } => elements
            .iter()
            .try_for_each(|element| printable(element, checked)),
        Node::Map(entries) => entries.iter().try_for_each(|entry| {
            printable(&entry.key, checked)?;
            printable(&entry.value, checked)
        }),
        _ => Ok(()),
    }
}

fn precision(text: &str) -> Result<&str, String> {
    let Some(rest) = text.strip_prefix('.') else {
        return Ok(text);
    };
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, rest) = rest.split_at(digits);
    if rest.is_empty() {
        return Err("could not find end of precision specifier".to_owned());
    }
    if number.parse::<i64>().is_err() {
        let why = if number.is_empty() {
            "invalid syntax"
        } else {
            "value out of range"
        };
        return Err(format!(
            "error while converting precision to integer: strconv.Atoi: parsing \"{number}\": {why}"
        ));
    }
    Ok(rest)
}

fn type_of(id: Id, checked: &Checked) -> &Type {
    checked.types.get(id as usize).unwrap_or(&Type::Dyn)
}

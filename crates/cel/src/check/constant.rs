//! Expressions that fail to evaluate for all values.
//!
//! Conversions of constants and constant regular expressions are evaluated once, before the first
//! evaluation and in evaluation order. The program is refused for the first one that fails.

use insula_gotext::regexp;

use super::Checked;
use crate::ast::{Expr, Literal, Node};
use crate::types::Type;
use crate::value::{is_duration, is_timestamp};

/// Returns why the expression cannot be evaluated, if it cannot.
pub(super) fn defect(expr: &Expr, checked: &Checked) -> Option<String> {
    constant(expr, checked).err()
}

/// Returns the constant value of an expression, if it has one.
fn constant(expr: &Expr, checked: &Checked) -> Result<Option<Literal>, String> {
    match &expr.node {
        Node::Literal(literal) => return Ok(Some(literal.clone())),
        Node::Ident(name) => return check_type_name(expr, name, checked).map(|()| None),
        Node::Select { operand, .. } => constant(operand, checked)?,
        Node::Call {
            target,
            function,
            args,
        } => {
            if let Some(target) = target {
                constant(target, checked)?;
            }
            let mut constants = Vec::with_capacity(args.len());
            for arg in args {
                constants.push(constant(arg, checked)?);
            }
            if let Some(Literal::String(text)) =
                pattern_argument(function, target.is_some(), &constants)
            {
                regexp::check(&text).map_err(|error| error.to_string())?;
            }
            if let (None, [Some(literal)]) = (target, constants.as_slice()) {
                return convert(function, literal);
            }
            None
        }
        Node::List { elements, .. } => {
            for element in elements {
                constant(element, checked)?;
            }
            None
        }
        Node::Map(entries) | Node::Struct { entries, .. } => {
            for entry in entries {
                constant(&entry.key, checked)?;
                constant(&entry.value, checked)?;
            }
            None
        }
        Node::Comprehension(it) => {
            for part in [&it.init, &it.range, &it.condition, &it.step, &it.result] {
                constant(part, checked)?;
            }
            None
        }
    };
    Ok(None)
}

/// Returns the regular expression argument of a function, if it is constant.
fn pattern_argument(function: &str, member: bool, args: &[Option<Literal>]) -> Option<Literal> {
    if !matches!(function, "matches" | "find" | "findAll") {
        return None;
    }
    args.get(usize::from(!member)).cloned().flatten()
}

/// Refuses the two type names that can be resolved but have no value.
fn check_type_name(expr: &Expr, name: &str, checked: &Checked) -> Result<(), String> {
    let of = checked.types.get(expr.id as usize);
    match (name, of) {
        ("duration", Some(Type::Meta(of))) if **of == Type::Duration => {}
        ("timestamp", Some(Type::Meta(of))) if **of == Type::Timestamp => {}
        _ => return Ok(()),
    }
    Err(format!("reference to undefined type: {name}"))
}

fn convert(function: &str, from: &Literal) -> Result<Option<Literal>, String> {
    let to = match function {
        "int" => int(from),
        "uint" => uint(from),
        "double" => double(from),
        "bool" => boolean(from),
        "string" => string(from),
        "bytes" => Ok(match from {
            Literal::String(text) => Some(Literal::Bytes(text.as_bytes().into())),
            Literal::Bytes(_) => Some(from.clone()),
            _ => None,
        }),
        "dyn" => Ok(Some(from.clone())),
        "duration" => time(from, is_duration, "google.protobuf.Duration"),
        "timestamp" => time(from, is_timestamp, "google.protobuf.Timestamp"),
        _ => Ok(None),
    };
    to.map_err(|failed| match failed {
        Failed::Overflow => "integer overflow".to_owned(),
        Failed::UnsignedOverflow => "unsigned integer overflow".to_owned(),
        Failed::Encoding => "invalid UTF-8 in bytes, cannot convert to string".to_owned(),
        Failed::Conversion(to) => format!("type conversion error from 'string' to '{to}'"),
    })
}

enum Failed {
    Overflow,
    UnsignedOverflow,
    Encoding,
    Conversion(&'static str),
}

type Converted = Result<Option<Literal>, Failed>;

fn int(from: &Literal) -> Converted {
    let value = match from {
        Literal::Int(value) => *value,
        Literal::Uint(value) => i64::try_from(*value).map_err(|_| Failed::Overflow)?,
        // The limits are not exactly representable as doubles; a double that equals one is out of
        // range.
        Literal::Double(value) if *value > i64::MIN as f64 && *value < i64::MAX as f64 => {
            *value as i64
        }
        Literal::Double(_) => return Err(Failed::Overflow),
        Literal::String(text) => text.parse().map_err(|_| Failed::Conversion("int"))?,
        _ => return Ok(None),
    };
    Ok(Some(Literal::Int(value)))
}

fn uint(from: &Literal) -> Converted {
    let value = match from {
        Literal::Uint(value) => *value,
        Literal::Int(value) => u64::try_from(*value).map_err(|_| Failed::UnsignedOverflow)?,
        Literal::Double(value) if *value >= 0.0 && *value < u64::MAX as f64 => *value as u64,
        Literal::Double(_) => return Err(Failed::UnsignedOverflow),
        Literal::String(text) if text.starts_with('+') => return Err(Failed::Conversion("uint")),
        Literal::String(text) => text.parse().map_err(|_| Failed::Conversion("uint"))?,
        _ => return Ok(None),
    };
    Ok(Some(Literal::Uint(value)))
}

fn double(from: &Literal) -> Converted {
    let value = match from {
        Literal::Double(value) => *value,
        Literal::Int(value) => *value as f64,
        Literal::Uint(value) => *value as f64,
        Literal::String(text) => number(text).ok_or(Failed::Conversion("double"))?,
        _ => return Ok(None),
    };
    Ok(Some(Literal::Double(value)))
}

/// Parses a number. It is infinite only if the text says so, not if it is too large.
fn number(text: &str) -> Option<f64> {
    let value: f64 = text.parse().ok()?;
    let says_so = text.to_ascii_lowercase().contains("inf");
    (!value.is_infinite() || says_so).then_some(value)
}

fn boolean(from: &Literal) -> Converted {
    let value = match from {
        Literal::Bool(value) => *value,
        Literal::String(text) => match &**text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => true,
            "0" | "f" | "F" | "false" | "FALSE" | "False" => false,
            _ => return Err(Failed::Conversion("bool")),
        },
        _ => return Ok(None),
    };
    Ok(Some(Literal::Bool(value)))
}

fn string(from: &Literal) -> Converted {
    let value = match from {
        Literal::String(_) => return Ok(Some(from.clone())),
        Literal::Bytes(bytes) => std::str::from_utf8(bytes)
            .map_err(|_| Failed::Encoding)?
            .to_owned(),
        Literal::Int(value) => value.to_string(),
        Literal::Uint(value) => value.to_string(),
        Literal::Bool(value) => value.to_string(),
        // The evaluation decides how a double is printed.
        Literal::Double(_) | Literal::Null => return Ok(None),
    };
    Ok(Some(Literal::String(value.into())))
}

fn time(from: &Literal, valid: fn(&str) -> bool, to: &'static str) -> Converted {
    match from {
        Literal::String(text) if !valid(text) => Err(Failed::Conversion(to)),
        _ => Ok(None),
    }
}

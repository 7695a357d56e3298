//! How JSON reads: what a schema says about it, as far as values show it.
//!
//! A [`Type`] tells the checker what can be done with a value. It does not tell a date from a
//! date-time, or a set from a list, and both matter once there is a value.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value as Json;

use super::{List, Map, Text, Timestamp, Value, parse_duration, time};
use crate::evaluate::EvalError;
use crate::types::Type;

/// What JSON is to be read as.
#[derive(Clone, Debug)]
pub enum Shape {
    /// Whatever it is.
    Any,
    /// A whole number or a text.
    IntOrString,
    /// `true` or `false`.
    Bool,
    /// A whole number.
    Int,
    /// Any number.
    Double,
    /// A text.
    String,
    /// A text that stands for bytes, in base64.
    Bytes,
    /// A text that is a day.
    Date,
    /// A text that is a moment.
    DateTime,
    /// A text that is a length of time.
    Duration,
    /// A list.
    List(Arc<Listing>),
    /// A map from names to values of one shape.
    Map(Arc<Shape>),
    /// An object with fields, by the names that expressions call them.
    Object(Arc<BTreeMap<String, Property>>),
    /// One of the others, or `null`.
    Nullable(Arc<Shape>),
}

/// A field of an object.
#[derive(Clone, Debug)]
pub struct Property {
    /// Its name in the JSON.
    pub name: String,
    /// Its value.
    pub shape: Shape,
}

/// A list and what makes two of its kind equal.
#[derive(Clone, Debug)]
pub enum Listing {
    /// Element by element.
    Atomic(Shape),
    /// The same elements in any order.
    Set(Shape),
    /// The same elements by these fields, in any order.
    Keyed(Shape, Vec<String>),
}

impl Listing {
    /// The shape of the elements.
    pub fn items(&self) -> &Shape {
        match self {
            Self::Atomic(items) | Self::Set(items) | Self::Keyed(items, _) => items,
        }
    }
}

impl From<&Type> for Shape {
    /// The shape of values of a type, as far as the type knows it: all lists are plain.
    fn from(of: &Type) -> Self {
        match of {
            Type::Bool => Self::Bool,
            Type::Int => Self::Int,
            Type::Double => Self::Double,
            Type::String => Self::String,
            Type::Bytes => Self::Bytes,
            Type::Duration => Self::Duration,
            Type::Timestamp => Self::DateTime,
            Type::List(items) => Self::List(Arc::new(Listing::Atomic(Self::from(&**items)))),
            Type::Map(_, value) => Self::Map(Arc::new(Self::from(&**value))),
            Type::Optional(of) => Self::Nullable(Arc::new(Self::from(&**of))),
            Type::Object(object) => {
                let fields = object.fields.iter().map(|(escaped, field)| {
                    let property = Property {
                        name: field.name.clone(),
                        shape: Self::from(&field.of),
                    };
                    (escaped.clone(), property)
                });
                Self::Object(Arc::new(fields.collect()))
            }
            _ => Self::Any,
        }
    }
}

pub(super) fn read_dynamic(json: &Json) -> Value<'_> {
    match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => match number.as_i64() {
            Some(number) => Value::Int(number),
            None => Value::Double(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => Value::String(Text::Borrowed(text)),
        Json::Array(items) => Value::List(List::Dynamic(items)),
        Json::Object(members) => Value::Map(Map::Dynamic(members)),
    }
}

pub(super) fn read<'a>(json: &'a Json, shape: &'a Shape) -> Result<Value<'a>, EvalError> {
    if let Shape::Nullable(shape) = shape {
        return match json {
            Json::Null => Ok(Value::Null),
            _ => read(json, shape),
        };
    }
    if let (Shape::Any, _) = (shape, json) {
        return Ok(read_dynamic(json));
    }
    if json.is_null() {
        let text = "invalid data, got null for schema with nullable=false";
        return Err(EvalError::new(text));
    }
    match (shape, json) {
        (Shape::IntOrString, Json::Number(number)) => match number.as_i64() {
            Some(number) => Ok(Value::Int(number)),
            None => Err(EvalError::new(NEITHER)),
        },
        (Shape::IntOrString, Json::String(_)) => Ok(read_dynamic(json)),
        (Shape::IntOrString, _) => Err(EvalError::new(NEITHER)),
        (Shape::Bool, Json::Bool(value)) => Ok(Value::Bool(*value)),
        (Shape::Bool, _) => Err(expected("bool", json)),
        (Shape::Int, Json::Number(number)) => match number.as_i64() {
            Some(number) => Ok(Value::Int(number)),
            None => Err(expected("int", json)),
        },
        (Shape::Int, _) => Err(expected("int", json)),
        (Shape::Double, Json::Number(number)) => {
            Ok(Value::Double(number.as_f64().unwrap_or(f64::NAN)))
        }
        (Shape::Double, _) => Err(expected("float", json)),
        (Shape::List(listing), Json::Array(items)) => Ok(Value::List(List::Typed(items, listing))),
        (Shape::List(_), _) => Err(EvalError::new(
            "invalid data, expected an array for the provided schema with type=array",
        )),
        (Shape::Map(values), Json::Object(members)) => Ok(Value::Map(Map::Typed(members, values))),
        (Shape::Object(fields), Json::Object(members)) => {
            Ok(Value::Map(Map::Object(members, fields)))
        }
        (Shape::Map(_) | Shape::Object(_), _) => Err(EvalError::new(
            "invalid data, expected a map for the provided schema with type=object",
        )),
        (_, Json::String(text)) => read_text(text, shape),
        _ => Err(expected("string", json)),
    }
}

const NEITHER: &str = "invalid data, expected XIntOrString value to be either a string or integer";

fn read_text<'a>(text: &'a str, shape: &Shape) -> Result<Value<'a>, EvalError> {
    match shape {
        Shape::Bytes => match STANDARD.decode(text) {
            Ok(bytes) => Ok(Value::Bytes(bytes.into())),
            Err(_) => Err(EvalError::new(format!(
                "Invalid byte formatted string {text}"
            ))),
        },
        Shape::Date => time::parse_date(text)
            .map(Value::Timestamp)
            .ok_or_else(|| EvalError::new(format!("Invalid date formatted string {text}"))),
        Shape::DateTime => read_time(text)
            .map(Value::Timestamp)
            .ok_or_else(|| EvalError::new(format!("Invalid date-time formatted string {text}"))),
        Shape::Duration => {
            let parsed = parse_duration(text).or_else(|| time::parse_long_duration(text));
            let duration = parsed.ok_or_else(|| {
                EvalError::new(format!(
                    "Invalid duration {text}: unable to parse {text} as duration"
                ))
            })?;
            Ok(Value::Duration(duration))
        }
        _ => Ok(Value::String(Text::Borrowed(text))),
    }
}

/// A moment as schemas let it be written: an empty text is the year 1970, a zone may be
/// missing, and types do not tell days from moments.
fn read_time(text: &str) -> Option<Timestamp> {
    if text.is_empty() {
        return Some(Timestamp::default());
    }
    let parsed = time::parse_rfc3339(text);
    parsed
        .or_else(|| time::parse_rfc3339(&format!("{text}Z")))
        .or_else(|| time::parse_date(text))
}

fn expected(wanted: &str, json: &Json) -> EvalError {
    let got = match json {
        Json::Null => "<nil>",
        Json::Bool(_) => "bool",
        Json::Number(number) if number.is_i64() => "int64",
        Json::Number(_) => "float64",
        Json::String(_) => "string",
        Json::Array(_) => "[]interface {}",
        Json::Object(_) => "map[string]interface {}",
    };
    EvalError::new(format!("invalid data, expected {wanted}, got {got}"))
}

//! The shapes of JSON: the parts of a schema that values depend on.
//!
//! A [`Type`] tells the checker what can be done with a value. It does not distinguish a date from
//! a date-time, or a set from a list, as evaluation must.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value as Json;

use super::{List, Map, Text, Timestamp, Value, parse_duration, time};
use crate::error::EvalError;
use crate::types::Type;

/// How JSON is read.
#[derive(Clone, Debug)]
pub enum Shape {
    /// By its JSON type.
    Any,
    /// As an integer or a string.
    IntOrString,
    /// `true` or `false`.
    Bool,
    /// An integer.
    Int,
    /// Any number.
    Double,
    /// A string.
    String,
    /// Bytes in base64.
    Bytes,
    /// A date.
    Date,
    /// A timestamp.
    DateTime,
    /// A duration.
    Duration,
    /// A list.
    List(Arc<Listing>),
    /// A map from strings to values of one shape.
    Map(Arc<Shape>),
    /// An object with fields, by their names in expressions.
    Object(Arc<BTreeMap<String, Property>>),
    /// The shape or `null`.
    Nullable(Arc<Shape>),
}

/// A field of an object.
#[derive(Clone, Debug)]
pub struct Property {
    /// The name in JSON.
    pub name: String,
    /// The shape of the value.
    pub shape: Shape,
}

/// A list and the equality of its type.
#[derive(Clone, Debug)]
pub enum Listing {
    /// Equal element by element.
    Atomic(Shape),
    /// Equal if the elements are, in any order.
    Set(Shape),
    /// Equal if the elements with the same keys are, in any order.
    Keyed(Shape, Vec<String>),
}

impl Listing {
    /// Returns the shape of the elements.
    pub fn items(&self) -> &Shape {
        match self {
            Self::Atomic(items) | Self::Set(items) | Self::Keyed(items, _) => items,
        }
    }
}

impl From<&Type> for Shape {
    /// Returns the shape of a type, as far as the type determines it: all lists are atomic.
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

/// Reads a time as schemas accept it: an empty string is 1970, the zone is optional, and dates are
/// not distinguished from times.
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

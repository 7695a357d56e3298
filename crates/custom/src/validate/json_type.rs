//! Type checks.

use insula_gotext::quote;
use insula_kinds::FieldError;
use serde_json::Value;

use super::number::{self, Num};
use super::path::Path;
use super::value::Validator;
use crate::structural::{Node, Type};

impl Validator<'_> {
    /// Checks the type, and returns the number of passed checks.
    pub(super) fn kind(
        &mut self,
        node: &Node,
        form: JsonType,
        path: &Path<'_>,
        errors: &mut Vec<FieldError>,
    ) -> u64 {
        match wrong_kind(node, self.format(node), form) {
            None => 1,
            Some((wanted, found)) => {
                self.push(errors, || {
                    self.wrong_type(path, wanted, &quote(found), found)
                });
                0
            }
        }
    }

    pub(super) fn format<'n>(&self, node: &'n Node) -> Option<&'n str> {
        let checks = node.checks.as_deref()?;
        checks.format.as_ref().map(|format| format.name())
    }
}

/// The type of a value in Go's JSON decoder.
#[derive(Clone, Copy)]
pub(super) enum JsonType {
    Null,
    Bool,
    Int,
    Float { whole: bool },
    Text,
    Array,
    Object,
}

impl JsonType {
    pub(super) fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(_) => Self::Bool,
            Value::String(_) => Self::Text,
            Value::Array(_) => Self::Array,
            Value::Object(_) => Self::Object,
            Value::Number(number) => match Num::of(number) {
                Num::Int(_) => Self::Int,
                Num::Float(value) => Self::Float {
                    whole: number::is_whole(value),
                },
            },
        }
    }

    /// The type with its name, and the format that Go assigns to such values.
    fn names(self) -> (Option<Type>, &'static str, &'static str) {
        match self {
            Self::Null => (None, "null", ""),
            Self::Bool => (Some(Type::Boolean), "boolean", ""),
            Self::Int => (Some(Type::Integer), "integer", "int64"),
            Self::Float { .. } => (Some(Type::Number), "number", "float64"),
            Self::Text => (Some(Type::String), "string", ""),
            Self::Array => (Some(Type::Array), "array", ""),
            Self::Object => (Some(Type::Object), "object", ""),
        }
    }
}

/// The expected and the found type, if they differ.
fn wrong_kind<'n>(
    node: &Node,
    format: Option<&'n str>,
    form: JsonType,
) -> Option<(&'n str, &'static str)> {
    let (kind, name, native) = form.names();
    let Some(kind) = kind else {
        let wrong = node.is_typed() && !node.nullable;
        return wrong.then_some((node.types(), name));
    };
    let near = match form {
        JsonType::Float { whole } => whole && node.has_type(Type::Integer),
        JsonType::Int => node.has_type(Type::Number),
        _ => false,
    };
    let fits = node.has_type(kind) || near;
    let textual = matches!(form, JsonType::Text | JsonType::Array);
    match format {
        Some(format) if !textual && !fits && format != native => Some((format, native)),
        // Formats of strings are checked later, and those of lists never.
        Some(_) if textual && !node.has_type(Type::Number) && !node.has_type(Type::Integer) => None,
        _ if fits || (!node.is_typed() && format.is_none()) => None,
        _ => Some((node.types(), name)),
    }
}

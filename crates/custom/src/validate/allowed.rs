//! Enumerations.

use insula_gotext::quote;
use insula_kinds::field::ErrorType;
use insula_kinds::{FieldError, Object};
use serde_json::Value;

use super::error::joined;
use super::number::{self, Num};
use super::path::Path;
use super::print;
use super::value::Validator;
use crate::structural::{Checks, Node};

impl Validator<'_> {
    pub(super) fn allowed(
        &mut self,
        node: &Node,
        value: &Value,
        path: &Path<'_>,
        errors: &mut Vec<FieldError>,
    ) {
        let Some(checks) = node.checks.as_deref().filter(|it| !it.allowed.is_empty()) else {
            return;
        };
        self.spend(checks.allowed.len() as u64 / 4);
        if checks.allowed.iter().any(|allowed| is_one(value, allowed)) {
            return;
        }
        self.push(errors, || {
            let known = checks.allowed.iter().map(|allowed| match allowed {
                Value::String(text) => quote(text),
                other => quote(&print::json(other)),
            });
            let (value, known) = (print::value(value), joined(known));
            FieldError {
                error_type: ErrorType::NotSupported,
                field: self.field(path),
                body: format!("Unsupported value: {value}: supported values: {known}"),
            }
        });
    }

    /// Checks the enumeration of the root. Accepted definitions have none, because it would
    /// have to include metadata.
    pub(super) fn bounds_of_whole(
        &mut self,
        node: &Node,
        object: &Object,
        errors: &mut Vec<FieldError>,
    ) {
        let listed = |checks: &Checks| !checks.allowed.is_empty();
        if node.checks.as_deref().is_some_and(listed) {
            self.allowed(node, &Value::Object(object.clone()), &Path::ROOT, errors);
        }
    }
}

/// Reports whether a value equals an enumerated one, after Go's conversion between their
/// types.
fn is_one(value: &Value, allowed: &Value) -> bool {
    match (value, allowed) {
        (_, Value::Null) => false,
        (Value::Number(value), Value::Number(allowed)) => {
            match (Num::of(value), Num::of(allowed)) {
                (Num::Int(value), Num::Int(allowed)) => value == allowed,
                (value, Num::Float(allowed)) => value.float() == allowed,
                (Num::Float(value), Num::Int(allowed)) => number::truncate(value) == allowed,
            }
        }
        (Value::Number(value), Value::String(allowed)) => match Num::of(value) {
            Num::Int(code) => {
                let letter = u32::try_from(code).ok().and_then(char::from_u32);
                let letter = letter.unwrap_or(char::REPLACEMENT_CHARACTER);
                allowed.chars().eq([letter])
            }
            Num::Float(_) => false,
        },
        (value, allowed) => value == allowed,
    }
}

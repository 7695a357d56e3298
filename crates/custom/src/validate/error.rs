//! Construction of errors.

use insula_gotext::quote;
use insula_kinds::FieldError;
use insula_kinds::field::ErrorType;
use serde_json::Value;

use super::path::{Path, ROOT_FIELD, Style};
use super::value::{MAX_ERRORS, Validator};

/// Maximum length of an error message in bytes. Values and alternatives shown in errors may
/// have megabytes, and there may be a thousand errors.
const MAX_ERROR_LENGTH: usize = 8 << 10;

/// Shortens an error to a readable length.
pub(super) fn shortened(mut error: FieldError) -> FieldError {
    shorten(&mut error.field);
    shorten(&mut error.body);
    error
}

/// Omits the middle, because the reason follows the value at the end.
fn shorten(text: &mut String) {
    if text.len() > MAX_ERROR_LENGTH {
        let head = text.floor_char_boundary(MAX_ERROR_LENGTH / 2);
        let tail = text.ceil_char_boundary(text.len() - MAX_ERROR_LENGTH / 2);
        *text = format!("{}…{}", &text[..head], &text[tail..]);
    }
}

/// Joins texts up to a readable length.
pub(super) fn joined(texts: impl Iterator<Item = String>) -> String {
    let mut row = String::new();
    for text in texts {
        if !row.is_empty() {
            row.push_str(", ");
        }
        row.push_str(&text);
        if row.len() > MAX_ERROR_LENGTH {
            break;
        }
    }
    row
}

impl Validator<'_> {
    /// Appends an error, unless the limit is reached.
    pub(super) fn push(&self, errors: &mut Vec<FieldError>, error: impl FnOnce() -> FieldError) {
        if errors.len() < MAX_ERRORS {
            errors.push(shortened(error()));
        }
    }

    /// The field path for an error.
    pub(super) fn field(&self, path: &Path<'_>) -> String {
        let name = path.print(Style::Schema);
        let name = name.strip_prefix('.').unwrap_or(&name);
        match (self.prefix, name.is_empty()) {
            (None, true) => ROOT_FIELD.to_owned(),
            (None, false) => name.to_owned(),
            (Some(prefix), true) => prefix.to_owned(),
            (Some(prefix), false) => format!("{prefix}.{name}"),
        }
    }

    /// An error that Kubernetes does not attribute to a field.
    pub(super) fn general(&self, text: &str) -> FieldError {
        FieldError::invalid_text(self.field(&Path::ROOT), "", text)
    }

    pub(super) fn wrong_type(
        &self,
        path: &Path<'_>,
        wanted: &str,
        printed: &str,
        found: &str,
    ) -> FieldError {
        let name = path.print(Style::Schema);
        let found = quote(found);
        FieldError {
            error_type: ErrorType::TypeInvalid,
            field: self.field(path),
            body: format!(
                "Invalid value: {printed}: {name} in body must be of type {wanted}: {found}"
            ),
        }
    }

    pub(super) fn too_long(&self, path: &Path<'_>, most: i64) -> FieldError {
        let unit = if most == 1 { "byte" } else { "bytes" };
        FieldError {
            error_type: ErrorType::TooLong,
            field: self.field(path),
            body: format!("Too long: may not be more than {most} {unit}"),
        }
    }

    pub(super) fn too_few(&self, path: &Path<'_>, size: i64, wanted: &str) -> FieldError {
        let detail = format!("{} in body {wanted}", path.print(Style::Schema));
        FieldError::invalid(self.field(path), &Value::from(size), &detail)
    }

    pub(super) fn too_many(&self, path: &Path<'_>, size: i64, most: i64) -> FieldError {
        let unit = if most == 1 { "item" } else { "items" };
        FieldError {
            error_type: ErrorType::TooMany,
            field: self.field(path),
            body: format!("Too many: {size}: must have at most {most} {unit}"),
        }
    }
}

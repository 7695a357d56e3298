//! Validation errors of fields, worded as in Kubernetes.

use std::collections::HashSet;
use std::fmt;

use insula_gotext::quote;
use serde_json::Value;

/// A validation error of one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// The type of the error.
    pub error_type: ErrorType,
    /// The path of the field: `spec.containers[0].name`, `data[key]`.
    pub field: String,
    /// The message after the field.
    pub body: String,
}

/// The types of validation errors; each is a cause's `reason` in the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorType {
    /// The field is required.
    Required,
    /// The field must not be set, or must not be changed that way.
    Forbidden,
    /// The value is not allowed.
    Invalid,
    /// The value has the wrong type.
    TypeInvalid,
    /// The value is not one of the supported values.
    NotSupported,
    /// The value names something that does not exist.
    NotFound,
    /// The value occurs twice.
    Duplicate,
    /// The value has too many bytes.
    TooLong,
    /// The value has too few characters.
    TooShort,
    /// The value has too many items.
    TooMany,
    /// The value has too few items.
    TooFew,
    /// The server failed.
    Internal,
}

impl FieldError {
    /// Creates the error of a missing field; `detail` may be empty.
    pub fn required(field: impl Into<String>, detail: &str) -> Self {
        Self::new(ErrorType::Required, field, with("Required value", detail))
    }

    /// Creates the error of a field that must not be set or changed.
    pub fn forbidden(field: impl Into<String>, detail: &str) -> Self {
        Self::new(ErrorType::Forbidden, field, with("Forbidden", detail))
    }

    /// Creates the error of an invalid value.
    pub fn invalid(field: impl Into<String>, value: &Value, detail: &str) -> Self {
        let body = format!("Invalid value: {}: {detail}", Printed(value));
        Self::new(ErrorType::Invalid, field, body)
    }

    /// Creates the error of an invalid string.
    pub fn invalid_text(field: impl Into<String>, value: &str, detail: &str) -> Self {
        Self::invalid(field, &Value::from(value), detail)
    }

    /// The value is not allowed; `printed` is how Go prints it, where that is not JSON
    /// with sorted members.
    pub fn invalid_printed(field: impl Into<String>, printed: &str, detail: &str) -> Self {
        let body = format!("Invalid value: {printed}: {detail}");
        Self::new(ErrorType::Invalid, field, body)
    }

    /// Creates the error of an invalid value without further detail.
    pub(crate) fn invalid_without_detail(field: impl Into<String>, printed: &str) -> Self {
        Self::new(
            ErrorType::Invalid,
            field,
            format!("Invalid value: {printed}"),
        )
    }

    /// Creates the error of an invalid field without printing its value.
    pub fn invalid_without_value(field: impl Into<String>, detail: &str) -> Self {
        Self::new(ErrorType::Invalid, field, with("Invalid value", detail))
    }

    /// Creates the error of an unsupported value; the message lists `supported` in this
    /// order.
    pub fn not_supported(field: impl Into<String>, value: &Value, supported: &[&str]) -> Self {
        Self::not_supported_printed(field, &Printed(value).to_string(), supported)
    }

    /// Creates the error of an unsupported value; `printed` is how Go prints it.
    pub fn not_supported_printed(
        field: impl Into<String>,
        printed: &str,
        supported: &[&str],
    ) -> Self {
        let known: Vec<_> = supported.iter().map(|text| format!("\"{text}\"")).collect();
        let known = known.join(", ");
        let body = format!("Unsupported value: {printed}: supported values: {known}");
        Self::new(ErrorType::NotSupported, field, body)
    }

    /// Creates the error of a server failure during validation.
    pub fn internal(field: impl Into<String>, detail: &str) -> Self {
        Self::new(ErrorType::Internal, field, with("Internal error", detail))
    }

    /// Appends a detail to the message.
    pub(crate) fn with_detail(mut self, detail: &str) -> Self {
        self.body = with(&self.body, detail);
        self
    }

    /// Creates the error of a reference to something that does not exist.
    pub fn not_found(field: impl Into<String>, value: &Value) -> Self {
        Self::new(
            ErrorType::NotFound,
            field,
            format!("Not found: {}", Printed(value)),
        )
    }

    /// Creates the error of a duplicate value.
    pub fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self::new(
            ErrorType::Duplicate,
            field,
            format!("Duplicate value: {}", Printed(value)),
        )
    }

    /// Creates the error of a duplicate value; `printed` is how Go prints it.
    pub fn duplicate_printed(field: impl Into<String>, printed: &str) -> Self {
        let body = format!("Duplicate value: {printed}");
        Self::new(ErrorType::Duplicate, field, body)
    }

    /// Creates the error of a value with more than `limit` bytes.
    pub fn too_long(field: impl Into<String>, limit: usize) -> Self {
        let unit = if limit == 1 { "byte" } else { "bytes" };
        let body = format!("Too long: may not be more than {limit} {unit}");
        Self::new(ErrorType::TooLong, field, body)
    }

    /// Creates the error of a list with more than `limit` items.
    pub fn too_many(field: impl Into<String>, actual: usize, limit: usize) -> Self {
        let unit = if limit == 1 { "item" } else { "items" };
        let body = format!("Too many: {actual}: must have at most {limit} {unit}");
        Self::new(ErrorType::TooMany, field, body)
    }

    fn new(error_type: ErrorType, field: impl Into<String>, body: String) -> Self {
        Self {
            error_type,
            field: field.into(),
            body,
        }
    }
}

impl ErrorType {
    /// Returns the cause's `reason` in the response.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Forbidden => "FieldValueForbidden",
            Self::Invalid => "FieldValueInvalid",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::NotFound => "FieldValueNotFound",
            Self::Duplicate => "FieldValueDuplicate",
            Self::TooLong => "FieldValueTooLong",
            Self::TooShort => "FieldValueTooShort",
            Self::TooMany => "FieldValueTooMany",
            Self::TooFew => "FieldValueTooFew",
            Self::Internal => "InternalError",
        }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body)
    }
}

/// A value as Go prints it in errors: strings quoted, the rest as compact JSON.
struct Printed<'a>(&'a Value);

impl fmt::Display for Printed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::String(text) => f.write_str(&quote(text)),
            // Go escapes characters that are special in HTML.
            other => f.write_str(
                &other
                    .to_string()
                    .replace('<', "\\u003c")
                    .replace('>', "\\u003e")
                    .replace('&', "\\u0026"),
            ),
        }
    }
}

fn with(sentence: &str, detail: &str) -> String {
    if detail.is_empty() {
        sentence.to_owned()
    } else {
        format!("{sentence}: {detail}")
    }
}

/// Joins errors into one message: `e`, or `[e1, e2]` without duplicates.
pub fn message(errors: &[FieldError]) -> String {
    let mut seen = HashSet::new();
    let mut sentences = errors.iter().map(ToString::to_string).collect::<Vec<_>>();
    sentences.retain(|sentence| seen.insert(sentence.clone()));
    match sentences.as_slice() {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_printed_as_go_prints_them() {
        let error = FieldError::invalid("spec.x", &json!(["Foo"]), "no");
        assert_eq!(error.to_string(), r#"spec.x: Invalid value: ["Foo"]: no"#);
        let error = FieldError::invalid_text("data[a]", "a\u{1}", "no");
        assert_eq!(error.to_string(), r#"data[a]: Invalid value: "a\x01": no"#);
        let error = FieldError::required("metadata.name", "");
        assert_eq!(error.to_string(), "metadata.name: Required value");
        let error = FieldError::not_supported("spec.type", &json!("Foo"), &["A", "B"]);
        let wanted = r#"spec.type: Unsupported value: "Foo": supported values: "A", "B""#;
        assert_eq!(error.to_string(), wanted);
    }
}

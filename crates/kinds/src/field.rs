//! What is wrong with a field, worded as Kubernetes words it.

use std::fmt;

use insula_gotext::quote;
use serde_json::Value;

/// One thing that is wrong with an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// What kind of wrong.
    pub error_type: ErrorType,
    /// Where: `spec.containers[0].name`, `data[key]`.
    pub field: String,
    /// The sentence after the field.
    pub body: String,
}

/// The kinds of wrong; each is a cause's `reason` on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorType {
    /// It must be there.
    Required,
    /// It must not be there, or must not be changed so.
    Forbidden,
    /// Its value is not allowed.
    Invalid,
    /// Its value has the wrong type.
    TypeInvalid,
    /// Its value is none of those that are known.
    NotSupported,
    /// It names what does not exist.
    NotFound,
    /// It is there twice.
    Duplicate,
    /// It has too many bytes.
    TooLong,
    /// It has too few characters.
    TooShort,
    /// It has too many items.
    TooMany,
    /// It has too few items.
    TooFew,
    /// The server failed.
    Internal,
}

impl FieldError {
    /// It must be there; `detail` may be empty.
    pub fn required(field: impl Into<String>, detail: &str) -> Self {
        Self::new(ErrorType::Required, field, with("Required value", detail))
    }

    /// It must not be there, or not be changed.
    pub fn forbidden(field: impl Into<String>, detail: &str) -> Self {
        Self::new(ErrorType::Forbidden, field, with("Forbidden", detail))
    }

    /// Its value is not allowed.
    pub fn invalid(field: impl Into<String>, value: &Value, detail: &str) -> Self {
        let body = format!("Invalid value: {}: {detail}", Printed(value));
        Self::new(ErrorType::Invalid, field, body)
    }

    /// Its value, a string, is not allowed.
    pub fn invalid_text(field: impl Into<String>, value: &str, detail: &str) -> Self {
        Self::invalid(field, &Value::from(value), detail)
    }

    /// Its value is not allowed; `printed` is how Go prints it, where that is not JSON with
    /// sorted members.
    pub fn invalid_printed(field: impl Into<String>, printed: &str, detail: &str) -> Self {
        let body = format!("Invalid value: {printed}: {detail}");
        Self::new(ErrorType::Invalid, field, body)
    }

    /// Its value is not allowed, and there is no more to say.
    pub fn invalid_without_detail(field: impl Into<String>, printed: &str) -> Self {
        Self::new(
            ErrorType::Invalid,
            field,
            format!("Invalid value: {printed}"),
        )
    }

    /// It is not allowed, whatever its value.
    pub fn invalid_without_value(field: impl Into<String>, detail: &str) -> Self {
        Self::new(ErrorType::Invalid, field, with("Invalid value", detail))
    }

    /// Its value is none of `supported`, which are named in this order.
    pub fn not_supported(field: impl Into<String>, value: &Value, supported: &[&str]) -> Self {
        Self::not_supported_printed(field, &Printed(value).to_string(), supported)
    }

    /// Its value is none of `supported`; `printed` is how Go prints it.
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

    /// The server failed to judge it.
    pub fn internal(field: impl Into<String>, detail: &str) -> Self {
        Self::new(ErrorType::Internal, field, with("Internal error", detail))
    }

    /// The same error with more to say.
    pub fn with_detail(mut self, detail: &str) -> Self {
        self.body = with(&self.body, detail);
        self
    }

    /// It names what does not exist.
    pub fn not_found(field: impl Into<String>, value: &Value) -> Self {
        Self::new(
            ErrorType::NotFound,
            field,
            format!("Not found: {}", Printed(value)),
        )
    }

    /// It is there twice.
    pub fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self::new(
            ErrorType::Duplicate,
            field,
            format!("Duplicate value: {}", Printed(value)),
        )
    }

    /// It is there twice; `printed` is how Go prints it.
    pub fn duplicate_printed(field: impl Into<String>, printed: &str) -> Self {
        let body = format!("Duplicate value: {printed}");
        Self::new(ErrorType::Duplicate, field, body)
    }

    /// It has more than `limit` bytes.
    pub fn too_long(field: impl Into<String>, limit: usize) -> Self {
        let unit = if limit == 1 { "byte" } else { "bytes" };
        let body = format!("Too long: may not be more than {limit} {unit}");
        Self::new(ErrorType::TooLong, field, body)
    }

    /// It has more than `limit` items.
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
    /// The cause's reason on the wire.
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
            // Go escapes what could end a script in HTML.
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

//! Patches: JSON patch, merge patch, strategic merge patch.
//!
//! Each is applied to the tree of an object and returns warnings about the patch itself;
//! the caller decodes the result again to check that it is an object of its kind. Errors
//! are worded as in Kubernetes, which differ by patch type.
//!
//! A failed patch leaves the document half patched: the caller must discard it.

mod json;
mod merge;
mod strategic;

pub use json::{WebhookPatchError, json, webhook_json};
pub use merge::merge;
pub use strategic::strategic;

use serde_json::Value;

/// Why a patch was not applied, by the resulting status code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// 400: the patch is malformed.
    #[error("{0}")]
    BadRequest(String),
    /// 422 without details: the patch does not apply.
    #[error("the server rejected our request due to an error in our request")]
    Unprocessable,
    /// 413: the patch exceeds a limit.
    #[error("Request entity too large: {0}")]
    TooLarge(String),
    /// 500: the patch does not fit the document.
    #[error("{0}")]
    Internal(String),
}

impl PatchError {
    /// Returns the message of the response.
    pub fn message(&self) -> String {
        self.to_string()
    }
}

/// Returns the name of the JSON type as Go states it.
pub fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

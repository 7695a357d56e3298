//! Patches: JSON patch, merge patch, strategic merge patch.
//!
//! Each is applied to the tree of an object and says what is odd about the patch itself;
//! whether the result is an object of its kind is found out by reading it again. The
//! sentences are those of Kubernetes, which differ from patch to patch.
//!
//! If a patch fails, the document is left half patched: whoever called throws it away.

pub(crate) mod document;
mod json;
mod merge;
mod strategic;

pub use document::json_type;
pub use json::{WebhookPatchError, json, webhook_json};
pub use merge::merge;
pub use strategic::strategic;

/// Why a patch was not applied, by the answer that a client gets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// 400: the patch is malformed.
    #[error("{0}")]
    BadRequest(String),
    /// 422 without details: the patch does not apply.
    #[error("the server rejected our request due to an error in our request")]
    Unprocessable,
    /// 413: the patch asks for too much.
    #[error("Request entity too large: {0}")]
    TooLarge(String),
    /// 500: the patch and the document do not fit each other.
    #[error("{0}")]
    Internal(String),
}

impl PatchError {
    /// The message of the answer.
    pub fn message(&self) -> String {
        self.to_string()
    }
}

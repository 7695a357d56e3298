//! The errors of an evaluation.

use std::borrow::Cow;
use std::fmt;

/// An evaluation error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// The budget is exhausted.
    #[error("operation cancelled: actual cost limit exceeded")]
    Cancelled,
    /// A computation failed.
    #[error("{0}")]
    Failed(Cow<'static, str>),
}

impl EvalError {
    /// Creates an error with this message.
    pub fn new(text: impl Into<Cow<'static, str>>) -> Self {
        Self::Failed(text.into())
    }

    pub(crate) const fn no_such_overload() -> Self {
        Self::Failed(Cow::Borrowed("no such overload"))
    }

    pub(crate) fn no_such_key(key: &impl fmt::Display) -> Self {
        Self::new(format!("no such key: {key}"))
    }
}

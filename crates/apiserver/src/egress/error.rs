//! The errors of webhook calls.

/// The error of a webhook call, as Kubernetes words it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The configuration of the webhook is unusable.
    #[error("could not get REST client: {0}")]
    Client(String),
    /// The call failed.
    #[error("failed to call webhook: {0}")]
    Call(String),
}

impl CallError {
    /// Returns the cause without the prefix.
    pub fn why(&self) -> &str {
        match self {
            Self::Client(why) | Self::Call(why) => why,
        }
    }
}

//! Why there is no answer.

/// Why a webhook gave no answer, in Kubernetes' words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// It cannot be called as it is configured.
    #[error("could not get REST client: {0}")]
    Client(String),
    /// It was called.
    #[error("failed to call webhook: {0}")]
    Call(String),
}

impl CallError {
    /// What went wrong, without what was attempted.
    pub fn why(&self) -> &str {
        match self {
            Self::Client(why) | Self::Call(why) => why,
        }
    }
}

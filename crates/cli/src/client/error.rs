//! Errors of the API client.

use std::error::Error;
use std::io;

use http::StatusCode;
use serde_json::Value;

use crate::failure::Failure;

/// The error of a request.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The server could not be reached.
    #[error("cannot reach {server}: {why}")]
    Unreachable {
        /// The server.
        server: String,
        /// The cause.
        why: String,
    },
    /// The TLS handshake failed.
    #[error("cannot set up TLS with {server}: {why}")]
    Distrusted {
        /// The server.
        server: String,
        /// The cause.
        why: String,
    },
    /// The server refused.
    #[error("{message}")]
    Refused {
        /// The HTTP status.
        status: StatusCode,
        /// The server's message.
        message: String,
    },
    /// The response was not JSON.
    #[error("the server's answer is not JSON")]
    NotJson,
    /// The path is invalid.
    #[error("{0:?} is not a valid path")]
    Path(String),
}

impl ClientError {
    /// Builds the error of a response without success.
    pub fn refused(status: StatusCode, body: &[u8]) -> Self {
        let object: Option<Value> = serde_json::from_slice(body).ok();
        let message = object
            .as_ref()
            .filter(|object| object["kind"] == "Status")
            .and_then(|object| object["message"].as_str())
            .filter(|message| !message.is_empty());
        let message = match message {
            Some(message) => message.to_owned(),
            None => format!("the server answers {status}"),
        };
        Self::Refused { status, message }
    }

    /// Returns whether the object does not exist.
    pub fn is_not_found(&self) -> bool {
        self.status() == Some(StatusCode::NOT_FOUND)
    }

    /// Returns whether the write conflicted.
    pub fn is_conflict(&self) -> bool {
        self.status() == Some(StatusCode::CONFLICT)
    }

    fn status(&self) -> Option<StatusCode> {
        match self {
            Self::Refused { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// Converts it to a failure with a hint.
    pub fn to_failure(&self, attempted: &str) -> Failure {
        let failure = Failure::new(attempted, self);
        match self {
            Self::Unreachable { .. } => failure.hint("is the server running?"),
            Self::Distrusted { .. } => {
                failure.hint("is the kubeconfig the one that this server wrote?")
            }
            Self::Refused { status, .. } if *status == StatusCode::UNAUTHORIZED => failure
                .hint("the kubeconfig's credential is not known to this server, or has expired"),
            Self::Refused { status, .. } if *status == StatusCode::FORBIDDEN => failure
                .hint("tenants are managed by administrators of the system: use admin.kubeconfig"),
            _ => failure,
        }
    }
}

/// Returns the TLS error that caused an error, if any.
pub fn alert<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    causes(error).find_map(|cause| {
        let inner = cause
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        inner.and_then(|inner| inner.downcast_ref())
    })
}

/// Returns the root cause of an error, which is its most specific message.
pub fn innermost<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    causes(error).last().unwrap_or(error)
}

fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

//! What a server answers when it does not do what it was asked.

use std::error::Error;
use std::io;

use http::StatusCode;
use serde_json::Value;

use crate::failure::Failure;

/// Why a request had no success.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody answers there.
    #[error("cannot reach {server}: {why}")]
    Unreachable {
        /// Where.
        server: String,
        /// What happened.
        why: String,
    },
    /// The two could not agree that they are who they say.
    #[error("cannot set up TLS with {server}: {why}")]
    Distrusted {
        /// Where.
        server: String,
        /// What happened.
        why: String,
    },
    /// The server refused.
    #[error("{message}")]
    Refused {
        /// The HTTP status.
        status: StatusCode,
        /// As the server says it.
        message: String,
    },
    /// The server answered something else than was asked for.
    #[error("the server's answer is not JSON")]
    NotJson,
    /// The path cannot be sent.
    #[error("{0:?} cannot be a path")]
    Path(String),
}

impl ClientError {
    /// What an answer says that is no success.
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

    /// Whether what was asked for is not there.
    pub fn is_not_found(&self) -> bool {
        self.status() == Some(StatusCode::NOT_FOUND)
    }

    /// Whether somebody else was faster.
    pub fn is_conflict(&self) -> bool {
        self.status() == Some(StatusCode::CONFLICT)
    }

    fn status(&self) -> Option<StatusCode> {
        match self {
            Self::Refused { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// As people see it, who wanted this done.
    pub fn told(&self, attempted: &str) -> Failure {
        let failure = Failure::new(attempted, self);
        match self {
            Self::Unreachable { .. } => failure.hint("is the server running?"),
            Self::Distrusted { .. } => {
                failure.hint("is the kubeconfig the one that this server wrote?")
            }
            Self::Refused { status, .. } if *status == StatusCode::UNAUTHORIZED => failure
                .hint("the kubeconfig's credential is not known to this server, or has expired"),
            Self::Refused { status, .. } if *status == StatusCode::FORBIDDEN => failure.hint(
                "tenants are made and seen by administrators of the system: use admin.kubeconfig",
            ),
            _ => failure,
        }
    }
}

/// What TLS has to say about an error, if it caused it.
pub fn alert<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    causes(error).find_map(|cause| {
        let inner = cause
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        inner.and_then(|inner| inner.downcast_ref())
    })
}

/// The error that caused an error, which says more than the others.
pub fn innermost<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    causes(error).last().unwrap_or(error)
}

fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

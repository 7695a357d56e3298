//! Errors of the API client.

use std::error::Error;
use std::io;

use http::StatusCode;
use kube::client::AuthError;
use kube::config::ExecConfig;
use serde_json::Value;

use crate::failure::Failure;
use crate::kubeconfig;

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
    #[error("the server's response is not JSON")]
    NotJson,
    /// The response did not have the server's time.
    #[error("the server's response does not say what time it is there")]
    NoTime,
    /// The path is invalid.
    #[error("{0:?} is not a valid path")]
    Path(String),
}

impl ClientError {
    /// Builds the error of a request without a response in time.
    pub fn timed_out(server: &str) -> Self {
        Self::unreachable(server, "request timed out")
    }

    /// Builds the error of a request without a response. In TLS 1.3 the server rejects a client
    /// certificate only after the first request.
    pub fn failed(server: &str, error: &(dyn Error + 'static)) -> Self {
        match alert(error) {
            Some(alert) => Self::Distrusted {
                server: server.to_owned(),
                why: alert.to_string(),
            },
            None => Self::unreachable(server, innermost(error)),
        }
    }

    fn unreachable(server: &str, why: impl ToString) -> Self {
        Self::Unreachable {
            server: server.to_owned(),
            why: why.to_string(),
        }
    }

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
            None => format!("the server responded with {status}"),
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

/// Converts the error of a client that could not be created. What a credential plugin prints may
/// be a credential, so only its stderr is shown.
pub fn not_connected(attempted: &str, error: &kube::Error, exec: Option<&ExecConfig>) -> Failure {
    let plugin = exec.and_then(|exec| exec.command.as_deref());
    let failed = |why: &str| {
        let name = plugin.map_or(String::new(), |name| format!(" {name:?}"));
        Failure::new(attempted, format!("the credential plugin{name} {why}"))
    };
    match error {
        kube::Error::InferKubeconfig(error) => kubeconfig::load::unusable(error),
        kube::Error::Auth(AuthError::AuthExecStart(error)) => {
            let failure = failed(&format!("cannot be run: {error}"));
            match exec.and_then(|exec| exec.install_hint.clone()) {
                Some(hint) => failure.hint(hint),
                None => failure,
            }
        }
        kube::Error::Auth(AuthError::AuthExecRun { out, .. }) => {
            let stderr = String::from_utf8_lossy(&out.stderr);
            let why = format!("failed: {}: {}", out.status, stderr.trim());
            failed(why.trim_end_matches([':', ' ']))
        }
        kube::Error::Auth(AuthError::AuthExecParse(_) | AuthError::ExecPluginFailed) => {
            failed("printed no ExecCredential")
        }
        other => Failure::new(attempted, other),
    }
}

/// Returns the TLS error that caused an error, if any.
fn alert<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    causes(error).find_map(|cause| cause.downcast_ref())
}

/// Returns the root cause of an error, which is its most specific message.
fn innermost<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    causes(error).last().unwrap_or(error)
}

fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| {
        // The source of an I/O error that wraps another error is that error's source.
        let io = error.downcast_ref::<io::Error>();
        match io.and_then(io::Error::get_ref) {
            Some(inner) => Some(inner as _),
            None => error.source(),
        }
    })
}

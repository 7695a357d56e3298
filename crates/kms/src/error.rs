//! The error of every call to a plugin, and what an operator can do about it.

use std::error::Error as _;
use std::io;
use std::time::Duration;

use tonic::{Code, Status, TimeoutExpired};

/// The result of a call to a plugin.
pub type Result<T> = std::result::Result<T, Error>;

/// A failed call to a plugin, or a plugin that cannot be called.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("KMS plugin {plugin:?} at {endpoint}: {kind}")]
pub struct Error {
    plugin: String,
    endpoint: String,
    kind: ErrorKind,
}

/// The causes of an [`Error`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The endpoint is not a unix socket.
    #[error("invalid endpoint: {0}")]
    Endpoint(String),
    /// There is no socket at the path.
    #[error("the socket does not exist")]
    SocketMissing,
    /// The socket exists, and no plugin listens on it.
    #[error("the plugin does not listen on the socket")]
    NotListening,
    /// This process may not connect to the socket.
    #[error("permission to connect to the socket denied")]
    PermissionDenied,
    /// The connection broke, or the peer does not speak gRPC.
    #[error("the connection failed: {0}")]
    Connection(String),
    /// The plugin did not answer in time.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    /// The plugin reports a problem as its health.
    #[error("unhealthy: {0}")]
    Unhealthy(String),
    /// The plugin serves another version of the protocol, and reports it.
    #[error("unsupported version {0:?} of the KMS API")]
    UnsupportedVersion(String),
    /// The plugin does not serve `v2.KeyManagementService`.
    #[error("the plugin does not serve version v2 of the KMS API")]
    Unimplemented,
    /// The plugin refused the call.
    #[error("the plugin refused the call: {0}")]
    Refused(String),
    /// The answer breaks a rule of the protocol, or the data was never such an answer.
    #[error("invalid response: {0}")]
    InvalidResponse(String),
}

impl Error {
    pub(crate) fn new(plugin: &str, endpoint: &str, kind: ErrorKind) -> Self {
        Self {
            plugin: plugin.to_owned(),
            endpoint: endpoint.to_owned(),
            kind,
        }
    }

    /// The cause.
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    /// What an operator can do about it.
    pub fn hint(&self) -> &'static str {
        match &self.kind {
            ErrorKind::Endpoint(_) => {
                "write the endpoint as unix:///PATH, or unix:///@NAME for an abstract socket"
            }
            ErrorKind::SocketMissing => {
                "start the plugin, and compare its socket with the endpoint"
            }
            ErrorKind::NotListening => "start the plugin; the socket is left from an earlier run",
            ErrorKind::PermissionDenied => {
                "let the user of this process read and write the socket and enter its folder"
            }
            ErrorKind::Connection(_) => {
                "check that the process at the socket is a KMS v2 plugin, and read its log"
            }
            ErrorKind::Timeout(_) => {
                "read the plugin's log; a plugin with a remote key service may need a longer timeout"
            }
            ErrorKind::Unhealthy(_) | ErrorKind::Refused(_) => "read the plugin's log",
            ErrorKind::UnsupportedVersion(_) | ErrorKind::Unimplemented => {
                "install a release of the plugin that serves KMS v2"
            }
            ErrorKind::InvalidResponse(_) => "report it to the authors of the plugin",
        }
    }
}

/// The outcome of one attempt that failed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The plugin was not reached or its connection broke: another attempt may succeed.
    Unreachable(ErrorKind),
    /// The plugin answered.
    Answered(ErrorKind),
}

impl Failure {
    /// Classifies a status; `timeout` is that of the call.
    pub(crate) fn new(status: &Status, timeout: Duration) -> Self {
        if let Some(kind) = connection_failure(status) {
            return Self::Unreachable(kind);
        }
        let message = || status.message().to_owned();
        Self::Answered(match status.code() {
            Code::DeadlineExceeded => ErrorKind::Timeout(timeout),
            // Only Tonic's own deadline has a source here.
            Code::Cancelled if status.source().is_some() => ErrorKind::Timeout(timeout),
            Code::Unimplemented => ErrorKind::Unimplemented,
            Code::OutOfRange if status.message().contains("message length too large") => {
                ErrorKind::InvalidResponse(message())
            }
            _ if status.message().is_empty() => ErrorKind::Refused(status.code().to_string()),
            _ => ErrorKind::Refused(message()),
        })
    }
}

/// The failure of a connection; `None` if the plugin itself sent the status.
fn connection_failure(status: &Status) -> Option<ErrorKind> {
    let mut innermost = status.source()?;
    loop {
        // Tonic ends a call at the deadline that it sent; the connection is intact.
        if innermost.is::<TimeoutExpired>() {
            return None;
        }
        if let Some(error) = innermost.downcast_ref::<io::Error>() {
            match error.kind() {
                io::ErrorKind::NotFound => return Some(ErrorKind::SocketMissing),
                io::ErrorKind::ConnectionRefused => return Some(ErrorKind::NotListening),
                io::ErrorKind::PermissionDenied => return Some(ErrorKind::PermissionDenied),
                _ => {}
            }
        }
        match innermost.source() {
            Some(source) => innermost = source,
            None => return Some(ErrorKind::Connection(innermost.to_string())),
        }
    }
}

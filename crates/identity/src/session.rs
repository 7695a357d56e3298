//! A bounded pool of sessions: one login shared by many requesters, checked before use after
//! idling, logged out after the last requester leaves.
//!
//! | module | is |
//! |---|---|
//! | `pool` | the pool: runs the actions of the state machine and wakes requesters |
//! | `state` | the state machine, without I/O and clock |
//! | `entry` | the session of one key, with a single login or check at a time |
//! | `breaker` | a circuit breaker per endpoint |
//! | `backoff` | backoff of endpoints, certificates, accounts, sources and keys |
//! | `limits` | bounded concurrency per endpoint, per owner and over all |
//! | `waiting` | requesters that wait for an event |

mod backoff;
mod breaker;
mod entry;
mod limits;
mod metrics;
#[cfg(test)]
mod model;
mod pool;
mod state;
#[cfg(test)]
mod tests;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use crate::credential::{Credential, Fingerprint, Source};
use crate::endpoint::{Endpoint, Trust};
use crate::reason::Reason;

pub use pool::{HeldSession, Sessions};

/// The key of a session. Requesters share a session only if their keys are equal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The tenant's space, or none for the operator's own.
    pub space: Option<Arc<str>>,
    /// The source of the credential.
    pub source: Source,
    /// The server that the credential is sent to.
    pub endpoint: Endpoint,
    /// The server certificates that are accepted.
    pub trust: Trust,
    /// A digest of the credential.
    pub fingerprint: Fingerprint,
}

/// Opens, checks and closes the sessions of one provider.
pub trait Connector: Send + Sync + 'static {
    /// A session of the provider.
    type Session: Send + Sync + 'static;
    /// Logs in.
    fn log_in(
        &self,
        endpoint: &Endpoint,
        trust: &Trust,
        credential: &Credential,
    ) -> impl Future<Output = Result<Self::Session, LoginError>> + Send;
    /// Returns whether the server still knows a session that was idle.
    fn is_alive(
        &self,
        session: &Self::Session,
    ) -> impl Future<Output = Result<bool, LoginError>> + Send;
    /// Logs out. Failures are ignored.
    fn log_out(&self, session: &Self::Session) -> impl Future<Output = ()> + Send;
}

/// A failed login or check.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct LoginError {
    /// One of InvalidCredentials, CertificateNotTrusted and Unreachable.
    pub reason: Reason,
    /// A sentence about the failure, without the credential.
    pub message: String,
    /// Whether the server responded. If so, the backoff applies to this credential and not to
    /// the endpoint.
    pub answered: bool,
}

impl LoginError {
    fn unreachable(message: impl Into<String>) -> Self {
        Self {
            reason: Reason::Unreachable,
            message: message.into(),
            answered: false,
        }
    }
}

/// Timeouts and limits of the pool.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Timeout of a login, a check or a logout.
    pub request_timeout: Duration,
    /// Idle time after which a session is checked before use.
    pub check_after: Duration,
    /// Maximum age of a session.
    pub lifetime: Duration,
    /// Time for which a refused credential is not tried again.
    pub refused_backoff: Duration,
    /// Minimum and maximum backoff of an unreachable endpoint.
    pub unreachable_backoff: (Duration, Duration),
    /// Maximum number of concurrent users of one endpoint; the maximum over all endpoints is
    /// three times as high. One owner (a space, or a namespace with Secrets of its own) may have
    /// as many over all endpoints and half of that at one; logins may have half of it. A quarter
    /// of the number of workers is a good value.
    pub max_per_endpoint: usize,
}

/// The reason why no session is available now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unavailable {
    /// The session is being opened or checked, or the endpoint is at its limit: the requester
    /// will be woken.
    Wait,
    /// The login failed and is not retried before this time.
    Failed {
        /// The failure.
        error: LoginError,
        /// When to retry. The requester may be woken earlier, if the endpoint recovers.
        retry_after: Duration,
    },
}

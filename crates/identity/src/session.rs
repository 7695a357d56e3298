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
    /// The scope at the server, such as a namespace, if the credential names one.
    pub scope: Option<String>,
    /// A digest of the credential.
    pub fingerprint: Fingerprint,
}

impl Key {
    /// Returns the key of the session for a credential of an object in this space. It differs
    /// whenever the server, the scope there, its trust or the account of the session differs.
    pub fn of(space: Option<Arc<str>>, credential: &Credential) -> Self {
        Self {
            space,
            source: credential.source.clone(),
            endpoint: credential.endpoint.clone(),
            trust: credential.trust.clone(),
            scope: credential.scope.clone(),
            fingerprint: credential.fingerprint.clone(),
        }
    }
}

/// Opens, checks and closes the sessions of one provider.
pub trait Connector: Send + Sync + 'static {
    /// A session of the provider.
    type Session: Send + Sync + 'static;
    /// Logs in. The key tells where, in which scope, and for which tenant.
    fn log_in(
        &self,
        key: &Key,
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
    /// One of InvalidCredentials, CertificateNotTrusted, Unreachable, Forbidden and NotServed.
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
    /// Maximum numbers of concurrent users.
    pub concurrency: Concurrency,
}

/// Maximum numbers of concurrent users of sessions. A user occupies a worker of the operator.
/// An owner is a space, or a namespace with Secrets of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Concurrency {
    /// Users of one endpoint.
    pub per_endpoint: usize,
    /// Users of all endpoints.
    pub total: usize,
    /// Users of one owner at all endpoints.
    pub per_owner: usize,
    /// Users of one owner at one endpoint.
    pub per_owner_and_endpoint: usize,
    /// Logins at one endpoint, and users of all endpoints at which a request timed out.
    pub logins: usize,
}

impl Concurrency {
    /// Returns the numbers for a provider with many endpoints, such as vCenters: neither a slow
    /// endpoint nor one owner with many endpoints may occupy all workers. A quarter of the
    /// workers per endpoint is a good value.
    pub const fn of_many_endpoints(per_endpoint: usize) -> Self {
        let half = at_least_one(per_endpoint / 2);
        Self {
            per_endpoint,
            total: per_endpoint * 3,
            per_owner: half * 2,
            per_owner_and_endpoint: half,
            logins: half,
        }
    }

    /// Returns the numbers for a provider with one endpoint, such as a public cloud: it may
    /// occupy most workers, and one owner a third of those.
    pub const fn of_one_endpoint(per_endpoint: usize) -> Self {
        let per_owner = at_least_one(per_endpoint / 3);
        Self {
            per_endpoint,
            total: per_endpoint,
            per_owner,
            per_owner_and_endpoint: per_owner,
            logins: at_least_one(per_endpoint / 2),
        }
    }
}

const fn at_least_one(number: usize) -> usize {
    if number == 0 { 1 } else { number }
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

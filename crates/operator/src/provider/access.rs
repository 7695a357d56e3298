//! Access of an object to a server: a session that was opened with its credential, or why there
//! is none.

use std::fmt;
use std::time::Duration;

use insula_identity::credential::Credential;
use insula_identity::decide::{Question, Refusal};
use insula_identity::session::{Connector, HeldSession, Unavailable};
use tracing::debug;

use super::{Provider, Reconciliation};
use crate::retry::{Class, Outcome};

/// The longest wait for a change that is watched.
pub const MAX_WAIT: Duration = Duration::from_secs(30);
/// How many failed requests to the API server are retried before a condition reports them.
const MAX_UNREPORTED_FAILURES: u32 = 2;

/// The access of an object to a server.
pub enum Access<C: Connector> {
    /// The session, and the credential that it was opened with.
    Open(HeldSession<C>, Box<Credential>),
    /// There is no session, and when to reconcile the object again.
    Closed(Closed, Outcome),
}

/// Why an object has no session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Closed {
    /// It is being opened or checked: what was known before still holds.
    Opening,
    /// There is no credential for the object, or the server does not accept it.
    Refused(Refusal),
    /// The API server did not answer.
    Unknown(String),
}

impl<C: Connector> fmt::Debug for Access<C> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(..) => out.write_str("Open"),
            Self::Closed(why, outcome) => write!(out, "Closed({why:?}, {outcome:?})"),
        }
    }
}

impl<P: Provider> Reconciliation<'_, P> {
    /// Returns the access that the object gets with the credential that its question leads to. A
    /// question that cannot be asked, because a field is invalid, is a refusal. The object is
    /// triggered again when a session that is being opened is open or has failed.
    ///
    /// # Errors
    ///
    /// If a request to the API server fails.
    pub async fn access(
        &self,
        question: Result<Question, Refusal>,
    ) -> Result<Access<P::Connector>, kube::Error> {
        let credential = match question {
            Ok(question) => self.resolve(&question).await?,
            Err(refusal) => Err(refusal),
        };
        let credential = match credential {
            Ok(credential) => credential,
            Err(refusal) => {
                self.release_session();
                let outcome = Outcome::Waits(self.resync_after());
                return Ok(Access::Closed(Closed::Refused(refusal), outcome));
            }
        };
        Ok(match self.session(&credential) {
            Ok(session) => Access::Open(session, Box::new(credential)),
            Err(Unavailable::Wait) => Access::Closed(Closed::Opening, Outcome::Waits(MAX_WAIT)),
            Err(Unavailable::Failed { error, retry_after }) => {
                let hint = P::login_hint(&credential.source, error.reason);
                let refusal = Refusal {
                    reason: error.reason,
                    message: error.message,
                    hint: hint.map(str::to_owned),
                };
                Access::Closed(Closed::Refused(refusal), Outcome::Waits(retry_after))
            }
        })
    }

    /// Returns how to report a failed request to the API server, after so many that it may last.
    ///
    /// # Errors
    ///
    /// The given error, if it is to be retried first.
    pub fn unknown_access(&self, error: kube::Error) -> Result<(Closed, Outcome), kube::Error> {
        if self.failures < MAX_UNREPORTED_FAILURES {
            return Err(error);
        }
        debug!(key = %self.key, %error, "credential resolution failed");
        let outcome = Outcome::Failed(Class::of(&error));
        Ok((Closed::Unknown(error.to_string()), outcome))
    }
}

//! What a failed request means: whether it happened, and what to say of it.

use std::error::Error as _;

use tonic::{Code, ConnectError, Status};

use crate::{Error, Transaction};

/// What is known of a request that was not answered well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// etcd: the revision is below the floor.
    Compacted,
    /// etcd: the revision has not happened.
    Future,
    /// etcd: the quota is used up. This alone does not say that nothing was written.
    Full,
    /// etcd: the request is larger than it takes. It was not looked at.
    TooLarge,
    /// The answer is larger than we take.
    Oversized,
    /// It did not get to this member, or this one does not do such things. Another may.
    NotTaken(String),
    /// etcd refused it before doing anything.
    Refused(String),
    /// Anything else: it may have been done, and may still be.
    InDoubt(String),
}

impl Failure {
    /// Whether a request that may be repeated is worth repeating elsewhere.
    pub(super) const fn is_passing(&self) -> bool {
        matches!(self, Self::NotTaken(_) | Self::InDoubt(_))
    }

    /// The error of a request that changes nothing, or that may be repeated.
    pub(super) fn of_read(self) -> Error {
        Error::Unavailable(match self {
            Self::NotTaken(detail) | Self::Refused(detail) | Self::InDoubt(detail) => detail,
            Self::Compacted | Self::Future => "etcd refused a revision".into(),
            Self::Full | Self::TooLarge => "etcd has no room for the request".into(),
            Self::Oversized => "etcd's answer is too large".into(),
        })
    }

    /// The error of a commit of so many bytes. Only what certainly did not happen may be
    /// told as such.
    pub(super) fn of_commit(self, bytes: usize) -> Error {
        match self {
            Self::NotTaken(detail) | Self::Refused(detail) => Error::Unavailable(detail),
            Self::TooLarge => Error::TooLarge {
                bytes,
                limit: Transaction::MAX_BYTES,
            },
            Self::Full => Error::Indeterminate("etcd ran out of space while writing".into()),
            Self::InDoubt(detail) => Error::Indeterminate(detail),
            Self::Compacted | Self::Future | Self::Oversized => {
                Error::Indeterminate("etcd gave an answer that cannot be read".into())
            }
        }
    }
}

impl From<Status> for Failure {
    /// etcd tells its errors by code and text; the texts have not changed since 3.0.
    fn from(status: Status) -> Self {
        let says = |text: &str| status.message().contains(text);
        match status.code() {
            Code::OutOfRange if says("has been compacted") => Self::Compacted,
            Code::OutOfRange if says("is a future revision") => Self::Future,
            Code::OutOfRange if says("message length too large") => Self::Oversized,
            Code::ResourceExhausted if says("database space exceeded") => Self::Full,
            Code::ResourceExhausted if says("trying to send message larger") => Self::Oversized,
            Code::ResourceExhausted if says("received message larger") => Self::TooLarge,
            Code::ResourceExhausted if says("too many requests") => Self::Refused(told(&status)),
            Code::InvalidArgument if says("request is too large") => Self::TooLarge,
            // A learner, or a member that is still finding out what its cluster can do.
            Code::FailedPrecondition => Self::NotTaken(told(&status)),
            Code::InvalidArgument
            | Code::PermissionDenied
            | Code::Unauthenticated
            | Code::Unimplemented => Self::Refused(told(&status)),
            _ if never_connected(&status) => Self::NotTaken(told(&status)),
            _ => Self::InDoubt(told(&status)),
        }
    }
}

/// Whether the failure came about while a connection was made, before any request was
/// written to it.
fn never_connected(status: &Status) -> bool {
    let mut cause = status.source();
    while let Some(error) = cause {
        if error.is::<ConnectError>() {
            return true;
        }
        cause = error.source();
    }
    false
}

/// etcd's own text, or the innermost cause of a failure on the way to it.
pub(super) fn told(status: &Status) -> String {
    let mut innermost = None;
    let mut cause = status.source();
    while let Some(error) = cause {
        innermost = Some(error);
        cause = error.source();
    }
    match innermost {
        Some(error) => format!("etcd cannot be reached: {error}"),
        None => status.message().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_certainly_did_not_happen_is_told_as_such() {
        let in_doubt = |text: &str| Failure::InDoubt(text.into());
        let refused = |text: &str| Failure::Refused(text.into());
        for (code, text, expected) in [
            (Code::Unavailable, "etcdserver: no leader", None),
            (Code::Unavailable, "etcdserver: request timed out", None),
            (Code::Unavailable, "etcdserver: leader changed", None),
            (Code::Unknown, "anything", None),
            (Code::Cancelled, "h2 protocol error", None),
            (
                Code::InvalidArgument,
                "etcdserver: duplicate key given in txn request",
                Some(refused("etcdserver: duplicate key given in txn request")),
            ),
            (
                Code::FailedPrecondition,
                "etcdserver: rpc not supported for learner",
                Some(Failure::NotTaken(
                    "etcdserver: rpc not supported for learner".into(),
                )),
            ),
            (
                Code::ResourceExhausted,
                "etcdserver: too many requests",
                Some(refused("etcdserver: too many requests")),
            ),
            (
                Code::ResourceExhausted,
                "etcdserver: mvcc: database space exceeded",
                Some(Failure::Full),
            ),
            (
                Code::InvalidArgument,
                "etcdserver: request is too large",
                Some(Failure::TooLarge),
            ),
            (
                Code::OutOfRange,
                "etcdserver: mvcc: required revision has been compacted",
                Some(Failure::Compacted),
            ),
            (
                Code::OutOfRange,
                "etcdserver: mvcc: required revision is a future revision",
                Some(Failure::Future),
            ),
        ] {
            let expected = expected.unwrap_or_else(|| in_doubt(text));
            assert_eq!(Failure::from(Status::new(code, text)), expected, "{text}");
        }
    }
}

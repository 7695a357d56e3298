//! Classifies failed requests: whether they happened, and the resulting error.

use std::error::Error as _;

use tonic::{Code, ConnectError, Status};

use crate::{Error, Transaction};

/// The known outcome of a failed request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// etcd: the revision is below the floor.
    Compacted,
    /// etcd: the revision has not been reached.
    Future,
    /// etcd: the quota is exceeded. This alone does not mean that nothing was written.
    Full,
    /// etcd: the request is too large. It was not processed.
    TooLarge,
    /// The answer is larger than the client accepts.
    Oversized,
    /// It did not reach this member, or the member cannot serve it. Another may.
    NotSent(String),
    /// etcd rejected it before doing anything.
    Refused(String),
    /// Anything else: it may have been applied, and may still be.
    Indeterminate(String),
}

impl Failure {
    /// Whether a repeatable request should be sent to another member.
    pub(super) const fn is_transient(&self) -> bool {
        matches!(self, Self::NotSent(_) | Self::Indeterminate(_))
    }

    /// The error of a read or another repeatable request.
    pub(super) fn of_read(self) -> Error {
        Error::Unavailable(match self {
            Self::NotSent(detail) | Self::Refused(detail) | Self::Indeterminate(detail) => detail,
            Self::Compacted | Self::Future => "etcd refused a revision".into(),
            Self::Full | Self::TooLarge => "etcd has no room for the request".into(),
            Self::Oversized => "etcd's answer is too large".into(),
        })
    }

    /// The error of a commit of so many bytes. Only a commit that certainly did not happen may be
    /// reported as not applied.
    pub(super) fn of_commit(self, bytes: usize) -> Error {
        match self {
            Self::NotSent(detail) | Self::Refused(detail) => Error::Unavailable(detail),
            Self::TooLarge => Error::TooLarge {
                bytes,
                limit: Transaction::MAX_BYTES,
            },
            Self::Full => Error::Indeterminate("etcd ran out of space while writing".into()),
            Self::Indeterminate(detail) => Error::Indeterminate(detail),
            Self::Compacted | Self::Future | Self::Oversized => {
                Error::Indeterminate("etcd gave an answer that cannot be read".into())
            }
        }
    }
}

impl From<Status> for Failure {
    /// etcd reports errors by code and text; the texts have not changed since 3.0.
    fn from(status: Status) -> Self {
        let contains = |text: &str| status.message().contains(text);
        match status.code() {
            Code::OutOfRange if contains("has been compacted") => Self::Compacted,
            Code::OutOfRange if contains("is a future revision") => Self::Future,
            Code::OutOfRange if contains("message length too large") => Self::Oversized,
            Code::ResourceExhausted if contains("database space exceeded") => Self::Full,
            Code::ResourceExhausted if contains("trying to send message larger") => Self::Oversized,
            Code::ResourceExhausted if contains("received message larger") => Self::TooLarge,
            Code::ResourceExhausted if contains("too many requests") => {
                Self::Refused(message(&status))
            }
            Code::InvalidArgument if contains("request is too large") => Self::TooLarge,
            // A learner, or a member that is still discovering the capabilities of its cluster.
            Code::FailedPrecondition => Self::NotSent(message(&status)),
            Code::InvalidArgument
            | Code::PermissionDenied
            | Code::Unauthenticated
            | Code::Unimplemented => Self::Refused(message(&status)),
            _ if never_connected(&status) => Self::NotSent(message(&status)),
            _ => Self::Indeterminate(message(&status)),
        }
    }
}

/// Whether the failure occurred while connecting, before any request was written.
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

/// etcd's own text, or the innermost cause of a connection failure.
pub(super) fn message(status: &Status) -> String {
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
    fn only_certain_failures_are_reported_as_not_applied() {
        let indeterminate = |text: &str| Failure::Indeterminate(text.into());
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
                Some(Failure::NotSent(
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
            let expected = expected.unwrap_or_else(|| indeterminate(text));
            assert_eq!(Failure::from(Status::new(code, text)), expected, "{text}");
        }
    }
}

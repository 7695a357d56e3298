//! What can be in the way of a tenant.

use insula_operator::retry::Class;

use crate::error::Error;
use crate::names::NotAnId;

/// What is in the way. Each has a reason of its own, which never changes its meaning.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Problem {
    #[error("the tenant's name is no tenant ID: {0}; make it anew under another name")]
    InvalidName(NotAnId),
    #[error("spec.admins[{at}]: {why}")]
    InvalidAdmins { at: usize, why: String },
    #[error("spec.isolation cannot be changed: delete the tenant and make it anew")]
    IsolationChanged,
    #[error(
        "namespace {0} is there and was not made for this tenant; once it is gone, the tenant goes on by itself"
    )]
    NamespaceNotOurs(String),
    #[error(
        "space {0} is there and was not made for this tenant; once it is gone, the tenant goes on by itself"
    )]
    SpaceNotOurs(String),
    #[error("this server has no spaces: only tenants with isolation Namespace can be made")]
    SpacesNotServed,
    #[error("waits until namespace {0}, which is being deleted, is gone")]
    NamespaceTerminating(String),
    #[error("waits until space {0}, which is being deleted, is gone")]
    SpaceTerminating(String),
    #[error("waits until {0}, which is being deleted, is gone, and makes it anew")]
    PartTerminating(String),
    #[error("waits until the server has made the kinds of the space")]
    KindsNotServed,
    #[error("waits until the server has made the token")]
    TokenPending,
    #[error("the server makes no token: is its controller of service-account tokens running?")]
    TokenNotMade,
    #[error("the operator may not do it: {0}")]
    Forbidden(String),
    #[error("the server refuses it: {0}")]
    Rejected(String),
    #[error("the server does not do it: {0}")]
    ServerUnavailable(String),
}

impl Problem {
    /// In one word, for conditions, events and the documentation.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::InvalidName(_) => "InvalidName",
            Self::InvalidAdmins { .. } => "InvalidAdmins",
            Self::IsolationChanged => "IsolationChanged",
            Self::NamespaceNotOurs(_) => "NamespaceNotOurs",
            Self::SpaceNotOurs(_) => "SpaceNotOurs",
            Self::SpacesNotServed => "SpacesNotServed",
            Self::NamespaceTerminating(_) => "NamespaceTerminating",
            Self::SpaceTerminating(_) => "SpaceTerminating",
            Self::PartTerminating(_) => "PartTerminating",
            Self::KindsNotServed => "KindsNotServed",
            Self::TokenPending => "TokenPending",
            Self::TokenNotMade => "TokenNotMade",
            Self::Forbidden(_) => "Forbidden",
            Self::Rejected(_) => "Rejected",
            Self::ServerUnavailable(_) => "ServerUnavailable",
        }
    }

    /// Whether it passes by itself, so that the tenant has not failed.
    pub const fn passes(&self) -> bool {
        matches!(
            self,
            Self::NamespaceTerminating(_)
                | Self::SpaceTerminating(_)
                | Self::PartTerminating(_)
                | Self::KindsNotServed
                | Self::TokenPending
        )
    }

    /// When it is tried again.
    pub const fn class(&self) -> Class {
        match self {
            Self::InvalidName(_) | Self::InvalidAdmins { .. } | Self::IsolationChanged => {
                Class::Mistaken
            }
            Self::NamespaceNotOurs(_)
            | Self::SpaceNotOurs(_)
            | Self::NamespaceTerminating(_)
            | Self::SpaceTerminating(_)
            | Self::PartTerminating(_)
            | Self::KindsNotServed
            | Self::TokenPending
            | Self::TokenNotMade => Class::Blocked,
            Self::SpacesNotServed | Self::Forbidden(_) | Self::Rejected(_) => Class::Refused,
            Self::ServerUnavailable(_) => Class::Transient,
        }
    }

    /// What an answer of the server means for a tenant with this namespace.
    pub fn of(error: &Error, namespace: &str) -> Self {
        let text = error.to_string();
        match error {
            error if is_terminating(error) => Self::NamespaceTerminating(namespace.to_owned()),
            Error::Server { source, .. } => match &**source {
                kube::Error::Api(status) if matches!(status.code, 401 | 403) => {
                    Self::Forbidden(text)
                }
                source if Class::of(source) == Class::Refused => Self::Rejected(text),
                _ => Self::ServerUnavailable(text),
            },
            _ => Self::ServerUnavailable(text),
        }
    }
}

/// Whether the server refused because the namespace goes: it makes nothing in one that does,
/// nor another of its name.
pub(super) fn is_terminating(error: &Error) -> bool {
    let Error::Server { source, .. } = error else {
        return false;
    };
    let kube::Error::Api(status) = &**source else {
        return false;
    };
    let Some(details) = &status.details else {
        return false;
    };
    match status.code {
        403 => details
            .causes
            .iter()
            .any(|cause| cause.reason == "NamespaceTerminating"),
        409 => {
            details.kind == "namespaces" && status.message.starts_with("object is being deleted")
        }
        _ => false,
    }
}

//! The problems that keep a tenant from being provisioned.

use insula_operator::retry::Class;

use crate::error::Error;
use crate::names::InvalidTenantId;

/// A problem. The reason of each never changes its meaning.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Problem {
    #[error("the tenant's name is not a tenant ID: {0}; create it under another name")]
    InvalidName(InvalidTenantId),
    #[error("spec.admins[{at}]: {why}")]
    InvalidAdmins { at: usize, why: String },
    #[error("spec.isolation cannot be changed: delete the tenant and create it again")]
    IsolationChanged,
    #[error(
        "namespace {0} exists and was not created for this tenant; once it is deleted, provisioning continues by itself"
    )]
    NamespaceNotOurs(String),
    #[error(
        "space {0} exists and was not created for this tenant; once it is deleted, provisioning continues by itself"
    )]
    SpaceNotOurs(String),
    #[error("this server has no spaces: it supports only tenants with isolation Namespace")]
    SpacesNotServed,
    #[error("waiting for the deletion of namespace {0}")]
    NamespaceTerminating(String),
    #[error("waiting for the deletion of space {0}")]
    SpaceTerminating(String),
    #[error("waiting for the deletion of {0} to create it again")]
    PartTerminating(String),
    #[error("waiting for the kinds of the space to be served")]
    KindsNotServed,
    #[error("waiting for the token to be issued")]
    TokenPending,
    #[error("no token is issued: is the service account token controller running?")]
    TokenNotMade,
    #[error("the operator lacks permissions: {0}")]
    Forbidden(String),
    #[error("the server rejects the request: {0}")]
    Rejected(String),
    #[error("the server is unavailable: {0}")]
    ServerUnavailable(String),
}

impl Problem {
    /// Returns the reason for conditions, events and the documentation.
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

    /// Returns whether it resolves by itself, so that the tenant has not failed.
    pub const fn resolves_itself(&self) -> bool {
        matches!(
            self,
            Self::NamespaceTerminating(_)
                | Self::SpaceTerminating(_)
                | Self::PartTerminating(_)
                | Self::KindsNotServed
                | Self::TokenPending
        )
    }

    /// Returns how it is retried.
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

    /// Classifies an error of the server for a tenant with this namespace.
    pub fn of(error: &Error, namespace: &str) -> Self {
        let text = error.to_string();
        match error {
            error if is_terminating(error) => Self::NamespaceTerminating(namespace.to_owned()),
            Error::Server { source, .. } => match &**source {
                // Quotas answer 403 too.
                kube::Error::Api(status) if is_quota_refusal(&status.message) => {
                    Self::Rejected(text)
                }
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

/// Returns whether a message is that of Kubernetes' quotas: one is exceeded, or not counted yet.
fn is_quota_refusal(message: &str) -> bool {
    ["exceeded quota: ", "status unknown for quota: "]
        .iter()
        .any(|text| message.contains(text))
}

/// Returns whether the server refused because the namespace is terminating: nothing can be
/// created in it, nor another of its name.
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

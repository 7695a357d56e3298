//! Reasons why a kubeconfig is refused.

use std::fmt;

use insula_identity::shape::InvalidContent;

use super::file::MAX_BYTES;

/// Why a kubeconfig is refused, as the end of a sentence about the Secret. No value is repeated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidKubeconfig {
    /// The Secret has none of the keys.
    #[error("lacks kubeconfig")]
    NoKey,
    /// It is too large.
    #[error("has a kubeconfig of more than {} MiB", MAX_BYTES >> 20)]
    TooLarge,
    /// It is not text.
    #[error("has a kubeconfig that is not UTF-8 text")]
    NotText,
    /// It is not YAML, has fields of a wrong type, or expands to too much.
    #[error("has a kubeconfig that is not valid")]
    NotValid,
    /// It has several YAML documents.
    #[error("has a kubeconfig of several YAML documents")]
    SeveralDocuments,
    /// Two entries of a list have one name, and programs differ in which one counts.
    #[error("has a kubeconfig with two entries of one name in {0}")]
    SameName(&'static str),
    /// A field refers to something outside of the kubeconfig.
    #[error("uses {field} in {place}, which is not allowed: {why}")]
    Outside {
        /// The field.
        field: &'static str,
        /// The entry that has it.
        place: Place,
        /// Why it is not allowed.
        why: &'static str,
    },
    /// No context is selected.
    #[error("has a kubeconfig without current-context, and identityRef names no context")]
    NoCurrentContext,
    /// The selected context does not exist.
    #[error("has no context {0:?}")]
    NoContext(String),
    /// The context names no cluster or user.
    #[error("names no {missing} in context {context:?}")]
    Incomplete {
        /// `cluster` or `user`.
        missing: &'static str,
        /// The context.
        context: String,
    },
    /// The context names a cluster or user that does not exist.
    #[error("names an unknown {missing} in context {context:?}")]
    Unknown {
        /// `cluster` or `user`.
        missing: &'static str,
        /// The context.
        context: String,
    },
    /// The namespace of the context is no name of a namespace.
    #[error("has an invalid namespace in context {0:?}")]
    InvalidNamespace(String),
    /// The cluster has no server.
    #[error("has no server in the cluster of context {0:?}")]
    NoServer(String),
    /// The server is reached without TLS, so that its network could read the credential.
    #[error("has a server without TLS in the cluster of context {0:?}: only https:// is allowed")]
    PlainServer(String),
    /// The server is no URL of an API server.
    #[error(
        "has an invalid server in the cluster of context {0:?}: it must be https://, a host, and \
         optionally a port and a path"
    )]
    InvalidServer(String),
    /// The server's certificate is not verified, and the operator demands that.
    #[error(
        "uses insecure-skip-tls-verify in the cluster of context {0:?}, which this operator does \
         not allow"
    )]
    InsecureNotAllowed(String),
    /// The server's certificate is to be verified and not to be verified.
    #[error(
        "has certificate-authority-data and insecure-skip-tls-verify in the cluster of context \
         {0:?}: only one can be meant"
    )]
    InsecureWithAuthority(String),
    /// A field is not base64.
    #[error("has a {field} that is not base64, in {place}")]
    NotBase64 {
        /// The field.
        field: &'static str,
        /// The entry that has it.
        place: Place,
    },
    /// A field has no certificate or key in PEM.
    #[error("has a {field} without {what} in PEM, in {place}")]
    NotPem {
        /// The field.
        field: &'static str,
        /// What it must contain.
        what: &'static str,
        /// The entry that has it.
        place: Place,
    },
    /// A field has characters that cannot be sent.
    #[error("has an invalid {field} in {place}")]
    InvalidText {
        /// The field.
        field: &'static str,
        /// The entry that has it.
        place: Place,
    },
    /// A field has no effect without another one.
    #[error("has {field} without {needed} in {place}")]
    Without {
        /// The field.
        field: &'static str,
        /// The field that is missing.
        needed: &'static str,
        /// The entry that has it.
        place: Place,
    },
    /// The user has a token and a name with a password.
    #[error("has token and username in the user of context {0:?}: only one can be used")]
    SeveralAuthentications(String),
    /// The user has nothing to authenticate with.
    #[error("has no token, client-certificate-data or username in the user of context {0:?}")]
    NoAuthentication(String),
}

impl From<InvalidKubeconfig> for InvalidContent {
    fn from(invalid: InvalidKubeconfig) -> Self {
        match invalid {
            InvalidKubeconfig::NoKey => Self::Lacks(vec!["kubeconfig".to_owned()]),
            InvalidKubeconfig::NotText => Self::NotText("kubeconfig".to_owned()),
            InvalidKubeconfig::NoContext(name) => Self::NoPart {
                kind: "context",
                name,
            },
            other => Self::Unsupported(other.to_string()),
        }
    }
}

/// An entry of a kubeconfig, described by a context that names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// `cluster` or `user`.
    pub entry: &'static str,
    /// The first context that names the entry, if any does.
    pub context: Option<String>,
}

impl Place {
    /// Returns the cluster of a context.
    pub fn cluster_of(context: &str) -> Self {
        Self {
            entry: "cluster",
            context: Some(context.to_owned()),
        }
    }

    /// Returns the user of a context.
    pub fn user_of(context: &str) -> Self {
        Self {
            entry: "user",
            context: Some(context.to_owned()),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.context {
            Some(context) => write!(out, "the {} of context {context:?}", self.entry),
            None => write!(out, "a {} that no context names", self.entry),
        }
    }
}

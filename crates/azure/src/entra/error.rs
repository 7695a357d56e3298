//! Why there is no token.

use std::fmt;

use insula_identity::reason::Reason;
use insula_identity::session::LoginError;

use super::assertion::{AssertionError, Claims};

/// Why there is no token. The messages have neither secrets nor assertions.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The authority, or the metadata service, refuses the account.
    #[error(transparent)]
    Refused(Box<Refusal>),
    /// There is no usable response.
    #[error("{server} cannot be used: {why}")]
    Unreachable {
        /// The host.
        server: String,
        /// What happened.
        why: String,
    },
    /// The client certificate cannot be used.
    #[error("AZURE_CLIENT_CERTIFICATE cannot be used: {0}")]
    Certificate(#[from] super::certificate::InvalidCertificate),
    /// There is no assertion.
    #[error(transparent)]
    Assertion(#[from] AssertionError),
}

/// A refusal by Entra ID.
#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error)]
pub struct Refusal {
    /// The number after `AADSTS`, if there is one.
    pub code: Option<u64>,
    /// The error as of OAuth, such as `invalid_client`.
    pub error: String,
    /// The first sentence of the description.
    pub description: String,
    /// What helps.
    pub hint: Option<String>,
    /// The id of the request, for Azure's support.
    pub trace_id: Option<String>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.description.is_empty() {
            true => write!(out, "Entra ID refuses the account: {}", self.error)?,
            false => write!(out, "Entra ID refuses the account: {}", self.description)?,
        }
        if let Some(hint) = &self.hint {
            write!(out, "; {hint}")?;
        }
        match &self.trace_id {
            Some(id) => write!(out, " (trace {id})"),
            None => Ok(()),
        }
    }
}

impl TokenError {
    /// Returns whether another attempt with the same account cannot succeed before something is
    /// changed.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused(_) | Self::Certificate(_))
    }

    /// Returns the error of a login.
    ///
    /// The authority is not the endpoint of the session: an account that names a silent authority
    /// must not delay other accounts at the same ARM. So the backoff always is that of the account.
    pub fn into_login_error(self) -> LoginError {
        let reason = match &self {
            Self::Refused(_) | Self::Certificate(_) => Reason::InvalidCredentials,
            Self::Unreachable { .. } => Reason::Unreachable,
            Self::Assertion(error) => error.reason,
        };
        LoginError {
            reason,
            message: self.to_string(),
            answered: true,
        }
    }
}

/// Returns what helps against a refusal.
pub(super) fn hint(code: Option<u64>, claims: Option<&Claims>) -> Option<String> {
    let hint = match code? {
        7_000_215 => {
            "AZURE_CLIENT_SECRET is wrong: use the secret's value, not its id, or create another one"
        }
        7_000_222 => "AZURE_CLIENT_SECRET has expired: create another one",
        700_016 => {
            "AZURE_CLIENT_ID is unknown in AZURE_TENANT_ID: compare both with the application"
        }
        90_002 => "AZURE_TENANT_ID is unknown: compare it, and the cloud, with the directory",
        70_021 | 700_211 | 700_212 | 700_213 => return Some(federation_hint(claims)),
        700_024 => {
            "the assertion has expired or is not valid yet: compare the clocks of this machine and \
             of the token's issuer"
        }
        700_027 => {
            "AZURE_CLIENT_CERTIFICATE is not among the certificates of the application, or its \
             key belongs to another certificate"
        }
        _ => return None,
    };
    Some(hint.to_owned())
}

fn federation_hint(claims: Option<&Claims>) -> String {
    let needed = "the identity needs a federated credential";
    match claims {
        Some(claims) => format!(
            "{needed} with issuer {:?}, subject {:?} and audience {:?}",
            claims.issuer, claims.subject, claims.audience
        ),
        None => format!("{needed} for the service account of the operator"),
    }
}

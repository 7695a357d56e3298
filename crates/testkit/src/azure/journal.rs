//! The record of all requests, and of the identities behind them.

use std::time::Instant;

use serde_json::{Value, json};

/// The identity behind a token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// The tenant of Entra ID.
    pub tenant: String,
    /// The client id: `appid` of the token.
    pub client: String,
    /// The id of the service principal, which roles are assigned to.
    pub principal: String,
    /// How the identity was proven.
    pub proof: Proof,
}

/// How a client proved its identity to the token service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Proof {
    /// The form had neither a secret nor an assertion.
    #[default]
    None,
    /// A client secret.
    Secret,
    /// An assertion that the client signed with the key of its certificate.
    Certificate,
    /// The assertion of another issuer.
    Federated {
        /// The claim `iss`.
        issuer: String,
        /// The claim `sub`.
        subject: String,
    },
    /// The machine on which the client runs.
    ManagedIdentity,
}

/// A request to ARM.
#[derive(Clone, Debug, PartialEq)]
pub struct ArmCall {
    /// The method.
    pub method: String,
    /// The path, without the query.
    pub path: String,
    /// The query.
    pub query: String,
    /// The version of the API.
    pub api_version: Option<String>,
    /// The body; null if there is none.
    pub body: Value,
    /// The identity behind the token; `None` if the token is missing, unknown or expired.
    pub caller: Option<Caller>,
    /// The tenants of the tokens in `x-ms-authorization-auxiliary`.
    pub auxiliary_tenants: Vec<String>,
    /// The user agent of the client.
    pub user_agent: String,
    /// The status of the answer; `None` while there is none, and if the connection was closed
    /// before the request was processed.
    pub status: Option<u16>,
    /// The time of arrival.
    pub at: Instant,
}

/// A request for a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenCall {
    /// The tenant in the path; for managed identities, that of the identity.
    pub tenant: String,
    /// The client id of the request; for managed identities, empty if the request had none.
    pub client: String,
    /// How the client tried to prove its identity.
    pub proof: Proof,
    /// The scope, or the resource for managed identities.
    pub scope: String,
    /// The number of the error, as in 7000215; 400 for errors of managed identities; `None` if
    /// a token was issued.
    pub error: Option<u32>,
    /// The time of the answer.
    pub at: Instant,
}

/// Everything that happened.
#[derive(Clone, Debug, Default)]
pub(super) struct Journal {
    pub arm: Vec<ArmCall>,
    pub tokens: Vec<TokenCall>,
    /// The number of requests to ARM that were cleared.
    pub forgotten: usize,
}

impl Proof {
    /// A word for logs.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Secret => "secret",
            Self::Certificate => "certificate",
            Self::Federated { .. } => "federated",
            Self::ManagedIdentity => "managed identity",
        }
    }

    fn claims(&self) -> (Option<&str>, Option<&str>) {
        match self {
            Self::Federated { issuer, subject } => (Some(issuer), Some(subject)),
            _ => (None, None),
        }
    }
}

impl ArmCall {
    /// The request in a log, without its body and query, which may hold secrets.
    pub fn log_entry(&self) -> Value {
        let mut entry = json!({
            "service": "arm", "method": self.method, "path": self.path,
            "apiVersion": self.api_version, "status": self.status,
        });
        if let Some(caller) = &self.caller {
            let (issuer, subject) = caller.proof.claims();
            entry["caller"] = json!({
                "tenant": caller.tenant, "client": caller.client, "proof": caller.proof.word(),
                "issuer": issuer, "subject": subject,
            });
        }
        entry
    }

    /// Whether it is a request for this resource itself: not for a child, an action or an
    /// operation.
    pub fn is_for(&self, id: &str) -> bool {
        self.path
            .trim_end_matches('/')
            .eq_ignore_ascii_case(id.trim_end_matches('/'))
    }
}

impl TokenCall {
    /// The request in a log.
    pub fn log_entry(&self) -> Value {
        let (issuer, subject) = self.proof.claims();
        json!({
            "service": "token", "tenant": self.tenant, "client": self.client,
            "proof": self.proof.word(), "issuer": issuer, "subject": subject,
            "scope": self.scope, "error": self.error,
        })
    }
}

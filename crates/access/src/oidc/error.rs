//! Why a provider's token is rejected, in Kubernetes' wording where it exists.

use crate::credential::TenantError;
use crate::jwt::{self, Algorithm, Malformed, TimeError};

/// Why a provider's token is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It is malformed, or its signature is not the provider's.
    #[error("oidc: verify token: {0}")]
    Token(jwt::Error),
    /// Its signature algorithm is not accepted.
    #[error("oidc: verify token: oidc: unexpected signature algorithm \"{0}\"")]
    Algorithm(Algorithm),
    /// It was issued by another provider.
    #[error("oidc: verify token: oidc: id token issued by a different provider")]
    Issuer,
    /// It is intended for another client.
    #[error(
        "oidc: verify token: oidc: expected audience in [{expected:?}] got [{}]",
        quoted(found)
    )]
    Audience {
        /// The configured client ID.
        expected: String,
        /// The audiences of the token.
        found: Vec<String>,
    },
    /// It is not valid at this time.
    #[error("oidc: verify token: {}", when(*.0))]
    Time(TimeError),
    /// A mandatory claim is missing.
    #[error("oidc: verify token: oidc: claim {0:?} not present")]
    Missing(&'static str),
    /// A mandatory claim has the wrong type.
    #[error("oidc: verify token: oidc: {0}")]
    Malformed(Malformed),
    /// A claim that the configuration requires is missing.
    #[error("oidc: required claim {0} not present in ID token")]
    Required(String),
    /// A claim that the configuration requires has another value.
    #[error("oidc: required claim {0} value does not match")]
    Unequal(String),
    /// The username claim is missing or empty.
    #[error("oidc: parse username claims {0:?}: claim not present")]
    Username(String),
    /// The user name is reserved for the server.
    #[error("oidc: user names that begin with \"system:\" are reserved")]
    Reserved,
    /// The email address is not verified.
    #[error("oidc: email not verified")]
    Email,
    /// The groups claim is neither a string nor a list of strings.
    #[error("oidc: parse groups claim {0:?}: it is neither a string nor a list of strings")]
    Groups(String),
    /// The tenant claim is not a string.
    #[error("oidc: parse tenant claim {0:?}: it is not a string")]
    Tenant(String),
    /// It names no tenant, or the system, and the provider is for tenants only. It contains the
    /// user.
    #[error("oidc: the token names no tenant, and the provider is for tenants only")]
    NotOfATenant(String),
    /// The tenant it names is invalid or ambiguous.
    #[error("oidc: the token's tenant cannot be determined: {0}")]
    Membership(TenantError),
}

// No `#[from]`: the texts above already include these errors, so they are no sources.
impl From<jwt::Error> for Error {
    fn from(error: jwt::Error) -> Self {
        Self::Token(error)
    }
}

impl From<TimeError> for Error {
    fn from(error: TimeError) -> Self {
        Self::Time(error)
    }
}

impl From<Malformed> for Error {
    fn from(error: Malformed) -> Self {
        Self::Malformed(error)
    }
}

impl From<TenantError> for Error {
    fn from(error: TenantError) -> Self {
        Self::Membership(error)
    }
}

fn quoted(audiences: &[String]) -> String {
    let quoted: Vec<String> = audiences
        .iter()
        .map(|one| insula_gotext::quote(one))
        .collect();
    quoted.join(" ")
}

fn when(error: TimeError) -> String {
    match error {
        TimeError::Expired(at) => {
            format!("oidc: token is expired (Token Expiry: {})", date(at))
        }
        TimeError::NotYetValid(_) => "oidc: token is not valid yet".to_owned(),
        TimeError::IssuedInFuture(_) => "oidc: token is issued in the future".to_owned(),
    }
}

fn date(seconds: i64) -> String {
    match jiff::Timestamp::from_second(seconds) {
        Ok(time) => time.strftime("%Y-%m-%d %H:%M:%S +0000 UTC").to_string(),
        // Outside the range of dates.
        Err(_) => seconds.to_string(),
    }
}

//! Why a provider's token is refused, in the words of Kubernetes where it has some.

use crate::credential::TenantError;
use crate::jwt::{self, Algorithm, Malformed, TimeError};

/// Why a token makes nobody.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It is no token, or not signed by the provider.
    #[error("oidc: verify token: {0}")]
    Token(jwt::Error),
    /// It is signed in a way that was not agreed on.
    #[error("oidc: verify token: oidc: unexpected signature algorithm \"{0}\"")]
    Algorithm(Algorithm),
    /// It is from somebody else.
    #[error("oidc: verify token: oidc: id token issued by a different provider")]
    Issuer,
    /// It is for somebody else.
    #[error(
        "oidc: verify token: oidc: expected audience in [{expected:?}] got [{}]",
        quoted(found)
    )]
    Audience {
        /// We.
        expected: String,
        /// They.
        found: Vec<String>,
    },
    /// It does not hold now.
    #[error("oidc: verify token: {}", when(*.0))]
    Time(TimeError),
    /// It does not say what every token must say.
    #[error("oidc: verify token: oidc: claim {0:?} not present")]
    Missing(&'static str),
    /// A claim that every token has is not of its type.
    #[error("oidc: verify token: oidc: {0}")]
    Malformed(Malformed),
    /// A claim that it must have is not there.
    #[error("oidc: required claim {0} not present in ID token")]
    Required(String),
    /// A claim that it must have has another value.
    #[error("oidc: required claim {0} value does not match")]
    Unequal(String),
    /// It names nobody.
    #[error("oidc: parse username claims {0:?}: claim not present")]
    Username(String),
    /// It names somebody whom the server names.
    #[error("oidc: user names that begin with \"system:\" are reserved")]
    Reserved,
    /// Its holder never showed that the address is theirs.
    #[error("oidc: email not verified")]
    Email,
    /// Its groups are no text and no list of texts.
    #[error("oidc: parse groups claim {0:?}: it is neither a string nor a list of strings")]
    Groups(String),
    /// Its tenant is no text.
    #[error("oidc: parse tenant claim {0:?}: it is not a string")]
    Tenant(String),
    /// Its tenant cannot be told.
    #[error("oidc: the token's tenant cannot be told: {0}")]
    Membership(TenantError),
}

// Not as sources: their words are in ours, and are told to the client as one sentence.
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
    let quoted: Vec<String> = audiences.iter().map(|one| format!("{one:?}")).collect();
    quoted.join(" ")
}

fn when(error: TimeError) -> String {
    match error {
        TimeError::Expired(at) => {
            format!("oidc: token is expired (Token Expiry: {})", date(at))
        }
        TimeError::Early(_) => "oidc: token is not valid yet".to_owned(),
        TimeError::Future(_) => "oidc: token is issued in the future".to_owned(),
    }
}

fn date(seconds: i64) -> String {
    match jiff::Timestamp::from_second(seconds) {
        Ok(time) => time.strftime("%Y-%m-%d %H:%M:%S +0000 UTC").to_string(),
        // Before there were dates.
        Err(_) => seconds.to_string(),
    }
}

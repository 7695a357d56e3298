//! How a provider is to be trusted, as the administrator says it.

use super::{EMAIL, Issuer};
use crate::jwt::Algorithm;

/// A provider, as flags describe it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// What the provider calls itself, and where it is: an HTTPS URL.
    pub issuer_url: String,
    /// What the provider calls us: the audience that a token must have.
    pub client_id: String,
    /// The claim that names the user.
    pub username_claim: String,
    /// What the user's name begins with here: `-` for nothing. By default the issuer and
    /// `#`, unless the claim is `email`.
    pub username_prefix: Option<String>,
    /// The claim that lists groups.
    pub groups_claim: Option<String>,
    /// What the names of groups begin with here.
    pub groups_prefix: String,
    /// The claim that names the tenant. A group `tenant:{t}` names it too.
    pub tenant_claim: Option<String>,
    /// Claims that a token must have, and their values.
    pub required_claims: Vec<(String, String)>,
    /// How tokens may be signed.
    pub algorithms: Vec<Algorithm>,
}

/// Why a provider cannot be trusted like this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// The issuer is no URL that could be one.
    #[error("the issuer must be an https URL without user, query and fragment")]
    Url,
    /// Any token of the provider would be good, whomever it is for.
    #[error("the client id is empty")]
    ClientId,
    /// A claim without a name.
    #[error("the name of a claim is empty")]
    Claim,
    /// No token could be signed.
    #[error("no signing algorithm is accepted")]
    Algorithms,
}

impl Settings {
    /// The defaults for a provider.
    pub fn new(issuer_url: &str, client_id: &str) -> Self {
        Self {
            issuer_url: issuer_url.to_owned(),
            client_id: client_id.to_owned(),
            username_claim: "sub".to_owned(),
            username_prefix: None,
            groups_claim: None,
            groups_prefix: String::new(),
            tenant_claim: None,
            required_claims: Vec::new(),
            algorithms: vec![Algorithm::Rs256, Algorithm::Es256],
        }
    }
}

impl TryFrom<Settings> for Issuer {
    type Error = SettingsError;

    fn try_from(settings: Settings) -> Result<Self, Self::Error> {
        if !is_issuer(&settings.issuer_url) {
            return Err(SettingsError::Url);
        }
        if settings.client_id.is_empty() {
            return Err(SettingsError::ClientId);
        }
        if claims(&settings).any(str::is_empty) {
            return Err(SettingsError::Claim);
        }
        if settings.algorithms.is_empty() {
            return Err(SettingsError::Algorithms);
        }
        Ok(Self {
            username_prefix: username_prefix(&settings),
            url: settings.issuer_url,
            client_id: settings.client_id,
            username_claim: settings.username_claim,
            groups_claim: settings.groups_claim,
            groups_prefix: settings.groups_prefix,
            tenant_claim: settings.tenant_claim,
            required_claims: settings.required_claims,
            algorithms: settings.algorithms,
        })
    }
}

fn claims(settings: &Settings) -> impl Iterator<Item = &str> {
    let required = settings.required_claims.iter().map(|(name, _)| name);
    let given = [&settings.groups_claim, &settings.tenant_claim];
    std::iter::once(&settings.username_claim)
        .chain(given.into_iter().flatten())
        .chain(required)
        .map(String::as_str)
}

/// Names of another provider's users, or of certificates, are other users. Addresses are
/// the same everywhere.
fn username_prefix(settings: &Settings) -> String {
    match settings.username_prefix.as_deref() {
        Some("-") => String::new(),
        Some(prefix) => prefix.to_owned(),
        None if settings.username_claim == EMAIL => String::new(),
        None => format!("{}#", settings.issuer_url),
    }
}

fn is_issuer(url: &str) -> bool {
    let Some(rest) = url.strip_prefix("https://") else {
        return false;
    };
    let authority = rest.split('/').next().unwrap_or("");
    let printable = |byte: u8| byte.is_ascii_graphic() && !b"?#\\\"<>".contains(&byte);
    let host = !authority.is_empty() && !authority.starts_with(':') && !authority.contains('@');
    host && url.bytes().all(printable)
}

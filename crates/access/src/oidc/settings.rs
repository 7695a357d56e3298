//! The settings of a trusted provider.

use super::{EMAIL, Issuer};
use crate::jwt::Algorithm;

/// The settings of a provider, as given by flags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The issuer URL, with the scheme `https`.
    pub issuer_url: String,
    /// The client ID: an audience that every token must have.
    pub client_id: String,
    /// The claim that holds the user name.
    pub username_claim: String,
    /// Prefix of user names; `-` is none. The default is the issuer URL and `#`, unless the
    /// claim is `email`.
    pub username_prefix: Option<String>,
    /// The claim that holds the groups.
    pub groups_claim: Option<String>,
    /// Prefix of group names.
    pub groups_prefix: String,
    /// The claim that names the tenant. Without it, a group `tenant:{t}` does.
    pub tenant_claim: Option<String>,
    /// Whether tokens that name no tenant, or the system, are rejected.
    pub tenants_only: bool,
    /// Required claims with their values.
    pub required_claims: Vec<(String, String)>,
    /// Accepted signature algorithms.
    pub algorithms: Vec<Algorithm>,
}

/// Why the settings of a provider are rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// The issuer URL is invalid.
    #[error("the issuer must be an https URL without user, query and fragment")]
    Url,
    /// The client ID is empty, so tokens for any client would be accepted.
    #[error("the client id is empty")]
    ClientId,
    /// A claim has no name.
    #[error("the name of a claim is empty")]
    Claim,
    /// The list of algorithms is empty, so no token could be accepted.
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
            tenants_only: false,
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
            tenants_only: settings.tenants_only,
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

/// The default prefix keeps user names apart from those of other providers and of
/// certificates. Email addresses are globally unique.
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

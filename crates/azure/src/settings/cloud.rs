//! The clouds of Azure and the endpoints of each.

use std::net::IpAddr;

use super::reader::Reader;
use crate::entra::cloud::CLOUDS;

/// The setting with the name of the cloud.
const CLOUD: &str = "AZURE_CLOUD_ENV";
/// The setting with the address of Microsoft Entra ID.
pub const AUTHORITY_HOST: &str = "AZURE_AUTHORITY_HOST";
/// The setting with the address of Azure Resource Manager.
pub const RESOURCE_MANAGER_ENDPOINT: &str = "AZURE_RESOURCE_MANAGER_ENDPOINT";
/// The setting with the audience of tokens for Azure Resource Manager.
pub const RESOURCE_MANAGER_AUDIENCE: &str = "AZURE_RESOURCE_MANAGER_AUDIENCE";

/// The endpoints of a cloud.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cloud {
    /// The address of Microsoft Entra ID.
    pub authority_host: String,
    /// The address of Azure Resource Manager.
    pub resource_manager_endpoint: String,
    /// The audience of tokens for Azure Resource Manager. A slash at its end belongs to it.
    pub resource_manager_audience: String,
}

impl Cloud {
    /// Returns the endpoints of a cloud by its name, such as `AzurePublicCloud`.
    pub fn named(name: &str) -> Option<Self> {
        let mut clouds = CLOUDS.iter();
        let (_, endpoints) = clouds.find(|it| it.0.eq_ignore_ascii_case(name))?;
        Some(Self::from(*endpoints))
    }

    /// Reads the cloud and the endpoints that replace those of the cloud.
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let endpoints = reader.choice(CLOUD, CLOUDS, CLOUDS[0].1);
        let mut cloud = Self::from(endpoints);
        for (variable, endpoint) in [
            (AUTHORITY_HOST, &mut cloud.authority_host),
            (
                RESOURCE_MANAGER_ENDPOINT,
                &mut cloud.resource_manager_endpoint,
            ),
        ] {
            if let Some(text) = url(reader, variable) {
                *endpoint = text;
            }
        }
        if let Some(audience) = reader.text(RESOURCE_MANAGER_AUDIENCE) {
            cloud.resource_manager_audience = audience.to_owned();
        }
        cloud
    }
}

impl From<[&str; 3]> for Cloud {
    fn from([authority_host, endpoint, audience]: [&str; 3]) -> Self {
        Self {
            authority_host: authority_host.to_owned(),
            resource_manager_endpoint: endpoint.to_owned(),
            resource_manager_audience: audience.to_owned(),
        }
    }
}

/// Returns the address in a setting. Without TLS only this host may be addressed, because tokens
/// and secrets are sent there.
pub(super) fn url(reader: &mut Reader<'_>, variable: &str) -> Option<String> {
    let text = reader.text(variable)?;
    if let Err(message) = check_url(text) {
        reader.problem(variable, message);
        return None;
    }
    Some(text.to_owned())
}

/// Checks an address that credentials are sent to.
///
/// # Errors
///
/// If it is no address with TLS, and no address of this host. The error is a message.
pub fn check_url(text: &str) -> Result<(), &'static str> {
    let uri: http::Uri = text.parse().map_err(|_| "expected an https URL")?;
    let host = uri.host().unwrap_or_default();
    let address: Option<IpAddr> = host.trim_matches(['[', ']']).parse().ok();
    let loopback = host == "localhost" || address.is_some_and(|it| it.is_loopback());
    let user_info = uri.authority().is_some_and(|it| it.as_str().contains('@'));
    match uri.scheme_str() {
        _ if host.is_empty() || user_info || uri.query().is_some() => Err("expected an https URL"),
        Some("https") => Ok(()),
        Some("http") if loopback => Ok(()),
        Some("http") => Err("expected an https URL; http is for this host only"),
        _ => Err("expected an https URL"),
    }
}

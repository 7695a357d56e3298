//! The endpoints of the clouds.

use super::base_url::{BaseUrl, Cleartext, InvalidBaseUrl};

/// The endpoints of a cloud.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cloud {
    /// Where tokens are requested.
    pub authority: BaseUrl,
    /// The endpoint of ARM.
    pub resource_manager: BaseUrl,
    /// The audience of tokens for ARM. A trailing slash is part of it.
    pub audience: String,
}

/// The clouds by name, each with its authority, its endpoint of ARM, and its audience.
pub(crate) const CLOUDS: &[(&str, [&str; 3])] = &[
    (
        "AzurePublicCloud",
        [
            "https://login.microsoftonline.com/",
            "https://management.azure.com",
            "https://management.core.windows.net/",
        ],
    ),
    (
        "AzureUSGovernmentCloud",
        [
            "https://login.microsoftonline.us/",
            "https://management.usgovcloudapi.net",
            "https://management.core.usgovcloudapi.net/",
        ],
    ),
    (
        "AzureChinaCloud",
        [
            "https://login.chinacloudapi.cn/",
            "https://management.chinacloudapi.cn",
            "https://management.core.chinacloudapi.cn/",
        ],
    ),
    (
        "AzureGermanCloud",
        [
            "https://login.microsoftonline.de/",
            "https://management.microsoftazure.de",
            "https://management.core.cloudapi.de/",
        ],
    ),
];

/// The name of the cloud that is used by default.
pub const DEFAULT_CLOUD: &str = CLOUDS[0].0;

/// Why there is no such cloud.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCloud {
    /// There is no cloud of this name.
    #[error("{0:?} is not one of {all}", all = names().join(", "))]
    UnknownName(String),
    /// An endpoint is not a URL.
    #[error("{name}: {why}")]
    InvalidUrl {
        /// The name of the setting.
        name: &'static str,
        /// What is wrong with it.
        why: InvalidBaseUrl,
    },
    /// The audience is empty or has a character that it cannot have.
    #[error("{0}: it is not an audience such as https://management.core.windows.net/")]
    InvalidAudience(&'static str),
}

impl Cloud {
    /// Returns the cloud of a name, in any case.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub fn named(name: &str) -> Result<Self, InvalidCloud> {
        let cloud = CLOUDS
            .iter()
            .find(|cloud| cloud.0.eq_ignore_ascii_case(name));
        let (_, [authority, arm, audience]) =
            cloud.ok_or_else(|| InvalidCloud::UnknownName(name.to_owned()))?;
        Self::custom(authority, arm, audience, Cleartext::Refused)
    }

    /// Returns a cloud with these endpoints.
    ///
    /// # Errors
    ///
    /// If one of them is invalid.
    pub fn custom(
        authority: &str,
        resource_manager: &str,
        audience: &str,
        cleartext: Cleartext,
    ) -> Result<Self, InvalidCloud> {
        let parse = |name, text| {
            let invalid = |why| InvalidCloud::InvalidUrl { name, why };
            BaseUrl::parse(text, cleartext).map_err(invalid)
        };
        let audience = audience.trim();
        if audience.is_empty() || !audience.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(InvalidCloud::InvalidAudience(super::shape::AUDIENCE));
        }
        Ok(Self {
            authority: parse(super::shape::AUTHORITY, authority)?,
            resource_manager: parse(super::shape::RESOURCE_MANAGER, resource_manager)?,
            audience: audience.to_owned(),
        })
    }

    /// Returns the scope of tokens for ARM.
    pub fn scope(&self) -> String {
        format!("{}/.default", self.audience)
    }

    /// Returns the path of the token endpoint of a tenant.
    pub fn token_path(&self, tenant: &str) -> String {
        self.authority
            .path_of(&format!("/{tenant}/oauth2/v2.0/token"))
    }
}

fn names() -> Vec<&'static str> {
    CLOUDS.iter().map(|cloud| cloud.0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_clouds_have_their_endpoints() {
        for &(name, [authority, arm, audience]) in CLOUDS {
            let cloud = Cloud::named(name).unwrap();
            assert_eq!(format!("{}/", cloud.authority), authority);
            assert_eq!(cloud.resource_manager.to_string(), arm);
            assert_eq!(cloud.scope(), format!("{audience}/.default"));
        }
        let default = Cloud::named("azurepubliccloud").unwrap();
        assert_eq!(default, Cloud::named(DEFAULT_CLOUD).unwrap());
        // The double slash is what Entra expects.
        assert_eq!(
            default.scope(),
            "https://management.core.windows.net//.default"
        );
        let unknown = Cloud::named("Moon").unwrap_err();
        let message = "\"Moon\" is not one of AzurePublicCloud, AzureUSGovernmentCloud, \
                       AzureChinaCloud, AzureGermanCloud";
        assert_eq!(unknown.to_string(), message);
    }

    #[test]
    fn authority_keeps_its_path() {
        let stack = |authority| {
            Cloud::custom(
                authority,
                "https://a.example",
                "https://a",
                Cleartext::Refused,
            )
        };
        let cloud = stack("https://adfs.stack.example/adfs").unwrap();
        assert_eq!(cloud.token_path("t"), "/adfs/t/oauth2/v2.0/token");
        let invalid = stack("http://127.0.0.1/adfs").unwrap_err();
        assert_eq!(
            invalid.to_string(),
            "AZURE_AUTHORITY_HOST: its scheme is not https"
        );
        let public = Cloud::named(DEFAULT_CLOUD).unwrap();
        assert_eq!(public.token_path("t-1"), "/t-1/oauth2/v2.0/token");
    }
}

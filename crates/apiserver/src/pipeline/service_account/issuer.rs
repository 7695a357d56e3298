//! The issuers of service account tokens.

use std::sync::Arc;

use insula_access::jwt::{NotASigningKey, SigningError};
use insula_core::{Space, TenantName};
use insula_kinds::Value;

use super::{Account, CurrentKeys};
use crate::status::{Result, StatusError};

/// Signs tokens.
#[derive(Debug)]
pub struct Issuer {
    keys: Arc<CurrentKeys>,
    urls: IssuerUrls,
}

/// The URLs of all issuers of the server: the plain one, which is the system's, and below it one
/// for each tenant. User names of service accounts omit the tenant, so services that trust an
/// issuer and a user name need an issuer that names one tenant only, and never its successor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuerUrls {
    plain: String,
}

impl Issuer {
    /// Creates the issuer `url`, which signs with one `key` in PKCS #8.
    pub fn new(key: &[u8], url: &str) -> Result<Self, NotASigningKey> {
        let keys = Arc::new(CurrentKeys::single(key)?);
        Ok(Self::with_keys(keys, url))
    }

    /// Creates the issuer `url`, which signs with keys that rotate.
    pub fn with_keys(keys: Arc<CurrentKeys>, url: &str) -> Self {
        Self {
            keys,
            urls: IssuerUrls::new(url),
        }
    }

    /// Returns the URLs of the issuers.
    pub const fn urls(&self) -> &IssuerUrls {
        &self.urls
    }

    /// Returns its keys.
    pub const fn keys(&self) -> &Arc<CurrentKeys> {
        &self.keys
    }

    /// Returns a signed token with these claims.
    pub fn sign(&self, claims: &Value) -> Result<String> {
        let now = jiff::Timestamp::now().as_second();
        let signed = self.keys.sign(claims, now);
        signed.ok_or_else(|| StatusError::internal(SigningError))
    }
}

impl IssuerUrls {
    /// Returns the issuers below a plain URL.
    pub fn new(plain: &str) -> Self {
        Self {
            plain: plain.to_owned(),
        }
    }

    /// Returns the issuer of the system space, and of the tenants' tokens of earlier versions.
    pub fn plain(&self) -> &str {
        &self.plain
    }

    /// Returns the issuer of a space. `tenant_uid` is ignored for the system space.
    pub fn of_space(&self, space: &Space, tenant_uid: &str) -> String {
        match space.tenant() {
            None => self.plain.clone(),
            Some(tenant) => self.of_tenant(tenant, tenant_uid),
        }
    }

    /// Returns the issuer of an account's tokens.
    pub fn of_account(&self, account: &Account) -> String {
        self.of_space(&account.space, account.tenant_uid.as_deref().unwrap_or(""))
    }

    /// Whether this is, or could be, the URL of one of the issuers.
    pub fn may_include(&self, issuer: &str) -> bool {
        let below = issuer.strip_prefix(self.plain.trim_end_matches('/'));
        issuer == self.plain || below.is_some_and(|below| below.starts_with("/tenants/"))
    }

    fn of_tenant(&self, tenant: &TenantName, uid: &str) -> String {
        let path = tenant_path(tenant, uid);
        format!("{}{path}", self.plain.trim_end_matches('/'))
    }
}

/// Returns the path of a tenant's issuer below the plain one, and of its documents on the server.
pub fn tenant_path(tenant: &TenantName, uid: &str) -> String {
    format!("/tenants/{tenant}/issuers/{uid}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn issuer_of_a_tenant_is_below_the_plain_one() {
        let (system, tenant) = (Space::System, Space::parse("acme").unwrap());
        for (plain, expected) in [
            ("https://a:6443", "https://a:6443/tenants/acme/issuers/u"),
            ("https://a/", "https://a/tenants/acme/issuers/u"),
            ("https://a/b/c", "https://a/b/c/tenants/acme/issuers/u"),
        ] {
            let urls = IssuerUrls::new(plain);
            assert_eq!(urls.of_space(&system, "u"), plain);
            assert_eq!(urls.of_space(&tenant, "u"), expected);
            for own in [plain, expected] {
                assert!(urls.may_include(own), "{own}");
            }
            for other in ["", "https://b", "https://a.example/tenants/acme/issuers/u"] {
                assert!(!urls.may_include(other), "{other}");
            }
        }
        let urls = IssuerUrls::new("https://a/b");
        for other in [
            "https://a",
            "https://a/b/",
            "https://a/b/other",
            "https://a/bc",
        ] {
            assert!(!urls.may_include(other), "{other}");
        }
    }
}

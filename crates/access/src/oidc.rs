//! Tokens of an OpenID Connect provider: which ones are accepted, and the credentials they
//! stand for.
//!
//! The offering's administrator configures the provider, so it is trusted to place users in
//! any tenant, and in the system's space unless it is for tenants only.

mod error;
mod settings;

use insula_core::{
    CREDENTIAL_ID, CredentialRef, Extra, Proof, RESERVED_PREFIX, Space, TenantBinding,
};
use serde_json::Value;

pub use self::error::Error;
pub use self::settings::{Settings, SettingsError};
use crate::credential::{Credential, Membership, TENANT_PREFIX, TenantError};
use crate::jwt::{self, Algorithm, Claims, Signed, texts};

/// A trusted provider, and how its claims are mapped.
#[derive(Clone, Debug)]
pub struct Issuer {
    url: String,
    client_id: String,
    username_claim: String,
    username_prefix: String,
    groups_claim: Option<String>,
    groups_prefix: String,
    tenant_claim: Option<String>,
    tenants_only: bool,
    required_claims: Vec<(String, String)>,
    algorithms: Vec<Algorithm>,
}

/// The credential that a token stands for, and its expiry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthenticatedToken {
    /// The token's claims, mapped.
    pub credential: Credential,
    /// The expiry, in seconds since 1970.
    pub expires: i64,
}

/// The username claim that is only accepted if the provider has verified it.
const EMAIL: &str = "email";

impl Issuer {
    /// The issuer URL: the `iss` claim of tokens, and the base of the discovery document.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Checks, before a key is looked up, that an unverified token claims to be from this
    /// provider and uses an accepted algorithm.
    pub fn check_unverified(&self, signed: &Signed<'_>) -> Result<(), Error> {
        if signed.claimed_issuer() != Some(&self.url) {
            return Err(Error::Issuer);
        }
        let algorithm = signed.algorithm();
        if !self.algorithms.contains(&algorithm) {
            return Err(Error::Algorithm(algorithm));
        }
        Ok(())
    }

    /// Maps verified claims to a credential, at `now` in seconds since 1970.
    pub fn authenticate(&self, claims: &Claims, now: i64) -> Result<AuthenticatedToken, Error> {
        if claims.text("iss") != Some(&self.url) {
            return Err(Error::Issuer);
        }
        self.check_audience(claims)?;
        let times = claims.times()?;
        times.check(now)?;
        // Without an expiry a token would be valid for ever. Without an issue time it would be
        // valid for every later tenant of the same name.
        let expires = times.expires.ok_or(Error::Missing("exp"))?;
        let issued = times.issued.ok_or(Error::Missing("iat"))?;
        self.check_required(claims)?;
        let (groups, tenant) = self.membership(claims)?;
        let user = self.user(claims)?;
        if self.tenants_only && !matches!(tenant, Some(Space::Tenant(_))) {
            return Err(Error::NotOfATenant(user));
        }
        let credential = Credential {
            user,
            uid: None,
            groups,
            extra: extra(claims),
            tenant,
            tenant_binding: TenantBinding::At(issued),
            proof: Proof::Oidc,
            reference: CredentialRef {
                id: jwt::bounded_id(claims.id().unwrap_or_default()),
                issued: Some(issued),
                expires: Some(expires),
                ..CredentialRef::default()
            },
        };
        Ok(AuthenticatedToken {
            credential,
            expires,
        })
    }

    fn check_audience(&self, claims: &Claims) -> Result<(), Error> {
        let audiences = claims.audiences()?;
        if audiences.contains(&self.client_id.as_str()) {
            return Ok(());
        }
        Err(Error::Audience {
            expected: self.client_id.clone(),
            found: audiences.into_iter().map(str::to_owned).collect(),
        })
    }

    fn check_required(&self, claims: &Claims) -> Result<(), Error> {
        for (name, wanted) in &self.required_claims {
            match claims.get(name) {
                None => return Err(Error::Required(name.clone())),
                Some(Value::String(value)) if value == wanted => {}
                Some(_) => return Err(Error::Unequal(name.clone())),
            }
        }
        Ok(())
    }

    fn user(&self, claims: &Claims) -> Result<String, Error> {
        let claim = &self.username_claim;
        let name = claims.text(claim).filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| Error::Username(claim.clone()))?;
        let verified = claims.get("email_verified");
        if claim == EMAIL && verified.is_some_and(|verified| *verified != Value::Bool(true)) {
            return Err(Error::Email);
        }
        let user = format!("{}{name}", self.username_prefix);
        // `system:` is reserved for service accounts and components. Users who can choose
        // their name at the provider must not be able to impersonate them.
        if user.starts_with(RESERVED_PREFIX) {
            return Err(Error::Reserved);
        }
        Ok(user)
    }

    /// Returns the prefixed groups, and the tenant. With a claim for the tenant, groups that
    /// name one are dropped: users may be able to create groups at the provider.
    fn membership(&self, claims: &Claims) -> Result<(Vec<String>, Option<Space>), Error> {
        let claim = self.groups_claim.as_deref();
        let mut groups = match claim.and_then(|name| Some((name, claims.get(name)?))) {
            None | Some((_, Value::Null)) => Vec::new(),
            Some((name, said)) => texts(said).ok_or_else(|| Error::Groups(name.to_owned()))?,
        };
        if self.tenant_claim.is_some() {
            groups.retain(|group| !group.starts_with(TENANT_PREFIX));
        }
        let member = Membership::from_groups(groups)?;
        let tenant = member.tenant.or(self.named_tenant(claims)?);
        let prefixed = |group: String| format!("{}{group}", self.groups_prefix);
        Ok((member.groups.into_iter().map(prefixed).collect(), tenant))
    }

    fn named_tenant(&self, claims: &Claims) -> Result<Option<Space>, Error> {
        let claim = self.tenant_claim.as_deref();
        let Some((claim, said)) = claim.and_then(|name| Some((name, claims.get(name)?))) else {
            return Ok(None);
        };
        let name = said
            .as_str()
            .ok_or_else(|| Error::Tenant(claim.to_owned()))?;
        let name = name.strip_prefix(TENANT_PREFIX).unwrap_or(name);
        Ok(Some(Space::parse(name).map_err(TenantError::InvalidName)?))
    }
}

/// The token's ID, which lets a request be traced back to it.
fn extra(claims: &Claims) -> Extra {
    let id = claims
        .id()
        .map(|id| (CREDENTIAL_ID.to_owned(), vec![format!("JTI={id}")]));
    id.into_iter().collect()
}

#[cfg(test)]
mod tests;

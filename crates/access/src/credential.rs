//! The claims of a credential, and the rule that finds the tenant among them.

use insula_core::{CredentialRef, Extra, NotATenantName, Proof, Space, TenantBinding};

/// The claims of a credential about its holder, before server policy is applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    /// The user's name.
    pub user: String,
    /// The user's id, if the credential has one.
    pub uid: Option<String>,
    /// The claimed groups, without the one that names the tenant.
    pub groups: Vec<String>,
    /// Additional user attributes.
    pub extra: Extra,
    /// The space that the credential names.
    pub tenant: Option<Space>,
    /// Which of all tenants that ever had this name the credential belongs to.
    pub tenant_binding: TenantBinding,
    /// The type of credential.
    pub proof: Proof,
    /// The credential itself.
    pub reference: CredentialRef,
}

/// Prefix of a group that names a tenant.
pub const TENANT_PREFIX: &str = "tenant:";

/// A credential tries to name a tenant but the name cannot be used.
///
/// Such a credential is rejected. Treating it as one without a tenant would let it enter the
/// default tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TenantError {
    /// More than one tenant is named.
    #[error("it names more than one tenant")]
    Multiple,
    /// The name is not a valid tenant name.
    #[error("its tenant name is invalid: {0}")]
    InvalidName(NotATenantName),
}

/// Claimed groups, separated from the tenant that one of them names.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Membership {
    pub groups: Vec<String>,
    pub tenant: Option<Space>,
}

impl Membership {
    /// Parses the claimed groups of a credential.
    pub fn from_groups<'a>(claims: impl IntoIterator<Item = &'a str>) -> Result<Self, TenantError> {
        let mut groups = Vec::new();
        let mut tenant = None;
        for claim in claims {
            let Some(name) = claim.strip_prefix(TENANT_PREFIX) else {
                groups.push(claim.to_owned());
                continue;
            };
            let named = Space::parse(name).map_err(TenantError::InvalidName)?;
            if tenant.replace(named).is_some() {
                return Err(TenantError::Multiple);
            }
        }
        Ok(Self { groups, tenant })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_one_group_names_the_tenant_and_invalid_names_are_errors() {
        let space = |name| Some(Space::parse(name).unwrap());
        let bad = TenantError::InvalidName(NotATenantName);
        for (claims, expected) in [
            (&[][..], Ok((&[][..], None))),
            (&["a", "b"], Ok((&["a", "b"], None))),
            (&["tenant:t1"], Ok((&[], space("t1")))),
            (&["a", "tenant:t1", "b"], Ok((&["a", "b"], space("t1")))),
            (&["tenant:system", "a"], Ok((&["a"], Some(Space::System)))),
            // Only the prefix with its colon names a tenant.
            (
                &["tenant", "tenants:t1"],
                Ok((&["tenant", "tenants:t1"], None)),
            ),
            (&["tenant:t1", "tenant:t2"], Err(TenantError::Multiple)),
            (&["tenant:t1", "tenant:t1"], Err(TenantError::Multiple)),
            (&["tenant:t1", "tenant:system"], Err(TenantError::Multiple)),
            (&["tenant:"], Err(bad)),
            (&["tenant:t1", "tenant:"], Err(bad)),
            (&["tenant:all"], Err(bad)),
            (&["tenant:a:b"], Err(bad)),
            (&["tenant:T1"], Err(bad)),
            (&["tenant: t1"], Err(bad)),
            (&["tenant:t1/ns"], Err(bad)),
        ] {
            let expected = expected.map(|(groups, tenant): (&[&str], _)| Membership {
                groups: groups.iter().map(|&group| group.to_owned()).collect(),
                tenant,
            });
            assert_eq!(
                Membership::from_groups(claims.iter().copied()),
                expected,
                "{claims:?}"
            );
        }
    }
}

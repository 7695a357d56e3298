//! What a credential says, and the one rule for finding the tenant in it.

use insula_core::{Extra, NotATenantName, Proof, Space, Tie};

/// What a credential says about its holder, before the server has a say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    /// The user's name.
    pub user: String,
    /// The user's id, if the credential has one.
    pub uid: Option<String>,
    /// The groups that it claims, without the one that names the tenant.
    pub groups: Vec<String>,
    /// What else it says.
    pub extra: Extra,
    /// The space that it names.
    pub tenant: Option<Space>,
    /// To which of all tenants of that name it belongs.
    pub tie: Tie,
    /// What it is.
    pub proof: Proof,
}

/// What a group begins with that names a tenant.
pub const TENANT_PREFIX: &str = "tenant:";

/// A credential means to name a tenant, and does not name one.
///
/// It is refused: taken for a credential without a tenant, it would enter the default
/// tenant, where it has no business.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TenantError {
    /// There are several.
    #[error("it names more than one tenant")]
    Several,
    /// No tenant can be called so.
    #[error("it names a tenant, and {0}")]
    Name(NotATenantName),
}

/// Groups, apart from the tenant that one of them names.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Membership {
    pub groups: Vec<String>,
    pub tenant: Option<Space>,
}

impl Membership {
    /// What the groups of a credential mean.
    pub fn of<'a>(claims: impl IntoIterator<Item = &'a str>) -> Result<Self, TenantError> {
        let mut groups = Vec::new();
        let mut tenant = None;
        for claim in claims {
            let Some(name) = claim.strip_prefix(TENANT_PREFIX) else {
                groups.push(claim.to_owned());
                continue;
            };
            let named = Space::parse(name).map_err(TenantError::Name)?;
            if tenant.replace(named).is_some() {
                return Err(TenantError::Several);
            }
        }
        Ok(Self { groups, tenant })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_group_at_most_names_the_tenant_and_a_bad_name_is_never_none() {
        let space = |name| Some(Space::parse(name).unwrap());
        let bad = TenantError::Name(NotATenantName);
        for (claims, expected) in [
            (&[][..], Ok((&[][..], None))),
            (&["a", "b"], Ok((&["a", "b"], None))),
            (&["tenant:t1"], Ok((&[], space("t1")))),
            (&["a", "tenant:t1", "b"], Ok((&["a", "b"], space("t1")))),
            (&["tenant:system", "a"], Ok((&["a"], Some(Space::System)))),
            // A word like any other: only the colon makes a tenant of it.
            (
                &["tenant", "tenants:t1"],
                Ok((&["tenant", "tenants:t1"], None)),
            ),
            (&["tenant:t1", "tenant:t2"], Err(TenantError::Several)),
            (&["tenant:t1", "tenant:t1"], Err(TenantError::Several)),
            (&["tenant:t1", "tenant:system"], Err(TenantError::Several)),
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
                Membership::of(claims.iter().copied()),
                expected,
                "{claims:?}"
            );
        }
    }
}

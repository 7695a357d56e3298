//! Turns a credential into a principal.

use insula_core::{AUTHENTICATED, Principal, RESERVED_PREFIX, Space};

use crate::credential::{Credential, TENANT_PREFIX};

/// The credential names no tenant, and no default tenant is configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the credential names no tenant, and this server has no default tenant")]
pub struct NoTenant;

/// Resolves a credential to a principal.
///
/// The principal's home is the tenant that the credential names, otherwise the default
/// tenant; without either, the credential is rejected. The claimed groups are kept, with two
/// exceptions: a tenant's credential cannot carry groups that begin with `system:`, because
/// an issuer for a tenant has no authority over the server; and groups that name a tenant are
/// dropped, because [`Principal::home`] is the only place that states it.
pub fn resolve_principal(
    credential: Credential,
    default_tenant: Option<&Space>,
) -> Result<Principal, NoTenant> {
    let home = credential.tenant.or_else(|| default_tenant.cloned());
    let home = home.ok_or(NoTenant)?;
    let mut groups = credential.groups;
    groups.retain(|group| {
        let reserved = group.starts_with(RESERVED_PREFIX) && !home.is_system();
        !reserved && !group.starts_with(TENANT_PREFIX) && group != AUTHENTICATED
    });
    groups.push(AUTHENTICATED.to_owned());
    Ok(Principal {
        user: credential.user,
        uid: credential.uid,
        groups,
        extra: credential.extra,
        home,
        tenant_binding: credential.tenant_binding,
        proof: credential.proof,
        credential: credential.reference,
        impersonator: None,
    })
}

#[cfg(test)]
mod tests {
    use insula_core::{CredentialRef, Extra, Proof, TenantBinding};

    use super::*;

    fn space(name: &str) -> Space {
        Space::parse(name).unwrap()
    }

    fn credential(tenant: Option<&str>, groups: &[&str]) -> Credential {
        Credential {
            user: "alice".to_owned(),
            uid: Some("42".to_owned()),
            groups: groups.iter().map(|&group| group.to_owned()).collect(),
            extra: Extra::new(),
            tenant: tenant.map(space),
            tenant_binding: TenantBinding::Name,
            proof: Proof::StaticToken,
            reference: CredentialRef::default(),
        }
    }

    #[test]
    fn home_is_the_named_tenant_else_the_default_else_rejected() {
        for (named, default, home) in [
            (Some("t1"), None, Ok("t1")),
            (Some("t1"), Some("t2"), Ok("t1")),
            (Some("t1"), Some("system"), Ok("t1")),
            (Some("system"), Some("t2"), Ok("system")),
            (None, Some("t2"), Ok("t2")),
            (None, Some("system"), Ok("system")),
            (None, None, Err(NoTenant)),
        ] {
            let default = default.map(space);
            let principal = resolve_principal(credential(named, &[]), default.as_ref());
            let found = principal.map(|principal| principal.home);
            assert_eq!(found, home.map(space), "{named:?} {default:?}");
        }
        let said = NoTenant.to_string();
        assert!(said.starts_with("the credential names no tenant"), "{said}");
    }

    #[test]
    fn only_system_principals_keep_system_groups() {
        let claimed = [
            "dev",
            "system:masters",
            "system:nodes",
            "tenant:t9",
            "systems",
        ];
        for (tenant, groups) in [
            ("t1", "dev|systems|system:authenticated"),
            (
                "system",
                "dev|system:masters|system:nodes|systems|system:authenticated",
            ),
        ] {
            // Named and defaulted tenants are treated alike.
            let named = resolve_principal(credential(Some(tenant), &claimed), None);
            let defaulted = resolve_principal(credential(None, &claimed), Some(&space(tenant)));
            assert_eq!(named, defaulted);
            let principal = defaulted.unwrap();
            assert_eq!(principal.groups.join("|"), groups);
            assert_eq!(principal.uid.as_deref(), Some("42"));
            assert_eq!(principal.proof, Proof::StaticToken);
        }
    }

    #[test]
    fn authenticated_group_is_added_exactly_once() {
        for tenant in ["t1", "system"] {
            let principal = resolve_principal(credential(Some(tenant), &[AUTHENTICATED]), None);
            assert_eq!(principal.unwrap().groups, [AUTHENTICATED]);
        }
    }
}

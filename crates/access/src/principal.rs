//! Turns a credential into a principal.

use insula_core::{
    AUTHENTICATED, NODE_USER_PREFIX, NODES, Principal, Proof, RESERVED_PREFIX, Space, TenantBinding,
};

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
/// dropped, because [`Principal::home`] is the only place that states it. The certificate of a
/// tenant's node keeps its group `system:nodes`.
pub fn resolve_principal(
    credential: Credential,
    default_tenant: Option<&Space>,
) -> Result<Principal, NoTenant> {
    let is_node = is_node_certificate(&credential);
    let home = credential.tenant.or_else(|| default_tenant.cloned());
    let home = home.ok_or(NoTenant)?;
    let keeps_reserved = home.is_system() || is_node;
    let mut groups = credential.groups;
    groups.retain(|group| {
        let reserved = group.starts_with(RESERVED_PREFIX) && !keeps_reserved;
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

/// Whether it is the certificate of a node: of a node's user, with no group but that of nodes.
///
/// The server's own CA binds every certificate of a tenant to the UID, and signs names that begin
/// with `system:` only for nodes. Another CA that binds its certificates so is trusted with every
/// user of the tenant anyway. Tokens make no nodes.
fn is_node_certificate(credential: &Credential) -> bool {
    let name = credential.user.strip_prefix(NODE_USER_PREFIX);
    credential.proof == Proof::Certificate
        && matches!(credential.tenant_binding, TenantBinding::Uid(_))
        && name.is_some_and(|name| !name.is_empty())
        && credential.groups == [NODES]
}

#[cfg(test)]
mod tests {
    use insula_core::{CredentialRef, Extra};

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
    fn only_certificates_bound_to_a_tenants_uid_make_nodes() {
        let bound = TenantBinding::Uid("u-1".into());
        for (user, groups, proof, tenant_binding, node) in [
            (
                "system:node:n1",
                &[NODES][..],
                Proof::Certificate,
                bound.clone(),
                Some("n1"),
            ),
            (
                "system:node:n1",
                &[],
                Proof::Certificate,
                bound.clone(),
                None,
            ),
            (
                "system:node:",
                &[NODES],
                Proof::Certificate,
                bound.clone(),
                None,
            ),
            ("n1", &[NODES], Proof::Certificate, bound.clone(), None),
            (
                "system:node:n1",
                &[NODES, "dev"],
                Proof::Certificate,
                bound.clone(),
                None,
            ),
            (
                "system:node:n1",
                &[NODES, NODES],
                Proof::Certificate,
                bound.clone(),
                None,
            ),
            (
                "system:node:n1",
                &["system:masters"],
                Proof::Certificate,
                bound.clone(),
                None,
            ),
            // From another CA, from the token file, and by impersonation.
            (
                "system:node:n1",
                &[NODES],
                Proof::Certificate,
                TenantBinding::At(7),
                None,
            ),
            (
                "system:node:n1",
                &[NODES],
                Proof::Certificate,
                TenantBinding::Name,
                None,
            ),
            (
                "system:node:n1",
                &[NODES],
                Proof::StaticToken,
                TenantBinding::Name,
                None,
            ),
            (
                "system:node:n1",
                &[NODES],
                Proof::StaticToken,
                bound.clone(),
                None,
            ),
            (
                "system:node:n1",
                &[NODES],
                Proof::Oidc,
                TenantBinding::At(7),
                None,
            ),
            (
                "system:node:n1",
                &[NODES],
                Proof::Impersonation,
                bound,
                None,
            ),
        ] {
            let credential = Credential {
                user: user.to_owned(),
                proof,
                tenant_binding,
                ..credential(Some("t1"), groups)
            };
            let what = format!("{credential:?}");
            let principal = resolve_principal(credential, None).unwrap();
            assert_eq!(principal.node(), node, "{what}");
            let reserved = principal
                .groups
                .iter()
                .filter(|group| *group != AUTHENTICATED);
            let reserved = reserved.filter(|group| group.starts_with(RESERVED_PREFIX));
            assert_eq!(reserved.count(), usize::from(node.is_some()), "{what}");
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

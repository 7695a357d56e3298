//! Authenticated callers.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::space::{Space, TenantName};

/// An authenticated caller of the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// The user name.
    pub user: String,
    /// The user's UID, if the credential has one.
    pub uid: Option<String>,
    /// The user's groups, including those that the server adds.
    pub groups: Vec<String>,
    /// Extra attributes of the credential, as in Kubernetes.
    pub extra: Extra,
    /// The space that the user belongs to.
    pub home: Space,
    /// The tenant that the credential was issued for, among all that ever have the home's name.
    pub tenant_binding: TenantBinding,
    /// The kind of credential.
    pub proof: Proof,
    /// The credential itself.
    pub credential: CredentialRef,
    /// The authenticated caller, if this principal is impersonated.
    pub impersonator: Option<Arc<Principal>>,
}

/// Names one credential: enough to revoke it, and nothing that could replace it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CredentialRef {
    /// The fingerprint of a certificate or the ID of a token; empty if there is none.
    pub id: Arc<str>,
    /// The fingerprint of the same certificate with the other valid form of its ECDSA signature.
    /// The holder can compute that form, so a revocation of one denies both.
    pub twin: Option<Arc<str>>,
    /// When it was issued, in seconds since 1970, if it says so.
    pub issued: Option<i64>,
    /// When it expires, in seconds since 1970.
    pub expires: Option<i64>,
    /// When the chain that a certificate was verified with expires. The client chooses the
    /// chain, so this ends its watches and nothing else.
    pub chain_expires: Option<i64>,
    /// The version of the trusted CAs or of the token file that accepted it.
    pub epoch: u64,
}

/// Extra attributes of a credential: keys of the form `domain/name`, and values.
pub type Extra = BTreeMap<String, Vec<String>>;

/// The tenant that a credential was issued for. Tenant names are reused: a credential of a deleted
/// tenant must not be valid for the next one of the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TenantBinding {
    /// Any tenant of the name, because the credential is configured anew at every server start.
    Name,
    /// The tenant with this UID.
    Uid(Box<str>),
    /// The tenant that existed at this time, in seconds since 1970.
    At(i64),
}

/// How a caller was authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// A client certificate.
    Certificate,
    /// A token from the token file.
    StaticToken,
    /// A service account token, signed by the server itself.
    ServiceAccount,
    /// A token from an OpenID Connect provider.
    Oidc,
    /// Impersonation by another authenticated user.
    Impersonation,
}

/// The group that may do everything in its own space.
pub const MASTERS: &str = "system:masters";

/// The group of all authenticated users.
pub const AUTHENTICATED: &str = "system:authenticated";

/// The group of all nodes.
pub const NODES: &str = "system:nodes";

/// The prefix of a node's user name, before the name of its Node object.
pub const NODE_USER_PREFIX: &str = "system:node:";

/// The prefix of user and group names that are reserved for the server.
pub const RESERVED_PREFIX: &str = "system:";

/// The extra attribute with the identifier of the certificate or token.
pub const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

impl TenantBinding {
    /// Whether the credential is valid for the tenant with this UID, created at `created`.
    pub fn holds(&self, uid: &str, created: i64) -> bool {
        match self {
            Self::Name => true,
            Self::Uid(bound) => bound.as_ref() == uid,
            Self::At(time) => *time >= created,
        }
    }
}

impl Principal {
    /// Whether it belongs to the system space.
    pub const fn is_system(&self) -> bool {
        self.home.is_system()
    }

    /// The tenant that it belongs to.
    pub const fn tenant(&self) -> Option<&TenantName> {
        self.home.tenant()
    }

    /// The principal that a credential authenticated: the impersonator, or this one.
    pub fn authenticated(&self) -> &Self {
        self.impersonator.as_deref().unwrap_or(self)
    }

    /// Returns the name of the Node object that the principal acts as, if it is a node.
    pub fn node(&self) -> Option<&str> {
        node_name(&self.user, &self.groups)
    }

    /// Whether it is a member of the group.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|of| of == group)
    }
}

/// Returns the name of the Node object that a user acts as, if it is a node.
pub fn node_name<'a>(user: &'a str, groups: &[String]) -> Option<&'a str> {
    let name = user.strip_prefix(NODE_USER_PREFIX)?;
    let is_node = !name.is_empty() && groups.iter().any(|group| group == NODES);
    is_node.then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binding_to_a_deleted_tenant_does_not_hold_for_its_successor() {
        let (first, second) = (("uid-1", 100), ("uid-2", 200));
        for (binding, to_first, to_second) in [
            (TenantBinding::Name, true, true),
            (TenantBinding::Uid("uid-1".into()), true, false),
            (TenantBinding::Uid("uid-2".into()), false, true),
            (TenantBinding::Uid("".into()), false, false),
            // Issued while the first existed, before the second was created.
            (TenantBinding::At(100), true, false),
            (TenantBinding::At(199), true, false),
            (TenantBinding::At(99), false, false),
        ] {
            assert_eq!(binding.holds(first.0, first.1), to_first, "{binding:?}");
            assert_eq!(binding.holds(second.0, second.1), to_second, "{binding:?}");
        }
    }
}

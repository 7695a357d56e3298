//! Who asks.

use std::collections::BTreeMap;

use crate::space::{Space, TenantName};

/// An authenticated caller of the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// The user's name.
    pub user: String,
    /// The user's id, if the credential has one.
    pub uid: Option<String>,
    /// The user's groups, those included that the server adds.
    pub groups: Vec<String>,
    /// What else the credential says, as Kubernetes calls it.
    pub extra: Extra,
    /// Where the user belongs.
    pub home: Space,
    /// To which of all tenants that are ever called like the home.
    pub tenant_binding: TenantBinding,
    /// How it was proved.
    pub proof: Proof,
}

/// What a credential says beside names: keys that look like `domain/name`, and values.
pub type Extra = BTreeMap<String, Vec<String>>;

/// Which tenant a credential was made for. Names are given again: whoever belonged to a
/// tenant that was deleted does not belong to the next one of its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TenantBinding {
    /// Whoever has the name: somebody vouches for it at every start of the server.
    Name,
    /// The tenant with this UID.
    Uid(Box<str>),
    /// The tenant that was there at this time, in seconds since 1970.
    At(i64),
}

/// How a caller proved who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// A client certificate.
    Certificate,
    /// A token from the token file.
    StaticToken,
    /// A token of a service account, which the server itself has signed.
    ServiceAccount,
    /// A token from an OpenID Connect provider.
    Oidc,
    /// The word of somebody who may act for this user.
    Impersonation,
}

/// The group that may do everything in its own space.
pub const MASTERS: &str = "system:masters";

/// The group of everybody who proved anything.
pub const AUTHENTICATED: &str = "system:authenticated";

/// What the names begin with that the server itself gives meaning to.
pub const RESERVED_PREFIX: &str = "system:";

/// The extra that says which certificate or token it was: not the secret, but its name.
pub const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

impl TenantBinding {
    /// Whether it is to the tenant with this UID, which came about at `created`.
    pub fn holds(&self, uid: &str, created: i64) -> bool {
        match self {
            Self::Name => true,
            Self::Uid(bound) => bound.as_ref() == uid,
            Self::At(time) => *time >= created,
        }
    }
}

impl Principal {
    /// Whether it belongs to no tenant.
    pub const fn is_system(&self) -> bool {
        self.home.is_system()
    }

    /// The tenant that it belongs to.
    pub const fn tenant(&self) -> Option<&TenantName> {
        self.home.tenant()
    }

    /// Whether it is in the group.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|of| of == group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tie_to_a_tenant_is_not_to_the_next_one_of_its_name() {
        let (first, second) = (("uid-1", 100), ("uid-2", 200));
        for (binding, to_first, to_second) in [
            (TenantBinding::Name, true, true),
            (TenantBinding::Uid("uid-1".into()), true, false),
            (TenantBinding::Uid("uid-2".into()), false, true),
            (TenantBinding::Uid("".into()), false, false),
            // Made while the first was there, after which came the second.
            (TenantBinding::At(100), true, false),
            (TenantBinding::At(199), true, false),
            (TenantBinding::At(99), false, false),
        ] {
            assert_eq!(binding.holds(first.0, first.1), to_first, "{binding:?}");
            assert_eq!(binding.holds(second.0, second.1), to_second, "{binding:?}");
        }
    }
}

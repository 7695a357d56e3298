//! Who asks.

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
    /// Where the user belongs.
    pub home: Space,
    /// How it was proved.
    pub proof: Proof,
}

/// How a caller proved who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// A client certificate.
    Certificate,
    /// A token from the token file.
    StaticToken,
}

/// The group that may do everything in its own space.
pub const MASTERS: &str = "system:masters";

/// The group of everybody who proved anything.
pub const AUTHENTICATED: &str = "system:authenticated";

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

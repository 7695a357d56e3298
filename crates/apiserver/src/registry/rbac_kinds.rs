//! The kinds of RBAC in the table of kinds.

use std::sync::OnceLock;

use insula_access::rbac::RbacKind;
use insula_kinds::{KindId, kinds};

/// Each kind of RBAC, and its plural.
pub const RBAC: [(RbacKind, &str); 4] = [
    (RbacKind::Role, "roles"),
    (RbacKind::ClusterRole, "clusterroles"),
    (RbacKind::RoleBinding, "rolebindings"),
    (RbacKind::ClusterRoleBinding, "clusterrolebindings"),
];

/// Returns which kind of RBAC this is, if any.
pub fn rbac_kind(kind: KindId) -> Option<RbacKind> {
    let found = table().iter().position(|one| *one == kind)?;
    Some(RBAC[found].0)
}

/// The kinds of [`RBAC`], in the same order.
pub fn table() -> &'static [KindId; RBAC.len()] {
    static TABLE: OnceLock<[KindId; RBAC.len()]> = OnceLock::new();
    TABLE.get_or_init(|| {
        RBAC.map(|(_, resource)| {
            let kind = kinds().find("rbac.authorization.k8s.io", "v1", resource);
            kind.expect("it is in the table")
        })
    })
}

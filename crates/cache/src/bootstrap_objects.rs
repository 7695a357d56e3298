//! The objects that every space has from its creation on. They are alike but for a few names,
//! so the cache holds them as templates.

use insula_kinds::{KindId, core_kind, kinds};

/// The namespaces that every space has.
pub const NAMESPACES: [&str; 3] = ["default", "kube-public", "kube-system"];

/// The ClusterRole of a tenant's administrators, in the tenant's own space.
pub const ADMIN_ROLE: &str = "admin-role";

/// The ClusterRoleBinding that gives it to the user `admin`.
pub const ADMIN_BINDING: &str = "admin-role-binding";

/// The service account that every namespace has.
pub const DEFAULT_ACCOUNT: &str = "default";

/// The ConfigMap with the CA that the server's certificate is verified with.
pub const ROOT_CA: &str = "kube-root-ca.crt";

const RBAC: &str = "rbac.authorization.k8s.io";

/// Recognizes the objects that every space has.
#[derive(Debug)]
pub(crate) struct BootstrapObjects {
    namespaces: KindId,
    accounts: KindId,
    maps: KindId,
    roles: KindId,
    bindings: KindId,
}

impl BootstrapObjects {
    pub fn new() -> Self {
        let rbac_kind = |resource| {
            let found = kinds().find(RBAC, "v1", resource);
            found.expect("RBAC is in the table")
        };
        Self {
            namespaces: core_kind("namespaces"),
            accounts: core_kind("serviceaccounts"),
            maps: core_kind("configmaps"),
            roles: rbac_kind("clusterroles"),
            bindings: rbac_kind("clusterrolebindings"),
        }
    }

    /// Whether the object of this kind at `namespace/name` or `name` is one of them.
    pub fn contains(&self, kind: KindId, key: &str) -> bool {
        let name = || key.split_once('/').map(|(_, name)| name);
        if kind == self.maps {
            name() == Some(ROOT_CA)
        } else if kind == self.accounts {
            name() == Some(DEFAULT_ACCOUNT)
        } else if kind == self.namespaces {
            NAMESPACES.contains(&key)
        } else {
            (kind == self.roles && key == ADMIN_ROLE)
                || (kind == self.bindings && key == ADMIN_BINDING)
        }
    }
}

//! Users of a tenant with limited permissions.

use insula_e2e::kubectl::Kubectl;
use insula_e2e::two_tenants::TwoTenants;

/// Users that exist in every tenant of a test under the same names, with a namespace `shop`.
pub struct Users {
    /// A member of the group `devs`, which may edit objects in `shop`.
    pub dora: Kubectl,
    /// A user without groups or bindings.
    pub nora: Kubectl,
    /// A service account in `shop` that may read pods and ConfigMaps there.
    pub robot: Kubectl,
}

impl Users {
    /// Creates the users.
    #[track_caller]
    pub fn create(two_tenants: &TwoTenants, tenant: &Kubectl) -> Self {
        tenant.prints("create namespace shop", "namespace/shop created");
        for (line, made) in [
            (
                "rolebinding devs --clusterrole=edit --group=devs",
                "rolebinding.rbac.authorization.k8s.io/devs",
            ),
            ("serviceaccount robot", "serviceaccount/robot"),
            (
                "role reader --verb=get,list,watch --resource=pods,configmaps",
                "role.rbac.authorization.k8s.io/reader",
            ),
            (
                "rolebinding robot --role=reader --serviceaccount=shop:robot",
                "rolebinding.rbac.authorization.k8s.io/robot",
            ),
        ] {
            tenant.prints(
                &format!("create {line} -n shop"),
                &format!("{made} created"),
            );
        }
        let token = tenant.get("create token robot -n shop");
        let robot = format!("{}-robot", tenant.name());
        Self {
            dora: two_tenants.user(tenant.name(), "dora", &["devs"]),
            nora: two_tenants.user(tenant.name(), "nora", &[]),
            robot: two_tenants.bearer(&robot, token.trim()),
        }
    }
}

/// The message that a user may not list a resource in a namespace.
pub fn cannot_list(user: &str, resource: &str, namespace: &str) -> String {
    format!(
        "{resource} is forbidden: User \"{user}\" cannot list resource \"{resource}\" in API group \
         \"\" in the namespace \"{namespace}\""
    )
}

/// The message that a user is not a member of a tenant.
pub fn not_of(tenant: &str, user: &str, resource: &str) -> String {
    format!(
        "{resource} is forbidden: User \"{user}\" cannot list resource \"{resource}\" in API group \
         \"\" in the tenant \"{tenant}\""
    )
}

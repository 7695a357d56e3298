//! Roles and bindings of tests.

use serde_json::{Value, json};

use super::Client;

/// The path of ClusterRoles.
pub const CLUSTER_ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";

/// The path of ClusterRoleBindings.
pub const CLUSTER_BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";

/// The path of a namespace's roles.
pub fn roles(namespace: &str) -> String {
    format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles")
}

/// The path of a namespace's role bindings.
pub fn bindings(namespace: &str) -> String {
    format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings")
}

/// A rule, with commas between verbs, groups and resources; the core group is empty.
pub fn rule(verbs: &str, groups: &str, resources: &str) -> Value {
    let list = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
    json!({"verbs": list(verbs), "apiGroups": list(groups), "resources": list(resources)})
}

/// The subject of a binding: `User:alice`, `Group:dev`, `ServiceAccount:namespace/name`.
pub fn subject(text: &str) -> Value {
    match text.split_once(':') {
        Some(("ServiceAccount", account)) => {
            let (namespace, name) = account.split_once('/').unwrap_or(("", account));
            json!({"kind": "ServiceAccount", "namespace": namespace, "name": name})
        }
        Some((kind, name)) => {
            json!({"kind": kind, "apiGroup": "rbac.authorization.k8s.io", "name": name})
        }
        None => json!({"kind": text}),
    }
}

impl Client {
    /// Grants these rules in the whole space, with a role and a binding of this name.
    pub async fn grant(&self, name: &str, to: &str, rules: &[Value]) -> anyhow::Result<()> {
        let role = json!({"metadata": {"name": name}, "rules": rules});
        self.create(CLUSTER_ROLES, &role).await?;
        self.bind(name, to, name).await
    }

    /// Grants these rules in one namespace.
    pub async fn grant_in(
        &self,
        namespace: &str,
        name: &str,
        to: &str,
        rules: &[Value],
    ) -> anyhow::Result<()> {
        let role = json!({"metadata": {"name": name}, "rules": rules});
        self.create(&roles(namespace), &role).await?;
        let binding = binding(name, to, "Role", name);
        self.create(&bindings(namespace), &binding).await
    }

    /// Binds an existing ClusterRole in the whole space.
    pub async fn bind(&self, name: &str, to: &str, role: &str) -> anyhow::Result<()> {
        let binding = binding(name, to, "ClusterRole", role);
        self.create(CLUSTER_BINDINGS, &binding).await
    }

    async fn create(&self, path: &str, object: &Value) -> anyhow::Result<()> {
        let answer = self.post(path, object).await?;
        anyhow::ensure!(answer.status == 201, "{path}: {}", answer.text());
        Ok(())
    }
}

fn binding(name: &str, to: &str, kind: &str, role: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "subjects": [subject(to)],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
    })
}

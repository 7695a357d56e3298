//! Users beside the administrators, and their permissions.

pub use crate::fixtures::create;
use insula_access::Subject;
use insula_core::Space;
use insula_testkit::server::{Client, Setup, TestServer};
use serde_json::{Value, json};

pub const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// Starts a server with these static tokens: `{tenant}/{user}` is that user of that tenant.
pub async fn server_with(users: &[&str], controllers: bool) -> anyhow::Result<TestServer> {
    let line = |name: &&str| {
        let (tenant, user) = name.split_once('/').unwrap_or(("system", name));
        format!("{name},{user},7,\"{user}s,tenant:{tenant}\"\n")
    };
    let setup = Setup {
        tokens: users.iter().map(line).collect(),
        controllers,
        ..Setup::default()
    };
    TestServer::start_with(setup).await
}

pub fn user(name: &str) -> Value {
    json!({"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": name})
}

pub fn group(name: &str) -> Value {
    json!({"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": name})
}

pub fn service_account(namespace: &str, name: &str) -> Value {
    json!({"kind": "ServiceAccount", "namespace": namespace, "name": name})
}

/// Binds a ClusterRole in the whole space or in one namespace, and returns the binding's path.
pub async fn bind(
    client: &Client,
    namespace: Option<&str>,
    name: &str,
    role: &str,
    subject: Value,
) -> anyhow::Result<String> {
    let path = match namespace {
        None => format!("{RBAC}/clusterrolebindings"),
        Some(namespace) => format!("{RBAC}/namespaces/{namespace}/rolebindings"),
    };
    let role =
        json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role});
    let binding = json!({"metadata": {"name": name}, "roleRef": role, "subjects": [subject]});
    create(client, &path, binding).await?;
    Ok(format!("{path}/{name}"))
}

/// Returns a token of a service account, creating the account if it does not exist.
pub async fn service_account_token(
    client: &Client,
    namespace: &str,
    name: &str,
) -> anyhow::Result<String> {
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
    let created = client
        .post(&path, &json!({"metadata": {"name": name}}))
        .await?;
    anyhow::ensure!(matches!(created.status, 201 | 409), "{}", created.text());
    let path = format!("{path}/{name}/token");
    let created = create(client, &path, json!({"spec": {}})).await?;
    let token = created["status"]["token"].as_str().unwrap_or("");
    anyhow::ensure!(!token.is_empty(), "{created}");
    Ok(token.to_owned())
}

/// The subject of a client certificate.
pub fn subject(user: &str, groups: &[&str], tenant: &str) -> anyhow::Result<Subject> {
    Ok(Subject {
        user: user.to_owned(),
        groups: groups.iter().map(|&group| group.to_owned()).collect(),
        tenant: Some(Space::parse(tenant)?),
        tenant_uid: None,
    })
}

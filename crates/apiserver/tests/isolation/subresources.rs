//! Subresources and their objects are authorized separately.

use futures_util::future::try_join_all;
use insula_kinds::{Kind, kinds};
use insula_testkit::server::Client;
use serde_json::json;

use super::principals::{RBAC, bind, create, server_with, user};
use super::routes::{NamespacedName, Operation};

const OBJECT: NamespacedName<'static> = NamespacedName {
    namespace: "default",
    name: "default",
};

/// The resource name as RBAC rules write it.
fn rule_name(kind: &Kind, subresource: Option<&str>) -> String {
    match subresource {
        None => kind.resource.clone(),
        Some(name) => format!("{}/{name}", kind.resource),
    }
}

/// Makes the role allow this resource and nothing else.
async fn allow(owner: &Client, group: &str, resource: &str) -> anyhow::Result<()> {
    let rule = json!({"apiGroups": [group], "resources": [resource], "verbs": ["*"]});
    let path = format!("{RBAC}/clusterroles/one");
    let patched = owner
        .patch(&path, "merge", &json!({"rules": [rule]}))
        .await?;
    anyhow::ensure!(patched.status == 200, "{}", patched.text());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i28_each_subresource_needs_its_own_rule() -> anyhow::Result<()> {
    let server = server_with(&["t1/alice", "system/bob"], false).await?;
    let (tenant, system) = (server.tenant("t1").await?, server.system().await?);
    for (owner, name, is_system) in [(&tenant, "t1/alice", false), (&system, "system/bob", true)] {
        let (_, short) = name.split_once('/').unwrap_or_default();
        let role = json!({"metadata": {"name": "one"}, "rules": []});
        create(owner, &format!("{RBAC}/clusterroles"), role).await?;
        bind(owner, None, "one", "one", user(short)).await?;
        let client = server.client(name).await?;
        let before = server.registry().store().revision().await?;
        let mut pairs = 0;
        for (_, kind) in kinds().iter() {
            if kind.subresources.is_empty() || kind.system_only != is_system {
                continue;
            }
            let names = kind.subresources.iter().map(|of| Some(of.name.as_str()));
            for allowed in std::iter::once(None).chain(names) {
                allow(owner, &kind.group, &rule_name(kind, allowed)).await?;
                check(&client, kind, allowed).await?;
                pairs += 1;
            }
        }
        assert!(pairs >= if is_system { 3 } else { 65 }, "{pairs}");
        let after = server.registry().store().revision().await?;
        assert_eq!(
            after.get() - before.get(),
            pairs,
            "only the role was written"
        );
    }
    Ok(())
}

/// Asserts that exactly the allowed resource is not refused.
async fn check(client: &Client, kind: &'static Kind, allowed: Option<&str>) -> anyhow::Result<()> {
    let operations: Vec<Operation> = Operation::all()
        .into_iter()
        .filter(|operation| std::ptr::eq(operation.kind, kind))
        .collect();
    let sent = operations.iter().map(|operation| async move {
        let path = operation.relative_paths(OBJECT).swap_remove(0);
        let status = operation.send(client, &path).await?.status;
        let may = status != 403;
        assert_eq!(
            may,
            operation.subresource == allowed,
            "{} by {}: {status}",
            operation.label(),
            rule_name(kind, allowed)
        );
        anyhow::Ok(())
    });
    try_join_all(sent).await?;
    Ok(())
}

#[tokio::test]
async fn i28_status_and_finalize_cannot_change_the_space_or_owner() -> anyhow::Result<()> {
    let server = server_with(&[], false).await?;
    let tenant = server.tenant("t1").await?;
    let path = "/api/v1/namespaces/mine";
    create(&tenant, "/api/v1/namespaces", super::named("mine")).await?;
    let before = tenant.get(path).await?.json();
    for below in ["", "/status", "/finalize"] {
        for (member, value) in [
            ("tenant", "t2"),
            ("tenant", "system"),
            ("selfLink", "/api/v1/tenants/t2/namespaces/mine"),
        ] {
            let mut object = tenant.get(path).await?.json();
            object["metadata"][member] = value.into();
            let corrected = tenant.put(&format!("{path}{below}"), &object).await?;
            assert_eq!(
                corrected.status,
                200,
                "{below} {member}: {}",
                corrected.text()
            );
            let metadata = &corrected.json()["metadata"];
            assert_eq!(metadata[member], before["metadata"][member], "{below}");
        }
        for (member, value) in [
            ("name", "other"),
            ("uid", "00000000-0000-0000-0000-000000000000"),
        ] {
            let mut object = before.clone();
            object["metadata"][member] = value.into();
            let refused = tenant.put(&format!("{path}{below}"), &object).await?;
            let known = [400, 409, 422].contains(&refused.status);
            assert!(known, "{below} {member}: {}", refused.text());
        }
        let mut object = before.clone();
        object["metadata"]["labels"]["kubernetes.io/metadata.name"] = "other".into();
        object["metadata"]["creationTimestamp"] = "2000-01-01T00:00:00Z".into();
        object["metadata"]
            .as_object_mut()
            .and_then(|of| of.remove("resourceVersion"));
        tenant.put(&format!("{path}{below}"), &object).await?;
        let now = tenant.get(path).await?.json();
        for member in ["tenant", "selfLink", "name", "uid", "creationTimestamp"] {
            assert_eq!(
                now["metadata"][member], before["metadata"][member],
                "{below} {member}"
            );
        }
        let label = &now["metadata"]["labels"]["kubernetes.io/metadata.name"];
        assert_eq!(label, "mine", "{below}");
    }
    Ok(())
}

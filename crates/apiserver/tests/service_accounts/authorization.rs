//! Permissions of service accounts.

use std::time::{Duration, Instant};

use insula_testkit::server::TestServer;
use serde_json::{Value, json};

use super::{ACCOUNTS, MAPS, RBAC, create, delete, robot, token};

fn reader() -> Value {
    json!({"metadata": {"name": "reader"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}]})
}

fn binding(subject: Value) -> Value {
    json!({"metadata": {"name": "reader"}, "subjects": [subject],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"}})
}

#[tokio::test]
async fn bindings_grant_to_accounts_of_their_own_space() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let group = |name: &str| json!({"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": name});
    let account = json!({"kind": "ServiceAccount", "name": "robot"});
    let user = json!({"kind": "User", "apiGroup": "rbac.authorization.k8s.io",
        "name": "system:serviceaccount:default:robot"});
    let (one, two) = (server.tenant("t1").await?, server.tenant("t2").await?);
    let mut holders = Vec::new();
    for client in [&one, &two] {
        robot(client).await?;
        holders.push(server.client(&token(client, json!({})).await?).await?);
    }
    let roles = format!("{RBAC}/namespaces/default/roles");
    let bindings = format!("{RBAC}/namespaces/default/rolebindings");
    create(&one, &roles, reader()).await?;
    create(&two, &roles, reader()).await?;
    for (subject, may) in [
        (account, true),
        (user, true),
        (group("system:serviceaccounts"), true),
        (group("system:serviceaccounts:default"), true),
        (group("system:serviceaccounts:kube-system"), false),
        (
            json!({"kind": "ServiceAccount", "name": "robot", "namespace": "kube-system"}),
            false,
        ),
        (json!({"kind": "ServiceAccount", "name": "default"}), false),
    ] {
        let mut subject = subject;
        if subject["kind"] == "ServiceAccount" && subject["namespace"].is_null() {
            subject["namespace"] = "default".into();
        }
        assert_eq!(holders[0].get(MAPS).await?.status, 403, "{subject}");
        create(&one, &bindings, binding(subject.clone())).await?;
        let expected = if may { 200 } else { 403 };
        assert_eq!(holders[0].get(MAPS).await?.status, expected, "{subject}");
        // In other namespaces of the space and in other spaces it grants nothing.
        let elsewhere = "/api/v1/namespaces/kube-system/configmaps";
        assert_eq!(holders[0].get(elsewhere).await?.status, 403, "{subject}");
        assert_eq!(holders[0].get("/api/v1/configmaps").await?.status, 403);
        assert_eq!(holders[1].get(MAPS).await?.status, 403, "{subject}");
        delete(&one, &format!("{bindings}/reader")).await?;
    }
    Ok(())
}

#[tokio::test]
async fn watch_ends_with_its_account_or_permission() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    let roles = format!("{RBAC}/namespaces/default/roles");
    let bindings = format!("{RBAC}/namespaces/default/rolebindings");
    create(&client, &roles, reader()).await?;
    let path = format!("{ACCOUNTS}/robot");
    for (why, code) in [("binding", 403), ("mark", 401), ("account", 401)] {
        robot(&client).await.ok();
        let subject = json!({"kind": "ServiceAccount", "name": "robot", "namespace": "default"});
        create(&client, &bindings, binding(subject)).await?;
        let holder = server.client(&token(&client, json!({})).await?).await?;
        let mut watch = holder.watch(&format!("{MAPS}?watch=true")).await?;
        assert_eq!(watch.status, 200);
        create(&client, MAPS, json!({"metadata": {"name": why}})).await?;
        while watch.next().await?.unwrap_or_default()["object"]["metadata"]["name"] != why {}
        let begun = Instant::now();
        match why {
            "binding" => delete(&client, &format!("{bindings}/reader")).await?,
            "mark" => {
                let hold = json!({"metadata": {"finalizers": ["x.io/y"]}});
                assert_eq!(client.patch(&path, "merge", &hold).await?.status, 200);
                delete(&client, &path).await?;
            }
            _ => delete(&client, &path).await?,
        }
        let last = watch.next().await?.unwrap_or_default();
        assert!(begun.elapsed() < Duration::from_secs(2), "{why}");
        assert_eq!(
            (&last["type"], &last["object"]["code"]),
            (&json!("ERROR"), &json!(code))
        );
        assert_eq!(watch.next().await?, None, "{why}");
        client.delete(&format!("{bindings}/reader")).await?;
        let free = json!({"metadata": {"finalizers": null}});
        client.patch(&path, "merge", &free).await?;
    }
    Ok(())
}

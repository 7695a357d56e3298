//! Aggregated ClusterRoles.

use std::sync::Arc;

use insula_store::Store;
use insula_store::memory::Memory;
use insula_testkit::server::{Client, Setup, TestServer};
use serde_json::{Value, json};

use super::{create, servers, until, until_gone};

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";

fn role(name: &str, labels: Value, resource: &str) -> Value {
    json!({"metadata": {"name": name, "labels": labels}, "rules": [rule(resource)]})
}

fn rule(resource: &str) -> Value {
    json!({"verbs": ["get"], "apiGroups": ["x.io"], "resources": [resource]})
}

fn aggregated(name: &str, selectors: Value) -> Value {
    json!({"metadata": {"name": name}, "aggregationRule": {"clusterRoleSelectors": selectors}})
}

fn to_view() -> Value {
    json!({"rbac.authorization.k8s.io/aggregate-to-view": "true"})
}

async fn get(client: &Client, name: &str) -> anyhow::Result<Value> {
    let found = client.get(&format!("{ROLES}/{name}")).await?;
    anyhow::ensure!(found.status == 200, "{}", found.text());
    Ok(found.json())
}

/// Waits until the role contains the rule, or no longer contains it.
async fn until_has_rule(
    client: &Client,
    name: &str,
    rule: &Value,
    current: bool,
) -> anyhow::Result<Value> {
    let path = format!("{ROLES}/{name}");
    let shows = |role: &Value| {
        let rules = role["rules"].as_array();
        rules.is_some_and(|rules| rules.contains(rule)) == current
    };
    Ok(until(client, &path, |answer| shows(&answer.json()))
        .await?
        .json())
}

/// The roles in the store of a space.
async fn stored(server: &TestServer, space: &str) -> anyhow::Result<Vec<String>> {
    let below = format!("/registry/rbac.authorization.k8s.io/clusterroles/{space}/");
    let keys = server.keys().await?.into_iter();
    Ok(keys
        .filter_map(|key| key.strip_prefix(&below).map(str::to_owned))
        .collect())
}

#[tokio::test]
async fn built_in_roles_follow_the_labelled_roles_of_their_space() -> anyhow::Result<()> {
    for server in servers().await? {
        let (client, other) = (server.tenant("t1").await?, server.tenant("t2").await?);
        let names = ["view", "edit", "admin"];
        let mut before = Vec::new();
        for name in names {
            before.push(get(&client, name).await?);
        }
        create(&client, ROLES, role("widgets", to_view(), "widgets")).await?;
        for (name, before) in names.iter().zip(&before) {
            let now = until_has_rule(&client, name, &rule("widgets"), true).await?;
            assert_eq!(now["metadata"]["uid"], before["metadata"]["uid"], "{name}");
            assert_eq!(now["aggregationRule"], before["aggregationRule"], "{name}");
            let rules = now["rules"].as_array().map_or(0, Vec::len);
            let were = before["rules"].as_array().map_or(0, Vec::len);
            assert_eq!(rules, were + 1, "{name}");
        }
        // Changed rules are followed, and other spaces do not see them.
        let patch = json!({"rules": [rule("gadgets")]});
        let path = format!("{ROLES}/widgets");
        assert_eq!(client.patch(&path, "merge", &patch).await?.status, 200);
        for name in names {
            until_has_rule(&client, name, &rule("gadgets"), true).await?;
            until_has_rule(&client, name, &rule("widgets"), false).await?;
        }
        assert_eq!(client.delete(&path).await?.status, 200);
        for (name, before) in names.iter().zip(&before) {
            let now = until_has_rule(&client, name, &rule("gadgets"), false).await?;
            assert_eq!(now["rules"], before["rules"], "{name}");
            let theirs = get(&other, name).await?;
            assert_eq!(theirs["rules"], before["rules"], "{name}");
        }
        assert_eq!(stored(&server, "t2").await?, ["admin-role"]);
    }
    Ok(())
}

#[tokio::test]
async fn aggregated_role_has_the_selected_rules_whoever_writes_it() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    for client in [server.tenant("t1").await?, server.system().await?] {
        check_selected_rules(&client).await?;
    }
    Ok(())
}

async fn check_selected_rules(client: &Client) -> anyhow::Result<()> {
    let selectors = json!([{"matchLabels": {"part": "a"}},
        {"matchExpressions": [{"key": "part", "operator": "In", "values": ["b"]}]}]);
    create(client, ROLES, aggregated("whole", selectors)).await?;
    create(client, ROLES, role("two", json!({"part": "a"}), "two")).await?;
    create(client, ROLES, role("one", json!({"part": "b"}), "one")).await?;
    create(client, ROLES, role("none", json!({"part": "c"}), "none")).await?;
    until_has_rule(client, "whole", &rule("two"), true).await?;
    let whole = until_has_rule(client, "whole", &rule("one"), true).await?;
    assert_eq!(whole["rules"], json!([rule("two"), rule("one")]));
    // Rules that a client writes into it are corrected.
    let path = format!("{ROLES}/whole");
    for rules in [json!([rule("mine")]), json!([]), json!(null)] {
        let patch = json!({"rules": rules});
        assert_eq!(client.patch(&path, "merge", &patch).await?.status, 200);
        until(client, &path, |answer| {
            answer.json()["rules"] == whole["rules"]
        })
        .await?;
    }
    // A role without the label is no longer part of it.
    let unlabelled = json!({"metadata": {"labels": null}});
    let one = format!("{ROLES}/one");
    assert_eq!(client.patch(&one, "merge", &unlabelled).await?.status, 200);
    let whole = until_has_rule(client, "whole", &rule("one"), false).await?;
    assert_eq!(whole["rules"], json!([rule("two")]));
    // A role that selects everything includes roles without labels.
    create(client, ROLES, aggregated("all", json!([{}]))).await?;
    until_has_rule(client, "all", &rule("one"), true).await?;
    let bare = json!({"metadata": {"name": "bare"}, "rules": [rule("bare")]});
    create(client, ROLES, bare).await?;
    until_has_rule(client, "all", &rule("bare"), true).await?;
    assert_eq!(client.delete(&format!("{ROLES}/bare")).await?.status, 200);
    until_has_rule(client, "all", &rule("bare"), false).await?;
    Ok(())
}

#[tokio::test]
async fn roles_that_select_each_other_converge() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = server.tenant("t1").await?;
    for name in ["a", "b"] {
        let mut one = aggregated(name, json!([{"matchLabels": {"ring": "x"}}]));
        one["metadata"]["labels"] = json!({"ring": "x"});
        create(&client, ROLES, one).await?;
    }
    create(&client, ROLES, role("leaf", json!({"ring": "x"}), "leaf")).await?;
    for name in ["a", "b"] {
        let current = until_has_rule(&client, name, &rule("leaf"), true).await?;
        assert_eq!(current["rules"], json!([rule("leaf")]));
    }
    // A correct role is not written again: once a later change is visible, everything before it was
    // processed.
    let before = get(&client, "a").await?;
    create(&client, ROLES, role("widgets", to_view(), "widgets")).await?;
    until_has_rule(&client, "view", &rule("widgets"), true).await?;
    assert_eq!(get(&client, "a").await?, before);
    Ok(())
}

#[tokio::test]
async fn space_with_default_roles_stores_none() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = server.tenant("t1").await?;
    let bare = json!({"metadata": {"name": "bare"}, "rules": [rule("bare")]});
    create(&client, ROLES, bare).await?;
    let other = server.tenant("t2").await?;
    create(&other, ROLES, role("widgets", to_view(), "widgets")).await?;
    for name in ["view", "edit", "admin"] {
        until_has_rule(&other, name, &rule("widgets"), true).await?;
    }
    assert_eq!(stored(&server, "t1").await?, ["admin-role", "bare"]);
    assert_eq!(
        stored(&server, "t2").await?,
        ["admin", "admin-role", "edit", "view", "widgets"]
    );
    Ok(())
}

#[tokio::test]
async fn deleted_tenant_with_aggregated_roles_leaves_no_keys() -> anyhow::Result<()> {
    for server in servers().await? {
        let (system, client) = (server.system().await?, server.tenant("t1").await?);
        let before = get(&client, "view").await?;
        for number in 0..20 {
            let name = format!("r{number}");
            create(&client, ROLES, role(&name, to_view(), &name)).await?;
        }
        assert_eq!(system.delete("/api/v1/tenants/t1").await?.status, 200);
        until_gone(&system, "/api/v1/tenants/t1").await?;
        assert_eq!(stored(&server, "t1").await?, [""; 0]);
        let again = server.tenant("t1").await?;
        assert_eq!(get(&again, "view").await?["rules"], before["rules"]);
        assert_eq!(stored(&server, "t1").await?, ["admin-role"]);
    }
    Ok(())
}

#[tokio::test]
async fn roles_changed_while_no_controller_ran_are_updated_at_the_start() -> anyhow::Result<()> {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let mut server = TestServer::start_on_store(Arc::clone(&store), Setup::default()).await?;
    let client = server.tenant("t1").await?;
    create(&client, ROLES, role("widgets", to_view(), "widgets")).await?;
    until_has_rule(&client, "view", &rule("widgets"), false).await?;
    server.stop().await;
    let mut server =
        TestServer::start_on_store(Arc::clone(&store), Setup::with_controllers()).await?;
    let client = server.tenant("t1").await?;
    until_has_rule(&client, "view", &rule("widgets"), true).await?;
    server.stop().await;
    let mut server = TestServer::start_on_store(Arc::clone(&store), Setup::default()).await?;
    let client = server.tenant("t1").await?;
    assert_eq!(
        client.delete(&format!("{ROLES}/widgets")).await?.status,
        200
    );
    server.stop().await;
    let server = TestServer::start_on_store(store, Setup::with_controllers()).await?;
    let client = server.tenant("t1").await?;
    until_has_rule(&client, "view", &rule("widgets"), false).await?;
    Ok(())
}

//! The requests with which operators watch, and the rights that they need.

use std::collections::BTreeSet;

use insula_testkit::server::rule;
use serde_json::{Value, json};

use crate::scene::{OPERATOR, group, id, run_for};
use crate::world::{Running, World, client, credential, eventually};

/// Returns the resources and namespaces of all lists and watches since a position of the log.
fn watched(events: &[Value], since: usize) -> BTreeSet<(String, String)> {
    let events = events.iter().skip(since);
    let events = events.filter(|event| event["verb"] == "watch" || event["verb"] == "list");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    events
        .map(|event| {
            let at = &event["objectRef"];
            (text(&at["resource"]), text(&at["namespace"]))
        })
        .collect()
}

#[tokio::test]
async fn r03_namespaces_that_are_not_targets_are_left_alone() -> anyhow::Result<()> {
    let world = World::start().await?;
    world.team("red");
    for namespace in ["target", "other"] {
        world.namespace(namespace).await?;
    }
    let other = group("other", "other");
    world.create(&other).await?;
    let _operator = run_for(&world, "red-system", "red", " target ,,target").await?;
    // The operator's own namespace is no target either.
    let own = group("red-system", "own");
    world.create(&own).await?;
    for number in 0..5 {
        let target = group("target", &format!("target{number}"));
        world.create(&target).await?;
        world.await_ready(&target, "True", "Succeeded").await?;
    }
    for left in [&other, &own] {
        let found = world.read(left).await?.unwrap();
        assert_eq!(found["metadata"]["finalizers"], json!(null));
        assert_eq!(found["metadata"]["annotations"], json!(null));
        assert_eq!(found["status"], json!(null));
    }
    let ids: Vec<_> = (0..5).map(|n| id("red", &format!("target{n}"))).collect();
    assert_eq!(world.azure.resource_ids(), ids);
    Ok(())
}

#[tokio::test]
async fn r04_watches_are_of_namespaces_with_targets_and_of_the_cluster_without()
-> anyhow::Result<()> {
    let world = World::start().await?;
    world.team("red");
    for namespace in ["one", "two"] {
        world.namespace(namespace).await?;
    }
    let kinds = ["resourcegroups", "storageaccounts", "virtualnetworks"];
    for (targets, namespaces) in [("one,two", vec!["one", "two"]), ("", vec![""])] {
        world
            .namespace(&format!("system-{}", namespaces.len()))
            .await?;
        let since = world.log.events()?.len();
        let operator = format!("system-{}", namespaces.len());
        let running = run_for(&world, &operator, "red", targets).await?;
        let expected = kinds.iter().flat_map(|kind| {
            let namespaces = namespaces.iter();
            namespaces.map(|namespace| ((*kind).to_owned(), (*namespace).to_owned()))
        });
        let expected: BTreeSet<_> = expected.collect();
        let group = group("one", &format!("g{}", namespaces.len()));
        world.create(&group).await?;
        world.await_ready(&group, "True", "Succeeded").await?;
        // The controllers of the server are not in the log, or watch other kinds.
        let found = eventually("watches", async || {
            let found = watched(&world.log.events()?, since);
            Ok(found.is_superset(&expected).then_some(found))
        })
        .await?;
        let of_azure = |kind: &str| kinds.contains(&kind);
        let found_of_azure = found.iter().filter(|(kind, _)| of_azure(kind));
        assert_eq!(found_of_azure.cloned().collect::<BTreeSet<_>>(), expected);
        let cluster_wide = |kind: &str| found.contains(&(kind.to_owned(), String::new()));
        let is_wide = targets.is_empty();
        for kind in ["namespaces", "secrets", "configmaps"] {
            assert_eq!(cluster_wide(kind), is_wide, "{kind} with {targets:?}");
        }
        running.stop().await?;
    }
    Ok(())
}

/// The rights that an operator needs in each of its target namespaces. None is cluster-scoped.
fn rights() -> Vec<Value> {
    let all = "create,delete,get,list,patch,update,watch";
    vec![
        rule(
            all,
            "resources.azure.com,storage.azure.com,network.azure.com",
            "*",
        ),
        rule("get,list,watch", "*", "*"),
        rule(all, "", "secrets,configmaps"),
        rule("get", "", "namespaces"),
        rule("create,patch", "events.k8s.io", "events"),
        rule("create,get,update,patch", "coordination.k8s.io", "leases"),
    ]
}

/// Runs an operator as a service account of its namespace, with rights in its targets only.
async fn run_as_account(world: &World, team: &str, targets: &[&str]) -> anyhow::Result<Running> {
    let operator = format!("{team}-system");
    world.namespace(&operator).await?;
    let accounts = format!("/api/v1/namespaces/{operator}/serviceaccounts");
    let account = json!({"metadata": {"name": "operator"}});
    let made = world.plain.post(&accounts, &account).await?;
    anyhow::ensure!(made.status == 201, "{}", made.text());
    let path = format!("{accounts}/operator/token");
    let token = world.plain.post(&path, &json!({"spec": {}})).await?.json();
    let token = token["status"]["token"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let subject = format!("ServiceAccount:{operator}/operator");
    for target in targets.iter().copied().chain([operator.as_str()]) {
        world
            .plain
            .grant_in(target, team, &subject, &rights())
            .await?;
    }
    let targets = targets.join(",");
    let own = credential(team);
    let mut settings: Vec<_> = own.iter().map(|(k, v)| (*k, v.as_str())).collect();
    settings.push(("AZURE_TARGET_NAMESPACES", &targets));
    let operator = world.operator(&operator, &settings)?;
    Ok(Running::new(client(&world.server, &token).await?, operator))
}

#[tokio::test]
async fn r16_operator_acts_as_the_service_account_of_its_namespace() -> anyhow::Result<()> {
    let world = World::start().await?;
    for team in ["red", "blue"] {
        world.team(team);
        world.namespace(team).await?;
    }
    let since = world.log.events()?.len();
    let mut running = Vec::new();
    for team in ["red", "blue"] {
        running.push(run_as_account(&world, team, &[team]).await?);
        let group = group(team, team);
        world.create(&group).await?;
        let made = world.await_ready(&group, "True", "Succeeded").await?;
        let operator = format!("{team}-system");
        assert_eq!(made["metadata"]["annotations"][OPERATOR], operator);
        world.delete(&group).await?;
        world.await_gone(&group).await?;
    }
    let events = world.log.events()?;
    let mut refused = Vec::new();
    for event in events.iter().skip(since) {
        let user = event["user"]["username"].as_str().unwrap_or_default();
        let at = &event["objectRef"];
        let namespace = at["namespace"].as_str().unwrap_or_default();
        for (team, other) in [("red", "blue"), ("blue", "red")] {
            let account = format!("system:serviceaccount:{team}-system:operator");
            let is_other = namespace == other || namespace == format!("{other}-system");
            assert!(user != account || !is_other, "{event}");
        }
        if user.ends_with(":operator") && event["responseStatus"]["code"] == 403 {
            refused.push(format!("{} {at}", event["verb"]));
        }
    }
    assert_eq!(refused, Vec::<String>::new());
    let writers = events.iter().filter(|event| {
        let at = &event["objectRef"];
        event["verb"] == "patch" && at["resource"] == "resourcegroups" && at["namespace"] == "red"
    });
    let writers: BTreeSet<_> = writers
        .map(|event| event["user"]["username"].to_string())
        .collect();
    let expected = "\"system:serviceaccount:red-system:operator\"".to_owned();
    assert_eq!(writers, BTreeSet::from([expected]));
    Ok(())
}

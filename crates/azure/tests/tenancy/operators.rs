//! Several operators in one cluster, each with namespaces and a credential of its own.

use std::collections::BTreeMap;
use std::time::Instant;

use insula_azure::operator::{Operator, run_reloading};
use insula_azure::settings::Settings;
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};

use crate::scene::{OPERATOR, clients, group, id, run_for};
use crate::world::{World, credential, eventually};

#[tokio::test]
async fn r01_each_operator_uses_its_own_credential_in_its_namespaces() -> anyhow::Result<()> {
    let world = World::start().await?;
    for team in ["red", "blue"] {
        world.team(team);
        for number in [1, 2] {
            world.namespace(&format!("{team}-{number}")).await?;
        }
    }
    let _red = run_for(&world, "red-system", "red", "red-1,red-2").await?;
    let _blue = run_for(&world, "blue-system", "blue", "blue-1, blue-2").await?;
    for team in ["red", "blue"] {
        for number in [1, 2] {
            let (namespace, name) = (format!("{team}-{number}"), format!("{team}{number}"));
            let group = group(&namespace, &name);
            world.create(&group).await?;
            let made = world.await_ready(&group, "True", "Succeeded").await?;
            assert_eq!(made["status"]["id"], id(team, &name));
            assert_eq!(world.azure.creator(&id(team, &name)).unwrap().client, team);
            let operator = format!("{team}-system");
            assert_eq!(made["metadata"]["annotations"][OPERATOR], operator);
        }
    }
    let expected = ["blue", "red"].map(|team| (format!("sub-{team}"), [team.to_owned()].into()));
    assert_eq!(clients(&world.azure), BTreeMap::from(expected));
    let mut requested: Vec<_> = world.azure.token_requests();
    requested.sort_by(|one, other| one.client.cmp(&other.client));
    requested.dedup_by(|one, other| one.client == other.client);
    let requested: Vec<_> = requested.into_iter().map(|call| call.client).collect();
    assert_eq!(requested, ["blue", "red"]);
    Ok(())
}

#[tokio::test]
async fn r05_operator_without_settings_for_tenants_serves_all_namespaces() -> anyhow::Result<()> {
    let world = World::start().await?;
    world.team("red");
    for namespace in ["one", "two"] {
        world.namespace(namespace).await?;
    }
    let own = credential("red");
    let own: Vec<_> = own.iter().map(|(k, v)| (*k, v.as_str())).collect();
    let _operator = world.run("azureoperator-system", &own).await?;
    for namespace in ["one", "two", "azureoperator-system"] {
        let group = group(namespace, namespace);
        world.create(&group).await?;
        let made = world.await_ready(&group, "True", "Succeeded").await?;
        let operator = &made["metadata"]["annotations"][OPERATOR];
        assert_eq!(operator, "azureoperator-system");
    }
    // A namespace that is created later is served too.
    world.namespace("three").await?;
    let group = group("three", "three");
    world.create(&group).await?;
    world.await_ready(&group, "True", "Succeeded").await?;
    let expected = ("sub-red".to_owned(), ["red".to_owned()].into());
    assert_eq!(clients(&world.azure), BTreeMap::from([expected]));
    Ok(())
}

#[tokio::test]
async fn r17_end_of_one_operator_does_not_affect_another() -> anyhow::Result<()> {
    let world = World::start().await?;
    for team in ["red", "blue"] {
        world.team(team);
        world.namespace(team).await?;
    }
    let red = run_for(&world, "red-system", "red", "red").await?;
    let _blue = run_for(&world, "blue-system", "blue", "blue").await?;
    let ready = async |team: &str, name: &str| -> anyhow::Result<()> {
        let group = group(team, name);
        world.create(&group).await?;
        world.await_ready(&group, "True", "Succeeded").await?;
        Ok(())
    };
    ready("red", "red0").await?;
    ready("blue", "blue0").await?;
    let puts = world.azure.puts(&id("blue", "blue0"));
    red.kill().await;
    let begun = Instant::now();
    ready("blue", "blue1").await?;
    let latency = begun.elapsed();
    // Nothing happens in the namespace of the operator that was killed.
    let orphan = group("red", "red1");
    world.create(&orphan).await?;
    ready("blue", "blue2").await?;
    let found = world.read(&orphan).await?.unwrap();
    assert_eq!(found["metadata"]["annotations"][OPERATOR], json!(null));
    assert_eq!(found["metadata"]["finalizers"], json!(null));
    // Its successor continues, also after a graceful stop.
    let red = run_for(&world, "red-system", "red", "red").await?;
    world.await_ready(&orphan, "True", "Succeeded").await?;
    red.stop().await?;
    ready("blue", "blue3").await?;
    let _red = run_for(&world, "red-system", "red", "red").await?;
    ready("red", "red2").await?;
    assert_eq!(world.azure.puts(&id("blue", "blue0")), puts);
    assert_eq!(world.azure.puts(&id("red", "red0")), 1);
    assert!(latency.as_secs() < 20, "{latency:?}");
    let expected = ["blue", "red"].map(|team| (format!("sub-{team}"), [team.to_owned()].into()));
    assert_eq!(clients(&world.azure), BTreeMap::from(expected));
    Ok(())
}

#[tokio::test]
async fn r25_operator_of_one_team_and_operator_of_many_work_side_by_side() -> anyhow::Result<()> {
    let world = World::start().await?;
    for team in ["red", "blue", "green"] {
        world.team(team);
    }
    world.namespace("red").await?;
    world.namespace_of("blue", "blue").await?;
    world.namespace_of("green", "green").await?;
    let _one = run_for(&world, "red-system", "red", "red").await?;
    let targets = [
        ("AZURE_TARGET_NAMESPACES", "blue,green"),
        ("AZURE_OPERATOR_AUTH_SOURCE_MODE", "namespace"),
    ];
    let _many = world.run("shared-system", &targets).await?;
    for (team, operator) in [
        ("red", "red-system"),
        ("blue", "shared-system"),
        ("green", "shared-system"),
    ] {
        let group = group(team, team);
        world.create(&group).await?;
        let made = world.await_ready(&group, "True", "Succeeded").await?;
        assert_eq!(made["metadata"]["annotations"][OPERATOR], operator);
        assert_eq!(made["status"]["id"], id(team, team));
    }
    let expected = ["blue", "green", "red"];
    let expected = expected.map(|team| (format!("sub-{team}"), [team.to_owned()].into()));
    assert_eq!(clients(&world.azure), BTreeMap::from(expected));
    Ok(())
}

#[tokio::test]
async fn r22_claims_and_credentials_are_the_same_for_an_operator_of_all_namespaces()
-> anyhow::Result<()> {
    let world = World::start().await?;
    world.team("red");
    world.team("blue");
    world.namespace_of("red", "red").await?;
    world.namespace("others").await?;
    let _operator = run_for(&world, "azureoperator-system", "blue", "").await?;
    let (own, global) = (group("red", "own"), group("others", "global"));
    for group in [&own, &global] {
        world.create(group).await?;
        let made = world.await_ready(group, "True", "Succeeded").await?;
        let operator = &made["metadata"]["annotations"][OPERATOR];
        assert_eq!(operator, "azureoperator-system");
    }
    assert_eq!(
        world.azure.creator(&id("red", "own")).unwrap().client,
        "red"
    );
    let creator = world.azure.creator(&id("blue", "global")).unwrap();
    assert_eq!(creator.client, "blue");
    let mut foreign = group("others", "foreign");
    foreign["metadata"]["annotations"] = json!({OPERATOR: "another-system"});
    world.create(&foreign).await?;
    let message = crate::scene::await_condition(&world, &foreign, "OperatorOverlap").await?;
    let expected = "Operators in \"azureoperator-system\" and \"another-system\" are both \
                    configured to manage this resource";
    assert_eq!(message, expected);
    Ok(())
}

#[tokio::test]
async fn r02_changed_credential_mode_takes_effect_without_a_restart_of_the_process()
-> anyhow::Result<()> {
    let world = World::start().await?;
    world.team("wide");
    world.namespace("wide-system").await?;
    world.namespace("team").await?;
    let with_mode = |mode: &str| -> anyhow::Result<Settings> {
        let own = credential("wide");
        let mut settings: Vec<_> = own.iter().map(|(k, v)| (*k, v.as_str())).collect();
        settings.push(("AZURE_OPERATOR_AUTH_SOURCE_MODE", mode));
        Ok(world.operator("wide-system", &settings)?.settings)
    };
    let (sender, settings) = watch::channel(with_mode("namespace")?);
    let base = world.operator("wide-system", &[])?;
    let build = move |settings| Operator {
        settings,
        ..base.clone()
    };
    let (stop, stopped) = oneshot::channel::<()>();
    let stopped = async { drop(stopped.await) };
    let running = tokio::spawn(run_reloading(
        world.client.clone(),
        settings,
        build,
        stopped,
    ));
    let (first, second) = (group("team", "first"), group("team", "second"));
    world.create(&first).await?;
    world.await_ready(&first, "False", "NoCredentials").await?;
    sender.send(with_mode("fallback")?)?;
    world.await_ready(&first, "True", "Succeeded").await?;
    let leader = async || -> anyhow::Result<String> {
        let name = "controllers-leader-election-azinfra-generated";
        let found = world.find("coordination.k8s.io/v1", "Lease", "wide-system", name);
        let found: Option<Value> = found.await?;
        let holder = &found.unwrap_or_default()["spec"]["holderIdentity"];
        Ok(holder.as_str().unwrap_or_default().to_owned())
    };
    let before = leader().await?;
    sender.send(with_mode("namespace")?)?;
    eventually("the operator starts anew", async || {
        let now = leader().await?;
        Ok((now != before && !now.is_empty()).then_some(()))
    })
    .await?;
    let changed = json!({"spec": {"tags": {"a": "b"}}});
    world.patch(&first, changed).await?;
    world.await_ready(&first, "False", "NoCredentials").await?;
    world.create(&second).await?;
    world.await_ready(&second, "False", "NoCredentials").await?;
    assert_eq!(world.azure.resource_ids(), [id("wide", "first")]);
    stop.send(()).ok();
    Ok(running.await??)
}

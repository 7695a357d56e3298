//! Namespaces that are deleted with their resources and credentials.

use futures_util::future::try_join_all;
use insula_identity::claim::Hold;
use insula_operator::provider::{announce_hold_end, end_shared_hold};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use serde_json::json;

use crate::scene::{CREDENTIAL_FROM, IN_USE, annotated, group, namespace, run_for, secret};
use crate::world::World;

#[tokio::test]
async fn r23_resources_of_a_deleted_namespace_are_deleted_in_azure() -> anyhow::Result<()> {
    let world = World::start().await?;
    for team in ["red", "blue", "wide"] {
        world.team(team);
    }
    world.namespace_of("team", "red").await?;
    world.credential("team", "special", "blue").await?;
    let _operator = run_for(&world, "azureoperator-system", "wide", "").await?;
    let own = (0..8).map(|n| group("team", &format!("own{n}")));
    let special = (0..4).map(|n| {
        let from = (CREDENTIAL_FROM, "special");
        annotated("team", &format!("special{n}"), from)
    });
    let groups: Vec<_> = own.chain(special).collect();
    try_join_all(groups.iter().map(|group| world.create(group))).await?;
    for group in &groups {
        world.await_ready(group, "True", "Succeeded").await?;
    }
    assert_eq!(world.azure.resource_ids().len(), 12);
    world.delete(&namespace("team")).await?;
    world.await_gone(&namespace("team")).await?;
    assert_eq!(world.azure.resource_ids(), Vec::<String>::new());
    assert_eq!(world.azure.requests_by("wide"), []);
    Ok(())
}

#[tokio::test]
async fn r23_secret_is_released_by_resources_that_are_deleted_at_the_same_time()
-> anyhow::Result<()> {
    let world = World::start().await?;
    world.team("red");
    world.namespace_of("red", "red").await?;
    let _operator = world.run("azureoperator-system", &[]).await?;
    let held = secret("red", "aso-credential");
    for round in 0..3 {
        let groups: Vec<_> = (0..6)
            .map(|n| group("red", &format!("g{round}{n}")))
            .collect();
        try_join_all(groups.iter().map(|group| world.create(group))).await?;
        for group in &groups {
            world.await_ready(group, "True", "Succeeded").await?;
        }
        try_join_all(groups.iter().map(|group| world.delete(group))).await?;
        for group in &groups {
            world.await_gone(group).await?;
        }
        crate::world::eventually("released", async || {
            let found = world.read(&held).await?.unwrap();
            Ok((found["metadata"]["finalizers"] == json!(null)).then_some(()))
        })
        .await?;
    }
    world.delete(&held).await?;
    world.await_gone(&held).await?;
    Ok(())
}

#[tokio::test]
async fn r23_hold_does_not_end_while_another_resource_begins_to_need_the_secret()
-> anyhow::Result<()> {
    let world = World::start().await?;
    world.team("red");
    world.namespace_of("red", "red").await?;
    let _operator = world.run("azureoperator-system", &[]).await?;
    let (first, second) = (group("red", "first"), group("red", "second"));
    world.create(&first).await?;
    world.await_ready(&first, "True", "Succeeded").await?;
    let secrets: Api<Secret> = Api::namespaced(world.client.clone(), "red");
    let hold = Hold::Shared { finalizer: IN_USE };
    let ending = announce_hold_end(&secrets, &hold, "aso-credential").await?;
    // It comes after the users were listed, and finds the Secret held.
    world.create(&second).await?;
    world.await_ready(&second, "True", "Succeeded").await?;
    let ended = end_shared_hold(&secrets, &hold, ending.unwrap()).await;
    let status = match ended {
        Err(kube::Error::Api(status)) => status.code,
        other => anyhow::bail!("{other:?}"),
    };
    assert_eq!(status, 409);
    let held = world.read(&secret("red", "aso-credential")).await?.unwrap();
    assert_eq!(held["metadata"]["finalizers"], json!([IN_USE]));
    assert_eq!(held["metadata"].get("annotations"), None);
    Ok(())
}

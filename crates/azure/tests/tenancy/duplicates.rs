//! Objects with the same ARM id: the resource belongs to one of them.

use serde_json::{Value, json};

use crate::scene::{FINALIZER, annotated, group, id, senders};
use crate::world::{Running, World, credential, ready, subscription};

const OPERATOR: &str = "azureoperator-system";
const DUPLICATE: &str = "DuplicateResource";
const SKIP: (&str, &str) = ("serviceoperator.azure.com/reconcile-policy", "skip");
const RESOURCE_ID: &str = "serviceoperator.azure.com/resource-id";
const SENT: &str = "serviceoperator.azure.com/latest-reconciled-generation";
const ACCEPTED_ID: &str = "azure.insula.dev/accepted-id";

/// Returns a group with another name in Azure than its own.
fn named(namespace: &str, name: &str, azure_name: &str) -> Value {
    let mut group = group(namespace, name);
    group["spec"]["azureName"] = azure_name.into();
    group
}

/// Waits until an object is refused, and returns the message.
async fn refused(world: &World, object: &Value) -> anyhow::Result<String> {
    let found = world.await_ready(object, "False", DUPLICATE).await?;
    Ok(ready(&found).unwrap()[3].to_owned())
}

/// Deletes an object, and checks that nothing was deleted in Azure.
async fn delete_without_request(world: &World, object: &Value) -> anyhow::Result<()> {
    world.delete(object).await?;
    world.await_gone(object).await?;
    assert_eq!(senders(&world.azure, "DELETE", &id("red", "shop")).len(), 0);
    Ok(())
}

/// Starts the team `red` with two namespaces, and an operator.
async fn start() -> anyhow::Result<(World, Running)> {
    let world = World::start().await?;
    world.team("red");
    for namespace in ["first", "second"] {
        world.namespace_of(namespace, "red").await?;
    }
    let operator = world.run(OPERATOR, &[]).await?;
    Ok((world, operator))
}

#[tokio::test]
async fn r32_second_object_with_an_arm_id_neither_changes_nor_deletes_the_resource()
-> anyhow::Result<()> {
    let (world, operator) = start().await?;
    let (shop, of_shop) = (group("first", "shop"), id("red", "shop"));
    world.create(&shop).await?;
    world.await_ready(&shop, "True", "Succeeded").await?;

    let (near, far) = (named("first", "near", "SHOP"), group("second", "shop"));
    world.create(&near).await?;
    world.create(&far).await?;
    let message = refused(&world, &near).await?;
    assert!(
        message.contains("ResourceGroup \"shop\" of this namespace"),
        "{message}"
    );
    let message = refused(&world, &far).await?;
    assert!(
        message.contains("an object of another namespace"),
        "{message}"
    );
    assert!(!message.contains("first"), "{message}");
    let found = world.read(&far).await?.unwrap();
    assert_eq!(found["metadata"]["finalizers"], Value::Null);
    assert_eq!(found["metadata"]["annotations"][RESOURCE_ID], Value::Null);
    delete_without_request(&world, &far).await?;

    // The owner is the same after a restart.
    operator.stop().await?;
    world.create(&far).await?;
    let operator = world.run(OPERATOR, &[]).await?;
    refused(&world, &far).await?;
    // Objects that only read a resource share it.
    let mut reader = annotated("second", "reader", SKIP);
    reader["spec"]["azureName"] = "shop".into();
    world.create(&reader).await?;
    world.await_ready(&reader, "True", "Succeeded").await?;
    world.delete(&reader).await?;
    delete_without_request(&world, &far).await?;
    assert_eq!(world.azure.puts(&of_shop), 1);

    // The next one has the resource after the owner.
    world.delete(&shop).await?;
    world.await_ready(&near, "True", "Succeeded").await?;
    assert_eq!(senders(&world.azure, "DELETE", &of_shop).len(), 1);
    assert_eq!(world.azure.puts(&id("red", "SHOP")), 2);
    operator.stop().await
}

#[tokio::test]
async fn r32_forged_claim_and_failed_requests_give_no_resource() -> anyhow::Result<()> {
    let (world, _operator) = start().await?;
    world.team("blue");
    world.namespace("squat").await?;
    let [_, others @ ..] = credential("blue");
    let of_red = ("AZURE_SUBSCRIPTION_ID", subscription("red"));
    let values: Vec<_> = [of_red].into_iter().chain(others).collect();
    let values: Vec<_> = values.iter().map(|(k, v)| (*k, v.as_str())).collect();
    world.secret("squat", "aso-credential", &values).await?;
    let squat = group("squat", "shop");
    world.create(&squat).await?;
    world
        .await_ready(&squat, "False", "AuthorizationFailed")
        .await?;
    let shop = group("first", "shop");
    world.create(&shop).await?;
    world.await_ready(&shop, "True", "Succeeded").await?;

    let mut forged = group("second", "shop");
    forged["metadata"]["finalizers"] = json!([FINALIZER]);
    let of_shop = id("red", "shop");
    forged["metadata"]["annotations"] = json!({
        RESOURCE_ID: of_shop, ACCEPTED_ID: of_shop, SENT: "1",
    });
    world.create(&forged).await?;
    refused(&world, &forged).await?;
    for object in [&forged, &squat] {
        delete_without_request(&world, object).await?;
    }
    assert_eq!(
        senders(&world.azure, "PUT", &of_shop).last().unwrap(),
        "red"
    );
    assert_eq!(world.azure.resource_ids(), [of_shop]);
    Ok(())
}

#[tokio::test]
async fn r32_object_of_another_tenant_with_an_arm_id_is_refused_and_not_named() -> anyhow::Result<()>
{
    let world = World::start_for_tenants().await?;
    world.team("red");
    world.namespace(OPERATOR).await?;
    let mut operator = world.operator(OPERATOR, &[])?;
    operator.shell.tenants = true;
    let _operator = Running::new(world.client.clone(), operator);
    let shop = group("team", "shop");
    let values = credential("red");
    let values: Vec<_> = values.iter().map(|(k, v)| (*k, v.as_str())).collect();
    let mut spaces = Vec::new();
    for tenant in ["acme", "globex"] {
        let space = world.tenant(tenant).await?;
        space.namespace("team").await?;
        space.secret("team", "aso-credential", &values).await?;
        space.create(&shop).await?;
        let status = if spaces.is_empty() { "True" } else { "False" };
        let reason = if spaces.is_empty() {
            "Succeeded"
        } else {
            DUPLICATE
        };
        let found = space.await_ready(&shop, status, reason).await?;
        let message = ready(&found).unwrap()[3].to_owned();
        assert!(!message.contains("acme"), "{message}");
        spaces.push(space);
    }
    spaces[1].delete(&shop).await?;
    spaces[1].await_gone(&shop).await?;
    assert_eq!(world.azure.resource_ids(), [id("red", "shop")]);
    Ok(())
}

//! Objects with the same ARM id: the resource belongs to one of them.

use insula_testkit::azure::FakeAzure;
use serde_json::{Value, json};

use crate::scene::{FINALIZER, annotated, group, id, secret, senders};
use crate::world::{Running, World, credential, ready, subscription};

const OPERATOR: &str = "azureoperator-system";
const DUPLICATE: &str = "DuplicateResource";
const SKIP: (&str, &str) = ("serviceoperator.azure.com/reconcile-policy", "skip");
const RESOURCE_ID: &str = "serviceoperator.azure.com/resource-id";
const SENT: &str = "serviceoperator.azure.com/latest-reconciled-generation";
const CLAIM: &str = "azure.microsoft.com/operator-namespace";
const CLAIM_V2: &str = "serviceoperator.azure.com/operator-namespace";
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
    delete_without_request(&world, &forged).await?;

    // Azure does not show the resource to the other team: neither does the operator, not even by
    // the deletion of its object.
    let tags = json!({"spec": {"tags": {"a": "b"}}});
    world.patch(&squat, tags).await?;
    let read_by_blue = |times: usize| {
        let of_shop = of_shop.clone();
        move |azure: &FakeAzure| {
            let readers = senders(azure, "GET", &of_shop).into_iter();
            readers.filter(|reader| reader == "blue").count() >= times
        }
    };
    world.azure.wait_for("read", read_by_blue(1)).await?;
    let found = world.read(&squat).await?.unwrap();
    assert_eq!(ready(&found).unwrap()[2], "AuthorizationFailed");
    world.delete(&squat).await?;
    world.azure.wait_for("read again", read_by_blue(2)).await?;
    let detach = json!({"metadata": {"annotations": {SKIP.0: "detach-on-delete"}}});
    world.patch(&squat, detach).await?;
    world.await_gone(&squat).await?;
    assert_eq!(senders(&world.azure, "DELETE", &of_shop).len(), 0);
    assert_eq!(
        senders(&world.azure, "PUT", &of_shop).last().unwrap(),
        "red"
    );
    assert_eq!(world.azure.resource_ids(), [of_shop]);
    Ok(())
}

#[tokio::test]
async fn r32_forged_record_of_an_older_object_takes_no_resource_after_a_restart()
-> anyhow::Result<()> {
    let (world, mut operator) = start().await?;
    let parked = annotated("first", "parked", (CLAIM, "another-operator"));
    world.create(&parked).await?;
    let (shop, of_shop) = (group("second", "shop"), id("red", "shop"));
    world.create(&shop).await?;
    let owner = world.await_ready(&shop, "True", "Succeeded").await?;
    let record = &owner["metadata"]["annotations"];

    for (claim, puts) in [("another-operator", 2), (OPERATOR, 3)] {
        operator.stop().await?;
        // All that a user can write, with a copy of the record of the owner.
        let mut forged = record.clone();
        forged[CLAIM] = claim.into();
        forged[CLAIM_V2] = claim.into();
        let metadata = json!({"annotations": forged, "finalizers": [FINALIZER]});
        world.patch(&parked, json!({"metadata": metadata})).await?;
        operator = world.run(OPERATOR, &[]).await?;
        let tags = json!({"spec": {"tags": {"run": claim}}});
        world.patch(&shop, tags).await?;
        world.azure.await_puts(&of_shop, puts).await?;
        let found = world.await_ready(&shop, "True", "Succeeded").await?;
        assert_eq!(found["metadata"]["annotations"][ACCEPTED_ID], of_shop);
    }
    refused(&world, &parked).await?;
    delete_without_request(&world, &parked).await?;
    world.delete(&shop).await?;
    world.await_gone(&shop).await?;
    assert_eq!(senders(&world.azure, "DELETE", &of_shop), ["red"]);
    assert_eq!(world.azure.puts(&of_shop), 3);
    operator.stop().await
}

/// Returns a storage account of the group `shop` that exports a key.
fn account(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "storage.azure.com/v20250601", "kind": "StorageAccount",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "location": "westus2", "kind": "StorageV2", "sku": {"name": "Standard_LRS"},
            "owner": {"armId": id("red", "shop")}, "azureName": "shopdata",
            "operatorSpec": {"secrets": {"key1": {"name": name, "key": "key"}}},
        },
    })
}

#[tokio::test]
async fn r32_reader_in_another_namespace_exports_no_values() -> anyhow::Result<()> {
    let world = World::start().await?;
    world.team("red");
    for namespace in ["first", "second"] {
        world.namespace(namespace).await?;
    }
    // All namespaces share the credential of the operator.
    let own = credential("red");
    let own: Vec<_> = own.iter().map(|(k, v)| (*k, v.as_str())).collect();
    let _operator = world.run(OPERATOR, &own).await?;
    for object in [group("first", "shop"), account("first", "shopdata")] {
        world.create(&object).await?;
        world.await_ready(&object, "True", "Succeeded").await?;
    }
    let exports = || {
        let requests = world.azure.requests().into_iter();
        requests.filter(|call| call.method == "POST").count()
    };
    assert_eq!(exports(), 1);

    let reader = |namespace: &str, name: &str| {
        let mut reader = account(namespace, name);
        reader["metadata"]["annotations"] = json!({SKIP.0: SKIP.1});
        reader
    };
    let (near, far) = (reader("first", "near"), reader("second", "far"));
    world.create(&far).await?;
    let message = refused(&world, &far).await?;
    assert!(
        message.contains("belongs to an object of another namespace"),
        "{message}"
    );
    assert_eq!(exports(), 1);
    assert!(world.read(&secret("second", "far")).await?.is_none());
    let found = world.read(&far).await?.unwrap();
    assert_eq!(found["status"]["kind"], "StorageV2");
    world.create(&near).await?;
    world.await_ready(&near, "True", "Succeeded").await?;
    assert_eq!(exports(), 2);
    // It may be read without exports.
    let none = json!({"spec": {"operatorSpec": null}});
    world.patch(&far, none).await?;
    world.await_ready(&far, "True", "Succeeded").await?;
    assert_eq!(exports(), 2);
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

//! What single services of Azure need besides a PUT.

use std::time::Duration;

use insula_testkit::azure::DeleteManner;
use serde_json::{Value, json};

use crate::scene::{
    GROUP, NAMESPACE, SUBSCRIPTION, Scene, account, between, cluster, group, id, identity, network,
    resource, server, subnet, vault,
};
use crate::world::Running;

#[tokio::test]
async fn network_keeps_its_subnets() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    scene.group().await?;
    let net = network("net");
    scene.make(&net).await?;
    scene.make(&subnet("net", "front", "10.0.1.0/24")).await?;
    scene
        .patch(&net, json!({"spec": {"tags": {"a": "b"}}}))
        .await?;
    let of_net = id("Microsoft.Network/virtualNetworks/net");
    scene.azure.await_puts(&of_net, 2).await?;
    scene.await_ready(&net, "True", "Succeeded").await?;
    let sent = scene.azure.requests_for("PUT", &of_net);
    assert_eq!(sent[0].body["properties"].get("subnets"), None);
    let subnets = &sent[1].body["properties"]["subnets"];
    assert_eq!(subnets[0]["name"], "front");
    assert_eq!(subnets[0]["properties"]["addressPrefix"], "10.0.1.0/24");
    assert_eq!(subnets[0]["properties"].get("provisioningState"), None);
    assert!(
        scene
            .azure
            .resource(&format!("{of_net}/subnets/front"))
            .is_some()
    );
    Ok(())
}

#[tokio::test]
async fn account_waits_as_long_as_its_location_asks_for() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    scene.group().await?;
    scene
        .azure
        .set_manner("Microsoft.Storage/storageAccounts", |manner| {
            (manner.polls, manner.retry_after) = (Some(2), Some(1));
        });
    let made = scene.make(&account("shopdata")).await?;
    let of_account = id("Microsoft.Storage/storageAccounts/shopdata");
    assert_eq!(made["status"]["provisioningState"], "Succeeded");
    let polls = scene.azure.requests();
    let polls: Vec<_> = polls
        .iter()
        .filter(|call| call.path.contains("/asyncoperations/"))
        .collect();
    assert_eq!(polls.len(), 3);
    let put = &scene.azure.requests_for("PUT", &of_account)[0];
    assert_eq!(put.status, Some(202));
    assert!(between(put, polls[0]) >= Duration::from_secs(1));
    assert!(between(polls[0], polls[1]) >= Duration::from_secs(1));
    assert_eq!(scene.azure.puts(&of_account), 1);
    Ok(())
}

#[tokio::test]
async fn relative_location_needs_no_poll() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    scene.group().await?;
    let made = scene.make(&identity("web")).await?;
    let of_identity = id("Microsoft.ManagedIdentity/userAssignedIdentities/web");
    let methods: Vec<_> = scene
        .calls(&of_identity)
        .into_iter()
        .map(|call| call.method)
        .collect();
    assert_eq!(methods, ["PUT"]);
    let in_azure = scene.azure.resource(&of_identity).unwrap();
    assert_eq!(
        made["status"]["clientId"],
        in_azure["properties"]["clientId"]
    );
    Ok(())
}

/// Begins an operation of the same resource with an operator that this one does not know.
async fn change_elsewhere(scene: &Scene, object: &Value) -> anyhow::Result<Running> {
    scene.namespace_of("other", "red").await?;
    scene
        .secret("other", "database", &[("password", "pa55word")])
        .await?;
    let targets = [("AZURE_TARGET_NAMESPACES", "other")];
    let another = scene.run("other-system", &targets).await?;
    let mut other = object.clone();
    other["metadata"]["namespace"] = "other".into();
    other["metadata"]["annotations"] = json!({
        "azure.microsoft.com/operator-namespace": "other-system",
        "serviceoperator.azure.com/operator-namespace": "other-system",
    });
    other["spec"]["owner"] = json!({"armId": GROUP});
    other["spec"]["tags"] = json!({"by": "another"});
    scene.create(&other).await?;
    scene.await_ready(&other, "False", "Reconciling").await?;
    Ok(another)
}

/// Operations on a type take some seconds from now on.
fn slow(scene: &Scene, of_type: &str) {
    scene.azure.set_manner(of_type, |manner| {
        (manner.polls, manner.retry_after) = (Some(2), Some(1));
    });
}

#[tokio::test]
async fn cluster_and_pools_are_not_sent_during_the_operation_of_another_client()
-> anyhow::Result<()> {
    let scene = Scene::start().await?;
    scene.group().await?;
    let shop = cluster("shop");
    scene.make(&shop).await?;
    let of_cluster = id("Microsoft.ContainerService/managedClusters/shop");
    slow(&scene, "Microsoft.ContainerService/managedClusters");
    let _another = change_elsewhere(&scene, &shop).await?;
    scene
        .patch(&shop, json!({"spec": {"tags": {"a": "b"}}}))
        .await?;
    let spec = json!({
        "owner": {"name": "shop"}, "count": 1, "vmSize": "Standard_D2s_v5", "mode": "User",
        "osType": "Linux",
    });
    let message = scene
        .problem(&shop, "Warning", "ReconciliationBlocked")
        .await?;
    assert_eq!(
        message,
        "the resource is in the state \"Updating\", in which it cannot be changed"
    );
    scene.await_ready(&shop, "True", "Succeeded").await?;
    assert_eq!(scene.azure.resource(&of_cluster).unwrap()["tags"]["a"], "b");
    let api_version = "containerservice.azure.com/v1api20250801";
    let pool = resource(api_version, "ManagedClustersAgentPool", "work", spec);
    scene
        .patch(&shop, json!({"spec": {"tags": {"a": "c"}}}))
        .await?;
    scene.create(&pool).await?;
    scene.await_ready(&pool, "True", "Succeeded").await?;
    check_accepted(&scene, &of_cluster);
    Ok(())
}

#[tokio::test]
async fn server_and_databases_are_not_sent_before_it_is_ready() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    scene.group().await?;
    scene
        .secret(NAMESPACE, "database", &[("password", "pa55word")])
        .await?;
    let db = server("orders-db");
    let made = scene.make(&db).await?;
    assert_eq!(made["status"]["state"], "Ready");
    let of_db = id("Microsoft.DBforPostgreSQL/flexibleServers/orders-db");
    slow(&scene, "Microsoft.DBforPostgreSQL/flexibleServers");
    let _another = change_elsewhere(&scene, &db).await?;
    let api_version = "dbforpostgresql.azure.com/v20250801";
    let spec = json!({"owner": {"name": "orders-db"}, "charset": "utf8"});
    let orders = resource(api_version, "FlexibleServersDatabase", "orders", spec);
    scene.create(&orders).await?;
    let message = scene
        .problem(&orders, "Warning", "ReconciliationBlocked")
        .await?;
    assert_eq!(
        message,
        "the owner is in the state \"Updating\", in which it cannot be changed"
    );
    scene.await_ready(&orders, "True", "Succeeded").await?;
    check_accepted(&scene, &of_db);
    Ok(())
}

/// Checks that no request for a resource was refused.
fn check_accepted(scene: &Scene, id: &str) {
    let calls = scene.calls(id).into_iter();
    let refused = calls.filter(|call| call.status.is_some_and(|status| status >= 400));
    let refused = refused.filter(|call| call.method == "PUT");
    let refused: Vec<_> = refused.map(|call| (call.path, call.status)).collect();
    assert_eq!(refused, []);
}

#[tokio::test]
async fn deleted_vault_is_recovered_or_purged_as_asked() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    scene.group().await?;
    let of_keys = id("Microsoft.KeyVault/vaults/keys");
    let modes = |scene: &Scene| -> Vec<String> {
        let sent = scene.azure.requests_for("PUT", &of_keys);
        let mode = |body: &Value| body["properties"]["createMode"].clone();
        sent.iter()
            .map(|call| mode(&call.body).as_str().unwrap_or("none").to_owned())
            .collect()
    };
    let mut expected = Vec::new();
    for (asked, sent) in [
        (Some("createOrRecover"), "default"),
        (Some("createOrRecover"), "recover"),
        (Some("purgeThenCreate"), "default"),
        (Some("purgeThenCreate"), "default"),
    ] {
        let keys = vault("keys", asked);
        scene.make(&keys).await?;
        expected.push(sent.to_owned());
        assert_eq!(modes(&scene), expected);
        scene.delete(&keys).await?;
        scene.await_gone(&keys).await?;
    }
    let purges = scene.azure.requests();
    let purges = purges.iter().filter(|call| call.path.ends_with("/purge"));
    let path = format!(
        "{SUBSCRIPTION}/providers/Microsoft.KeyVault/locations/westus2/deletedVaults/keys/purge"
    );
    let purges: Vec<_> = purges.map(|call| call.path.clone()).collect();
    // It is asked for again as long as the deleted vault is there.
    assert!(
        purges.len() >= 2 && purges.iter().all(|purge| *purge == path),
        "{purges:?}"
    );
    // Without a mode, Azure's refusal is reported.
    let keys = vault("keys", None);
    scene.create(&keys).await?;
    scene.problem(&keys, "Warning", "ConflictError").await?;
    // A vault of another resource group cannot be recovered.
    scene.make(&group("other")).await?;
    scene.delete(&keys).await?;
    scene.await_gone(&keys).await?;
    let mut keys = vault("keys", Some("createOrRecover"));
    keys["spec"]["owner"]["name"] = "other".into();
    scene.create(&keys).await?;
    scene
        .problem(&keys, "Error", "PropertyChangeNotAllowed")
        .await?;
    Ok(())
}

#[tokio::test]
async fn kind_without_delete_goes_with_its_owner_or_detached() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    scene.group().await?;
    scene
        .azure
        .set_manner("Microsoft.Storage/storageAccounts/blobServices", |manner| {
            manner.delete = DeleteManner::NotAllowed;
        });
    let blobs = |name: &str, owner: &str| {
        let spec = json!({"owner": {"name": owner}});
        let kind = "StorageAccountsBlobService";
        resource("storage.azure.com/v20250601", kind, name, spec)
    };
    for name in ["one", "two", "red"] {
        scene.make(&account(&format!("{name}data"))).await?;
        scene.make(&blobs(name, &format!("{name}data"))).await?;
    }
    let one = blobs("one", "onedata");
    scene.delete(&one).await?;
    scene
        .problem(&one, "Warning", "DeletionNotSupportedInAzure")
        .await?;
    let detach = json!({"metadata": {"annotations": {
        "serviceoperator.azure.com/reconcile-policy": "detach-on-delete",
    }}});
    scene.patch(&one, detach).await?;
    scene.await_gone(&one).await?;
    let of_one = id("Microsoft.Storage/storageAccounts/onedata/blobServices/default");
    assert!(scene.azure.resource(&of_one).is_some());
    let two = blobs("two", "twodata");
    scene.delete(&two).await?;
    scene
        .problem(&two, "Warning", "DeletionNotSupportedInAzure")
        .await?;
    scene.delete(&account("twodata")).await?;
    scene.await_gone(&two).await?;
    scene.await_gone(&account("twodata")).await?;
    let sent = scene.azure.requests();
    let refused = sent.iter().filter(|call| call.status == Some(405)).count();
    assert_eq!(refused, 0);
    Ok(())
}

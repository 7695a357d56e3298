//! The life of resources in Azure.

use serde_json::{Value, json};

use crate::world::World;

const GROUP: &str = "/subscriptions/sub-red/resourceGroups/shop";

fn resource_group(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "resources.azure.com/v1api20200601", "kind": "ResourceGroup",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"location": "westus2"},
    })
}

#[tokio::test]
async fn resource_is_created_updated_and_deleted() -> anyhow::Result<()> {
    let world = World::start().await?;
    world.team("red");
    world.namespace_of("red", "red").await?;
    let _operator = world.run("azureoperator-system", &[]).await?;
    let group = resource_group("red", "shop");
    world.create(&group).await?;
    let made = world.await_ready(&group, "True", "Succeeded").await?;
    assert_eq!(made["status"]["id"], GROUP);
    assert_eq!(made["spec"]["azureName"], "shop");
    let annotations = &made["metadata"]["annotations"];
    assert_eq!(annotations["serviceoperator.azure.com/resource-id"], GROUP);
    for name in [
        "azure.microsoft.com/operator-namespace",
        "serviceoperator.azure.com/operator-namespace",
    ] {
        assert_eq!(annotations[name], "azureoperator-system");
    }
    assert_eq!(world.azure.resource(GROUP).unwrap()["location"], "westus2");
    assert_eq!(world.azure.creator(GROUP).unwrap().client, "red");
    world
        .patch(&group, json!({"spec": {"tags": {"owner": "me"}}}))
        .await?;
    let tagged = |azure: &insula_testkit::azure::FakeAzure| {
        azure.resource(GROUP).unwrap()["tags"]["owner"] == "me"
    };
    world.azure.wait_for("tags", tagged).await?;
    world.await_ready(&group, "True", "Succeeded").await?;
    assert_eq!(world.azure.puts(GROUP), 2);
    world.delete(&group).await?;
    world.await_gone(&group).await?;
    assert_eq!(world.azure.resource(GROUP), None);
    Ok(())
}

//! Deletions that need more than a DELETE.

use serde_json::{Value, json};

use crate::scene::{GROUP, Scene, resource};

const MANAGEMENT: &str = "apimanagement.azure.com";
const VERSION: &str = "v20240501";
const SUBSCRIPTIONS: &str = "subscription.azure.com";
const ALIAS_VERSION: &str = "v1api20211001";

fn managed(kind: &str, name: &str, spec: Value) -> Value {
    resource(&format!("{MANAGEMENT}/{VERSION}"), kind, name, spec)
}

#[tokio::test]
async fn r31_product_goes_with_its_subscriptions_and_a_subscription_with_its_alias()
-> anyhow::Result<()> {
    let kinds = [
        (MANAGEMENT, "Service", VERSION),
        (MANAGEMENT, "Product", VERSION),
        (MANAGEMENT, "Subscription", VERSION),
        (SUBSCRIPTIONS, "Alias", ALIAS_VERSION),
    ];
    let scene = Scene::start_with_kinds(&kinds).await?;
    scene.group().await?;
    delete_product(&scene).await?;
    delete_aliases(&scene).await
}

async fn delete_product(scene: &Scene) -> anyhow::Result<()> {
    let spec = json!({
        "location": "westus2", "owner": {"name": "shop"}, "publisherName": "a", "azureName": "api",
        "publisherEmail": "a@example.com", "sku": {"name": "Developer", "capacity": 1},
    });
    scene.make(&managed("Service", "api", spec)).await?;
    let owner = json!({"name": "api"});
    let spec = json!({"owner": owner, "azureName": "Gold", "displayName": "Gold"});
    let product = managed("Product", "gold-product", spec);
    scene.make(&product).await?;
    let service = format!("{GROUP}/providers/Microsoft.ApiManagement/service/api");
    let (of_product, other) = (
        format!("{service}/products/Gold"),
        format!("{service}/products/other"),
    );
    for (name, scope) in [("mine", &of_product), ("others", &other)] {
        let spec = json!({
            "owner": owner, "azureName": name, "displayName": name, "scope": scope,
        });
        scene.make(&managed("Subscription", name, spec)).await?;
    }
    scene.delete(&product).await?;
    scene.await_gone(&product).await?;
    let left = scene.azure.resource_ids();
    assert!(!left.contains(&of_product), "{left:?}");
    assert!(!left.contains(&format!("{service}/subscriptions/mine")));
    assert!(left.contains(&format!("{service}/subscriptions/others")));
    let sent = scene.azure.requests_for("DELETE", &of_product);
    let queries: Vec<_> = sent.iter().map(|call| call.query.as_str()).collect();
    assert_eq!(queries, ["api-version=2024-05-01&deleteSubscriptions=true"]);
    Ok(())
}

async fn delete_aliases(scene: &Scene) -> anyhow::Result<()> {
    scene
        .azure
        .grant("red", "/providers/Microsoft.Subscription");
    let alias = |name: &str| {
        let properties = json!({"workload": "DevTest", "displayName": name});
        let spec = json!({"azureName": name, "properties": properties});
        resource(
            &format!("{SUBSCRIPTIONS}/{ALIAS_VERSION}"),
            "Alias",
            name,
            spec,
        )
    };
    let cancels = |id: &str| {
        let path = format!("/subscriptions/{id}/providers/Microsoft.Subscription/cancel");
        scene.azure.requests_for("POST", &path).len()
    };
    // The second one is cancelled by another client before.
    for (name, cancelled_before) in [("one", 0), ("two", 1)] {
        let alias = alias(name);
        let made = scene.make(&alias).await?;
        let subscription = &made["status"]["properties"]["subscriptionId"];
        let subscription = subscription.as_str().unwrap().to_owned();
        // What users write into a status is not what is cancelled.
        let forged = json!({"properties": {"subscriptionId": "sub-red"}});
        scene.patch_status(&alias, forged).await?;
        if cancelled_before > 0 {
            scene.azure.cancel_subscription(&subscription);
        }
        scene.delete(&alias).await?;
        scene.await_gone(&alias).await?;
        assert_eq!(cancels(&subscription), 1);
        assert_eq!(cancels("sub-red"), 0);
        assert!(scene.azure.is_cancelled(&subscription));
        let id = format!("/providers/Microsoft.Subscription/aliases/{name}");
        assert!(scene.azure.resource(&id).is_none());
        assert_eq!(scene.azure.requests_for("DELETE", &id).len(), 1);
    }
    Ok(())
}

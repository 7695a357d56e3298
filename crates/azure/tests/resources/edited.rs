//! Annotations of the operator that a user has edited.

use serde_json::json;

use crate::scene::{GROUP, Scene, network};

const FINALIZER: &str = "serviceoperator.azure.com/finalizer";
const RESOURCE_ID: &str = "serviceoperator.azure.com/resource-id";
const GENERATION: &str = "serviceoperator.azure.com/latest-reconciled-generation";

/// Which resource an object is about follows from its owner and name. A user who may write networks
/// must not be able to delete a resource group by its id.
#[tokio::test]
async fn r24_id_of_a_resource_of_another_type_is_ignored() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    scene.group().await?;
    let mut forged = network("forged");
    forged["metadata"]["finalizers"] = json!([FINALIZER]);
    forged["metadata"]["annotations"] = json!({RESOURCE_ID: GROUP, GENERATION: "1"});
    let own = format!("{GROUP}/providers/Microsoft.Network/virtualNetworks/forged");
    scene.make(&forged).await?;
    let claimed = scene.read(&forged).await?.unwrap();
    assert_eq!(claimed["metadata"]["annotations"][RESOURCE_ID], own);
    assert_eq!(scene.azure.puts(GROUP), 1);

    let edited = json!({"metadata": {"annotations": {RESOURCE_ID: GROUP}}});
    scene.patch(&forged, edited).await?;
    scene.delete(&forged).await?;
    scene.await_gone(&forged).await?;
    assert_eq!(scene.azure.requests_for("DELETE", GROUP).len(), 0);
    Ok(())
}

/// The URL of an operation is polled with a token that may be good for other subscriptions too.
#[tokio::test]
async fn r24_operation_of_another_resource_is_not_shown() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    let group = scene.group().await?;
    scene
        .azure
        .add_subscription("sub-blue", crate::world::TENANT, &["red", "blue"]);
    let arm = scene.azure.arm_endpoint();
    let arm = arm.trim_end_matches('/');
    let secret = "/subscriptions/sub-red/resourceGroups/secret";
    let other = crate::scene::group("secret");
    scene.make(&other).await?;
    for path in ["/subscriptions/sub-blue/resourceGroups/other", secret] {
        let token = json!({
            "type": "GenericResource",
            "token": {"type": "body", "pollURL": format!("{arm}{path}?api-version=2020-06-01"),
                "state": "InProgress"},
        });
        let edited = json!({"metadata": {"annotations": {
            "serviceoperator.azure.com/poller-resume-id": "GenericClient.CreateOrUpdateByID",
            "serviceoperator.azure.com/poller-resume-token": token.to_string(),
        }}});
        scene.patch(&group, edited).await?;
        scene.poke(&group, path.rsplit('/').next().unwrap()).await?;
        let read = scene.read(&group).await?.unwrap();
        assert_eq!(read["status"]["id"], GROUP, "{path}");
    }
    let foreign = scene.calls("/subscriptions/sub-blue");
    assert_eq!(foreign.len(), 0, "{foreign:?}");
    Ok(())
}

//! What the reconcile policy allows.

use insula_testkit::azure::Fault;
use serde_json::{Value, json};

use crate::scene::{GROUP, NAMESPACE, Scene, group};

fn policy(name: Option<&str>) -> Value {
    json!({"metadata": {"annotations": {"serviceoperator.azure.com/reconcile-policy": name}}})
}

fn methods(scene: &Scene) -> Vec<String> {
    let calls = scene.calls(GROUP).into_iter();
    calls.map(|call| call.method).collect()
}

fn skipped() -> Value {
    let mut object = group("shop");
    object["metadata"]["annotations"] = policy(Some("skip"))["metadata"]["annotations"].clone();
    object
}

fn namespace() -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
}

#[tokio::test]
async fn skipped_resource_is_only_read_until_it_is_managed() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    let shop = skipped();
    scene.create(&shop).await?;
    let message = scene
        .problem(&shop, "Warning", "AzureResourceNotFound")
        .await?;
    assert!(message.starts_with("ResourceGroupNotFound: "), "{message}");
    assert!(methods(&scene).iter().all(|method| method == "GET"));
    scene.patch(&shop, policy(Some("manage"))).await?;
    scene.await_ready(&shop, "True", "Succeeded").await?;
    assert_eq!(scene.azure.puts(GROUP), 1);
    // A change is not sent any more, and the deletion of the object keeps the resource.
    scene.patch(&shop, policy(Some("skip"))).await?;
    scene
        .azure
        .wait_for("read", |_| methods(&scene).last().unwrap() == "GET")
        .await?;
    scene
        .patch(&shop, json!({"spec": {"tags": {"a": "b"}}}))
        .await?;
    scene.poke(&shop, "a").await?;
    let made = scene.await_ready(&shop, "True", "Succeeded").await?;
    assert_eq!(made["status"]["tags"], Value::Null);
    assert_eq!(scene.azure.puts(GROUP), 1);
    scene.delete(&shop).await?;
    scene.await_gone(&shop).await?;
    assert!(scene.azure.resource(GROUP).is_some());
    assert!(!methods(&scene).contains(&"DELETE".to_owned()));
    Ok(())
}

#[tokio::test]
async fn skipped_resource_that_exists_is_ready_with_its_status() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    scene.group().await?;
    scene.patch(&group("shop"), policy(Some("skip"))).await?;
    scene
        .azure
        .change_resource(GROUP, |body| body["tags"] = json!({"by": "another"}));
    scene.delete(&group("shop")).await?;
    scene.await_gone(&group("shop")).await?;
    scene.azure.clear_journal();
    let shop = skipped();
    let made = scene.make(&shop).await?;
    assert_eq!(made["status"]["tags"]["by"], "another");
    assert_eq!(methods(&scene), ["GET"]);
    Ok(())
}

#[tokio::test]
async fn detached_resource_is_managed_and_stays_in_azure() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    let shop = scene.group().await?;
    scene.patch(&shop, policy(Some("detach-on-delete"))).await?;
    scene
        .patch(&shop, json!({"spec": {"tags": {"a": "b"}}}))
        .await?;
    scene.azure.await_puts(GROUP, 2).await?;
    scene.await_ready(&shop, "True", "Succeeded").await?;
    scene.delete(&shop).await?;
    scene.await_gone(&shop).await?;
    assert!(scene.azure.resource(GROUP).is_some());
    Ok(())
}

#[tokio::test]
async fn policy_of_the_namespace_counts_for_objects_without_one() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    scene.patch(&namespace(), policy(Some("skip"))).await?;
    let shop = group("shop");
    scene.create(&shop).await?;
    scene
        .problem(&shop, "Warning", "AzureResourceNotFound")
        .await?;
    // The change of the namespace acts by itself.
    scene.patch(&namespace(), policy(None)).await?;
    scene.await_ready(&shop, "True", "Succeeded").await?;
    assert_eq!(scene.azure.puts(GROUP), 1);
    Ok(())
}

#[tokio::test]
async fn unknown_policy_is_the_default() -> anyhow::Result<()> {
    let scene = Scene::start_with(&[("DEFAULT_RECONCILE_POLICY", "detach-on-delete")]).await?;
    let mut shop = group("shop");
    shop["metadata"]["annotations"] = policy(Some("whatever"))["metadata"]["annotations"].clone();
    scene.make(&shop).await?;
    scene.delete(&shop).await?;
    scene.await_gone(&shop).await?;
    assert!(scene.azure.resource(GROUP).is_some());
    Ok(())
}

#[tokio::test]
async fn failed_deletion_is_a_warning_and_ends_when_it_is_detached() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    let shop = scene.group().await?;
    let locked = Fault::arm("DELETE", GROUP).error(409, "ScopeLocked", "locked");
    scene.azure.inflict(locked);
    scene.delete(&shop).await?;
    scene.problem(&shop, "Warning", "ScopeLocked").await?;
    scene.patch(&shop, policy(Some("detach-on-delete"))).await?;
    scene.await_gone(&shop).await?;
    assert!(scene.azure.resource(GROUP).is_some());
    Ok(())
}

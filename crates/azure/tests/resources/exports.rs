//! Secrets and ConfigMaps with values of resources.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::scene::{NAMESPACE, Scene, account, cluster, id, identity};

async fn data(scene: &Scene, kind: &str, name: &str) -> anyhow::Result<Value> {
    let found: Option<Value> = scene.find("v1", kind, NAMESPACE, name).await?;
    Ok(found.unwrap_or_default())
}

fn text(object: &Value, key: &str) -> String {
    let encoded = object["data"][key].as_str().unwrap_or_default();
    String::from_utf8(STANDARD.decode(encoded).unwrap()).unwrap()
}

fn place(name: &str, key: &str) -> Value {
    json!({"name": name, "key": key})
}

#[tokio::test]
async fn keys_and_endpoints_are_exported_and_go_with_their_owner() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    scene.group().await?;
    let mut shopdata = account("shopdata");
    shopdata["spec"]["operatorSpec"] = json!({
        "secrets": {
            "key1": place("storage", "key"), "key2": place("storage", "spare"),
            "blobEndpoint": place("storage", "blob"),
        },
        "configMaps": {"blobEndpoint": place("endpoints", "blob")},
    });
    let made = scene.make(&shopdata).await?;
    let secret = data(&scene, "Secret", "storage").await?;
    let blob = "https://shopdata.blob.core.windows.net/";
    assert_eq!(text(&secret, "blob"), blob);
    assert_eq!(
        data(&scene, "ConfigMap", "endpoints").await?["data"]["blob"],
        blob
    );
    let of_account = id("Microsoft.Storage/storageAccounts/shopdata");
    let calls = scene.azure.requests();
    let calls: Vec<_> = calls.iter().filter(|call| call.method == "POST").collect();
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].path, format!("{of_account}/listKeys"));
    assert_eq!(calls[0].api_version.as_deref(), Some("2024-01-01"));
    assert_ne!(text(&secret, "key"), "");
    assert_ne!(text(&secret, "key"), text(&secret, "spare"));
    let owners = secret["metadata"]["ownerReferences"].as_array().unwrap();
    assert_eq!(owners.len(), 1);
    assert_eq!(owners[0]["uid"], made["metadata"]["uid"]);
    scene.delete(&shopdata).await?;
    scene.await_gone(&shopdata).await?;
    scene
        .await_gone(&json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "storage", "namespace": NAMESPACE},
        }))
        .await?;
    Ok(())
}

#[tokio::test]
async fn export_is_a_credential_or_a_kubeconfig() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    scene.group().await?;
    let mut web = identity("web");
    web["spec"]["operatorSpec"]["secrets"] = json!({
        "clientId": place("web", "AZURE_CLIENT_ID"), "tenantId": place("web", "AZURE_TENANT_ID"),
        "subscriptionId": place("web", "AZURE_SUBSCRIPTION_ID"),
    });
    let made = scene.make(&web).await?;
    let secret = data(&scene, "Secret", "web").await?;
    assert_eq!(
        text(&secret, "AZURE_CLIENT_ID"),
        made["status"]["clientId"].as_str().unwrap()
    );
    assert_eq!(text(&secret, "AZURE_TENANT_ID"), "contoso");
    assert_eq!(text(&secret, "AZURE_SUBSCRIPTION_ID"), "sub-red");
    let mut shop = cluster("shop");
    shop["spec"]["operatorSpec"] = json!({
        "secrets": {"adminCredentials": place("kubeconfig", "value")},
        "configMaps": {"principalId": place("cluster", "principal")},
    });
    let made = scene.make(&shop).await?;
    let kubeconfig = text(&data(&scene, "Secret", "kubeconfig").await?, "value");
    assert!(
        kubeconfig.starts_with("apiVersion: v1\nkind: Config\n"),
        "{kubeconfig}"
    );
    let map = data(&scene, "ConfigMap", "cluster").await?;
    assert_eq!(
        map["data"]["principal"],
        made["status"]["identity"]["principalId"]
    );
    Ok(())
}

#[tokio::test]
async fn object_of_another_owner_is_never_overwritten() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    scene.group().await?;
    scene
        .secret(NAMESPACE, "storage", &[("key", "mine")])
        .await?;
    let mut shopdata = account("shopdata");
    shopdata["spec"]["operatorSpec"]["secrets"]["key1"] = place("storage", "key");
    scene.create(&shopdata).await?;
    let reason = "FailedWritingAdditionalKubernetesObjects";
    let message = scene.problem(&shopdata, "Error", reason).await?;
    assert_eq!(
        message,
        "Secret \"storage\" exists and was not made for this resource: delete it, or export to \
         another name"
    );
    assert_eq!(
        text(&data(&scene, "Secret", "storage").await?, "key"),
        "mine"
    );
    // The change of the object is reconciled at once.
    let spec = json!({"spec": {"operatorSpec": {"secrets": {"key1": {"name": "keys"}}}}});
    scene.patch(&shopdata, spec).await?;
    scene.await_ready(&shopdata, "True", "Succeeded").await?;
    assert_ne!(text(&data(&scene, "Secret", "keys").await?, "key"), "");
    assert_eq!(
        text(&data(&scene, "Secret", "storage").await?, "key"),
        "mine"
    );
    Ok(())
}

#[tokio::test]
async fn exports_of_a_resource_are_limited_in_size() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    scene.group().await?;
    let mut shopdata = account("shopdata");
    shopdata["metadata"]["annotations"]["x"] = "x".repeat(200_000).into();
    let entry =
        |number: usize| json!({"name": format!("a{number}"), "value": "self.metadata.annotations"});
    let entries: Vec<_> = (0..100).map(entry).collect();
    shopdata["spec"]["operatorSpec"] = json!({ "configMapExpressions": entries });
    scene.create(&shopdata).await?;
    let reason = "FailedWritingAdditionalKubernetesObjects";
    let message = scene.problem(&shopdata, "Error", reason).await?;
    assert_eq!(
        message,
        "the exported objects would have more than 8388608 bytes together"
    );
    assert_eq!(data(&scene, "ConfigMap", "a0").await?, Value::Null);
    Ok(())
}

#[tokio::test]
async fn labels_and_annotations_of_an_export_are_kept_up_to_date() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    scene.group().await?;
    let mut shopdata = account("shopdata");
    let mut export = place("storage", "key");
    export["labels"] = json!({"a": "one"});
    shopdata["spec"]["operatorSpec"]["secrets"]["key1"] = export;
    scene.make(&shopdata).await?;
    let secret = data(&scene, "Secret", "storage").await?;
    assert_eq!(secret["metadata"]["labels"]["a"], "one");
    let labels = json!({"labels": {"a": "two"}});
    let patch = json!({"spec": {"operatorSpec": {"secrets": {"key1": labels}}}});
    scene.patch(&shopdata, patch).await?;
    crate::world::eventually("the label", async || {
        let secret = data(&scene, "Secret", "storage").await?;
        Ok((secret["metadata"]["labels"]["a"] == "two").then_some(()))
    })
    .await
}

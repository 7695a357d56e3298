//! The definitions of the server, read and watched with the rights of the webhooks.

use std::sync::Arc;
use std::time::Duration;

use insula_azure::installed::Installed;
use insula_azure::manifests::Operators;
use insula_azure::table;
use insula_azure::versions::Definitions;
use insula_testkit::server::{DEFINITIONS, definition};
use serde_json::json;

use crate::scene::Scene;

/// Waits until a kind is installed, or is not.
async fn wait(definitions: &Definitions, (group, kind, version): (&str, &str, &str), is: bool) {
    let changed = async {
        while definitions.contains(group, kind, version) != is {
            tokio::task::yield_now().await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(30), changed).await;
    assert!(waited.is_ok(), "{kind} is installed: {}", !is);
}

#[tokio::test]
async fn definitions_of_the_server_are_kept_current() {
    let scene = Scene::new(Operators::PerTenant).await.unwrap();
    let client = scene.kube("azureoperator-system").await.unwrap();
    let definitions = Arc::new(Definitions::new());
    let mut installed = Installed::new(&client, Arc::clone(&definitions));
    installed.load().await.unwrap();
    let group = table::find("resources.azure.com", "ResourceGroup").unwrap();
    let of_group = (
        "resources.azure.com",
        "ResourceGroup",
        group.storage_version(),
    );
    assert!(definitions.contains(of_group.0, of_group.1, of_group.2));
    let following = tokio::spawn(installed.follow());

    // A kind that the manifests do not have, and one that is not of Azure.
    let (azure, other) = ("batch.azure.com", "example.com");
    let kind = table::kinds().iter().find(|kind| kind.group() == azure);
    let kind = kind.unwrap();
    for group in [azure, other] {
        let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let new = definition(group, kind.plural(), kind.kind(), any);
        scene.system.define(&new).await.unwrap();
    }
    wait(&definitions, (azure, kind.kind(), "v1"), true).await;
    assert!(!definitions.contains(other, kind.kind(), "v1"));

    let path = format!("{DEFINITIONS}/{}.{azure}", kind.plural());
    scene.system.delete(&path).await.unwrap();
    wait(&definitions, (azure, kind.kind(), "v1"), false).await;
    following.abort();
}

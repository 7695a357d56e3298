//! Resources in order cause no requests.

use std::time::Duration;

use serde_json::{Value, json};

use crate::scene::{
    GROUP, NAMESPACE, Scene, between, id, identity, network, resource, server, subnet,
};

#[tokio::test]
async fn resource_in_order_causes_no_request_even_after_a_restart() -> anyhow::Result<()> {
    let mut scene = Scene::start().await?;
    let shop = scene.group().await?;
    scene.make(&network("net")).await?;
    let requests = scene.azure.requests().len();
    scene.poke(&shop, "a").await?;
    assert_eq!(scene.azure.requests().len(), requests + 1);
    scene
        .patch(
            &shop,
            json!({"metadata": {"annotations": {"unrelated": "a"}}}),
        )
        .await?;
    let status = json!({"status": {"managedBy": "someone"}});
    let api = scene.api(
        "resources.azure.com/v1api20200601",
        "ResourceGroup",
        NAMESPACE,
    );
    let patch = kube::api::Patch::Merge(status);
    api.patch_status("shop", &kube::api::PatchParams::default(), &patch)
        .await?;
    scene.poke(&network("net"), "b").await?;
    assert_eq!(scene.azure.requests().len(), requests + 2);
    scene.restart(&[]).await?;
    scene.poke(&shop, "c").await?;
    scene.poke(&network("net"), "d").await?;
    assert_eq!(scene.azure.requests().len(), requests + 4);
    assert_eq!(scene.azure.puts(GROUP), 1);
    Ok(())
}

#[tokio::test]
async fn resource_in_order_is_sent_again_after_the_sync_period() -> anyhow::Result<()> {
    let scene = Scene::start_with(&[("AZURE_SYNC_PERIOD", "3s")]).await?;
    scene.group().await?;
    scene
        .azure
        .change_resource(GROUP, |body| body["tags"] = json!({"by": "another"}));
    scene.azure.await_puts(GROUP, 3).await?;
    let sent = scene.azure.requests_for("PUT", GROUP);
    for pair in sent.windows(2) {
        assert!(between(&pair[0], &pair[1]) >= Duration::from_millis(2250));
    }
    assert_eq!(scene.azure.resource(GROUP).unwrap().get("tags"), None);
    Ok(())
}

/// A network is updated by an operation that takes some time, each time it is sent.
#[tokio::test]
async fn resource_stays_ready_while_azure_works_on_it_again() -> anyhow::Result<()> {
    use futures_util::TryStreamExt as _;
    let scene = Scene::start_with(&[("AZURE_SYNC_PERIOD", "3s")]).await?;
    scene.group().await?;
    scene
        .azure
        .set_manner("Microsoft.Network/virtualNetworks", |manner| {
            (manner.polls, manner.retry_after) = (Some(2), Some(1));
        });
    let net = network("net");
    let made = scene.make(&net).await?;
    let since = made["status"]["conditions"][0]["lastTransitionTime"].clone();
    let api = scene.api("network.azure.com/v20250301", "VirtualNetwork", NAMESPACE);
    let version = made["metadata"]["resourceVersion"].as_str().unwrap();
    let events = api
        .watch(&kube::api::WatchParams::default(), version)
        .await?;
    let mut events = std::pin::pin!(events);
    let mut was_in_progress = false;
    loop {
        let event = events.try_next().await?;
        let Some(kube::api::WatchEvent::Modified(object)) = event else {
            continue;
        };
        let object: Value = serde_json::to_value(object)?;
        let ready = &object["status"]["conditions"][0];
        assert_eq!(ready["status"], "True", "{ready}");
        assert_eq!(ready["lastTransitionTime"], since, "{ready}");
        let token = &object["metadata"]["annotations"][insula_azure::names::POLLER_RESUME_TOKEN];
        if was_in_progress && token.is_null() {
            break;
        }
        if !was_in_progress && token.is_string() {
            was_in_progress = true;
            // An object that is new in the meantime need not wait for its owner.
            scene.create(&subnet("net", "web", "10.0.1.0/24")).await?;
        }
    }
    let of_net = id("Microsoft.Network/virtualNetworks/net");
    assert!(scene.azure.puts(&of_net) >= 2);
    let web = subnet("net", "web", "10.0.1.0/24");
    scene.await_ready(&web, "True", "Succeeded").await?;
    Ok(())
}

#[tokio::test]
async fn changed_secret_or_config_map_leads_to_one_put() -> anyhow::Result<()> {
    let mut scene = Scene::start().await?;
    scene.group().await?;
    scene
        .secret(NAMESPACE, "database", &[("password", "pa55word")])
        .await?;
    let issuer = |text: &str| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "cluster", "namespace": NAMESPACE}, "data": {"issuer": text},
        })
    };
    scene.create(&issuer("https://one.example.com")).await?;
    let db = server("orders-db");
    scene.make(&db).await?;
    scene.make(&identity("web")).await?;
    let spec = json!({
        "owner": {"name": "web"}, "audiences": ["api://AzureADTokenExchange"],
        "subject": "system:serviceaccount:a:b",
        "issuerFromConfig": {"name": "cluster", "key": "issuer"},
    });
    let kind = "FederatedIdentityCredential";
    let federated = resource(
        "managedidentity.azure.com/v1api20230131",
        kind,
        "pods",
        spec,
    );
    scene.make(&federated).await?;
    let of_db = id("Microsoft.DBforPostgreSQL/flexibleServers/orders-db");
    let of_pods = id(
        "Microsoft.ManagedIdentity/userAssignedIdentities/web/federatedIdentityCredentials/pods",
    );
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "database", "namespace": NAMESPACE},
    });
    scene
        .patch(&secret, json!({"stringData": {"password": "another"}}))
        .await?;
    scene.azure.await_puts(&of_db, 2).await?;
    let sent = scene.azure.requests_for("PUT", &of_db);
    assert_eq!(
        sent[1].body["properties"]["administratorLoginPassword"],
        "another"
    );
    scene
        .patch(
            &issuer(""),
            json!({"data": {"issuer": "https://two.example.com"}}),
        )
        .await?;
    scene.azure.await_puts(&of_pods, 2).await?;
    let sent = scene.azure.requests_for("PUT", &of_pods);
    assert_eq!(
        sent[1].body["properties"]["issuer"],
        "https://two.example.com"
    );
    scene.await_ready(&db, "True", "Succeeded").await?;
    scene.await_ready(&federated, "True", "Succeeded").await?;
    scene.restart(&[]).await?;
    scene.poke(&db, "a").await?;
    assert_eq!(scene.azure.puts(&of_db), 2);
    assert_eq!(scene.azure.puts(&of_pods), 2);
    Ok(())
}

#[tokio::test]
async fn object_that_changed_during_its_operation_is_not_ready_before_it_is_sent_again()
-> anyhow::Result<()> {
    let scene = Scene::start().await?;
    scene.group().await?;
    scene
        .azure
        .set_manner("Microsoft.Network/virtualNetworks", |manner| {
            (manner.polls, manner.retry_after) = (Some(1), Some(1));
        });
    let net = network("net");
    scene.create(&net).await?;
    scene.await_ready(&net, "False", "Reconciling").await?;
    let api = scene.api("network.azure.com/v20250301", "VirtualNetwork", NAMESPACE);
    let events = api.watch(&kube::api::WatchParams::default(), "0").await?;
    scene
        .patch(&net, json!({"spec": {"tags": {"a": "b"}}}))
        .await?;
    let mut events = std::pin::pin!(events);
    let of_net = id("Microsoft.Network/virtualNetworks/net");
    loop {
        use futures_util::TryStreamExt as _;
        let event = events.try_next().await?;
        let Some(kube::api::WatchEvent::Modified(object)) = event else {
            continue;
        };
        let generation = object.metadata.generation;
        let object: Value = serde_json::to_value(object)?;
        let ready = &object["status"]["conditions"][0];
        if ready["status"] == "True" {
            assert_eq!(ready["observedGeneration"].as_i64(), generation);
            assert_eq!(scene.azure.puts(&of_net), 2);
            break;
        }
    }
    assert_eq!(scene.azure.resource(&of_net).unwrap()["tags"]["a"], "b");
    Ok(())
}

//! The objects that every namespace has.

use std::sync::Arc;
use std::time::{Duration, Instant};

use insula_apiserver::write::bootstrap_objects::{default_account, root_ca};
use insula_core::Space;
use insula_store::Store;
use insula_store::memory::Memory;
use insula_testkit::server::{Setup, TestServer};
use serde_json::{Value, json};

use super::{config_map, create, servers, until, until_gone};

const DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver \
    when using internal endpoints such as the internal service IP or kubernetes.default.svc. No \
    other usage is guaranteed across distributions of Kubernetes clusters.";

fn map_in(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps/kube-root-ca.crt")
}

fn account_in(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/serviceaccounts/default")
}

fn has_ca(map: &Value, ca: &str) -> bool {
    let annotations = &map["metadata"]["annotations"];
    map["data"] == json!({"ca.crt": ca}) && annotations["kubernetes.io/description"] == DESCRIPTION
}

#[tokio::test]
async fn new_namespace_has_its_account_and_ca_at_once() -> anyhow::Result<()> {
    for server in servers().await? {
        let ca = server.authority().certificate_pem();
        for client in [server.system().await?, server.tenant("t1").await?] {
            let mut names = vec![
                "default".to_owned(),
                "kube-system".into(),
                "kube-public".into(),
            ];
            for metadata in [json!({"name": "n1"}), json!({"generateName": "made-"})] {
                let namespace = json!({"metadata": metadata});
                let created = create(&client, "/api/v1/namespaces", namespace).await?;
                names.push(
                    created["metadata"]["name"]
                        .as_str()
                        .unwrap_or_default()
                        .to_owned(),
                );
            }
            for name in names {
                let map = client.get(&map_in(&name)).await?;
                assert_eq!(map.status, 200, "{name}: {}", map.text());
                assert!(has_ca(&map.json(), ca), "{}", map.text());
                let account = client.get(&account_in(&name)).await?;
                assert_eq!(account.status, 200, "{name}: {}", account.text());
            }
        }
        // The shared content is stored once in the cache, however many namespaces there are.
        let t1 = Space::parse("t1").unwrap();
        for address in [default_account(&t1, "n1"), root_ca(&t1, "n1")] {
            let kept = server.registry().cached(&address).unwrap();
            assert!(kept.is_shared(), "{}", address.name);
        }
    }
    Ok(())
}

#[tokio::test]
async fn deleted_bootstrap_objects_are_restored_within_a_second() -> anyhow::Result<()> {
    for server in servers().await? {
        let client = server.tenant("t1").await?;
        for path in [map_in("default"), account_in("default")] {
            let before = client.get(&path).await?.json()["metadata"]["uid"].clone();
            let begun = Instant::now();
            let deleted = client.delete(&path).await?;
            assert_eq!(deleted.status, 200, "{}", deleted.text());
            let back = until(&client, &path, |answer| answer.status == 200)
                .await?
                .json();
            assert!(
                begun.elapsed() < Duration::from_secs(1),
                "{:?}",
                begun.elapsed()
            );
            assert_ne!(back["metadata"]["uid"], before);
        }
        let map = client.get(&map_in("default")).await?.json();
        assert!(has_ca(&map, server.authority().certificate_pem()), "{map}");
    }
    Ok(())
}

#[tokio::test]
async fn edited_ca_is_repaired_and_other_fields_stay() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = server.tenant("t1").await?;
    let ca = server.authority().certificate_pem();
    for patch in [
        json!({"data": {"ca.crt": "mine"}}),
        json!({"data": {"another": "key"}}),
        json!({"data": null}),
        json!({"metadata": {"annotations": {"kubernetes.io/description": null}}}),
        json!({"metadata": {"annotations": {"kubernetes.io/description": ""}}}),
    ] {
        let mut patch = patch;
        patch["metadata"]["labels"] = json!({"mine": "too"});
        let patched = client.patch(&map_in("default"), "merge", &patch).await?;
        assert_eq!(patched.status, 200, "{}", patched.text());
        assert!(!has_ca(&patched.json(), ca), "{patch}");
        let right = until(&client, &map_in("default"), |map| has_ca(&map.json(), ca)).await?;
        assert_eq!(right.json()["metadata"]["labels"]["mine"], "too");
    }
    // A custom description is accepted.
    let own = json!({"metadata": {"annotations": {"kubernetes.io/description": "mine"}}});
    client.patch(&map_in("default"), "merge", &own).await?;
    let other = client
        .patch(
            &map_in("kube-public"),
            "merge",
            &json!({"data": {"x": "y"}}),
        )
        .await?;
    assert_eq!(other.status, 200);
    until(&client, &map_in("kube-public"), |map| {
        has_ca(&map.json(), ca)
    })
    .await?;
    let kept = client.get(&map_in("default")).await?.json();
    assert_eq!(
        kept["metadata"]["annotations"]["kubernetes.io/description"],
        "mine"
    );
    Ok(())
}

#[tokio::test]
async fn terminating_namespace_gets_no_bootstrap_objects() -> anyhow::Result<()> {
    for server in servers().await? {
        let client = server.tenant("t1").await?;
        create(
            &client,
            "/api/v1/namespaces",
            json!({"metadata": {"name": "n1"}}),
        )
        .await?;
        let maps = "/api/v1/namespaces/n1/configmaps";
        create(&client, maps, config_map("held", &["x.io/y"])).await?;
        client.delete("/api/v1/namespaces/n1").await?;
        for path in [map_in("n1"), account_in("n1")] {
            until_gone(&client, &path).await?;
        }
        let list = client.get(maps).await?.json();
        let revision = list["metadata"]["resourceVersion"]
            .as_str()
            .unwrap_or_default();
        // Only in this namespace: an object with a finalizer may still be marked.
        let mut watch = client
            .watch(&format!(
                "{maps}?watch=true&resourceVersion={revision}\
                 &fieldSelector=metadata.name%3Dkube-root-ca.crt"
            ))
            .await?;
        assert!(watch.is_quiet_for(Duration::from_millis(400)).await);
        assert_eq!(client.get(&account_in("n1")).await?.status, 404);
    }
    Ok(())
}

#[tokio::test]
async fn namespaces_of_an_older_server_get_missing_objects_and_a_new_ca() -> anyhow::Result<()> {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    // Without the controllers no namespace gets the CA.
    let mut server = TestServer::start_on_store(Arc::clone(&store), Setup::default()).await?;
    for client in [server.system().await?, server.tenant("t1").await?] {
        create(
            &client,
            "/api/v1/namespaces",
            json!({"metadata": {"name": "n1"}}),
        )
        .await?;
        assert_eq!(client.get(&map_in("n1")).await?.status, 404);
        assert_eq!(client.delete(&account_in("n1")).await?.status, 200);
    }
    server.stop().await;
    for _ in 0..2 {
        // Every test server has its own CA.
        let setup = Setup::with_controllers();
        let mut server = TestServer::start_on_store(Arc::clone(&store), setup).await?;
        let ca = server.authority().certificate_pem().to_owned();
        for client in [server.system().await?, server.tenant("t1").await?] {
            for name in ["n1", "default", "kube-system", "kube-public"] {
                until(&client, &map_in(name), |map| has_ca(&map.json(), &ca)).await?;
                until(&client, &account_in(name), |found| found.status == 200).await?;
            }
        }
        server.stop().await;
    }
    Ok(())
}

#[tokio::test]
async fn unrepairable_object_is_not_retried_endlessly() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = server.tenant("t1").await?;
    let patch = json!({"immutable": true, "data": {"ca.crt": "mine"}});
    let patched = client.patch(&map_in("default"), "merge", &patch).await?;
    assert_eq!(patched.status, 200, "{}", patched.text());
    let revision = patched.json()["metadata"]["resourceVersion"].clone();
    let revision = revision.as_str().unwrap_or_default().to_owned();
    let watched =
        format!("/api/v1/namespaces/default/configmaps?watch=true&resourceVersion={revision}");
    let mut watch = client.watch(&watched).await?;
    assert!(watch.is_quiet_for(Duration::from_millis(400)).await);
    // Deleting it makes the controller create a correct one.
    client.delete(&map_in("default")).await?;
    let ca = server.authority().certificate_pem();
    until(&client, &map_in("default"), |map| has_ca(&map.json(), ca)).await?;
    Ok(())
}

#[tokio::test]
async fn deletable_system_namespace_is_recreated() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let system = server.system().await?;
    let path = "/api/v1/namespaces/kube-node-lease";
    let uid = system.get(path).await?.json()["metadata"]["uid"].clone();
    let deleted = system.delete(path).await?;
    assert_eq!(deleted.status, 200, "{}", deleted.text());
    let back = |answer: &insula_testkit::server::Answer| {
        answer.status == 200 && answer.json()["metadata"]["uid"] != uid
    };
    let back = until(&system, path, back).await?.json();
    assert_eq!(back["status"]["phase"], "Active");
    assert_eq!(system.get(&map_in("kube-node-lease")).await?.status, 200);
    Ok(())
}

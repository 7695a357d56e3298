//! Deletion of tenants.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::stream::{self, StreamExt, TryStreamExt};
use insula_apiserver::registry::access_kinds::tenant_accesses;
use insula_apiserver::write::create_object;
use insula_core::Space;
use insula_kinds::core_kind;
use insula_store::Store;
use insula_store::embedded::{self, Embedded};
use insula_store::memory::Memory;
use insula_testkit::server::{Client, Setup, TestServer};
use serde_json::json;

use super::{condition, config_map, count, create, release, servers, until, until_gone};

const T1: &str = "/api/v1/tenants/t1";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn delete(system: &Client, path: &str) -> anyhow::Result<()> {
    let deleted = system.delete(path).await?;
    anyhow::ensure!(deleted.status == 200, "{path}: {}", deleted.text());
    Ok(())
}

async fn fill(client: &Client, path: &str, count: usize) -> anyhow::Result<()> {
    stream::iter((0..count).map(|number| {
        let (client, path) = (client.clone(), path.to_owned());
        async move { create(&client, &path, config_map(&format!("c{number}"), &[])).await }
    }))
    .buffer_unordered(64)
    .try_for_each(|_| async { Ok(()) })
    .await
}

/// Every key in the store that belongs to a tenant's space.
async fn keys_of(server: &TestServer, tenant: &str) -> anyhow::Result<Vec<String>> {
    let range = insula_store::KeyRange::prefix(&b"/registry/"[..]);
    let store = server.registry().store();
    let page = store.range(&range, insula_store::At::Latest, None).await?;
    let keys = page.entries.into_iter();
    let keys = keys.map(|entry| String::from_utf8_lossy(&entry.key).into_owned());
    let inside = format!("/{tenant}");
    Ok(keys.filter(|key| key.contains(&inside)).collect())
}

#[tokio::test]
async fn deleted_tenant_leaves_no_keys_and_its_name_can_be_reused() -> anyhow::Result<()> {
    for server in servers().await? {
        let (system, client) = (server.system().await?, server.tenant("t1").await?);
        let other = server.tenant("t2").await?;
        let before = system.get(T1).await?.json();
        for client in [&client, &other] {
            create(client, MAPS, config_map("a", &[])).await?;
            let namespace = json!({"metadata": {"name": "n1"}});
            create(client, "/api/v1/namespaces", namespace).await?;
            let volume = json!({
                "metadata": {"name": "v"},
                "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
                    "hostPath": {"path": "/x"}},
            });
            create(client, "/api/v1/persistentvolumes", volume).await?;
            let pod = json!({
                "metadata": {"name": "p"},
                "spec": {"nodeName": "somewhere", "containers": [{"name": "c", "image": "i"}]},
            });
            create(client, "/api/v1/namespaces/n1/pods", pod).await?;
        }
        let list = client.get(MAPS).await?.json();
        let revision = list["metadata"]["resourceVersion"].as_str().unwrap();
        let watched = format!("{MAPS}?watch=true&resourceVersion={revision}");
        let mut watch = client.watch(&watched).await?;

        delete(&system, T1).await?;
        until_gone(&system, T1).await?;
        assert_eq!(keys_of(&server, "t1").await?, [""; 0]);
        assert_eq!(system.get(&format!("{T1}/namespaces")).await?.status, 404);
        // The watch reports the deletions and then that its space is gone, and ends.
        for _ in ["a", "kube-root-ca.crt"] {
            let deleted = watch.next().await?.unwrap_or_default();
            assert_eq!(deleted["type"], "DELETED", "{deleted}");
        }
        let last = watch.next().await?.unwrap_or_default();
        assert_eq!(last["type"], "ERROR", "{last}");
        assert_eq!(last["object"]["code"], 410);
        assert_eq!(watch.next().await?, None);
        // Nothing outside the tenant was deleted.
        assert_eq!(count(&other, MAPS).await?, 1);
        assert_eq!(count(&other, "/api/v1/pods").await?, 1);

        // Items 13 to 15 of the Arktos list.
        let namespaces = format!("{T1}/namespaces");
        let refused = system
            .post(&namespaces, &json!({"metadata": {"name": "n"}}))
            .await?;
        assert_eq!(refused.status, 404);
        assert_eq!(refused.message(), "tenants \"t1\" not found");
        let again = server.tenant("t1").await?;
        let now = system.get(T1).await?.json();
        assert_ne!(now["metadata"]["uid"], before["metadata"]["uid"]);
        assert_eq!(now["status"]["phase"], "Active");
        assert_eq!(count(&again, "/api/v1/namespaces").await?, 3);
        for empty in [
            "/api/v1/configmaps",
            "/api/v1/pods",
            "/api/v1/persistentvolumes",
        ] {
            assert_eq!(count(&again, empty).await?, 0, "{empty}");
        }
        create(&again, MAPS, config_map("a", &[])).await?;
    }
    Ok(())
}

#[tokio::test]
async fn deleted_tenant_leaves_no_state_in_memory() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let (system, client) = (server.system().await?, server.tenant("t1").await?);
    create(&client, MAPS, config_map("a", &[])).await?;
    let (cache, space) = (server.registry().cache(), Space::parse("t1").unwrap());
    let held = ["namespaces", "serviceaccounts", "configmaps"].map(|resource| {
        let collection = cache.find(core_kind(resource), &space);
        Arc::downgrade(&collection.unwrap())
    });
    assert!(held.iter().all(|collection| collection.strong_count() > 0));
    delete(&system, T1).await?;
    until_gone(&system, T1).await?;
    // Activity of the deleted tenant leaves no state in memory.
    let deadline = Instant::now() + super::WAIT_TIMEOUT;
    while held.iter().any(|collection| collection.strong_count() > 0) {
        anyhow::ensure!(Instant::now() < deadline, "{held:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

#[tokio::test]
async fn terminating_tenant_waits_for_finalizers_and_refuses_creates() -> anyhow::Result<()> {
    for server in servers().await? {
        let (system, client) = (server.system().await?, server.tenant("t1").await?);
        create(&client, MAPS, config_map("held", &["x.io/y"])).await?;
        create(&client, MAPS, config_map("free", &[])).await?;
        delete(&system, T1).await?;
        let explained = until(&system, T1, |answer| {
            !condition(&answer.json(), "TenantFinalizersRemaining").is_null()
        })
        .await?
        .json();
        assert_eq!(explained["status"]["phase"], "Terminating");
        let reported = condition(&explained, "TenantContentRemaining");
        assert_eq!(
            (
                &reported["status"],
                &reported["reason"],
                &reported["message"]
            ),
            (
                &json!("True"),
                &json!("SomeResourcesRemain"),
                &json!("Some resources are remaining: configmaps. has 1 resource instances")
            )
        );
        let reported = condition(&explained, "TenantFinalizersRemaining");
        assert_eq!(
            reported["message"],
            "Some content in the tenant has finalizers remaining: x.io/y in 1 resource instances \
             such as configmaps default/held"
        );
        for (path, object) in [
            (MAPS, config_map("late", &[])),
            ("/api/v1/namespaces", json!({"metadata": {"name": "late"}})),
        ] {
            let refused = client.post(path, &object).await?;
            assert_eq!(refused.status, 403, "{}", refused.text());
            let why = "unable to create new content in tenant t1 because it is being terminated";
            assert!(refused.message().ends_with(why), "{}", refused.message());
        }
        // The client that removes the finalizer still has its rights.
        let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
        let own = client
            .get(&format!("{bindings}/admin-role-binding"))
            .await?;
        assert_eq!(own.status, 200, "{}", own.text());
        release(&client, &format!("{MAPS}/held")).await?;
        until_gone(&system, T1).await?;
        assert_eq!(keys_of(&server, "t1").await?, [""; 0]);
    }
    Ok(())
}

#[tokio::test]
async fn namespace_with_a_finalizer_blocks_its_tenant() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let (system, client) = (server.system().await?, server.tenant("t1").await?);
    let namespace = json!({"metadata": {"name": "n1", "finalizers": ["x.io/y"]}});
    create(&client, "/api/v1/namespaces", namespace).await?;
    delete(&system, T1).await?;
    let explained = until(&system, T1, |answer| {
        !condition(&answer.json(), "TenantContentRemaining").is_null()
    })
    .await?
    .json();
    assert_eq!(
        condition(&explained, "TenantContentRemaining")["message"],
        "Some resources are remaining: namespaces. has 1 resource instances"
    );
    release(&client, "/api/v1/namespaces/n1").await?;
    until_gone(&system, T1).await
}

#[tokio::test]
async fn tenant_with_its_own_finalizer_is_emptied_and_stays() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let system = server.system().await?;
    let tenant = json!({"metadata": {"name": "t1", "finalizers": ["x.io/y"]}});
    create(&system, "/api/v1/tenants", tenant).await?;
    delete(&system, T1).await?;
    let emptied = until(&system, T1, |answer| {
        answer.json()["spec"]["finalizers"]
            .as_array()
            .is_none_or(Vec::is_empty)
    })
    .await?
    .json();
    for kind in ["TenantContentRemaining", "TenantFinalizersRemaining"] {
        assert_eq!(condition(&emptied, kind)["status"], "False", "{emptied}");
    }
    assert_eq!(keys_of(&server, "t1").await?, ["/registry/tenants/t1"]);
    release(&system, T1).await?;
    until_gone(&system, T1).await
}

#[tokio::test]
async fn system_tenant_cannot_be_deleted() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let refused = server
        .system()
        .await?
        .delete("/api/v1/tenants/system")
        .await?;
    assert_eq!(refused.status, 403);
    assert_eq!(
        refused.message(),
        "tenants \"system\" is forbidden: this tenant may not be deleted"
    );
    Ok(())
}

#[tokio::test]
async fn tenant_with_two_thousand_objects_is_deleted() -> anyhow::Result<()> {
    for server in servers().await? {
        let (system, client) = (server.system().await?, server.tenant("t1").await?);
        fill(&client, MAPS, 2_000).await?;
        let begun = Instant::now();
        delete(&system, T1).await?;
        until_gone(&system, T1).await?;
        assert!(
            begun.elapsed() < Duration::from_secs(15),
            "{:?}",
            begun.elapsed()
        );
        assert_eq!(keys_of(&server, "t1").await?, [""; 0]);
    }
    Ok(())
}

#[tokio::test]
async fn access_record_is_deleted_with_its_tenant() -> anyhow::Result<()> {
    const RECORD: &str = "/apis/access.insula.dev/v1/tenantaccesses/t1";
    for server in servers().await? {
        let (system, client) = (server.system().await?, server.tenant("t1").await?);
        create(&client, MAPS, config_map("a", &["example.com/held"])).await?;
        until(&system, RECORD, |record| record.status == 200).await?;
        delete(&system, T1).await?;
        // Uses during the deletion neither keep the record nor create it again.
        assert_eq!(client.get(MAPS).await?.status, 200);
        release(&client, &format!("{MAPS}/a")).await?;
        until_gone(&system, T1).await?;
        assert_eq!(keys_of(&server, "t1").await?, [""; 0]);
    }
    Ok(())
}

#[tokio::test]
async fn access_record_is_not_created_for_a_terminating_or_missing_tenant() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let (system, client) = (server.system().await?, server.tenant("t1").await?);
    create(&client, MAPS, config_map("a", &["example.com/held"])).await?;
    delete(&system, T1).await?;
    let refused = |name: &str| {
        let name = name.to_owned();
        let registry = server.registry();
        async move {
            let object = json!({"metadata": {"name": name}, "tenant": name});
            let object = object.as_object().unwrap().clone();
            let (kind, space) = (tenant_accesses().into(), Space::System);
            let created = create_object(registry, &kind, &space, None, object, None, false).await;
            created.unwrap_err().to_string()
        }
    };
    assert_eq!(
        refused("t1").await,
        "tenantaccesses.access.insula.dev \"t1\" is forbidden: unable to create new content in \
         tenant t1 because it is being terminated"
    );
    assert_eq!(refused("t2").await, "tenants \"t2\" not found");
    Ok(())
}

#[tokio::test]
async fn server_resumes_a_deletion_that_another_began() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let options = embedded::Options::default();
    let embedded = Embedded::open(folder.path().to_owned(), options).await?;
    let stores: [Arc<dyn Store>; 2] = [Arc::new(Memory::new()), Arc::new(embedded)];
    for store in stores {
        // One server that never starts the deletion, and one that is stopped in the middle.
        for controllers in [false, true] {
            let setup = Setup {
                controllers,
                ..Setup::default()
            };
            let mut server = TestServer::start_on_store(Arc::clone(&store), setup).await?;
            let (system, client) = (server.system().await?, server.tenant("t1").await?);
            fill(&client, MAPS, 500).await?;
            let namespace = json!({"metadata": {"name": "n1"}});
            create(&system, "/api/v1/namespaces", namespace).await?;
            delete(&system, "/api/v1/namespaces/n1").await?;
            delete(&system, T1).await?;
            drop((system, client));
            server.stop().await;

            let server =
                TestServer::start_on_store(Arc::clone(&store), Setup::with_controllers()).await?;
            let system = server.system().await?;
            until_gone(&system, T1).await?;
            until_gone(&system, "/api/v1/namespaces/n1").await?;
            assert_eq!(keys_of(&server, "t1").await?, [""; 0]);
        }
    }
    Ok(())
}

#[tokio::test]
async fn two_servers_on_one_store_delete_a_tenant_together() -> anyhow::Result<()> {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let one = TestServer::start_on_store(Arc::clone(&store), Setup::with_controllers()).await?;
    let other = TestServer::start_on_store(store, Setup::with_controllers()).await?;
    let system = one.system().await?;
    for _ in 0..3 {
        let client = other.tenant("t1").await?;
        fill(&client, MAPS, 300).await?;
        create(&client, MAPS, config_map("held", &["x.io/y"])).await?;
        delete(&system, T1).await?;
        until(&system, T1, |answer| {
            !condition(&answer.json(), "TenantContentRemaining").is_null()
        })
        .await?;
        release(&client, &format!("{MAPS}/held")).await?;
        until_gone(&system, T1).await?;
        until_gone(&other.system().await?, T1).await?;
    }
    Ok(())
}

#[tokio::test]
async fn constantly_written_objects_are_deleted() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let (system, client) = (server.system().await?, server.tenant("t1").await?);
    fill(&client, MAPS, 150).await?;
    let writers = (0..4).map(|number| {
        let client = client.clone();
        async move {
            for count in 0.. {
                let path = format!("{MAPS}/c{number}");
                let patch = json!({"data": {"count": count.to_string()}});
                if client.patch(&path, "merge", &patch).await?.status != 200 {
                    break;
                }
            }
            anyhow::Ok(())
        }
    });
    let deleted = async {
        delete(&system, T1).await?;
        until_gone(&system, T1).await
    };
    let (written, deleted) = tokio::join!(futures_util::future::try_join_all(writers), deleted);
    written?;
    deleted
}

#[tokio::test]
async fn administrators_can_watch_the_deletion_until_the_last_namespace() -> anyhow::Result<()> {
    for server in servers().await? {
        let (system, client) = (server.system().await?, server.tenant("t1").await?);
        let path = "/api/v1/namespaces";
        let list = client.get(path).await?.json();
        let revision = list["metadata"]["resourceVersion"].as_str().unwrap();
        let watched = format!("{path}?watch=true&resourceVersion={revision}");
        let mut watch = client.watch(&watched).await?;
        delete(&system, T1).await?;
        let mut gone = Vec::new();
        while gone.len() < 3 {
            let event = watch.next().await?.unwrap_or_default();
            assert_ne!(event["type"], "ERROR", "{event}");
            if event["type"] == "DELETED" {
                gone.push(event["object"]["metadata"]["name"].clone());
            }
        }
        assert_eq!(gone, ["default", "kube-public", "kube-system"]);
        until_gone(&system, T1).await?;
    }
    Ok(())
}

#[tokio::test]
async fn rbac_objects_are_deleted_last() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let (system, client) = (server.system().await?, server.tenant("t1").await?);
    let account = json!({"metadata": {"name": "held", "finalizers": ["x.io/y"]}});
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    create(&client, accounts, account).await?;
    delete(&system, T1).await?;
    let remaining = "Some resources are remaining: serviceaccounts. has 1 resource instances";
    until(&system, T1, |answer| {
        condition(&answer.json(), "TenantContentRemaining")["message"] == remaining
    })
    .await?;
    assert_eq!(count(&client, "/api/v1/namespaces").await?, 0);
    release(&client, &format!("{accounts}/held")).await?;
    until_gone(&system, T1).await?;
    assert_eq!(keys_of(&server, "t1").await?, [""; 0]);
    Ok(())
}

#[tokio::test]
async fn built_in_objects_cannot_be_changed_in_a_terminating_tenant() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let system = server.system().await?;
    let tenant = json!({"metadata": {"name": "t1", "finalizers": ["x.io/y"]}});
    create(&system, "/api/v1/tenants", tenant).await?;
    delete(&system, T1).await?;
    until(&system, T1, |answer| {
        answer.json()["spec"]["finalizers"]
            .as_array()
            .is_none_or(Vec::is_empty)
    })
    .await?;
    // A changed built-in role would be stored from then on, and nothing here would remove it.
    let view = "/apis/rbac.authorization.k8s.io/v1/tenants/t1/clusterroles/view";
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    let refused = system.patch(view, "merge", &label).await?;
    assert_eq!(refused.status, 403, "{}", refused.text());
    let why = "unable to create new content in tenant t1 because it is being terminated";
    assert!(refused.message().ends_with(why), "{}", refused.message());
    assert_eq!(keys_of(&server, "t1").await?, ["/registry/tenants/t1"]);
    release(&system, T1).await?;
    until_gone(&system, T1).await
}

//! Deletion of namespaces.

use std::time::Duration;

use insula_testkit::server::{Client, TestServer, definition};
use serde_json::json;

use super::{condition, config_map, count, create, release, servers, until, until_gone};

const N1: &str = "/api/v1/namespaces/n1";

async fn create_namespace(client: &Client, name: &str) -> anyhow::Result<()> {
    create(
        client,
        "/api/v1/namespaces",
        json!({"metadata": {"name": name}}),
    )
    .await?;
    Ok(())
}

async fn delete(client: &Client, path: &str) -> anyhow::Result<()> {
    let deleted = client.delete(path).await?;
    anyhow::ensure!(deleted.status == 200, "{path}: {}", deleted.text());
    Ok(())
}

#[tokio::test]
async fn namespace_is_deleted_with_its_content_and_nothing_else() -> anyhow::Result<()> {
    for server in servers().await? {
        for client in [server.system().await?, server.tenant("t1").await?] {
            create_namespace(&client, "n1").await?;
            create_namespace(&client, "n1-not").await?;
            let template = json!({
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            });
            let deployment = json!({
                "metadata": {"name": "d"},
                "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
            });
            let pod = json!({
                "metadata": {"name": "p"},
                "spec": {"nodeName": "somewhere", "containers": [{"name": "c", "image": "i"}]},
            });
            let claim = json!({
                "metadata": {"name": "c"},
                "spec": {"accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}}},
            });
            for namespace in ["n1", "n1-not"] {
                let core = format!("/api/v1/namespaces/{namespace}");
                let apps = format!("/apis/apps/v1/namespaces/{namespace}");
                create(&client, &format!("{core}/configmaps"), config_map("a", &[])).await?;
                create(&client, &format!("{core}/pods"), pod.clone()).await?;
                let claims = format!("{core}/persistentvolumeclaims");
                create(&client, &claims, claim.clone()).await?;
                create(&client, &format!("{apps}/deployments"), deployment.clone()).await?;
            }
            delete(&client, N1).await?;
            until_gone(&client, N1).await?;
            for (path, left) in [
                ("/api/v1/configmaps", 1),
                ("/api/v1/pods", 1),
                ("/api/v1/persistentvolumeclaims", 1),
                ("/apis/apps/v1/deployments", 1),
                ("/apis/apps/v1/namespaces/n1/deployments", 0),
                ("/api/v1/namespaces/n1/serviceaccounts", 0),
                ("/api/v1/namespaces/n1-not/serviceaccounts", 1),
            ] {
                assert_eq!(count(&client, path).await?, left, "{path}");
            }
            create_namespace(&client, "n1").await?;
            assert_eq!(count(&client, &format!("{N1}/configmaps")).await?, 0);
        }
    }
    Ok(())
}

#[tokio::test]
async fn namespace_waits_for_finalizers_with_the_conditions_of_kubernetes() -> anyhow::Result<()> {
    for server in servers().await? {
        let client = server.tenant("t1").await?;
        create_namespace(&client, "n1").await?;
        let maps = format!("{N1}/configmaps");
        create(&client, &maps, config_map("held", &["x.io/y"])).await?;
        create(&client, &maps, config_map("free", &[])).await?;
        delete(&client, N1).await?;
        let explained = until(&client, N1, |answer| {
            !condition(&answer.json(), "NamespaceFinalizersRemaining").is_null()
        })
        .await?
        .json();
        assert_eq!(explained["status"]["phase"], "Terminating");
        let types = explained["status"]["conditions"].as_array().unwrap();
        let types: Vec<_> = types
            .iter()
            .map(|one| one["type"].as_str().unwrap())
            .collect();
        assert_eq!(
            types,
            [
                "NamespaceDeletionDiscoveryFailure",
                "NamespaceDeletionGroupVersionParsingFailure",
                "NamespaceDeletionContentFailure",
                "NamespaceContentRemaining",
                "NamespaceFinalizersRemaining",
            ]
        );
        for (kind, status, reason, message) in [
            (
                "NamespaceDeletionContentFailure",
                "False",
                "ContentDeleted",
                "All content successfully deleted, may be waiting on finalization",
            ),
            (
                "NamespaceContentRemaining",
                "True",
                "SomeResourcesRemain",
                "Some resources are remaining: configmaps. has 1 resource instances",
            ),
            (
                "NamespaceFinalizersRemaining",
                "True",
                "SomeFinalizersRemain",
                "Some content in the namespace has finalizers remaining: x.io/y in 1 resource \
                 instances",
            ),
        ] {
            let reported = condition(&explained, kind);
            assert_eq!(reported["status"], status);
            assert_eq!(reported["reason"], reason);
            assert_eq!(reported["message"], message);
            assert!(reported["lastTransitionTime"].is_string());
        }
        let held = client.get(&format!("{maps}/held")).await?.json();
        assert!(held["metadata"]["deletionTimestamp"].is_string(), "{held}");
        assert_eq!(client.get(&format!("{maps}/free")).await?.status, 404);

        let refused = client.post(&maps, &config_map("late", &[])).await?;
        assert_eq!(refused.status, 403);
        assert_eq!(
            refused.message(),
            "configmaps \"late\" is forbidden: unable to create new content in namespace n1 \
             because it is being terminated"
        );
        assert_eq!(
            refused.json()["details"]["causes"][0]["reason"],
            "NamespaceTerminating"
        );

        release(&client, &format!("{maps}/held")).await?;
        until_gone(&client, N1).await?;
    }
    Ok(())
}

#[tokio::test]
async fn remaining_content_is_counted_by_resource_and_finalizer_in_order() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = server.tenant("t1").await?;
    create_namespace(&client, "n1").await?;
    let definition = definition("ex.io", "foos", "Foo", json!({"type": "object"}));
    client.define(&definition).await?;
    let foos = "/apis/ex.io/v1/namespaces/n1/foos";
    let foo = json!({
        "apiVersion": "ex.io/v1", "kind": "Foo",
        "metadata": {"name": "f", "finalizers": ["ex.io/hold", "ex.io/h2"]},
    });
    create(&client, foos, foo).await?;
    let maps = format!("{N1}/configmaps");
    create(&client, &maps, config_map("held", &["ex.io/hold"])).await?;
    delete(&client, N1).await?;
    let explained = until(&client, N1, |answer| {
        !condition(&answer.json(), "NamespaceContentRemaining").is_null()
    })
    .await?
    .json();
    assert_eq!(
        condition(&explained, "NamespaceContentRemaining")["message"],
        "Some resources are remaining: configmaps. has 1 resource instances, foos.ex.io has 1 \
         resource instances"
    );
    assert_eq!(
        condition(&explained, "NamespaceFinalizersRemaining")["message"],
        "Some content in the namespace has finalizers remaining: ex.io/h2 in 1 resource \
         instances, ex.io/hold in 2 resource instances"
    );
    release(&client, &format!("{foos}/f")).await?;
    release(&client, &format!("{maps}/held")).await?;
    until_gone(&client, N1).await?;
    Ok(())
}

#[tokio::test]
async fn namespace_status_reports_no_content_before_removal() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = server.tenant("t1").await?;
    create_namespace(&client, "n1").await?;
    let revision = client.get(N1).await?.json()["metadata"]["resourceVersion"].clone();
    let revision = revision.as_str().unwrap_or_default().to_owned();
    let watched = format!("/api/v1/namespaces?watch=true&resourceVersion={revision}");
    let mut watch = client.watch(&watched).await?;
    delete(&client, N1).await?;
    let mut reported = Vec::new();
    loop {
        let event = watch.next().await?.unwrap_or_default();
        let last = event["type"] == "DELETED";
        reported.push(event);
        if last {
            break;
        }
    }
    let last = &reported[reported.len() - 1]["object"];
    let conditions = last["status"]["conditions"].as_array().cloned();
    let conditions = conditions.unwrap_or_default();
    let conditions: Vec<_> = conditions
        .iter()
        .map(|one| ["type", "status", "reason", "message"].map(|of| one[of].as_str().unwrap_or("")))
        .collect();
    assert_eq!(
        conditions,
        [
            [
                "NamespaceDeletionDiscoveryFailure",
                "False",
                "ResourcesDiscovered",
                "All resources successfully discovered",
            ],
            [
                "NamespaceDeletionGroupVersionParsingFailure",
                "False",
                "ParsedGroupVersions",
                "All legacy kube types successfully parsed",
            ],
            [
                "NamespaceDeletionContentFailure",
                "False",
                "ContentDeleted",
                "All content successfully deleted, may be waiting on finalization",
            ],
            [
                "NamespaceContentRemaining",
                "False",
                "ContentRemoved",
                "All content successfully removed",
            ],
            [
                "NamespaceFinalizersRemaining",
                "False",
                "ContentHasNoFinalizers",
                "All content-preserving finalizers finished",
            ],
        ]
    );
    Ok(())
}

#[tokio::test]
async fn unchanged_conditions_are_not_written_again() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = server.tenant("t1").await?;
    create_namespace(&client, "n1").await?;
    let maps = format!("{N1}/configmaps");
    create(&client, &maps, config_map("held", &["x.io/y"])).await?;
    delete(&client, N1).await?;
    let explained = until(&client, N1, |answer| {
        !condition(&answer.json(), "NamespaceContentRemaining").is_null()
    })
    .await?
    .json();
    let revision = &explained["metadata"]["resourceVersion"];
    let revision = revision.as_str().unwrap_or_default();
    let watched = format!("/api/v1/namespaces?watch=true&resourceVersion={revision}");
    let mut watch = client.watch(&watched).await?;
    // A change in the space makes the controller process the namespace again.
    let other = config_map("other", &[]);
    create(&client, "/api/v1/namespaces/default/configmaps", other).await?;
    assert!(watch.is_quiet_for(Duration::from_millis(600)).await);
    Ok(())
}

#[tokio::test]
async fn pods_are_deleted_before_other_content() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = server.tenant("t1").await?;
    create_namespace(&client, "n1").await?;
    create(&client, &format!("{N1}/configmaps"), config_map("a", &[])).await?;
    let pod = json!({
        "metadata": {"name": "p", "finalizers": ["x.io/y"]},
        "spec": {"nodeName": "somewhere", "containers": [{"name": "c", "image": "i"}]},
    });
    create(&client, &format!("{N1}/pods"), pod).await?;
    delete(&client, N1).await?;
    let explained = until(&client, N1, |answer| {
        !condition(&answer.json(), "NamespaceContentRemaining").is_null()
    })
    .await?
    .json();
    assert_eq!(
        condition(&explained, "NamespaceContentRemaining")["message"],
        "Some resources are remaining: pods. has 1 resource instances"
    );
    assert_eq!(count(&client, &format!("{N1}/configmaps")).await?, 1);
    release(&client, &format!("{N1}/pods/p")).await?;
    until_gone(&client, N1).await?;
    Ok(())
}

#[tokio::test]
async fn namespace_with_its_own_finalizer_is_emptied_and_stays() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = server.tenant("t1").await?;
    let namespace = json!({"metadata": {"name": "n1", "finalizers": ["x.io/y"]}});
    create(&client, "/api/v1/namespaces", namespace).await?;
    let maps = format!("{N1}/configmaps");
    create(&client, &maps, config_map("a", &[])).await?;
    delete(&client, N1).await?;
    let emptied = until(&client, N1, |answer| {
        answer.json()["spec"]["finalizers"]
            .as_array()
            .is_none_or(Vec::is_empty)
    })
    .await?
    .json();
    assert_eq!(count(&client, &maps).await?, 0);
    let reported = condition(&emptied, "NamespaceContentRemaining");
    assert_eq!(reported["status"], "False");
    assert_eq!(reported["message"], "All content successfully removed");
    assert_eq!(client.get(N1).await?.status, 200);
    release(&client, N1).await?;
    until_gone(&client, N1).await?;
    Ok(())
}

#[tokio::test]
async fn built_in_namespaces_of_a_live_tenant_cannot_be_deleted() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = server.tenant("t1").await?;
    for name in ["default", "kube-system", "kube-public"] {
        let refused = client.delete(&format!("/api/v1/namespaces/{name}")).await?;
        assert_eq!(refused.status, 403, "{}", refused.text());
        assert!(
            refused
                .message()
                .ends_with("this namespace may not be deleted")
        );
    }
    Ok(())
}

//! Quotas on resource requests of pods, services and volume claims.

use insula_testkit::server::TestServer;
use serde_json::{Value, json};

use crate::{QUOTAS, create, create_quota, forbidden, used};

const PODS: &str = "/api/v1/namespaces/default/pods";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";

fn pod(name: &str, resources: Value) -> Value {
    let container = json!({"name": "c", "image": "i", "resources": resources});
    json!({"metadata": {"name": name}, "spec": {"containers": [container]}})
}

fn requests(cpu: &str, memory: &str) -> Value {
    json!({"requests": {"cpu": cpu, "memory": memory}})
}

#[tokio::test]
async fn pods_must_specify_limited_resources_within_quota() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    create_quota(
        &client,
        "q1",
        json!({"requests.cpu": "1", "memory": "1Gi", "pods": "5"}),
    )
    .await?;
    forbidden(
        &client.post(PODS, &pod("p", json!({}))).await?,
        "pods \"p\" is forbidden: failed quota: q1: must specify memory for: c; requests.cpu \
         for: c",
    );
    create(&client, PODS, &pod("p1", requests("600m", "512Mi"))).await?;
    let wanted = json!({"requests.cpu": "600m", "memory": "512Mi", "pods": "1"});
    assert_eq!(used(&client, "q1").await?, wanted);
    forbidden(
        &client
            .post(PODS, &pod("p2", requests("500m", "1Gi")))
            .await?,
        "pods \"p2\" is forbidden: exceeded quota: q1, requested: memory=1Gi,requests.cpu=500m, \
         used: memory=512Mi,requests.cpu=600m, limited: memory=1Gi,requests.cpu=1",
    );
    create(&client, PODS, &pod("p2", requests("400m", "512Mi"))).await?;
    Ok(())
}

#[tokio::test]
async fn completed_pods_free_their_quota() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    create_quota(&client, "q1", json!({"pods": "1", "count/pods": "2"})).await?;
    create(&client, PODS, &pod("p1", json!({}))).await?;
    assert_eq!(client.post(PODS, &pod("p2", json!({}))).await?.status, 403);
    let done = json!({"status": {"phase": "Succeeded"}});
    let done = client
        .patch(&format!("{PODS}/p1/status"), "merge", &done)
        .await?;
    assert_eq!(done.status, 200, "{}", done.text());
    create(&client, PODS, &pod("p2", json!({}))).await?;
    forbidden(
        &client.post(PODS, &pod("p3", json!({}))).await?,
        "pods \"p3\" is forbidden: exceeded quota: q1, requested: count/pods=1,pods=1, used: \
         count/pods=2,pods=1, limited: count/pods=2,pods=1",
    );
    Ok(())
}

#[tokio::test]
async fn scoped_quotas_count_matching_pods() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    let quota = json!({"metadata": {"name": "q1"},
        "spec": {"hard": {"pods": "1"}, "scopes": ["BestEffort"]}});
    create(&client, QUOTAS, &quota).await?;
    create(&client, PODS, &pod("p1", json!({}))).await?;
    forbidden(
        &client.post(PODS, &pod("p2", json!({}))).await?,
        "pods \"p2\" is forbidden: exceeded quota: q1, requested: pods=1, used: pods=1, limited: \
         pods=1",
    );
    create(&client, PODS, &pod("p2", requests("1", "1"))).await?;
    assert_eq!(used(&client, "q1").await?, json!({"pods": "1"}));
    Ok(())
}

#[tokio::test]
async fn pod_entering_a_scope_is_counted() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    let quota = json!({"metadata": {"name": "q1"},
        "spec": {"hard": {"pods": "0"}, "scopes": ["Terminating"]}});
    create(&client, QUOTAS, &quota).await?;
    create(&client, PODS, &pod("p1", json!({}))).await?;
    let deadline = json!({"spec": {"activeDeadlineSeconds": 60}});
    forbidden(
        &client
            .patch(&format!("{PODS}/p1"), "merge", &deadline)
            .await?,
        "pods \"p1\" is forbidden: exceeded quota: q1, requested: pods=1, used: pods=0, limited: \
         pods=0",
    );
    Ok(())
}

#[tokio::test]
async fn pod_resize_is_limited_by_quota() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    create_quota(&client, "q1", json!({"requests.cpu": "1"})).await?;
    create(&client, PODS, &pod("p1", requests("500m", "1"))).await?;
    let resize = |cpu: &str| json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}});
    let path = format!("{PODS}/p1/resize");
    forbidden(
        &client
            .patch(&path, "strategic-merge", &resize("1100m"))
            .await?,
        "pods \"p1\" is forbidden: exceeded quota: q1, requested: requests.cpu=600m, used: \
         requests.cpu=500m, limited: requests.cpu=1",
    );
    let resized = client.patch(&path, "strategic-merge", &resize("1")).await?;
    assert_eq!(resized.status, 200, "{}", resized.text());
    assert_eq!(used(&client, "q1").await?, json!({"requests.cpu": "1"}));
    Ok(())
}

#[tokio::test]
async fn service_type_changes_are_counted() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    let hard = json!({"services": "2", "services.loadbalancers": "1", "services.nodeports": "3"});
    create_quota(&client, "q1", hard).await?;
    let service = |name: &str, of: &str| {
        json!({"metadata": {"name": name}, "spec": {"type": of, "selector": {"a": "b"},
            "ports": [{"name": "a", "port": 1}, {"name": "b", "port": 2}]}})
    };
    create(&client, SERVICES, &service("s1", "LoadBalancer")).await?;
    create(&client, SERVICES, &service("s2", "ClusterIP")).await?;
    let more = json!({"spec": {"type": "LoadBalancer"}});
    forbidden(
        &client
            .patch(&format!("{SERVICES}/s2"), "merge", &more)
            .await?,
        "services \"s2\" is forbidden: exceeded quota: q1, requested: \
         services.loadbalancers=1,services.nodeports=2, used: \
         services.loadbalancers=1,services.nodeports=2, limited: \
         services.loadbalancers=1,services.nodeports=3",
    );
    // Quota freed by one is available to the other.
    let less = json!({"spec": {"type": "ClusterIP"}});
    let changed = client
        .patch(&format!("{SERVICES}/s1"), "merge", &less)
        .await?;
    assert_eq!(changed.status, 200, "{}", changed.text());
    let changed = client
        .patch(&format!("{SERVICES}/s2"), "merge", &more)
        .await?;
    assert_eq!(changed.status, 200, "{}", changed.text());
    // A change that needs no quota is not checked at all.
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    assert_eq!(
        client
            .patch(&format!("{SERVICES}/s2"), "merge", &label)
            .await?
            .status,
        200
    );
    Ok(())
}

#[tokio::test]
async fn claims_are_counted_by_storage_and_class() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    let hard = json!({"requests.storage": "3Gi",
        "gold.storageclass.storage.k8s.io/requests.storage": "1Gi"});
    create_quota(&client, "q1", hard).await?;
    let claim = |name: &str, class: &str, storage: &str| {
        json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"],
            "storageClassName": class, "resources": {"requests": {"storage": storage}}}})
    };
    create(&client, CLAIMS, &claim("c1", "gold", "1Gi")).await?;
    create(&client, CLAIMS, &claim("c2", "iron", "1Gi")).await?;
    forbidden(
        &client.post(CLAIMS, &claim("c3", "gold", "1Gi")).await?,
        "persistentvolumeclaims \"c3\" is forbidden: exceeded quota: q1, requested: \
         gold.storageclass.storage.k8s.io/requests.storage=1Gi, used: \
         gold.storageclass.storage.k8s.io/requests.storage=1Gi, limited: \
         gold.storageclass.storage.k8s.io/requests.storage=1Gi",
    );
    assert_eq!(
        client
            .post(CLAIMS, &claim("c3", "iron", "2Gi"))
            .await?
            .status,
        403
    );
    create(&client, CLAIMS, &claim("c3", "iron", "1Gi")).await?;
    Ok(())
}

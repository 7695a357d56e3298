//! LimitRanges: defaults and bounds per object.

use insula_testkit::server::{Client, TestServer};
use serde_json::{Value, json};

use crate::{create, create_quota, forbidden};

const RANGES: &str = "/api/v1/namespaces/default/limitranges";
const PODS: &str = "/api/v1/namespaces/default/pods";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";

async fn create_limit_range(client: &Client, name: &str, limit: Value) -> anyhow::Result<()> {
    let create_limit_range = json!({"metadata": {"name": name}, "spec": {"limits": [limit]}});
    create(client, RANGES, &create_limit_range).await?;
    Ok(())
}

fn pod(name: &str, resources: Value) -> Value {
    let container = json!({"name": "c", "image": "i", "resources": resources});
    json!({"metadata": {"name": name}, "spec": {"containers": [container]}})
}

#[tokio::test]
async fn missing_requests_are_defaulted() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    let defaults = json!({"type": "Container", "default": {"cpu": "1", "memory": "1Gi"},
        "defaultRequest": {"cpu": "500m"}});
    create_limit_range(&client, "r1", defaults).await?;
    // The defaulted request is what is counted.
    create_quota(&client, "q1", json!({"requests.cpu": "600m"})).await?;
    let created = create(&client, PODS, &pod("p1", json!({}))).await?;
    assert_eq!(
        created["metadata"]["annotations"]["kubernetes.io/limit-ranger"],
        "LimitRanger plugin set: cpu, memory request for container c; cpu, memory limit for \
         container c"
    );
    assert_eq!(
        created["spec"]["containers"][0]["resources"],
        json!({"limits": {"cpu": "1", "memory": "1Gi"},
            "requests": {"cpu": "500m", "memory": "1Gi"}})
    );
    assert_eq!(created["status"]["qosClass"], "Burstable");
    forbidden(
        &client.post(PODS, &pod("p2", json!({}))).await?,
        "pods \"p2\" is forbidden: exceeded quota: q1, requested: requests.cpu=500m, used: \
         requests.cpu=500m, limited: requests.cpu=600m",
    );
    Ok(())
}

#[tokio::test]
async fn pods_outside_the_range_are_refused() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    let bounds = json!({"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "100m"}});
    create_limit_range(&client, "r1", bounds).await?;
    let cases = [
        (
            json!({"limits": {"cpu": "3"}}),
            "maximum cpu usage per Container is 2, but limit is 3",
        ),
        (
            json!({"requests": {"cpu": "50m"}, "limits": {"cpu": "1"}}),
            "minimum cpu usage per Container is 100m, but request is 50m",
        ),
        (
            json!({"requests": {"cpu": "50m"}, "limits": {"cpu": "3"}}),
            "[minimum cpu usage per Container is 100m, but request is 50m, maximum cpu usage \
             per Container is 2, but limit is 3]",
        ),
    ];
    for (resources, why) in cases {
        let answer = client.post(PODS, &pod("p", resources)).await?;
        forbidden(&answer, &format!("pods \"p\" is forbidden: {why}"));
    }
    // Without a request it gets the maximum.
    let created = create(&client, PODS, &pod("p", json!({}))).await?;
    let resources = &created["spec"]["containers"][0]["resources"];
    assert_eq!(
        *resources,
        json!({"limits": {"cpu": "2"}, "requests": {"cpu": "2"}})
    );
    Ok(())
}

#[tokio::test]
async fn pod_resize_is_limited_by_the_range() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    create_limit_range(&client, "r1", json!({"type": "Pod", "max": {"cpu": "2"}})).await?;
    let asks = json!({"limits": {"cpu": "1"}, "requests": {"cpu": "500m"}});
    create(&client, PODS, &pod("p", asks)).await?;
    let resize = json!({"spec": {"containers": [{"name": "c",
        "resources": {"limits": {"cpu": "3"}}}]}});
    forbidden(
        &client
            .patch(&format!("{PODS}/p/resize"), "strategic-merge", &resize)
            .await?,
        "pods \"p\" is forbidden: maximum cpu usage per Pod is 2, but limit is 3",
    );
    // Changes outside the ranges are not checked.
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    create_limit_range(&client, "r2", json!({"type": "Pod", "max": {"cpu": "1m"}})).await?;
    let labelled = client.patch(&format!("{PODS}/p"), "merge", &label).await?;
    assert_eq!(labelled.status, 200, "{}", labelled.text());
    Ok(())
}

#[tokio::test]
async fn claims_are_limited_by_the_range() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    let bounds = json!({"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}});
    create_limit_range(&client, "r1", bounds).await?;
    let claim = |storage: &str| {
        json!({"metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": storage}}}})
    };
    forbidden(
        &client.post(CLAIMS, &claim("2Gi")).await?,
        "persistentvolumeclaims \"c\" is forbidden: maximum storage usage per \
         PersistentVolumeClaim is 1Gi, but request is 2Gi",
    );
    create(&client, CLAIMS, &claim("1Gi")).await?;
    // Other namespaces and other tenants have no range.
    let elsewhere = CLAIMS.replace("default", "kube-public");
    create(&client, &elsewhere, &claim("2Gi")).await?;
    let other = server.tenant("t2").await?;
    create(&other, CLAIMS, &claim("2Gi")).await?;
    Ok(())
}

//! Built-in subresources.

use crate::fixtures::{assert_refused, create, start_tenant};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use insula_testkit::server::{Answer, Client};
use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use serde_json::{Value, json};

const PODS: &str = "/api/v1/namespaces/default/pods";
const POD: &str = "/api/v1/namespaces/default/pods/p";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const SCALE: &str = "/apis/apps/v1/namespaces/default/deployments/d/scale";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
const TOKEN: &str = "/api/v1/namespaces/default/serviceaccounts/default/token";

fn deployment() -> Value {
    json!({"metadata": {"name": "d"}, "spec": {"replicas": 2,
        "selector": {"matchLabels": {"app": "d"}},
        "template": {"metadata": {"labels": {"app": "d"}},
            "spec": {"containers": [{"name": "c", "image": "i:1"}]}}}})
}

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"app": "d"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

#[tokio::test]
async fn scale_can_be_read_replaced_and_patched() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let object = create(&client, DEPLOYMENTS, deployment()).await?;
    let metadata = &object["metadata"];
    let scale = client.get(SCALE).await?.json();
    assert_eq!(
        scale,
        json!({"kind": "Scale", "apiVersion": "autoscaling/v1",
            "metadata": {"name": "d", "namespace": "default", "tenant": "t1",
                "uid": metadata["uid"],
                "resourceVersion": metadata["resourceVersion"],
                "creationTimestamp": metadata["creationTimestamp"]},
            "spec": {"replicas": 2}, "status": {"replicas": 0, "selector": "app=d"}})
    );
    let mut wanted = scale.clone();
    wanted["spec"]["replicas"] = 5.into();
    let answer = client.put(SCALE, &wanted).await?;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.json()["spec"]["replicas"], 5);
    let stale = client.put(SCALE, &wanted).await?;
    assert_refused(
        &stale,
        409,
        "Conflict",
        "Operation cannot be fulfilled on deployments.apps \"d\": the object has been modified; \
         please apply your changes to the latest version and try again",
    );
    let patch = json!({"spec": {"replicas": 0}});
    let answer = client.patch(SCALE, "merge", &patch).await?;
    assert_eq!(answer.json()["spec"], json!({}), "{}", answer.text());
    let object = client.get(&format!("{DEPLOYMENTS}/d")).await?.json();
    assert_eq!(object["spec"]["replicas"], 0);
    assert_eq!(object["metadata"]["generation"], 3);
    Ok(())
}

#[tokio::test]
async fn invalid_scales_are_refused() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    create(&client, DEPLOYMENTS, deployment()).await?;
    let scale = |metadata: Value, replicas: i64| json!({"metadata": metadata, "spec": {"replicas": replicas}});
    let answer = client.put(SCALE, &scale(json!({"name": "d"}), -1)).await?;
    assert_refused(
        &answer,
        422,
        "Invalid",
        "Scale.autoscaling \"d\" is invalid: spec.replicas: Invalid value: -1: must be greater \
         than or equal to 0",
    );
    let answer = client.put(SCALE, &scale(json!({}), 1)).await?;
    assert_refused(
        &answer,
        400,
        "BadRequest",
        "the name of the object (d based on URL) was undeterminable: name must be provided",
    );
    let answer = client.put(SCALE, &scale(json!({"name": "x"}), 1)).await?;
    assert_eq!(answer.status, 400);
    let missing = SCALE.replace("/d/", "/none/");
    let answer = client.get(&missing).await?;
    assert_refused(
        &answer,
        404,
        "NotFound",
        "deployments.apps \"none\" not found",
    );
    let patch = json!({"spec": {"replicas": 1}, "bogus": 1});
    let strict = format!("{SCALE}?fieldValidation=Strict");
    let answer = client.patch(&strict, "merge", &patch).await?;
    assert_eq!(answer.status, 422, "{}", answer.text());
    let patch = json!({"metadata": {"name": "other"}, "spec": {"replicas": 7}});
    let answer = client.patch(SCALE, "merge", &patch).await?;
    assert_eq!(answer.status, 400, "{}", answer.text());
    let scale = client.get(SCALE).await?.json();
    assert_eq!(scale["spec"]["replicas"], 2);
    let maps = "/api/v1/namespaces/default/configmaps/a/scale";
    assert_eq!(client.get(maps).await?.status, 404);
    Ok(())
}

#[tokio::test]
async fn namespace_status_cannot_be_set_to_terminating() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let path = "/api/v1/namespaces/default/status";
    let patch = json!({"status": {"phase": "Terminating"}});
    let answer = client.patch(path, "merge", &patch).await?;
    assert_refused(
        &answer,
        422,
        "Invalid",
        "Namespace \"default\" is invalid: status.Phase: Invalid value: \"Terminating\": may only \
         be 'Active' if `deletionTimestamp` is empty",
    );
    Ok(())
}

fn binding(name: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"bound": "yes"}},
        "target": {"kind": "Node", "name": "n1"}})
}

#[tokio::test]
async fn pods_can_be_bound_once() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    create(&client, PODS, pod("p")).await?;
    let path = format!("{POD}/binding");
    let mut nowhere = binding("p");
    nowhere["target"]["name"] = "".into();
    let answer = client.post(&path, &nowhere).await?;
    assert_refused(&answer, 500, "", "target.name: Required value");
    let dry = client
        .post(&format!("{path}?dryRun=All"), &binding("p"))
        .await?;
    assert_eq!(dry.status, 201, "{}", dry.text());
    let answer = client.post(&path, &binding("p")).await?;
    assert_eq!(
        (answer.status, answer.json()),
        (
            201,
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
                "code": 201})
        )
    );
    let bound = client.get(POD).await?.json();
    assert_eq!(bound["spec"]["nodeName"], "n1");
    assert_eq!(bound["metadata"]["labels"]["bound"], "yes");
    assert_eq!(bound["metadata"]["generation"], 1);
    assert_eq!(bound["status"]["conditions"][0]["type"], "PodScheduled");
    assert_eq!(bound["status"]["conditions"][0]["status"], "True");
    let legacy = "/api/v1/namespaces/default/bindings";
    for path in [path.as_str(), legacy] {
        let answer = client.post(path, &binding("p")).await?;
        assert_refused(
            &answer,
            409,
            "Conflict",
            "Operation cannot be fulfilled on pods/binding \"p\": pod p is already assigned to \
             node \"n1\"",
        );
        assert_eq!(answer.json()["details"]["kind"], "pods/binding");
    }
    let answer = client.post(legacy, &binding("none")).await?;
    assert_refused(&answer, 404, "NotFound", "pods \"none\" not found");
    client
        .delete(&format!("{POD}?gracePeriodSeconds=60"))
        .await?;
    let answer = client.post(legacy, &binding("p")).await?;
    assert!(
        answer.message().ends_with("cannot be assigned to a host"),
        "{}",
        answer.message()
    );
    Ok(())
}

/// Creates running pods `p0`, `p1`, ... and a budget that allows `allowed` disruptions.
async fn create_running_pods(client: &Client, count: u32, allowed: u32) -> anyhow::Result<()> {
    for number in 0..count {
        let name = format!("p{number}");
        let mut pod = pod(&name);
        pod["spec"]["nodeName"] = "n1".into();
        create(client, PODS, pod).await?;
        let status = json!({"status": {"phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}]}});
        let path = format!("{PODS}/{name}/status");
        let answer = client.patch(&path, "merge", &status).await?;
        anyhow::ensure!(answer.status == 200, "{}", answer.text());
    }
    let budget = json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 1,
        "selector": {"matchLabels": {"app": "d"}}}});
    create(client, BUDGETS, budget).await?;
    let status = json!({"status": {"observedGeneration": 1, "disruptionsAllowed": allowed,
        "currentHealthy": count, "desiredHealthy": 1, "expectedPods": count}});
    let answer = client
        .patch(&format!("{BUDGETS}/b/status"), "merge", &status)
        .await?;
    anyhow::ensure!(answer.status == 200, "{}", answer.text());
    Ok(())
}

async fn evict(client: &Client, name: &str) -> anyhow::Result<Answer> {
    let eviction = json!({"kind": "Eviction", "apiVersion": "policy/v1",
        "metadata": {"name": name}});
    client
        .post(&format!("{PODS}/{name}/eviction"), &eviction)
        .await
}

#[tokio::test]
async fn evictions_are_limited_by_the_disruption_budget() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    create_running_pods(&client, 2, 1).await?;
    let path = format!("{PODS}/p0/eviction");
    let dry = json!({"metadata": {"name": "p0"}, "deleteOptions": {"gracePeriodSeconds": 1}});
    let answer = client.post(&format!("{path}?dryRun=All"), &dry).await?;
    assert_eq!(answer.status, 201, "{}", answer.text());
    let pod = client.get(&format!("{PODS}/p0")).await?.json();
    assert_eq!(pod["metadata"]["deletionTimestamp"], Value::Null);
    let answer = client
        .post(&path, &json!({"metadata": {"name": "other"}}))
        .await?;
    assert_refused(
        &answer,
        400,
        "BadRequest",
        "name in URL does not match name in Eviction object",
    );
    let answer = evict(&client, "p0").await?;
    assert_eq!(answer.status, 201, "{}", answer.text());
    let pod = client.get(&format!("{PODS}/p0")).await?.json();
    assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 30);
    let conditions = pod["status"]["conditions"].as_array().cloned();
    let why = conditions.unwrap_or_default().pop().unwrap_or_default();
    assert_eq!(why["type"], "DisruptionTarget");
    assert_eq!(why["reason"], "EvictionByEvictionAPI");
    let budget = client.get(&format!("{BUDGETS}/b")).await?.json();
    assert_eq!(budget["status"]["disruptionsAllowed"], 0);
    assert_ne!(budget["status"]["disruptedPods"]["p0"], Value::Null);
    assert_eq!(
        budget["status"]["conditions"][0]["reason"],
        "InsufficientPods"
    );
    let answer = evict(&client, "p1").await?;
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    assert_refused(&answer, 429, "TooManyRequests", message);
    assert_eq!(
        answer.json()["details"]["causes"],
        json!([{"reason": "DisruptionBudget",
            "message": "The disruption budget b needs 1 healthy pods and has 2 currently"}])
    );
    assert_eq!(answer.header("retry-after"), "");
    // Evicting a pod that is already terminating costs nothing.
    assert_eq!(evict(&client, "p0").await?.status, 201);
    Ok(())
}

#[tokio::test]
async fn concurrent_evictions_do_not_exceed_the_budget() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    create_running_pods(&client, 8, 3).await?;
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..8 {
        let client = client.clone();
        tasks.spawn(async move { evict(&client, &format!("p{number}")).await });
    }
    let mut evicted = 0;
    while let Some(answer) = tasks.join_next().await {
        let status = answer??.status;
        assert!(matches!(status, 201 | 429), "{status}");
        evicted += u32::from(status == 201);
    }
    assert_eq!(evicted, 3);
    Ok(())
}

#[tokio::test]
async fn stale_or_overlapping_budgets_allow_no_eviction() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    create_running_pods(&client, 1, 1).await?;
    let spec = json!({"spec": {"minAvailable": 2}});
    client
        .patch(&format!("{BUDGETS}/b"), "merge", &spec)
        .await?;
    let answer = evict(&client, "p0").await?;
    assert_eq!(answer.status, 429, "{}", answer.text());
    assert_eq!(answer.header("retry-after"), "10");
    assert_eq!(
        answer.json()["details"]["causes"][0]["message"],
        "The disruption budget b is still being processed by the server."
    );
    let other = json!({"metadata": {"name": "c"}, "spec": {"selector": {}}});
    create(&client, BUDGETS, other).await?;
    let answer = evict(&client, "p0").await?;
    assert_refused(
        &answer,
        500,
        "",
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not \
         support.",
    );
    Ok(())
}

fn decode_jwt_part(token: &str, index: usize) -> anyhow::Result<Vec<u8>> {
    let decode_jwt_part = token.split('.').nth(index).unwrap_or("");
    Ok(URL_SAFE_NO_PAD.decode(decode_jwt_part)?)
}

#[tokio::test]
async fn token_request_returns_a_signed_token() -> anyhow::Result<()> {
    let (server, client) = start_tenant().await?;
    let account = client
        .get("/api/v1/namespaces/default/serviceaccounts/default")
        .await?
        .json();
    let tenant = server
        .system()
        .await?
        .get("/api/v1/tenants/t1")
        .await?
        .json();
    let answer = client.post(TOKEN, &json!({"spec": {}})).await?;
    assert_eq!(answer.status, 201, "{}", answer.text());
    let request = answer.json();
    assert_eq!(request["kind"], "TokenRequest");
    assert_eq!(request["spec"]["expirationSeconds"], 3600);
    let uid = tenant["metadata"]["uid"].as_str().unwrap_or_default();
    let issuer = format!("https://insula.test/tenants/t1/issuers/{uid}");
    assert_eq!(request["spec"]["audiences"], json!([issuer]));
    assert!(answer.text().contains("\"boundObjectRef\":null"));
    let token = request["status"]["token"].as_str().unwrap_or("");
    let header: Value = serde_json::from_slice(&decode_jwt_part(token, 0)?)?;
    assert_eq!(header["alg"], "ES256");
    let claims: Value = serde_json::from_slice(&decode_jwt_part(token, 1)?)?;
    assert_eq!(claims["sub"], "system:serviceaccount:default:default");
    assert_eq!(claims["iss"], issuer);
    assert_eq!(claims["aud"], json!([issuer]));
    let seconds = |name: &str| claims[name].as_i64().unwrap_or(0);
    assert_eq!(seconds("exp") - seconds("iat"), 3600);
    assert_eq!(seconds("nbf"), seconds("iat"));
    assert_eq!(claims["jti"].as_str().map(str::len), Some(36));
    assert_eq!(
        claims["kubernetes.io"],
        json!({"namespace": "default", "tenant": "t1", "tenantUid": tenant["metadata"]["uid"],
            "serviceaccount": {"name": "default", "uid": account["metadata"]["uid"]}})
    );
    let (signed, _) = token.rsplit_once('.').unwrap_or_default();
    let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, server.token_key());
    assert_eq!(
        key.verify(signed.as_bytes(), &decode_jwt_part(token, 2)?),
        Ok(())
    );
    Ok(())
}

#[tokio::test]
async fn token_request_honours_audience_and_expiry() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let asked = json!({"spec": {"audiences": ["a", "b"], "expirationSeconds": 600}});
    let request = client.post(TOKEN, &asked).await?.json();
    let token = request["status"]["token"].as_str().unwrap_or("");
    let claims: Value = serde_json::from_slice(&decode_jwt_part(token, 1)?)?;
    assert_eq!(claims["aud"], json!(["a", "b"]));
    let short = json!({"spec": {"expirationSeconds": 10}});
    let answer = client.post(TOKEN, &short).await?;
    assert_eq!(answer.status, 422);
    assert!(
        answer.message().ends_with(
            "spec.expirationSeconds: Invalid value: 10: may not specify a duration less than 10 \
             minutes"
        ),
        "{}",
        answer.message()
    );
    let long = json!({"spec": {"expirationSeconds": i64::MAX}});
    assert_eq!(client.post(TOKEN, &long).await?.status, 422);
    let missing = TOKEN.replace("/default/token", "/missing/token");
    let answer = client.post(&missing, &json!({})).await?;
    assert_refused(
        &answer,
        404,
        "NotFound",
        "serviceaccounts \"missing\" not found",
    );
    let pod = create(&client, PODS, pod("p")).await?;
    let bound = |uid: &Value| {
        json!({"spec": {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "p",
            "uid": uid}}})
    };
    let uid = &pod["metadata"]["uid"];
    let request = client.post(TOKEN, &bound(uid)).await?.json();
    let token = request["status"]["token"].as_str().unwrap_or("");
    let claims: Value = serde_json::from_slice(&decode_jwt_part(token, 1)?)?;
    assert_eq!(
        claims["kubernetes.io"]["pod"],
        json!({"name": "p", "uid": uid})
    );
    assert_eq!(client.post(TOKEN, &bound(&json!("x"))).await?.status, 409);
    let mut other = bound(uid);
    other["spec"]["boundObjectRef"]["name"] = "q".into();
    assert_eq!(client.post(TOKEN, &other).await?.status, 404);
    other["spec"]["boundObjectRef"]["kind"] = "ConfigMap".into();
    assert_eq!(client.post(TOKEN, &other).await?.status, 400);
    Ok(())
}

#[tokio::test]
async fn node_subresources_report_that_no_node_exists() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    create(&client, PODS, pod("p")).await?;
    for name in ["log", "exec", "attach", "portforward", "proxy"] {
        let answer = client.get(&format!("{POD}/{name}")).await?;
        assert_refused(
            &answer,
            501,
            "NotImplemented",
            &format!(
                "{name} needs a node that runs the pod, and nothing runs pods in Insula: they are \
                 objects here"
            ),
        );
    }
    let answer = client.post(&format!("{POD}/exec"), &json!({})).await?;
    assert_eq!(answer.status, 501, "{}", answer.text());
    Ok(())
}

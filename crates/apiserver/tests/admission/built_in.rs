//! Built-in admission: priorities, node ports, generated names and service accounts.

use serde_json::{Value, json};

use super::{assert_refused, start_tenant};

#[tokio::test]
async fn pod_priority_comes_from_its_class() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let pods = "/api/v1/namespaces/default/pods";
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    let pod = |name: &str, spec: Value| {
        let mut spec = spec;
        spec["containers"] = json!([{"name": "c", "image": "i"}]);
        json!({"metadata": {"name": name}, "spec": spec})
    };
    let created = client.post(pods, &pod("none", json!({}))).await?.json();
    assert_eq!(created["spec"]["priority"], 0);
    assert_eq!(created["spec"]["preemptionPolicy"], "PreemptLowerPriority");
    let wanted = pod("p", json!({"priorityClassName": "high"}));
    let answer = client.post(pods, &wanted).await?;
    assert_refused(
        &answer,
        403,
        "Forbidden",
        "pods \"p\" is forbidden: no PriorityClass with name high was found",
    );
    let high = json!({"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"});
    assert_eq!(client.post(classes, &high).await?.status, 201);
    let created = client.post(pods, &wanted).await?.json();
    assert_eq!(created["spec"]["priority"], 1000);
    assert_eq!(created["spec"]["preemptionPolicy"], "Never");
    let usual = json!({"metadata": {"name": "usual"}, "value": 7, "globalDefault": true});
    assert_eq!(client.post(classes, &usual).await?.status, 201);
    let created = client.post(pods, &pod("some", json!({}))).await?.json();
    assert_eq!(created["spec"]["priority"], 7);
    assert_eq!(created["spec"]["priorityClassName"], "usual");
    let critical = json!({"priorityClassName": "system-node-critical"});
    let created = client.post(pods, &pod("critical", critical)).await?.json();
    assert_eq!(created["spec"]["priority"], 2_000_001_000);
    let own = json!({"priorityClassName": "high", "priority": 3});
    let answer = client.post(pods, &pod("own", own)).await?;
    assert_refused(
        &answer,
        403,
        "Forbidden",
        "pods \"own\" is forbidden: the integer value of priority (3) must not be provided in pod \
         spec; priority admission controller computed 1000 from the given PriorityClass name",
    );
    Ok(())
}

#[tokio::test]
async fn node_ports_are_unique() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let ports: Vec<Value> = (1..=300)
        .map(|port| json!({"name": format!("p{port}"), "port": port}))
        .collect();
    let mut seen = std::collections::HashSet::new();
    for name in ["a", "b"] {
        let service = json!({"metadata": {"name": name},
            "spec": {"type": "NodePort", "ports": ports}});
        let created = client
            .post("/api/v1/namespaces/default/services", &service)
            .await?;
        assert_eq!(created.status, 201, "{}", created.text());
        // The next allocation reads the cache, so the first service must have arrived there.
        client.get("/api/v1/services").await?;
        let object = created.json();
        for port in object["spec"]["ports"].as_array().into_iter().flatten() {
            let port = port["nodePort"].as_u64().unwrap_or(0);
            assert!((30_000..=32_767).contains(&port), "{port}");
            assert!(seen.insert(port), "{port} is given twice");
        }
    }
    assert_eq!(seen.len(), 600);
    Ok(())
}

#[tokio::test]
async fn limit_ranges_without_a_name_get_a_generated_one() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let path = "/api/v1/namespaces/default/limitranges";
    let sent = json!({"spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}}]}});
    for _ in 0..2 {
        let created = client.post(path, &sent).await?;
        assert_eq!(created.status, 201, "{}", created.text());
        let object = created.json();
        let name = object["metadata"]["name"].as_str().unwrap_or("");
        assert_eq!(name.len(), 36);
        let found = client.get(&format!("{path}/{name}")).await?;
        assert_eq!((found.status, found.json()), (200, object.clone()));
        let link = object["metadata"]["selfLink"].as_str().unwrap_or("");
        assert!(link.ends_with(&format!("/limitranges/{name}")), "{link}");
    }
    Ok(())
}

#[tokio::test]
async fn pods_get_the_default_service_account_and_start_pending() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let pod = json!({"metadata": {"name": "p"}, "status": {"phase": "Running"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let created = client
        .post("/api/v1/namespaces/default/pods", &pod)
        .await?
        .json();
    assert_eq!(created["spec"]["serviceAccountName"], "default");
    assert_eq!(created["spec"]["serviceAccount"], "default");
    assert_eq!(
        created["status"],
        json!({"phase": "Pending", "qosClass": "BestEffort"})
    );
    Ok(())
}

#[tokio::test]
async fn namespaces_get_a_label_a_finalizer_and_a_service_account() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let sent = json!({"metadata": {"name": "n",
        "labels": {"kubernetes.io/metadata.name": "other"}}, "status": {"phase": "Terminating"}});
    let created = client.post("/api/v1/namespaces", &sent).await?.json();
    assert_eq!(
        created["metadata"]["labels"],
        json!({"kubernetes.io/metadata.name": "n"})
    );
    assert_eq!(created["spec"]["finalizers"], json!(["kubernetes"]));
    assert_eq!(created["status"]["phase"], "Active");
    let account = client
        .get("/api/v1/namespaces/n/serviceaccounts/default")
        .await?;
    assert_eq!(account.status, 200);
    Ok(())
}

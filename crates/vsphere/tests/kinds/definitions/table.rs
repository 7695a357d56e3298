//! The output of `kubectl get`.

use super::*;

/// Returns the cells of the only row, by column.
fn cells(table: &Value) -> Vec<(String, Value)> {
    let columns = table["columnDefinitions"].as_array().unwrap();
    let cells = table["rows"][0]["cells"].as_array().unwrap();
    let name = |column: &Value| column["name"].as_str().unwrap().to_owned();
    columns.iter().map(name).zip(cells.clone()).collect()
}

#[tokio::test]
async fn cr1_table_output_shows_the_reason() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    let client = &scene.acme;
    let condition = |kind: &str, reason: &str| {
        json!({"type": kind, "status": "False", "reason": reason, "message": "m",
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    for (plural, status, shown) in [
        (
            "vsphereclusters",
            json!({"conditions": [condition("VCenterAvailable", "NamespaceNotAllowed")]}),
            "NamespaceNotAllowed",
        ),
        (
            "vsphereclusteridentities",
            json!({"ready": false, "users": 2, "usedBy": ["VSphereCluster a/b"],
                "conditions": [condition("Available", "SecretNotAvailable")]}),
            "SecretNotAvailable",
        ),
        (
            "vspheremachines",
            json!({"conditions": [condition("VirtualMachineProvisioned", "WaitingForBootstrapData")]}),
            "WaitingForBootstrapData",
        ),
        (
            "vspherevms",
            json!({"conditions": [condition("VirtualMachineProvisioned", "WaitingForClone")]}),
            "WaitingForClone",
        ),
        (
            "vspheredeploymentzones",
            json!({"conditions": [condition("VCenterAvailable", "NoCredentials")]}),
            "NoCredentials",
        ),
    ] {
        let spec = whole().into_iter().find(|(of, _)| *of == plural).unwrap().1;
        client
            .post(&path(plural), &object(plural, "x", &spec))
            .await?;
        let one = format!("{}/x/status", path(plural));
        let answer = client
            .patch(&one, MERGE, &json!({"status": status}))
            .await?;
        assert_eq!(answer.json()["status"], status, "{}", answer.text());
        let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let table = client.accept(&path(plural), accept).await?.json();
        let shown_now = cells(&table);
        let reason = shown_now.iter().find(|(name, _)| name == "Reason");
        assert_eq!(
            reason.map(|(_, value)| value),
            Some(&json!(shown)),
            "{table}"
        );
    }
    Ok(())
}

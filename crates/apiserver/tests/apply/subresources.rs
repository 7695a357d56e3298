//! Server-side apply on status and scale.

use super::*;

#[tokio::test]
async fn status_is_applied_and_owned_through_its_subresource() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let mut wanted = deployment(&minimal_deployment());
    wanted["status"] = json!({"replicas": 7});
    let answer = apply(&client, DEPLOYMENT, "one", &wanted).await?;
    let object = answer.json();
    assert_eq!(object["status"], json!({}), "{object}");
    assert_eq!(owners(&object)[0].1.get("f:status"), None);
    let status = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {"replicas": 9}, "status": {"replicas": 2, "observedGeneration": 1}});
    let path = format!("{DEPLOYMENT}/status");
    let answer = apply(&client, &path, "ctl", &status).await?;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let object = answer.json();
    assert_eq!(object["status"]["replicas"], 2);
    assert_eq!(object["spec"]["replicas"], 1);
    assert_eq!(
        owners(&object)[0],
        (
            "ctl Apply status".to_owned(),
            json!({"f:status": {"f:observedGeneration": {}, "f:replicas": {}}})
        )
    );
    let missing = "/apis/apps/v1/namespaces/default/deployments/none/status";
    assert_eq!(apply(&client, missing, "ctl", &status).await?.status, 404);
    Ok(())
}

#[tokio::test]
async fn scaling_takes_ownership_of_replicas() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let mut spec = minimal_deployment();
    spec["replicas"] = 1.into();
    let first = deployment(&spec);
    assert_eq!(apply(&client, DEPLOYMENT, "one", &first).await?.status, 201);
    let scale = format!("{DEPLOYMENT}/scale?fieldManager=hpa");
    let patch = json!({"spec": {"replicas": 4}});
    let answer = client.patch(&scale, "merge", &patch).await?;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.json()["metadata"].get("managedFields"), None);
    let object = client.get(DEPLOYMENT).await?.json();
    let own = json!({"f:spec": {"f:replicas": {}}});
    let owners = owners(&object);
    assert!(
        owners.contains(&("hpa Update scale".to_owned(), own)),
        "{owners:?}"
    );
    assert_eq!(owners[0].1["f:spec"].get("f:replicas"), None);
    let answer = apply(&client, DEPLOYMENT, "one", &first).await?;
    assert_refused(
        &answer,
        409,
        "Conflict",
        "Apply failed with 1 conflict: conflict with \"hpa\" with subresource \"scale\" using \
         apps/v1: .spec.replicas",
    );
    // A scale can be applied as well.
    let wanted = json!({"apiVersion": "autoscaling/v1", "kind": "Scale",
        "metadata": {"name": "d"}, "spec": {"replicas": 6}});
    let path = format!("{DEPLOYMENT}/scale");
    let answer = apply(&client, &path, "ops", &wanted).await?;
    assert_eq!(answer.status, 409, "{}", answer.text());
    let answer = apply(&client, &path, "ops&force=true", &wanted).await?;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(client.get(DEPLOYMENT).await?.json()["spec"]["replicas"], 6);
    Ok(())
}

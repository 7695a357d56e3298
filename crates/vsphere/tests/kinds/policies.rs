//! Requests that the policies refuse, in the system's space and in a tenant's.

use serde_json::{Value, json};

use crate::scene::{Scene, object, path};

const MERGE: &str = "merge";
const IDENTITIES: &str = "vsphereclusteridentities";

#[tokio::test]
async fn c8_deletion_of_an_identity_in_use_is_refused_and_names_its_users() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    let one = format!("{}/shared", path(IDENTITIES));
    for (space, client) in scene.spaces() {
        let spec = json!({"secretName": "s", "allowedNamespaces": {}});
        client
            .post(&path(IDENTITIES), &object(IDENTITIES, "shared", &spec))
            .await?;
        let set = async |status: Value| {
            let patch = json!({"status": status});
            client.patch(&format!("{one}/status"), MERGE, &patch).await
        };
        for (status, users) in [
            (
                json!({"users": 2, "usedBy": ["VSphereCluster team-a/prod", "VSphereDeploymentZone z"]}),
                "it is used by 2: VSphereCluster team-a/prod, VSphereDeploymentZone z. ",
            ),
            (
                json!({"users": 3, "usedBy": ["VSphereCluster team-a/prod"]}),
                "it is used by 3: VSphereCluster team-a/prod and others. ",
            ),
        ] {
            set(status).await?;
            let answer = client.delete(&one).await?;
            assert_eq!(answer.status, 403, "{space}: {}", answer.text());
            let name = "identities-in-use.infrastructure.cluster.x-k8s.io";
            assert_eq!(
                answer.message(),
                format!(
                    "vsphereclusteridentities.infrastructure.cluster.x-k8s.io \"shared\" is forbidden: \
                     ValidatingAdmissionPolicy '{name}' with binding '{name}' denied request: {users}\
                     Delete them or let them use another identity first; \
                     `insula identity users vsphereclusteridentity/shared` shows them all"
                ),
                "{space}"
            );
            assert_eq!(answer.json()["reason"], "Forbidden");
            // A deletion of the whole collection is refused too.
            let answer = client.delete(&path(IDENTITIES)).await?;
            assert_eq!(answer.status, 403, "{space}: {}", answer.text());
            assert_eq!(client.get(&one).await?.status, 200);
        }
        set(json!({"users": 0, "usedBy": null})).await?;
        assert_eq!(client.delete(&one).await?.status, 200, "{space}");
    }
    Ok(())
}

#[tokio::test]
async fn m2_moved_or_uncounted_identity_can_be_deleted() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    for (space, client) in scene.spaces() {
        let spec = json!({"secretName": "s"});
        client
            .post(&path(IDENTITIES), &object(IDENTITIES, "new", &spec))
            .await?;
        let answer = client.delete(&format!("{}/new", path(IDENTITIES))).await?;
        assert_eq!(answer.status, 200, "{space}: {}", answer.text());
        let mut moved = object(IDENTITIES, "moved", &spec);
        moved["metadata"]["annotations"] =
            json!({"clusterctl.cluster.x-k8s.io/delete-for-move": ""});
        client.post(&path(IDENTITIES), &moved).await?;
        let one = format!("{}/moved", path(IDENTITIES));
        let status = json!({"status": {"users": 1, "usedBy": ["VSphereCluster a/b"]}});
        client
            .patch(&format!("{one}/status"), MERGE, &status)
            .await?;
        assert_eq!(client.delete(&one).await?.status, 200, "{space}");
    }
    Ok(())
}

#[tokio::test]
async fn machine_template_changes_only_in_topology_dry_runs() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    let plural = "vspheremachinetemplates";
    let one = format!("{}/x", path(plural));
    for (space, client) in scene.spaces() {
        let machine = json!({"template": "t", "network": {"devices": []}});
        let spec = json!({"template": {"spec": machine}});
        client
            .post(&path(plural), &object(plural, "x", &spec))
            .await?;
        let label = json!({"metadata": {"labels": {"a": "b"}}});
        assert_eq!(
            client.patch(&one, MERGE, &label).await?.status,
            200,
            "{space}"
        );
        let change = json!({"spec": {"template": {"spec": {"template": "u"}}}});
        let mut tried = change.clone();
        tried["metadata"]["annotations"] = json!({"topology.cluster.x-k8s.io/dry-run": ""});
        let dry = format!("{one}?dryRun=All");
        for (way, patch, code) in [
            (&one, &change, 422),
            (&one, &tried, 422),
            (&dry, &change, 422),
            (&dry, &tried, 200),
        ] {
            let answer = client.patch(way, MERGE, patch).await?;
            assert_eq!(answer.status, code, "{space} {way}: {}", answer.text());
            let message = answer.message();
            let is_expected =
                message.ends_with(": a template cannot be changed, create another one");
            assert_eq!(is_expected, code == 422, "{message}");
        }
        let found = client.get(&one).await?.json();
        assert_eq!(
            found["spec"]["template"]["spec"]["template"], "t",
            "{space}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn tenant_cannot_remove_the_systems_policy() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    let policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
    let found = scene.acme.get(policies).await?.json();
    assert_eq!(found["items"], json!([]), "it is not even seen there");
    let (one, spec) = (
        format!("{}/x", path(IDENTITIES)),
        json!({"secretName": "s"}),
    );
    scene
        .acme
        .post(&path(IDENTITIES), &object(IDENTITIES, "x", &spec))
        .await?;
    let status = json!({"status": {"users": 1}});
    scene
        .acme
        .patch(&format!("{one}/status"), MERGE, &status)
        .await?;
    scene.acme.delete(policies).await?;
    assert_eq!(scene.acme.delete(&one).await?.status, 403);
    Ok(())
}

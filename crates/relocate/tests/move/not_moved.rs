//! Objects that clusters use or own and that are not moved.

use insula_relocate::preview;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::scene::{CAPI, INFRA, Lines, Scene, Side, owner, settings};

async fn zone(side: &Side, name: &str, server: &str, domain: &str) -> anyhow::Result<()> {
    side.put(json!({
        "apiVersion": INFRA, "kind": "VSphereDeploymentZone",
        "metadata": {"name": name, "labels": {"row": "1"}},
        "spec": {"server": server, "failureDomain": domain},
    }))
    .await?;
    side.put(json!({
        "apiVersion": INFRA, "kind": "VSphereFailureDomain", "metadata": {"name": domain},
    }))
    .await
    .map(drop)
}

async fn patch(side: &Side, at: (&str, &str, &str), spec: Value) -> anyhow::Result<()> {
    let api = side.api(at.0, at.1, "a");
    let patch = Patch::Merge(json!({"spec": spec}));
    api.patch(at.2, &PatchParams::default(), &patch).await?;
    Ok(())
}

#[tokio::test]
async fn zones_missing_at_the_target_are_reported_by_name() -> anyhow::Result<()> {
    let scene = Scene::with_cluster().await?;
    zone(&scene.source, "z1", "vcenter.test", "d1").await?;
    zone(&scene.source, "z2", "vcenter.test", "d2").await?;
    zone(&scene.source, "elsewhere", "other.test", "d3").await?;
    zone(&scene.source, "z4", "vcenter.test", "d4").await?;
    // The target has this zone, but not its failure domain.
    scene
        .target
        .put(json!({
            "apiVersion": INFRA, "kind": "VSphereDeploymentZone", "metadata": {"name": "z2"},
        }))
        .await?;
    let unlabelled = Patch::Merge(json!({"metadata": {"labels": null}}));
    let zones = scene.source.api(INFRA, "VSphereDeploymentZone", "");
    zones
        .patch("z4", &PatchParams::default(), &unlabelled)
        .await?;
    let selector = json!({"failureDomainSelector": {"matchLabels": {"row": "1"}}});
    patch(&scene.source, (INFRA, "VSphereCluster", "c"), selector).await?;
    let domain = json!({"failureDomain": "z4"});
    patch(&scene.source, (CAPI, "Machine", "c-m"), domain).await?;

    let expected = [
        "VSphereCluster a/c uses VSphereDeploymentZone z1, which is not at the target",
        "VSphereDeploymentZone z1 uses VSphereFailureDomain d1, which is not at the target",
        "VSphereDeploymentZone z2 uses VSphereFailureDomain d2, which is not at the target",
        "Machine a/c-m uses VSphereDeploymentZone z4, which is not at the target",
        "VSphereDeploymentZone z4 uses VSphereFailureDomain d4, which is not at the target",
    ];
    let lines = Lines::default();
    let (source, target) = (&scene.source.client, &scene.target.client);
    preview(source, target, &settings(), &lines).await?;
    assert_eq!(lines.warnings(), expected);
    let (_, lines) = scene.relocate().await?;
    assert_eq!(lines.warnings(), expected);
    Ok(())
}

#[tokio::test]
async fn unused_zones_are_not_reported() -> anyhow::Result<()> {
    let scene = Scene::with_cluster().await?;
    zone(&scene.source, "z1", "vcenter.test", "d1").await?;
    let (_, lines) = scene.relocate().await?;
    assert_eq!(lines.warnings(), Vec::<String>::new());
    Ok(())
}

#[tokio::test]
async fn dependents_of_unmoved_kinds_are_reported() -> anyhow::Result<()> {
    let scene = Scene::with_cluster().await?;
    let here = scene.source.get(CAPI, "Cluster", ("a", "c")).await?;
    let owner = owner(&here.expect("a cluster"), CAPI, "Cluster");
    for (name, owners) in [("owned", json!([owner])), ("free", json!([]))] {
        let metadata = json!({"name": name, "namespace": "a", "ownerReferences": owners});
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata});
        scene.source.put(account).await?;
    }
    let (_, lines) = scene.relocate().await?;
    let expected = "ServiceAccount a/owned belongs to Cluster a/c, and is not moved with it";
    assert_eq!(lines.warnings(), [expected]);
    Ok(())
}

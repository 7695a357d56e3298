//! Moves that are refused, and states that a move waits for.

use std::time::Duration;

use insula_relocate::{Error, Pauses, Settings};
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::scene::{CAPI, INFRA, Scene, Side, owner, settings};

async fn patch(side: &Side, at: (&str, &str, &str), patch: Value) -> anyhow::Result<()> {
    let api = side.api(at.0, at.1, "a");
    api.patch(at.2, &PatchParams::default(), &Patch::Merge(&patch))
        .await?;
    Ok(())
}

async fn patch_status(side: &Side, at: (&str, &str, &str), status: Value) -> anyhow::Result<()> {
    let api = side.api(at.0, at.1, "a");
    let patch = Patch::Merge(json!({"status": status}));
    api.patch_status(at.2, &PatchParams::default(), &patch)
        .await?;
    Ok(())
}

/// Asserts that nothing was written: the cluster is neither paused nor marked, and the target
/// has no namespace.
async fn assert_untouched(scene: &Scene) -> anyhow::Result<()> {
    let here = scene.source.get(CAPI, "Cluster", ("a", "c")).await?;
    let here = here.expect("a cluster");
    assert_eq!(
        here.annotations().keys().collect::<Vec<_>>(),
        Vec::<&String>::new()
    );
    assert_eq!(scene.target.get("v1", "Namespace", ("", "a")).await?, None);
    Ok(())
}

#[tokio::test]
async fn unmovable_objects_are_reported_and_nothing_is_written() -> anyhow::Result<()> {
    let (cluster, machine, vm) = (
        (CAPI, "Cluster", "c"),
        (CAPI, "Machine", "c-m"),
        (INFRA, "VSphereVM", "c-m"),
    );
    let scene = Scene::with_cluster().await?;
    let whole = json!({"infrastructureProvisioned": true, "controlPlaneInitialized": true});
    let lacks = |field: &str| {
        let mut done = whole.clone();
        done[field] = json!(false);
        json!({"initialization": done})
    };
    for (at, status, expected) in [
        (
            cluster,
            lacks("infrastructureProvisioned"),
            "Cluster a/c has no infrastructure yet",
        ),
        (
            cluster,
            lacks("controlPlaneInitialized"),
            "Cluster a/c has no control plane yet",
        ),
        (
            machine,
            json!({"nodeRef": null}),
            "Machine a/c-m has no node yet",
        ),
    ] {
        patch_status(&scene.source, at, status).await?;
        let refused = scene.relocate().await.err().expect("a refusal");
        assert_eq!(
            refused.to_string(),
            format!("not everything can be moved:\n  {expected}")
        );
        assert_untouched(&scene).await?;
        patch_status(&scene.source, cluster, json!({"initialization": whole})).await?;
    }
    patch_status(&scene.source, machine, json!({"nodeRef": {"name": "n"}})).await?;
    patch(&scene.source, vm, json!({"spec": {"biosUUID": null}})).await?;
    let refused = scene.relocate().await.err().expect("a refusal");
    let text = "not everything can be moved:\n  VSphereVM a/c-m has no virtual machine yet";
    assert_eq!(refused.to_string(), text);
    patch(&scene.source, vm, json!({"spec": {"biosUUID": "4210"}})).await?;
    scene
        .source
        .api(INFRA, "VSphereVM", "a")
        .delete("c-m", &Default::default())
        .await?;
    let refused = scene.relocate().await.err().expect("a refusal");
    let text = "not everything can be moved:\n  VSphereVM a/c-m is being deleted";
    assert_eq!(refused.to_string(), text);
    assert_untouched(&scene).await
}

#[tokio::test]
async fn cluster_paused_by_a_user_or_another_move_is_refused() -> anyhow::Result<()> {
    let scene = Scene::with_cluster().await?;
    let at = (CAPI, "Cluster", "c");
    patch(&scene.source, at, json!({"spec": {"paused": true}})).await?;
    let refused = scene.relocate().await.err().expect("a refusal");
    let text = "not everything can be moved:\n  Cluster a/c is paused";
    assert_eq!(refused.to_string(), text);
    assert_untouched(&scene).await?;
    let marked = json!({"metadata": {"annotations": {"move.insula.dev/under-way": "x/y"}}});
    patch(&scene.source, at, marked).await?;
    let refused = scene.relocate().await.err().expect("a refusal");
    let text = "not everything can be moved:\n  Cluster a/c is being moved somewhere else";
    assert_eq!(refused.to_string(), text);
    Ok(())
}

#[tokio::test]
async fn kinds_missing_at_the_target_fail_before_any_write() -> anyhow::Result<()> {
    let scene = Scene::with_cluster().await?;
    let bare = insula_testkit::server::TestServer::start_with_controllers().await?;
    let client = crate::scene::client(&bare, "system").await?;
    let server = std::sync::Arc::new(bare);
    let scene = Scene {
        target: Side { server, client },
        ..scene
    };
    let refused = scene.relocate().await.err().expect("a refusal");
    let text = "the target does not serve:
  Cluster in cluster.x-k8s.io/v1beta2
  Machine in cluster.x-k8s.io/v1beta2
  VSphereCluster in infrastructure.cluster.x-k8s.io/v1beta2
  VSphereMachine in infrastructure.cluster.x-k8s.io/v1beta2
  VSphereVM in infrastructure.cluster.x-k8s.io/v1beta2";
    assert_eq!(refused.to_string(), text);
    assert_untouched(&scene).await
}

#[tokio::test]
async fn taken_names_at_the_target_are_not_overwritten() -> anyhow::Result<()> {
    let scene = Scene::with_cluster().await?;
    scene.target.namespace("a", json!({})).await?;
    scene
        .target
        .put(crate::scene::secret("a", "c-login", &[]))
        .await?;
    let refused = scene.relocate().await.err().expect("a refusal");
    let text = "names already taken at the target:\n  Secret a/c-login";
    assert_eq!(refused.to_string(), text);
    let here = scene.source.get(CAPI, "Cluster", ("a", "c")).await?;
    assert_eq!(here.expect("a cluster").data["spec"]["paused"], json!(null));
    Ok(())
}

#[tokio::test]
async fn kinds_are_compared_by_group_at_the_target() -> anyhow::Result<()> {
    let scene = Scene::with_cluster().await?;
    let group = "other.cluster.x-k8s.io";
    let mut definition = insula_testkit::capi::machines();
    definition["metadata"]["name"] = json!(format!("machines.{group}"));
    definition["spec"]["group"] = json!(group);
    for side in [&scene.source, &scene.target] {
        side.server.system().await?.define(&definition).await?;
    }
    scene.target.namespace("a", json!({})).await?;
    let here = scene.source.get(CAPI, "Cluster", ("a", "c")).await?;
    let owner = owner(&here.expect("a cluster"), CAPI, "Cluster");
    for (side, owners) in [(&scene.source, json!([owner])), (&scene.target, json!([]))] {
        side.put(json!({
            "apiVersion": format!("{group}/v1beta2"), "kind": "Machine",
            "metadata": {"name": "x", "namespace": "a", "ownerReferences": owners},
            "status": {"nodeRef": {"name": "x"}},
        }))
        .await?;
    }
    let refused = scene.relocate().await.err().expect("a refusal");
    let text = "names already taken at the target:\n  Machine a/x";
    assert_eq!(refused.to_string(), text);
    // The conflict was found before anything was created.
    assert_eq!(scene.target.inventory().await?, Vec::<String>::new());
    Ok(())
}

#[tokio::test]
async fn move_waits_while_the_block_annotation_is_set() -> anyhow::Result<()> {
    let scene = Scene::with_cluster().await?;
    let at = (INFRA, "VSphereMachine", "c-m");
    let block = |value: Value| json!({"metadata": {"annotations": {"clusterctl.cluster.x-k8s.io/block-move": value}}});
    patch(&scene.source, at, block(json!(""))).await?;
    let no_wait = Settings {
        timeout: Duration::ZERO,
        ..settings()
    };
    let refused = scene
        .relocate_with(&no_wait)
        .await
        .err()
        .expect("a refusal");
    let text = "move still blocked after 0 s:\n  VSphereMachine a/c-m";
    assert_eq!(refused.to_string(), text);
    // It is unpaused again, and moves once the annotation is removed.
    assert_untouched(&scene).await?;
    let joined = tokio::join!(
        scene.relocate(),
        patch(&scene.source, at, block(json!(null)))
    );
    joined.1?;
    assert_eq!(joined.0?.0.unpaused, ["Cluster a/c"]);
    Ok(())
}

#[tokio::test]
async fn move_waits_for_the_paused_condition() -> anyhow::Result<()> {
    let scene = Scene::with_cluster().await?;
    let at = (INFRA, "VSphereVM", "c-m");
    let paused = |status: &str| json!({"conditions": [{"type": "Paused", "status": status}]});
    patch_status(&scene.source, at, paused("False")).await?;
    let no_wait = Settings {
        timeout: Duration::ZERO,
        ..settings()
    };
    let refused = scene
        .relocate_with(&no_wait)
        .await
        .err()
        .expect("a refusal");
    let text = "not paused by their controllers after 0 s:\n  VSphereVM a/c-m";
    assert_eq!(refused.to_string(), text);
    assert_eq!(scene.target.inventory().await?, Vec::<String>::new());
    assert_untouched(&scene).await?;
    let joined = tokio::join!(
        scene.relocate(),
        patch_status(&scene.source, at, paused("True"))
    );
    joined.1?;
    assert_eq!(joined.0?.0.unpaused, ["Cluster a/c"]);
    Ok(())
}

#[tokio::test]
async fn assumed_pauses_skip_the_paused_condition() -> anyhow::Result<()> {
    let scene = Scene::with_cluster().await?;
    let status = json!({"conditions": [{"type": "Paused", "status": "False"}]});
    patch_status(&scene.source, (INFRA, "VSphereVM", "c-m"), status).await?;
    let assumed = Settings {
        pauses: Pauses::Assumed,
        timeout: Duration::ZERO,
        ..settings()
    };
    assert_eq!(
        scene.relocate_with(&assumed).await?.0.unpaused,
        ["Cluster a/c"]
    );
    Ok(())
}

#[tokio::test]
async fn nothing_to_move_is_an_error() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    let refused = scene.relocate().await.err().expect("a refusal");
    assert_eq!(
        refused.to_string(),
        "there is nothing to move in namespace a"
    );
    let only = Settings {
        cluster: Some("c".to_owned()),
        ..settings()
    };
    let refused = scene.relocate_with(&only).await.err().expect("a refusal");
    assert_eq!(refused.to_string(), "there is no cluster c in namespace a");
    assert_eq!(refused.hint(), Some("choose the namespace with -n"));
    Ok(())
}

#[tokio::test]
async fn owner_cycle_is_refused() -> anyhow::Result<()> {
    let scene = Scene::with_cluster().await?;
    let api = scene.source.api("v1", "Secret", "a");
    let login = api.get("c-login").await?;
    let mut owners = vec![owner(&login, "v1", "Secret")];
    owners[0]["name"] = json!("c-login");
    let lone = scene
        .source
        .put(crate::scene::secret("a", "lone", &owners))
        .await?;
    let mut both: Vec<Value> = vec![serde_json::to_value(&login.owner_references()[0])?];
    both.push(owner(&lone, "v1", "Secret"));
    let circle = json!({"metadata": {"ownerReferences": both}});
    patch(&scene.source, ("v1", "Secret", "c-login"), circle).await?;
    let refused = scene.relocate().await.err().expect("a refusal");
    assert!(matches!(refused, Error::OwnerCycle(_)), "{refused}");
    assert_untouched(&scene).await
}

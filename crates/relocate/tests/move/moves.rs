//! Which objects are at which server after a move.

use insula_relocate::settings::NamespaceLabels;
use insula_relocate::{Error, Settings, preview};
use kube::ResourceExt;
use serde_json::json;

use crate::scene::{CAPI, INFRA, Lines, Login, Scene, Side, cluster, identity, settings};

/// Returns the objects of a cluster with a Secret of its own.
pub fn pieces(namespace: &str, name: &str) -> Vec<String> {
    let mut pieces = vec![
        format!("Cluster {namespace}/{name}"),
        format!("Machine {namespace}/{name}-m"),
        format!("Secret {namespace}/{name}-kubeconfig"),
        format!("Secret {namespace}/{name}-login"),
        format!("VSphereCluster {namespace}/{name}"),
        format!("VSphereMachine {namespace}/{name}-m"),
        format!("VSphereVM {namespace}/{name}-m"),
    ];
    pieces.sort();
    pieces
}

#[tokio::test]
async fn fr4_cluster_and_secret_are_only_at_the_target_after_a_move() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    scene.source.namespace("a", json!({})).await?;
    cluster(&scene.source, "a", "c", Login::Secret).await?;
    let before = scene.source.get("v1", "Secret", ("a", "c-login")).await?;
    let (moved, lines) = scene.relocate().await?;

    let mut names = moved.moved.clone();
    names.sort();
    assert_eq!(names, pieces("a", "c"));
    assert_eq!(moved.copied, Vec::<String>::new());
    assert_eq!(moved.unpaused, ["Cluster a/c"]);
    assert_eq!(lines.warnings(), Vec::<String>::new());
    assert_eq!(scene.source.inventory().await?, Vec::<String>::new());
    assert_eq!(scene.target.inventory().await?, pieces("a", "c"));

    let here = scene.target.get(CAPI, "Cluster", ("a", "c")).await?;
    let here = here.expect("a cluster");
    assert_eq!(here.data["spec"]["paused"], json!(null));
    assert_eq!(here.data["status"], json!(null));
    assert_eq!(here.finalizers(), ["cluster.cluster.x-k8s.io"]);
    let infra = scene
        .target
        .get(INFRA, "VSphereCluster", ("a", "c"))
        .await?;
    let infra = infra.expect("an infrastructure");
    assert_eq!(infra.owner_references()[0].uid, here.uid().expect("a UID"));
    let login = scene.target.get("v1", "Secret", ("a", "c-login")).await?;
    let login = login.expect("a Secret");
    assert_eq!(login.owner_references()[0].uid, infra.uid().expect("a UID"));
    assert_eq!(login.data["data"], before.expect("a Secret").data["data"]);
    Ok(())
}

#[tokio::test]
async fn o13_other_namespaces_and_unowned_objects_stay() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    for namespace in ["a", "b"] {
        scene.source.namespace(namespace, json!({})).await?;
        cluster(&scene.source, namespace, "c", Login::Secret).await?;
    }
    let lone = crate::scene::secret("a", "lone", &[]);
    scene.source.put(lone).await?;
    scene.relocate().await?;
    let mut left = pieces("b", "c");
    left.push("Secret a/lone".to_owned());
    left.sort();
    assert_eq!(scene.source.inventory().await?, left);
    assert_eq!(scene.target.inventory().await?, pieces("a", "c"));
    Ok(())
}

#[tokio::test]
async fn one_of_two_clusters_is_moved_and_the_other_stays_active() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    scene.source.namespace("a", json!({})).await?;
    cluster(&scene.source, "a", "one", Login::Secret).await?;
    cluster(&scene.source, "a", "two", Login::Secret).await?;
    let only = Settings {
        cluster: Some("one".to_owned()),
        ..settings()
    };
    scene.relocate_with(&only).await?;
    assert_eq!(scene.source.inventory().await?, pieces("a", "two"));
    assert_eq!(scene.target.inventory().await?, pieces("a", "one"));
    let other = scene.source.get(CAPI, "Cluster", ("a", "two")).await?;
    assert_eq!(
        other.expect("a cluster").data["spec"]["paused"],
        json!(null)
    );
    Ok(())
}

#[tokio::test]
async fn preview_lists_objects_and_writes_nothing() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    scene.source.namespace("a", json!({"team": "x"})).await?;
    identity(&scene.source, "shared", "x").await?;
    cluster(&scene.source, "a", "c", Login::Identity("shared")).await?;
    let (before, lines) = (scene.source.inventory().await?, Lines::default());
    let (source, target) = (&scene.source.client, &scene.target.client);
    let would = preview(source, target, &settings(), &lines).await?;
    assert_eq!(would.moved.len(), 6);
    let copied = [
        "VSphereClusterIdentity shared",
        "Secret capv-system/shared-login",
    ];
    assert_eq!(would.copied, copied);
    assert_eq!(scene.source.inventory().await?, before);
    assert_eq!(scene.target.inventory().await?, Vec::<String>::new());
    let here = scene.source.get(CAPI, "Cluster", ("a", "c")).await?;
    assert_eq!(here.expect("a cluster").data["spec"]["paused"], json!(null));
    Ok(())
}

#[tokio::test]
async fn namespace_labels_are_reported_and_copied_only_on_request() -> anyhow::Result<()> {
    for copy in [NamespaceLabels::Leave, NamespaceLabels::Copy] {
        let scene = Scene::new().await?;
        scene.source.namespace("a", json!({"team": "x"})).await?;
        identity(&scene.source, "shared", "x").await?;
        cluster(&scene.source, "a", "c", Login::Identity("shared")).await?;
        let settings = Settings {
            namespace_labels: copy,
            ..settings()
        };
        let (_, lines) = scene.relocate_with(&settings).await?;
        let there = scene.target.get("v1", "Namespace", ("", "a")).await?;
        let team = there.expect("a namespace").labels().get("team").cloned();
        match copy {
            NamespaceLabels::Leave => {
                assert_eq!(team, None);
                let expected = "namespace a has no label team=x at the target: identities that select namespaces by it refuse it there (--copy-namespace-labels copies it)";
                assert_eq!(lines.warnings(), [expected]);
            }
            NamespaceLabels::Copy => {
                assert_eq!(team.as_deref(), Some("x"));
                assert_eq!(lines.warnings(), Vec::<String>::new());
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn clusters_move_between_spaces_and_back() -> anyhow::Result<()> {
    let system = Side::new().await?;
    let scene = Scene {
        source: system.tenant("t1").await?,
        target: system.tenant("t2").await?,
    };
    scene.source.namespace("a", json!({})).await?;
    identity(&scene.source, "shared", "x").await?;
    cluster(&scene.source, "a", "c", Login::Identity("shared")).await?;
    let before = scene.source.inventory().await?;
    scene.relocate().await?;
    assert_eq!(scene.target.inventory().await?, before);
    let left = [
        "Secret capv-system/shared-login",
        "VSphereClusterIdentity shared",
    ];
    assert_eq!(scene.source.inventory().await?, left);
    // A controller at the target writes the status anew.
    let done = json!({"status": {
        "initialization": {"infrastructureProvisioned": true, "controlPlaneInitialized": true},
        "nodeRef": {"name": "n"},
    }});
    for (kind, name) in [("Cluster", "c"), ("Machine", "c-m")] {
        let api = scene.target.api(CAPI, kind, "a");
        let patch = kube::api::Patch::Merge(&done);
        api.patch_status(name, &kube::api::PatchParams::default(), &patch)
            .await?;
    }
    let back = Scene {
        source: scene.target,
        target: scene.source,
    };
    back.relocate().await?;
    assert_eq!(back.target.inventory().await?, before);
    assert_eq!(back.source.inventory().await?, left);
    Ok(())
}

#[tokio::test]
async fn space_cannot_be_moved_into_itself() -> anyhow::Result<()> {
    let side = Side::new().await?;
    let scene = Scene {
        source: side.tenant("t1").await?,
        target: side.tenant("t1").await?,
    };
    let refused = scene.relocate().await.err().expect("a refusal");
    assert!(matches!(refused, Error::SameServer), "{refused}");
    Ok(())
}

//! Identities that moved clusters reference, and their Secrets.

use insula_capi::relocation::{Movable, MoveRules};
use insula_relocate::Settings;
use insula_relocate::settings::Identities;
use kube::ResourceExt;
use serde_json::json;

use crate::moves::pieces;
use crate::scene::{CAPI, INFRA, Login, Scene, cluster, identity, owner, secret, settings};

#[tokio::test]
async fn fr4_m1_m2_m3_identity_and_secret_are_copied_and_stay_at_the_source() -> anyhow::Result<()>
{
    let scene = Scene::new().await?;
    scene.source.namespace("a", json!({})).await?;
    let first = identity(&scene.source, "shared", "x").await?;
    identity(&scene.source, "other", "x").await?;
    cluster(&scene.source, "a", "c", Login::Identity("shared")).await?;
    let (moved, _) = scene.relocate().await?;

    let pass = [
        "VSphereClusterIdentity shared",
        "Secret capv-system/shared-login",
    ];
    assert_eq!(moved.copied, pass);
    let left = [
        "Secret capv-system/other-login",
        "Secret capv-system/shared-login",
        "VSphereClusterIdentity other",
        "VSphereClusterIdentity shared",
    ];
    assert_eq!(scene.source.inventory().await?, left);
    let there = scene.target.inventory().await?;
    assert!(
        !there.iter().any(|name| name.contains("other")),
        "{there:?}"
    );

    let copied = scene
        .target
        .get(INFRA, "VSphereClusterIdentity", ("", "shared"))
        .await?;
    let copied = copied.expect("an identity");
    assert_eq!(copied.data["spec"], first.data["spec"]);
    assert_ne!(copied.uid(), first.uid());
    let login = scene
        .target
        .get("v1", "Secret", ("capv-system", "shared-login"))
        .await?;
    let login = login.expect("a Secret");
    assert_eq!(
        login.owner_references()[0].uid,
        copied.uid().expect("a UID")
    );
    // The identity at the source is unchanged.
    let kept = scene
        .source
        .get(INFRA, "VSphereClusterIdentity", ("", "shared"))
        .await?;
    let kept = kept.expect("an identity");
    assert_eq!(kept.metadata.finalizers, first.metadata.finalizers);
    assert_eq!(kept.metadata.deletion_timestamp, None);
    assert_eq!(kept.resource_version(), first.resource_version());
    Ok(())
}

#[tokio::test]
async fn fr4_identity_at_the_target_is_used_unchanged() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    scene.source.namespace("a", json!({})).await?;
    identity(&scene.source, "shared", "x").await?;
    cluster(&scene.source, "a", "c", Login::Identity("shared")).await?;
    // The target has the same identity, without its Secret.
    let there = identity(&scene.target, "shared", "x").await?;
    let secrets = scene.target.api("v1", "Secret", "capv-system");
    let patch = kube::api::Patch::Merge(json!({"metadata": {"finalizers": null}}));
    secrets
        .patch("shared-login", &kube::api::PatchParams::default(), &patch)
        .await?;
    secrets
        .delete("shared-login", &kube::api::DeleteParams::default())
        .await?;
    let (_, lines) = scene.relocate().await?;

    assert_eq!(lines.warnings(), Vec::<String>::new());
    let after = scene
        .target
        .get(INFRA, "VSphereClusterIdentity", ("", "shared"))
        .await?;
    assert_eq!(after.expect("an identity").uid(), there.uid());
    let login = secrets.get("shared-login").await?;
    assert_eq!(login.owner_references()[0].uid, there.uid().expect("a UID"));
    Ok(())
}

#[tokio::test]
async fn fr4_differing_identity_at_the_target_is_reported_and_gets_no_secret() -> anyhow::Result<()>
{
    let scene = Scene::new().await?;
    scene.source.namespace("a", json!({})).await?;
    identity(&scene.source, "shared", "x").await?;
    cluster(&scene.source, "a", "c", Login::Identity("shared")).await?;
    scene
        .target
        .put(json!({
            "apiVersion": INFRA, "kind": "VSphereClusterIdentity",
            "metadata": {"name": "shared"}, "spec": {"secretName": "mine"},
        }))
        .await?;
    let (moved, lines) = scene.relocate().await?;
    let expected =
        "VSphereClusterIdentity shared differs at the target, and is left as it is there";
    assert_eq!(lines.warnings(), [expected]);
    assert_eq!(moved.copied, ["VSphereClusterIdentity shared"]);
    let there = scene
        .target
        .get(INFRA, "VSphereClusterIdentity", ("", "shared"))
        .await?;
    assert_eq!(
        there.expect("an identity").data["spec"],
        json!({"secretName": "mine"})
    );
    let secrets = scene.target.api("v1", "Secret", "capv-system");
    assert!(secrets.get_opt("shared-login").await?.is_none());
    Ok(())
}

#[tokio::test]
async fn fr4_secret_at_the_target_is_never_overwritten() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    scene.source.namespace("a", json!({})).await?;
    identity(&scene.source, "shared", "x").await?;
    cluster(&scene.source, "a", "c", Login::Identity("shared")).await?;
    scene.target.namespace("capv-system", json!({})).await?;
    let mut mine = secret("capv-system", "shared-login", &[]);
    mine["data"] = json!({"username": "bWluZQ=="});
    scene.target.put(mine).await?;
    let (_, lines) = scene.relocate().await?;
    let expected =
        "Secret capv-system/shared-login differs at the target, and is left as it is there";
    assert_eq!(lines.warnings(), [expected]);
    let there = scene
        .target
        .get("v1", "Secret", ("capv-system", "shared-login"))
        .await?;
    assert_eq!(
        there.expect("a Secret").data["data"],
        json!({"username": "bWluZQ=="})
    );
    Ok(())
}

#[tokio::test]
async fn o13_identities_are_neither_read_nor_copied_when_left_out() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    scene.source.namespace("a", json!({})).await?;
    identity(&scene.source, "shared", "x").await?;
    cluster(&scene.source, "a", "c", Login::Identity("shared")).await?;
    let settings = Settings {
        identities: Identities::Leave,
        ..settings()
    };
    let (moved, lines) = scene.relocate_with(&settings).await?;
    assert_eq!(moved.copied, Vec::<String>::new());
    let expected =
        "VSphereCluster a/c needs VSphereClusterIdentity shared at the target, which is not copied";
    assert_eq!(lines.warnings(), [expected]);
    let there = scene.target.inventory().await?;
    assert!(
        !there.iter().any(|name| name.contains("shared")),
        "{there:?}"
    );
    Ok(())
}

#[tokio::test]
async fn missing_identity_is_reported() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    scene.source.namespace("a", json!({})).await?;
    cluster(&scene.source, "a", "c", Login::Identity("gone")).await?;
    let (_, lines) = scene.relocate().await?;
    assert_eq!(
        lines.warnings(),
        ["there is no VSphereClusterIdentity gone at the source"]
    );
    Ok(())
}

#[tokio::test]
async fn secret_named_like_a_differing_identitys_secret_is_moved() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    scene.source.namespace("a", json!({})).await?;
    identity(&scene.source, "shared", "x").await?;
    // Clusters, and a Secret of one of them with the name of the identity's Secret.
    let login = Login::Identity("shared");
    cluster(&scene.source, "a", "shared-login", login).await?;
    let infra = scene
        .source
        .get(INFRA, "VSphereCluster", ("a", "shared-login"))
        .await?;
    let owner = owner(&infra.expect("an infrastructure"), INFRA, "VSphereCluster");
    let own = secret("a", "shared-login", &[owner]);
    scene.source.put(own).await?;
    scene
        .target
        .put(json!({
            "apiVersion": INFRA, "kind": "VSphereClusterIdentity",
            "metadata": {"name": "shared"}, "spec": {"secretName": "mine"},
        }))
        .await?;
    let mut expected = pieces("a", "shared-login");
    expected.retain(|name| name != "Secret a/shared-login-login");
    expected.push("Secret a/shared-login".to_owned());
    expected.push("VSphereClusterIdentity shared".to_owned());
    expected.sort();
    scene.relocate().await?;
    assert_eq!(scene.target.inventory().await?, expected);
    let kept = [
        "Secret capv-system/shared-login",
        "VSphereClusterIdentity shared",
    ];
    assert_eq!(scene.source.inventory().await?, kept);
    Ok(())
}

#[tokio::test]
async fn identity_terminating_at_the_target_fails_the_move() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    scene.source.namespace("a", json!({})).await?;
    identity(&scene.source, "shared", "x").await?;
    cluster(&scene.source, "a", "c", Login::Identity("shared")).await?;
    identity(&scene.target, "shared", "x").await?;
    scene
        .target
        .api(INFRA, "VSphereClusterIdentity", "")
        .delete("shared", &kube::api::DeleteParams::default())
        .await?;
    let refused = scene.relocate().await.err().expect("a refusal");
    let text = "being deleted at the target:\n  VSphereClusterIdentity shared";
    assert_eq!(refused.to_string(), text);
    let here = scene.source.get(CAPI, "Cluster", ("a", "c")).await?;
    assert_eq!(here.expect("a cluster").data["spec"]["paused"], json!(null));
    Ok(())
}

/// A provider of clusters that use a Secret of their namespace without owning it.
#[derive(Debug)]
struct SharedAccounts;

impl MoveRules for SharedAccounts {
    fn obstacle(&self, _: Movable<'_>) -> Option<&'static str> {
        None
    }

    fn secrets(&self, object: Movable<'_>) -> Vec<String> {
        let uses = object.kind == "VSphereCluster";
        uses.then(|| "shared-account".to_owned())
            .into_iter()
            .collect()
    }
}

#[tokio::test]
async fn secrets_used_but_not_owned_are_copied_and_stay_at_the_source() -> anyhow::Result<()> {
    let account = "Secret a/shared-account".to_owned();
    for (identities, is_copied) in [(Identities::Carry, true), (Identities::Leave, false)] {
        let scene = Scene::with_cluster().await?;
        for name in ["shared-account", "unrelated"] {
            scene.source.put(secret("a", name, &[])).await?;
        }
        let settings = Settings {
            providers: &[&SharedAccounts],
            identities,
            ..settings()
        };
        let (moved, _) = scene.relocate_with(&settings).await?;
        assert_eq!(moved.copied.contains(&account), is_copied, "{identities:?}");
        let there = scene.target.inventory().await?;
        assert_eq!(there.contains(&account), is_copied, "{identities:?}");
        let left = ["Secret a/shared-account", "Secret a/unrelated"];
        assert_eq!(scene.source.inventory().await?, left);
    }
    Ok(())
}

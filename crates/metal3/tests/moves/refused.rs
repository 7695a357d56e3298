//! Moves that would lose hosts are refused, and leave everything as it was.

use std::time::Duration;

use insula_capi::Cluster;
use insula_metal3::ipam::kinds::IPPool;
use insula_metal3::kinds::cluster::Metal3Cluster;
use insula_metal3::kinds::host::BareMetalHost;
use insula_metal3::kinds::machine::Metal3Machine;
use insula_relocate::{Identities, Settings, preview};
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::scene::{
    BLOCK_MOVE, Lines, PAUSED, Scene, inventory, move_settings, ready, relocate_between,
};
use crate::world::{Entry, kubeconfig};

/// Asserts that a move is refused with this text.
async fn assert_refused(scene: &Scene, settings: &Settings, expected: &str) -> anyhow::Result<()> {
    let clients = (&scene.source.client, &scene.target.client);
    let error = relocate_between(clients, settings).await.err().unwrap();
    assert_eq!(error.to_string(), expected);
    Ok(())
}

async fn annotate_machine(scene: &Scene, host: &str) -> anyhow::Result<()> {
    let patch = json!({"metadata": {"annotations": {"metal3.io/BareMetalHost": host}}});
    let source = &scene.source;
    source.patch::<Metal3Machine>("team-a", "m0", patch).await?;
    Ok(())
}

#[tokio::test]
async fn r36_machine_with_a_host_of_another_namespace_and_no_identity_is_not_moved()
-> anyhow::Result<()> {
    let scene = Scene::start().await?;
    let source = &scene.source;
    let _bare_metal = source.serve_hosts().await?;
    source.hosts("team-a", &["h0"]).await?;
    scene
        .cluster(json!({}), &["m0"], (source, "team-a"))
        .await?;
    annotate_machine(&scene, "pool/h0").await?;
    let before = inventory(source, "team-a").await?;
    let expected = "not everything can be moved:\n  Metal3Machine team-a/m0 has a host in another \
                    namespace, which is not moved, and no spec.identityRef: create a Secret with a \
                    kubeconfig for the hosts that works from the target, and name it there";
    assert_refused(&scene, &move_settings("team-a"), expected).await?;
    assert_eq!(inventory(source, "team-a").await?, before);
    let cluster: Cluster = source.api("team-a").get("c").await?;
    assert_eq!(cluster.spec.paused, None);
    Ok(())
}

#[tokio::test]
async fn r34_kubeconfig_that_leads_elsewhere_at_the_target_is_refused() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    let (source, target) = (&scene.source, &scene.target);
    let mut identity = kubeconfig(&source.server, &[Entry::new("hosts", "t", "pool")]);
    let url = "https://kubernetes.default.svc";
    identity["clusters"][0]["cluster"]["server"] = url.into();
    source.identity("team-a", "hosts", &identity).await?;
    let spec = json!({"identityRef": {"name": "hosts"}});
    source.cluster("team-a", "c", spec).await?;
    let is_owned = |cluster: &Metal3Cluster| !cluster.owner_references().is_empty();
    source.wait_until("team-a", "c", is_owned).await?;
    let status = json!({"status": {"initialization": {
        "infrastructureProvisioned": true, "controlPlaneInitialized": true,
    }}});
    let clusters = source.api::<Cluster>("team-a");
    let patch = Patch::Merge(status);
    clusters
        .patch_status("c", &PatchParams::default(), &patch)
        .await?;
    let expected = "not everything can be moved:\n  Secret team-a/hosts names the server \
                    kubernetes.default.svc, which is another one at the target: write an address \
                    into it that works from there, or create a Secret of this name there first";
    let settings = move_settings("team-a");
    assert_refused(&scene, &settings, expected).await?;
    // Without identities, it is only reported.
    let without = Settings {
        identities: Identities::Leave,
        ..settings
    };
    let lines = Lines::default();
    preview(&source.client, &target.client, &without, &lines).await?;
    let needed = "Metal3Cluster team-a/c needs Secret hosts at the target, which is not copied";
    assert_eq!(lines.warnings(), [needed]);
    // The administrator of the target has provided one.
    target.identity("team-a", "hosts", &json!({})).await?;
    let (moved, lines) = scene.relocate().await?;
    assert_eq!(moved.copied, ["Secret team-a/hosts"]);
    let differs = "Secret team-a/hosts differs at the target, and is left as it is there";
    assert_eq!(lines.warnings(), [differs]);
    Ok(())
}

#[tokio::test]
async fn r35_move_ends_with_a_hint_if_a_host_blocks_it_for_too_long() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    let source = &scene.source;
    let _bare_metal = source.serve_hosts().await?;
    let _of_target = scene.target.serve_hosts().await?;
    source.hosts("team-a", &["h0", "h1"]).await?;
    scene
        .cluster(json!({}), &["m0"], (source, "team-a"))
        .await?;
    let consumers = source.consumers("team-a").await?;
    let mut free = consumers.iter().filter(|(_, user)| user.is_empty());
    let free = free.next().unwrap().0;
    let block = |value: Value| json!({"metadata": {"annotations": {BLOCK_MOVE: value}}});
    source
        .patch::<BareMetalHost>("team-a", free, block(json!("")))
        .await?;
    let settings = Settings {
        timeout: Duration::from_secs(2),
        ..move_settings("team-a")
    };
    let clients = (&source.client, &scene.target.client);
    let error = relocate_between(clients, &settings).await.err().unwrap();
    let expected = format!("move still blocked after 2 s:\n  BareMetalHost team-a/{free}");
    assert_eq!(error.to_string(), expected);
    let hint = error.hint().unwrap();
    assert!(hint.contains(BLOCK_MOVE), "{hint}");
    // Everything continues at the source.
    let cluster: Cluster = source.api("team-a").get("c").await?;
    assert_eq!(cluster.spec.paused, None);
    let unpaused = |host: &BareMetalHost| !host.annotations().contains_key(PAUSED);
    for host in ["h0", "h1"] {
        source.wait_until("team-a", host, unpaused).await?;
    }
    let pool: IPPool = source.api("team-a").get("net").await?;
    assert_eq!(pool.annotations().get("cluster.x-k8s.io/paused"), None);
    source
        .patch::<BareMetalHost>("team-a", free, block(Value::Null))
        .await?;
    scene.relocate().await?;
    ready(&scene.target, "team-a", "m0").await.map(drop)
}

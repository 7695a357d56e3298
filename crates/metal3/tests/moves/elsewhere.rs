//! Hosts that a kubeconfig reaches stay where they are.

use std::collections::BTreeMap;

use insula_capi::Machine;
use insula_metal3::kinds::host::BareMetalHost;
use insula_metal3::kinds::machine::Metal3Machine;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::json;

use crate::beside::provisionings;
use crate::scene::{Identity, Scene, inventory, ready};
use crate::world::{Entry, HostSide, Space, account, eventually, grant, kubeconfig};

/// Returns the versions of all hosts and Secrets of a namespace.
pub async fn versions(hosts: &Space, pool: &str) -> anyhow::Result<BTreeMap<String, String>> {
    let mut versions = BTreeMap::new();
    let parameters = ListParams::default();
    for host in hosts.api::<BareMetalHost>(pool).list(&parameters).await? {
        let version = host.resource_version().unwrap_or_default();
        versions.insert(format!("host {}", host.name_any()), version);
    }
    for secret in hosts.api::<Secret>(pool).list(&parameters).await? {
        let version = secret.resource_version().unwrap_or_default();
        versions.insert(format!("secret {}", secret.name_any()), version);
    }
    Ok(versions)
}

#[tokio::test]
async fn r34_x08_hosts_of_another_server_stay_and_are_not_written() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    let (source, target) = (&scene.source, &scene.target);
    let hosts = HostSide::start().await?;
    hosts.hosts("pool-a", &["h0", "h1"]).await?;
    let identity = hosts.kubeconfig("user-a", "pool-a")?;
    source.identity("team-a", "hosts", &identity).await?;
    let spec = json!({"identityRef": {"name": "hosts"}});
    scene.cluster(spec, &["m0"], (&hosts, "pool-a")).await?;
    ready(source, "team-a", "m0").await?;
    let before = Identity::of(source, "team-a").await?;
    let (host, had) = (&before.hosts["m0"], inventory(source, "team-a").await?);
    let untouched = versions(&hosts, "pool-a").await?;

    let (moved, lines) = scene.relocate().await?;
    // The kubeconfig is copied, because others may use it at the source.
    assert_eq!(moved.copied, ["Secret team-a/hosts"]);
    let doubt = "Secret team-a/hosts names the server 127.0.0.1, which is the machine of the \
                 operator itself";
    assert_eq!(lines.warnings(), [doubt]);
    assert_eq!(inventory(source, "team-a").await?, ["Secret hosts"]);
    assert_eq!(inventory(target, "team-a").await?, had);
    ready(target, "team-a", "m0").await?;
    assert_eq!(Identity::of(target, "team-a").await?, before);
    assert_eq!(versions(&hosts, "pool-a").await?, untouched);

    // The target can do with the host whatever the source could.
    target.machine("team-a", "c", "m1", "nodes").await?;
    let is_placed = |machine: &Metal3Machine| crate::scene::host_of(machine).is_some();
    target.wait_until("team-a", "m1", is_placed).await?;
    target.delete::<Machine>("team-a", "m0").await?;
    target
        .wait_until_gone::<Metal3Machine>("team-a", "m0")
        .await?;
    hosts.wait_for_host("pool-a", host, "available").await?;
    let key = format!("pool-a/{host}");
    assert_eq!(provisionings(&hosts.bare_metal, &key), 1);
    let left = hosts.api::<Secret>("pool-a");
    eventually(async || {
        let left = left.list(&ListParams::default()).await?;
        let names: Vec<_> = left.items.iter().map(ResourceExt::name_any).collect();
        Ok((!names.iter().any(|name| name.starts_with("m0-"))).then_some(()))
    })
    .await
}

#[tokio::test]
async fn r36_x08_hosts_of_another_namespace_stay_and_are_reached_from_the_target()
-> anyhow::Result<()> {
    let scene = Scene::start().await?;
    let (source, target) = (&scene.source, &scene.target);
    let bare_metal = source.serve_hosts().await?;
    source.namespace("pool").await?;
    source.hosts("pool", &["h0"]).await?;
    let token = account(&source.plain, "pool", "team-a").await?;
    let subject = "ServiceAccount:pool/team-a";
    grant(&source.plain, "pool", "team-a", subject).await?;
    let identity = kubeconfig(&source.server, &[Entry::new("hosts", &token, "pool")]);
    source.identity("team-a", "hosts", &identity).await?;
    let spec = json!({"identityRef": {"name": "hosts"}});
    scene.cluster(spec, &["m0"], (source, "pool")).await?;
    ready(source, "team-a", "m0").await?;
    let before = Identity::of(source, "team-a").await?;
    let untouched = versions(source, "pool").await?;

    scene.relocate().await?;
    ready(target, "team-a", "m0").await?;
    assert_eq!(Identity::of(target, "team-a").await?, before);
    assert_eq!(versions(source, "pool").await?, untouched);
    assert_eq!(provisionings(&bare_metal, "pool/h0"), 1);
    Ok(())
}

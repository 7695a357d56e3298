//! Data of machines whose hosts a kubeconfig reaches.

use insula_metal3::hosts::proof::ProofDigest;
use insula_metal3::kinds::data::Metal3Data;
use insula_metal3::kinds::data_claim::Metal3DataClaim;
use insula_metal3::kinds::host::BareMetalHost;
use insula_metal3::kinds::machine::Metal3Machine;
use insula_metal3::names::{CLAIM_DIGEST, IDENTITY_ANNOTATION, OWNER_ANNOTATION};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use serde_json::json;

use crate::scene::{
    Machine, content, data_template, garbage_collected, mac, metadata, network_data, pool, secrets,
    serve_hosts, spec,
};
use crate::world::{Entry, Running, World, kubeconfig};

const MACHINE: Machine<'static> = Machine {
    namespace: "team-a",
    cluster: "prod",
    name: "m0",
    template: "nodes",
    host: ("pool-a", "h0"),
    identity: Some("hosts"),
};

/// Returns servers with a cluster, a template and a pool of `team-a`, and a host.
async fn world() -> anyhow::Result<(World, Running)> {
    let world = World::new().await?;
    let running = world.start();
    let management = &world.management;
    world
        .identity("team-a", "hosts", ("user-a", "pool-a"))
        .await?;
    world.hosts.host("pool-a", "h0", json!({})).await?;
    let identity = json!({"identityRef": {"name": "hosts"}});
    management.cluster("team-a", "prod", identity).await?;
    data_template(management, "team-a", "nodes", spec()).await?;
    pool(management, "team-a", "net", 9, json!({})).await?;
    Ok((world, running))
}

#[tokio::test(flavor = "multi_thread")]
async fn r17_r18_r20_x07_secrets_are_written_next_to_the_host_only() -> anyhow::Result<()> {
    let (world, _running) = world().await?;
    let (management, hosts) = (&world.management, &world.hosts);
    // The machine inherits the identity of its cluster.
    let machine = Machine {
        identity: None,
        ..MACHINE
    };
    machine.create(management, hosts).await?;
    let data = machine.ready(management).await?;
    assert_eq!(
        json!([data.spec.meta_data, data.spec.network_data]),
        json!([
            {"name": "m0-metadata", "namespace": "pool-a"},
            {"name": "m0-networkdata", "namespace": "pool-a"},
        ])
    );
    assert_eq!(
        data.annotations()[IDENTITY_ANNOTATION],
        r#"{"name":"hosts"}"#
    );
    let mac = mac(hosts, "pool-a", "h0").await?;
    let expected = [
        (
            "m0-metadata",
            "metaData",
            metadata(&machine, 0, "10.0.0.1", &mac),
        ),
        (
            "m0-networkdata",
            "networkData",
            network_data("10.0.0.1", &mac),
        ),
    ];
    garbage_collected(hosts, "pool-a").await?;
    let owner: Metal3Machine = management.api("team-a").get("m0").await?;
    let digest = ProofDigest::of(&owner.uid().unwrap());
    for (name, key, text) in &expected {
        let secret: Secret = hosts.api("pool-a").get(name).await?;
        assert_eq!(content(&secret), ((*key).to_owned(), text.clone()));
        assert_eq!(
            secret.type_.as_deref(),
            Some("infrastructure.cluster.x-k8s.io/secret")
        );
        assert!(secret.owner_references().is_empty());
        assert!(secret.finalizers().is_empty());
        assert_eq!(
            json!([secret.labels(), secret.annotations()]),
            json!([
                {"cluster.x-k8s.io/cluster-name": "prod"},
                {OWNER_ANNOTATION: "Metal3Machine/team-a/m0", CLAIM_DIGEST: digest.as_str()},
            ])
        );
    }
    assert_eq!(secrets(management, "team-a").await?, [""; 0]);
    let user = hosts.user_name("user-a");
    assert_eq!(hosts.users_of("secrets")?, [user.clone()].into());
    assert_eq!(hosts.users_of("baremetalhosts")?, [user].into());

    // A change of the cluster's identity does not lead away from the Secrets.
    let other = json!({"spec": {"identityRef": {"name": "other"}}});
    management
        .patch::<insula_metal3::kinds::cluster::Metal3Cluster>("team-a", "prod", other)
        .await?;
    machine.release(management).await?;
    management
        .wait_until_gone::<Metal3Data>("team-a", "nodes-0")
        .await?;
    assert_eq!(secrets(hosts, "pool-a").await?, [""; 0]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn machines_of_one_name_do_not_share_secrets() -> anyhow::Result<()> {
    let (world, _running) = world().await?;
    let (management, hosts) = (&world.management, &world.hosts);
    hosts.hosts("shared", &["s0", "s1"]).await?;
    let machine = |namespace, host| Machine {
        namespace,
        host: ("shared", host),
        identity: Some("shared"),
        ..MACHINE
    };
    let (first, second) = (machine("team-a", "s0"), machine("team-b", "s1"));
    world
        .identity("team-a", "shared", ("user-s1", "shared"))
        .await?;
    world
        .identity("team-b", "shared", ("user-s2", "shared"))
        .await?;
    management.cluster("team-b", "prod", json!({})).await?;
    data_template(management, "team-b", "nodes", spec()).await?;
    pool(management, "team-b", "net", 9, json!({})).await?;
    first.create(management, hosts).await?;
    first.ready(management).await?;
    let before: Secret = hosts.api("shared").get("m0-metadata").await?;
    second.create(management, hosts).await?;
    let message = "Secret \"m0-metadata\" exists next to the host and does not belong to this \
                   machine: delete it there, or give the machine another name";
    second.problem(management, message).await?;
    management
        .event("team-b", "nodes-0", "SecretConflict")
        .await?;
    let data: Metal3Data = management.api("team-b").get("nodes-0").await?;
    assert_eq!(data.status.unwrap().ready, Some(false));

    // Neither is the Secret of the other team deleted.
    second.release(management).await?;
    management
        .wait_until_gone::<Metal3Data>("team-b", "nodes-0")
        .await?;
    let after: Secret = hosts.api("shared").get("m0-metadata").await?;
    assert_eq!(after.resource_version(), before.resource_version());
    second.claim(management).await?;
    second.problem(management, message).await?;
    first.release(management).await?;
    second.ready(management).await?;
    let mac = mac(hosts, "shared", "s1").await?;
    let secret: Secret = hosts.api("shared").get("m0-metadata").await?;
    assert_eq!(content(&secret).1, metadata(&second, 0, "10.0.0.1", &mac));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn x06_data_is_kept_while_its_secrets_cannot_be_reached() -> anyhow::Result<()> {
    let (world, _running) = world().await?;
    let (management, hosts) = (&world.management, &world.hosts);
    MACHINE.create(management, hosts).await?;
    MACHINE.ready(management).await?;
    management.delete::<Secret>("team-a", "hosts").await?;
    MACHINE.release(management).await?;
    management
        .wait_until_gone::<Metal3DataClaim>("team-a", "m0")
        .await?;
    let message = "the Secret hosts does not exist in namespace team-a: create it there, with a \
                   kubeconfig under the key kubeconfig; Secrets of other namespaces are never used";
    let is_kept = |data: &Metal3Data| {
        let status = data.status.as_ref();
        status.and_then(|status| status.error_message.as_deref()) == Some(message)
    };
    let data = management.wait_until("team-a", "nodes-0", is_kept).await?;
    assert_eq!(
        data.finalizers(),
        ["metal3data.infrastructure.cluster.x-k8s.io"]
    );
    assert_eq!(
        secrets(hosts, "pool-a").await?,
        ["m0-metadata", "m0-networkdata"]
    );
    // The machine no longer exists either.
    management.delete::<Metal3Machine>("team-a", "m0").await?;
    world
        .identity("team-a", "hosts", ("user-a", "pool-a"))
        .await?;
    management
        .wait_until_gone::<Metal3Data>("team-a", "nodes-0")
        .await?;
    assert_eq!(secrets(hosts, "pool-a").await?, [""; 0]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_stay_while_the_host_refers_to_them() -> anyhow::Result<()> {
    let (world, _running) = world().await?;
    let (management, hosts) = (&world.management, &world.hosts);
    MACHINE.create(management, hosts).await?;
    MACHINE.ready(management).await?;
    let refer = json!({"spec": {"metaData": {"name": "m0-metadata"}}});
    hosts.patch::<BareMetalHost>("pool-a", "h0", refer).await?;
    MACHINE.release(management).await?;
    management
        .wait_until_gone::<Metal3DataClaim>("team-a", "m0")
        .await?;
    garbage_collected(hosts, "pool-a").await?;
    assert_eq!(
        secrets(hosts, "pool-a").await?,
        ["m0-metadata", "m0-networkdata"]
    );
    let clear = json!({"spec": {"metaData": null, "consumerRef": null}});
    hosts.patch::<BareMetalHost>("pool-a", "h0", clear).await?;
    management
        .wait_until_gone::<Metal3Data>("team-a", "nodes-0")
        .await?;
    assert_eq!(secrets(hosts, "pool-a").await?, [""; 0]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn x04_kubeconfig_may_lead_to_the_same_server_and_namespace() -> anyhow::Result<()> {
    let (world, _running) = world().await?;
    let management = &world.management;
    let _bare_metal = serve_hosts(management).await?;
    for (namespace, name) in [("team-b", "there"), ("team-a", "here")] {
        let entry = Entry::new("hosts", "system", namespace);
        let text = kubeconfig(&management.server, &[entry]);
        management.identity("team-a", name, &text).await?;
        management.host(namespace, name, json!({})).await?;
        let machine = Machine {
            name,
            host: (namespace, name),
            identity: Some(name),
            ..MACHINE
        };
        machine.create(management, management).await?;
        let data = machine.ready(management).await?;
        let secret = format!("{name}-metadata");
        garbage_collected(management, namespace).await?;
        let found: Secret = management.api(namespace).get(&secret).await?;
        assert!(found.owner_references().is_empty());
        let owner = format!("Metal3Machine/team-a/{name}");
        assert_eq!(found.annotations()[OWNER_ANNOTATION], owner);
        machine.release(management).await?;
        management
            .wait_until_gone::<Metal3Data>("team-a", &data.name_any())
            .await?;
        let secrets = management.api::<Secret>(namespace);
        assert!(secrets.get_opt(&secret).await?.is_none());
    }
    Ok(())
}

//! Addresses from pools of other providers, with the claims of Cluster API.

use insula_metal3::ipam::contract::IPAddressClaim;
use insula_metal3::kinds::data::Metal3Data;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::scene::{CAPI_IPAM, Machine, address_kinds, content, data_template};
use crate::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn address_of_another_provider_is_rendered() -> anyhow::Result<()> {
    let world = World::new().await?;
    let (management, hosts) = (&world.management, &world.hosts);
    management.plain.install(&address_kinds()).await?;
    let _running = world.start();
    world
        .identity("team-a", "hosts", ("user-a", "pool-a"))
        .await?;
    hosts.host("pool-a", "h0", json!({})).await?;
    management.cluster("team-a", "prod", json!({})).await?;
    let pool = json!({"name": "net", "apiGroup": "ipam.example.com", "kind": "GlobalPool"});
    let item = |key: &str| {
        let mut item = pool.clone();
        item["key"] = json!(key);
        json!([item])
    };
    let metadata = json!({
        "ipAddressesFromPool": item("ip"), "prefixesFromPool": item("prefix"),
        "gatewaysFromPool": item("gateway"),
    });
    data_template(management, "team-a", "nodes", json!({"metaData": metadata})).await?;
    let machine = Machine {
        namespace: "team-a",
        cluster: "prod",
        name: "m0",
        template: "nodes",
        host: ("pool-a", "h0"),
        identity: Some("hosts"),
    };
    machine.create(management, hosts).await?;
    let claim: IPAddressClaim = management
        .wait_until("team-a", "nodes-0-net", |_| true)
        .await?;
    assert_eq!(json!(claim.spec), json!({"poolRef": pool}));
    assert_eq!(
        claim.finalizers(),
        ["metal3data.infrastructure.cluster.x-k8s.io"]
    );
    assert_eq!(claim.owner_references()[0].kind, "Metal3Data");
    management
        .put(&json!({
            "apiVersion": CAPI_IPAM, "kind": "IPAddress",
            "metadata": {"name": "given", "namespace": "team-a"},
            "spec": {
                "address": "192.0.2.7", "prefix": 28, "gateway": "192.0.2.1", "poolRef": pool,
                "claimRef": {"name": "nodes-0-net"},
            },
        }))
        .await?;
    let status = Patch::Merge(json!({"status": {"addressRef": {"name": "given"}}}));
    let claims = management.api::<IPAddressClaim>("team-a");
    claims
        .patch_status("nodes-0-net", &PatchParams::default(), &status)
        .await?;
    machine.ready(management).await?;
    let secret: Secret = hosts.api("pool-a").get("m0-metadata").await?;
    let expected = "gateway: 192.0.2.1\nip: 192.0.2.7\nprefix: \"28\"\n\
                    providerid: team-a/h0/m0\n";
    assert_eq!(content(&secret).1, expected);
    machine.release(management).await?;
    management
        .wait_until_gone::<Metal3Data>("team-a", "nodes-0")
        .await?;
    management
        .wait_until_gone::<IPAddressClaim>("team-a", "nodes-0-net")
        .await
}

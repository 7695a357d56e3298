//! Data of machines whose hosts are next to them.

use insula_metal3::ipam::kinds::{IPAddress, IPClaim, IPPool};
use insula_metal3::kinds::data::Metal3Data;
use insula_metal3::kinds::data_claim::Metal3DataClaim;
use insula_metal3::kinds::data_template::Metal3DataTemplate;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::scene::{
    Machine, content, data_template, garbage_collected, mac, metadata, network_data, pool, secrets,
    serve_hosts, spec,
};
use crate::world::{Management, Running, log_to_test, settings};

const MACHINE: Machine<'static> = Machine {
    namespace: "team-a",
    cluster: "prod",
    name: "m0",
    template: "nodes",
    host: ("team-a", "h0"),
    identity: None,
};

fn owners(owners: &[(&str, &str, &str, Option<String>, bool)]) -> Value {
    let owners = owners
        .iter()
        .map(|(version, kind, name, uid, is_controller)| {
            let mut owner = json!({"apiVersion": version, "kind": kind, "name": name, "uid": uid});
            if *is_controller {
                owner["controller"] = json!(true);
            }
            owner
        });
    owners.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn s04_data_is_rendered_next_to_the_machine_and_deleted_after_the_claim() -> anyhow::Result<()>
{
    log_to_test();
    let management = Management::start().await?;
    let _bare_metal = serve_hosts(&management).await?;
    let _running = Running::new(management.operator.clone(), settings());
    management.host("team-a", "h0", json!({})).await?;
    management.cluster("team-a", "prod", json!({})).await?;
    data_template(&management, "team-a", "nodes", spec()).await?;
    pool(&management, "team-a", "net", 9, json!({})).await?;
    MACHINE.create(&management, &management).await?;
    let data = MACHINE.ready(&management).await?;

    let ours = "infrastructure.cluster.x-k8s.io/v1beta2";
    let claim: Metal3DataClaim = management.api("team-a").get("m0").await?;
    let machine = claim.owner_references()[0].uid.clone();
    assert_eq!(data.name_any(), "nodes-0");
    assert_eq!(
        json!(data.owner_references()),
        owners(&[
            (ours, "Metal3DataClaim", "m0", claim.uid(), true),
            (ours, "Metal3Machine", "m0", Some(machine), false),
        ])
    );
    assert_eq!(
        data.finalizers(),
        [
            "metal3dataclaim.infrastructure.cluster.x-k8s.io",
            "metal3data.infrastructure.cluster.x-k8s.io"
        ]
    );
    assert!(data.annotations().is_empty());
    assert_eq!(
        json!(data.spec),
        json!({
            "index": 0,
            "template": {"name": "nodes", "namespace": "team-a"},
            "claim": {"name": "m0", "namespace": "team-a"},
            "metaData": {"name": "m0-metadata", "namespace": "team-a"},
            "networkData": {"name": "m0-networkdata", "namespace": "team-a"},
        })
    );
    assert_eq!(json!(data.status), json!({"ready": true}));
    assert_eq!(
        claim.finalizers(),
        [
            "metal3machine.infrastructure.cluster.x-k8s.io",
            "metal3dataclaim.infrastructure.cluster.x-k8s.io"
        ]
    );
    let rendered = json!({"renderedData": {"name": "nodes-0", "namespace": "team-a"}});
    assert_eq!(json!(claim.status), rendered);

    let mac = mac(&management, "team-a", "h0").await?;
    let expected = [
        (
            "m0-metadata",
            "metaData",
            metadata(&MACHINE, 0, "10.0.0.1", &mac),
        ),
        (
            "m0-networkdata",
            "networkData",
            network_data("10.0.0.1", &mac),
        ),
    ];
    for (name, key, text) in expected {
        let secret: Secret = management.api("team-a").get(name).await?;
        assert_eq!(content(&secret), (key.to_owned(), text));
        assert_eq!(
            secret.type_.as_deref(),
            Some("infrastructure.cluster.x-k8s.io/secret")
        );
        assert_eq!(secret.labels()["cluster.x-k8s.io/cluster-name"], "prod");
        assert!(secret.annotations().is_empty());
        let owner = owners(&[(ours, "Metal3Data", "nodes-0", data.uid(), true)]);
        assert_eq!(json!(secret.owner_references()), owner);
    }

    let address_claim: IPClaim = management.api("team-a").get("nodes-0-net").await?;
    assert_eq!(
        address_claim.finalizers(),
        [
            "metal3data.infrastructure.cluster.x-k8s.io",
            "ipclaim.ipam.metal3.io"
        ]
    );
    let owner = owners(&[(ours, "Metal3Data", "nodes-0", data.uid(), true)]);
    assert_eq!(json!(address_claim.owner_references()), owner);
    let address = json!({"address": {"name": "net-10-0-0-1", "namespace": "team-a"}});
    assert_eq!(json!(address_claim.status), address);
    let found: IPPool = management.api("team-a").get("net").await?;
    assert_eq!(
        found.status.unwrap().indexes,
        [("nodes-0-net".to_owned(), "10.0.0.1".to_owned())].into()
    );
    let is_listed = |template: &Metal3DataTemplate| {
        let status = template.status.clone().unwrap_or_default();
        json!(status.indexes) == json!([{"name": "m0", "index": 0}])
    };
    management.wait_until("team-a", "nodes", is_listed).await?;

    // Secrets that exist are never rewritten.
    let changed = json!({"data": {"metaData": "bmV3"}});
    management
        .patch::<Secret>("team-a", "m0-metadata", changed)
        .await?;
    management
        .delete::<Secret>("team-a", "m0-networkdata")
        .await?;
    management
        .wait_until("team-a", "m0-networkdata", |secret: &Secret| {
            content(secret).1 == network_data("10.0.0.1", &mac)
        })
        .await?;
    let secret: Secret = management.api("team-a").get("m0-metadata").await?;
    assert_eq!(content(&secret).1, "new");

    MACHINE.release(&management).await?;
    management
        .wait_until_gone::<Metal3DataClaim>("team-a", "m0")
        .await?;
    management
        .wait_until_gone::<Metal3Data>("team-a", "nodes-0")
        .await?;
    management
        .wait_until_gone::<IPClaim>("team-a", "nodes-0-net")
        .await?;
    management
        .wait_until_gone::<IPAddress>("team-a", "net-10-0-0-1")
        .await?;
    garbage_collected(&management, "team-a").await?;
    for name in ["m0-metadata", "m0-networkdata"] {
        management.wait_until_gone::<Secret>("team-a", name).await?;
    }
    assert_eq!(secrets(&management, "team-a").await?, [""; 0]);
    let is_free = |template: &Metal3DataTemplate| {
        template
            .status
            .as_ref()
            .is_some_and(|status| status.indexes.is_empty())
    };
    management.wait_until("team-a", "nodes", is_free).await?;
    let is_free = |pool: &IPPool| {
        pool.status
            .as_ref()
            .is_some_and(|status| status.indexes.is_empty())
    };
    management.wait_until("team-a", "net", is_free).await?;
    for _ in 0..2 {
        management.delete::<IPPool>("team-a", "net").await.ok();
        management
            .delete::<Metal3DataTemplate>("team-a", "nodes")
            .await
            .ok();
    }
    management
        .wait_until_gone::<IPPool>("team-a", "net")
        .await?;
    management
        .wait_until_gone::<Metal3DataTemplate>("team-a", "nodes")
        .await
}

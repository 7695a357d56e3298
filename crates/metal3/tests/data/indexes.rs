//! Indexes of claims.

use insula_capi::Cluster;
use insula_metal3::kinds::data::Metal3Data;
use insula_metal3::kinds::data_claim::Metal3DataClaim;
use insula_metal3::kinds::data_template::Metal3DataTemplate;
use insula_metal3::kinds::machine::Metal3Machine;
use kube::ResourceExt;
use serde_json::json;

use crate::scene::{data_template, rendered};
use crate::world::{Management, Running, eventually, log_to_test, settings};

const OURS: &str = "infrastructure.cluster.x-k8s.io/v1beta2";

/// Creates a claim of a machine without a host.
async fn claim(management: &Management, name: &str, template: &str) -> anyhow::Result<()> {
    let labels = json!({"cluster.x-k8s.io/cluster-name": "prod"});
    let machine = json!({
        "apiVersion": OURS, "kind": "Metal3Machine",
        "metadata": {
            "name": name, "namespace": "team-a", "labels": labels,
            "annotations": {"cluster.x-k8s.io/paused": ""},
        },
        "spec": {
            "image": {"url": "http://images.test/i", "checksum": "c", "checksumType": "md5"},
            "dataTemplate": {"name": template},
        },
    });
    let machine = management.put(&machine).await?;
    let claim = json!({
        "apiVersion": OURS, "kind": "Metal3DataClaim",
        "metadata": {
            "name": name, "namespace": "team-a", "labels": labels,
            "ownerReferences": [{
                "apiVersion": OURS, "kind": "Metal3Machine", "name": name, "uid": machine.uid(),
                "controller": true,
            }],
        },
        "spec": {"template": {"name": template}},
    });
    management.put(&claim).await.map(drop)
}

/// Waits until a claim has data, and returns the name of that.
async fn data_of(management: &Management, name: &str) -> anyhow::Result<String> {
    let claim: Metal3DataClaim = management
        .wait_until("team-a", name, |claim| rendered(claim).is_some())
        .await?;
    Ok(rendered(&claim).unwrap())
}

/// Waits until the status of a template lists these claims, in the order of their indexes.
async fn indexes(
    management: &Management,
    template: &str,
    expected: &[(&str, u32)],
) -> anyhow::Result<()> {
    let is_so = |template: &Metal3DataTemplate| {
        let status = template.status.clone().unwrap_or_default();
        let found = status.indexes.iter();
        found
            .map(|one| (one.name.as_str(), one.index))
            .collect::<Vec<_>>()
            == expected
    };
    management.wait_until("team-a", template, is_so).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_get_the_smallest_free_index_of_their_template() -> anyhow::Result<()> {
    log_to_test();
    let management = Management::start().await?;
    let _running = Running::new(management.operator.clone(), settings());
    management.cluster("team-a", "prod", json!({})).await?;
    for template in ["t", "u"] {
        data_template(&management, "team-a", template, json!({})).await?;
    }
    for (name, template, expected) in [
        ("a", "t", "t-0"),
        ("b", "t", "t-1"),
        ("c", "t", "t-2"),
        ("d", "u", "u-0"),
    ] {
        claim(&management, name, template).await?;
        assert_eq!(data_of(&management, name).await?, expected);
    }
    indexes(&management, "t", &[("a", 0), ("b", 1), ("c", 2)]).await?;
    indexes(&management, "u", &[("d", 0)]).await?;
    management.delete::<Metal3DataClaim>("team-a", "b").await?;
    management
        .wait_until_gone::<Metal3Data>("team-a", "t-1")
        .await?;
    indexes(&management, "t", &[("a", 0), ("c", 2)]).await?;
    for (name, expected) in [("e", "t-1"), ("f", "t-3")] {
        claim(&management, name, "t").await?;
        assert_eq!(data_of(&management, name).await?, expected);
    }
    // A claim that is created again is another one.
    management.delete::<Metal3DataClaim>("team-a", "a").await?;
    management.delete::<Metal3Machine>("team-a", "a").await?;
    management
        .wait_until_gone::<Metal3DataClaim>("team-a", "a")
        .await?;
    claim(&management, "a", "t").await?;
    assert_eq!(data_of(&management, "a").await?, "t-0");

    // Claims at the same time never get one index.
    let names: Vec<_> = (0..12).map(|number| format!("many-{number}")).collect();
    let all = names.iter().map(|name| claim(&management, name, "u"));
    futures_util::future::try_join_all(all).await?;
    let mut found = Vec::new();
    for name in &names {
        found.push(data_of(&management, name).await?);
    }
    found.sort_by_key(|name| name.len() * 100 + name.bytes().last().map_or(0, usize::from));
    let expected: Vec<_> = (1..13).map(|index| format!("u-{index}")).collect();
    assert_eq!(found, expected);

    // A template is deleted after its claims.
    management
        .delete::<Metal3DataTemplate>("team-a", "u")
        .await?;
    for name in names.iter().map(String::as_str).chain(["d"]) {
        let left: Metal3DataTemplate = management.api("team-a").get("u").await?;
        let finalizer = "metal3datatemplate.infrastructure.cluster.x-k8s.io";
        assert_eq!(left.finalizers(), [finalizer]);
        management.delete::<Metal3DataClaim>("team-a", name).await?;
    }
    management
        .wait_until_gone::<Metal3DataTemplate>("team-a", "u")
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_of_paused_clusters_wait() -> anyhow::Result<()> {
    log_to_test();
    let management = Management::start().await?;
    let _running = Running::new(management.operator.clone(), settings());
    management.cluster("team-a", "prod", json!({})).await?;
    let pause = |is_paused: bool| json!({"spec": {"paused": is_paused}});
    management
        .patch::<Cluster>("team-a", "prod", pause(true))
        .await?;
    data_template(&management, "team-a", "t", json!({})).await?;
    claim(&management, "a", "t").await?;
    // A claim without a machine is told so, and does not stop the others.
    let alone = json!({
        "apiVersion": OURS, "kind": "Metal3DataClaim",
        "metadata": {"name": "alone", "namespace": "team-a"},
        "spec": {"template": {"name": "t"}},
    });
    management.put(&alone).await?;
    let is_told = |claim: &Metal3DataClaim| {
        let status = claim.status.as_ref();
        let message = status.and_then(|status| status.error_message.as_deref());
        message == Some("no Metal3Machine owns the claim")
    };
    management.wait_until("team-a", "alone", is_told).await?;
    let claims = management.api::<Metal3DataClaim>("team-a");
    assert_eq!(rendered(&claims.get("a").await?), None);
    management
        .patch::<Cluster>("team-a", "prod", pause(false))
        .await?;
    assert_eq!(data_of(&management, "a").await?, "t-0");
    // Without a machine and a host, the data waits.
    let status = eventually(async || {
        let data: Metal3Data = management.api("team-a").get("t-0").await?;
        Ok(data.status)
    });
    assert_eq!(json!(status.await?), json!({"ready": false}));
    Ok(())
}

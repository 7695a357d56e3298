//! Addresses of claims.

use std::collections::BTreeMap;

use insula_capi::Cluster;
use insula_metal3::ipam::contract::{self, IPAddressClaim};
use insula_metal3::ipam::kinds::{IPAddress, IPClaim, IPPool};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::scene::{CAPI_IPAM, IPAM, address_kinds, pool};
use crate::world::{Management, Running, log_to_test, settings};

/// Creates a claim.
async fn claim(management: &Management, name: &str, annotations: Value) -> anyhow::Result<()> {
    let claim = json!({
        "apiVersion": IPAM, "kind": "IPClaim",
        "metadata": {"name": name, "namespace": "team-a", "annotations": annotations},
        "spec": {"pool": {"name": "net"}},
    });
    management.put(&claim).await.map(drop)
}

/// Waits until a claim has this address, or this error.
async fn has(
    management: &Management,
    name: &str,
    expected: Result<&str, &str>,
) -> anyhow::Result<()> {
    let is_so = |claim: &IPClaim| {
        let status = claim.status.clone().unwrap_or_default();
        let address = status.address.and_then(|address| address.name);
        match (expected, address, status.error_message) {
            (Ok(expected), Some(found), None) | (Err(expected), None, Some(found)) => {
                expected == found
            }
            _ => false,
        }
    };
    management.wait_until("team-a", name, is_so).await?;
    Ok(())
}

async fn start(last: u8, more: Value) -> anyhow::Result<(Management, Running)> {
    log_to_test();
    let management = Management::start().await?;
    let running = Running::new(management.operator.clone(), settings());
    pool(&management, "team-a", "net", last, more).await?;
    Ok((management, running))
}

#[tokio::test(flavor = "multi_thread")]
async fn exhausted_pool_serves_waiting_claims_when_addresses_are_released() -> anyhow::Result<()> {
    let (management, _running) = start(2, json!({})).await?;
    let exhausted = Err("Exhausted IP Pools");
    for (name, expected) in [
        ("a", Ok("net-10-0-0-1")),
        ("b", Ok("net-10-0-0-2")),
        ("c", exhausted),
        ("d", exhausted),
    ] {
        claim(&management, name, json!({})).await?;
        has(&management, name, expected).await?;
    }
    management.delete::<IPClaim>("team-a", "a").await?;
    management.wait_until_gone::<IPClaim>("team-a", "a").await?;
    has(&management, "c", Ok("net-10-0-0-1")).await?;
    has(&management, "d", exhausted).await?;
    let more = json!({"spec": {"pools": [{"start": "10.0.0.1", "end": "10.0.0.3"}]}});
    management.patch::<IPPool>("team-a", "net", more).await?;
    has(&management, "d", Ok("net-10-0-0-3")).await?;
    let address: IPAddress = management.api("team-a").get("net-10-0-0-3").await?;
    assert_eq!(
        json!(address.spec),
        json!({
            "address": "10.0.0.3", "prefix": 24, "gateway": "10.0.0.254",
            "dnsServers": ["10.0.0.53"],
            "claim": {"name": "d", "namespace": "team-a"},
            "pool": {"name": "net", "namespace": "team-a"},
        })
    );
    assert_eq!(address.finalizers(), ["ipaddress.ipam.metal3.io"]);
    let expected: BTreeMap<_, _> = [("b", "10.0.0.2"), ("c", "10.0.0.1"), ("d", "10.0.0.3")]
        .map(|(claim, address)| (claim.to_owned(), address.to_owned()))
        .into();
    let is_so = |pool: &IPPool| {
        let status = pool.status.clone().unwrap_or_default();
        status.indexes == expected
    };
    management.wait_until("team-a", "net", is_so).await?;

    // A pool is deleted after its addresses.
    management.delete::<IPPool>("team-a", "net").await?;
    for name in ["b", "c", "d"] {
        let left: IPPool = management.api("team-a").get("net").await?;
        assert_eq!(left.finalizers(), ["ippool.ipam.metal3.io"]);
        management.delete::<IPClaim>("team-a", name).await?;
    }
    management.wait_until_gone::<IPPool>("team-a", "net").await
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_are_kept_and_requested() -> anyhow::Result<()> {
    let kept = json!({"kept": "10.0.0.2"});
    let (management, _running) = start(4, json!({"preAllocations": kept})).await?;
    let request = |address: &str| json!({"ipAddress": address});
    for (name, annotations, expected) in [
        ("a", json!({}), Ok("net-10-0-0-1")),
        ("b", json!({}), Ok("net-10-0-0-3")),
        ("kept", json!({}), Ok("net-10-0-0-2")),
        (
            "other",
            request("10.0.0.2"),
            Err("Requested IP not available"),
        ),
        ("wants", request("10.0.0.4"), Ok("net-10-0-0-4")),
        (
            "late",
            request("10.0.0.4"),
            Err("Requested IP not available"),
        ),
    ] {
        claim(&management, name, annotations).await?;
        has(&management, name, expected).await?;
    }
    management.delete::<IPClaim>("team-a", "wants").await?;
    has(&management, "late", Ok("net-10-0-0-4")).await?;
    // Another controller that uses a claim keeps its address.
    let finalizers = json!(["ipclaim.ipam.metal3.io", "example.com/used"]);
    let hold = json!({"metadata": {"finalizers": finalizers}});
    management.patch::<IPClaim>("team-a", "a", hold).await?;
    management.delete::<IPClaim>("team-a", "a").await?;
    claim(&management, "next", json!({})).await?;
    has(&management, "next", Err("Exhausted IP Pools")).await?;
    let drop = json!({"metadata": {"finalizers": ["ipclaim.ipam.metal3.io"]}});
    management.patch::<IPClaim>("team-a", "a", drop).await?;
    has(&management, "next", Ok("net-10-0-0-1")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_of_cluster_api_share_a_pool_with_those_of_metal3() -> anyhow::Result<()> {
    log_to_test();
    let management = Management::start().await?;
    management.plain.install(&address_kinds()).await?;
    let _running = Running::new(management.operator.clone(), settings());
    pool(&management, "team-a", "net", 2, json!({})).await?;
    claim(&management, "a", json!({})).await?;
    has(&management, "a", Ok("net-10-0-0-1")).await?;
    let reference = json!({"apiGroup": "ipam.metal3.io", "kind": "IPPool", "name": "net"});
    for name in ["a", "b"] {
        let metadata = json!({"name": name, "namespace": "team-a"});
        management
            .put(&json!({
                "apiVersion": CAPI_IPAM, "kind": "IPAddressClaim", "metadata": metadata,
                "spec": {"poolRef": reference},
            }))
            .await?;
        let (status, reason, address) = match name {
            "a" => ("True", "Ready", Some("net-10-0-0-2")),
            _ => ("False", "PoolExhausted", None),
        };
        let is_so = |claim: &IPAddressClaim| {
            let found = claim.status.clone().unwrap_or_default();
            let named = found.address_ref.map(|reference| reference.name);
            let ready = found.conditions.first();
            ready.is_some_and(|ready| {
                (ready.status.as_str(), ready.reason.as_str()) == (status, reason)
            }) && named.as_deref() == address
        };
        management.wait_until("team-a", name, is_so).await?;
    }
    let address: contract::IPAddress = management.api("team-a").get("net-10-0-0-2").await?;
    assert_eq!(
        json!(address.spec),
        json!({
            "address": "10.0.0.2", "prefix": 24, "gateway": "10.0.0.254",
            "claimRef": {"name": "a"}, "poolRef": reference,
        })
    );
    assert_eq!(address.finalizers(), ["ipam.metal3.io/ipaddress"]);
    let owners = address.owner_references().iter();
    let owners: Vec<_> = owners.map(|owner| (&*owner.kind, &*owner.name)).collect();
    assert_eq!(owners, [("IPPool", "net"), ("IPAddressClaim", "a")]);

    // A released address of one kind is free for the other.
    management.delete::<IPClaim>("team-a", "a").await?;
    let has_address = |claim: &IPAddressClaim| {
        let status = claim.status.clone().unwrap_or_default();
        status
            .address_ref
            .is_some_and(|reference| reference.name == "net-10-0-0-1")
    };
    management.wait_until("team-a", "b", has_address).await?;
    management.delete::<IPPool>("team-a", "net").await?;
    for name in ["a", "b"] {
        management.delete::<IPAddressClaim>("team-a", name).await?;
        management
            .wait_until_gone::<IPAddressClaim>("team-a", name)
            .await?;
    }
    management.wait_until_gone::<IPPool>("team-a", "net").await
}

#[tokio::test(flavor = "multi_thread")]
async fn pool_is_paused_with_its_cluster() -> anyhow::Result<()> {
    log_to_test();
    let management = Management::start().await?;
    let _running = Running::new(management.operator.clone(), settings());
    management.cluster("team-a", "prod", json!({})).await?;
    let pause = |is_paused: bool| json!({"spec": {"paused": is_paused}});
    management
        .patch::<Cluster>("team-a", "prod", pause(true))
        .await?;
    let of_cluster = json!({"clusterName": "prod"});
    pool(&management, "team-a", "net", 9, of_cluster).await?;
    pool(&management, "team-a", "other", 9, json!({})).await?;
    claim(&management, "a", json!({})).await?;
    // The other pool was reconciled after this one was seen.
    let is_reconciled = |pool: &IPPool| !pool.finalizers().is_empty();
    management
        .wait_until("team-a", "other", is_reconciled)
        .await?;
    let claims = management.api::<IPClaim>("team-a");
    assert_eq!(claims.get("a").await?.status, None);
    management
        .patch::<Cluster>("team-a", "prod", pause(false))
        .await?;
    has(&management, "a", Ok("net-10-0-0-1")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn claim_of_a_paused_cluster_gets_no_address() -> anyhow::Result<()> {
    // The pool names no cluster, so it is not paused itself. While a cluster arrives in a move, the
    // address that a claim has may still be missing, and must not be given out again.
    let (management, _running) = start(9, json!({})).await?;
    management.cluster("team-a", "c", json!({})).await?;
    let pause = |paused: bool| json!({"spec": {"paused": paused}});
    management
        .patch::<Cluster>("team-a", "c", pause(true))
        .await?;
    let claim_of_cluster = json!({
        "apiVersion": IPAM, "kind": "IPClaim",
        "metadata": {
            "name": "a", "namespace": "team-a",
            "labels": {"cluster.x-k8s.io/cluster-name": "c"},
        },
        "spec": {"pool": {"name": "net"}},
    });
    management.put(&claim_of_cluster).await?;
    claim(&management, "b", json!({})).await?;
    has(&management, "b", Ok("net-10-0-0-1")).await?;
    let waiting: IPClaim = management.api("team-a").get("a").await?;
    assert_eq!(waiting.status, None);
    management
        .patch::<Cluster>("team-a", "c", pause(false))
        .await?;
    has(&management, "a", Ok("net-10-0-0-2")).await
}

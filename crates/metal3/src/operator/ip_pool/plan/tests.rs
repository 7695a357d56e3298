use serde_json::{Value, json};

use super::*;
use crate::ipam::kinds::IPPoolSpec;

const CLAIM: &str = "ipclaim.ipam.metal3.io";
const DATA: &str = "metal3data.infrastructure.cluster.x-k8s.io";

fn pool() -> IPPool {
    serde_json::from_value(json!({
        "metadata": {"name": "p", "namespace": "team", "uid": "p-uid"},
        "spec": {
            "namePrefix": "net", "prefix": 24, "gateway": "10.0.0.254", "dnsServers": ["10.0.0.53"],
            "pools": [{"start": "10.0.0.1", "end": "10.0.0.9"}],
        },
    }))
    .unwrap()
}

fn claim(name: &str, finalizers: &[&str], is_deleted: bool, address: Option<&str>) -> IPClaim {
    serde_json::from_value(json!({
        "metadata": {
            "name": name, "namespace": "team", "uid": format!("{name}-uid"),
            "finalizers": finalizers, "labels": {"l": "v"},
            "deletionTimestamp": is_deleted.then_some("2026-01-02T00:00:00Z"),
        },
        "spec": {"pool": {"name": "p"}},
        "status": {"address": address.map(|name| json!({"name": name}))},
    }))
    .unwrap()
}

fn address(pool: &str, number: u8, claim: &str, is_deleted: bool) -> IPAddress {
    serde_json::from_value(json!({
        "metadata": {
            "name": format!("net-10-0-0-{number}"), "finalizers": ["ipaddress.ipam.metal3.io"],
            "deletionTimestamp": is_deleted.then_some("2026-01-02T00:00:00Z"),
        },
        "spec": {
            "address": format!("10.0.0.{number}"), "pool": {"name": pool}, "claim": {"name": claim},
        },
    }))
    .unwrap()
}

/// Returns a plan as text, and the addresses in use.
fn text(claims: &[IPClaim], addresses: &[IPAddress], foreign: &Value) -> String {
    let foreign: Vec<contract::IPAddress> = serde_json::from_value(foreign.clone()).unwrap();
    let pool = pool();
    let mut allocator = Allocator::new(&pool.spec);
    let plan = Plan::of(&pool, claims, addresses, &foreign, &mut allocator);
    let mut words = Vec::new();
    for (claim, addresses) in plan.released {
        let addresses: Vec<_> = addresses
            .iter()
            .map(|one| one.spec.address.clone())
            .collect();
        words.push(format!(
            "release {} {}",
            claim.name_any(),
            addresses.join(",")
        ));
    }
    for address in plan.orphaned {
        words.push(format!("orphan {}", address.spec.address));
    }
    for (claim, address) in plan.incomplete {
        let address = address.map_or("new", |address| address.spec.address.as_str());
        words.push(format!("{} {address}", claim.name_any()));
    }
    words.push(format!("{:?}", allocator.indexes()));
    let key = ClaimKey {
        kind: ClaimKind::Metal3,
        name: "next".to_owned(),
    };
    let next = allocator.allocate(&key, None, &mut |_| 0).unwrap().address;
    words.push(format!("next {next}"));
    if plan.has_unclaimed {
        words.push("unclaimed".to_owned());
    }
    words.join("; ")
}

#[test]
fn addresses_stay_in_use_until_their_claim_is_released() {
    let none = json!([]);
    let one = || vec![address("p", 1, "a", false)];
    for (claims, addresses, expected) in [
        (
            vec![claim("a", &[], false, None)],
            vec![],
            "a new; {}; next 10.0.0.1",
        ),
        // The operator was stopped before the status of the claim was written.
        (
            vec![claim("a", &[CLAIM], false, None)],
            one(),
            "a 10.0.0.1; {\"a\": \"10.0.0.1\"}; next 10.0.0.2",
        ),
        (
            vec![claim("a", &[CLAIM], false, Some("net-10-0-0-1"))],
            one(),
            "{\"a\": \"10.0.0.1\"}; next 10.0.0.2",
        ),
        (
            vec![claim("a", &[], false, Some("net-10-0-0-1"))],
            one(),
            "a 10.0.0.1; {\"a\": \"10.0.0.1\"}; next 10.0.0.2",
        ),
        // The address no longer exists.
        (
            vec![claim("a", &[CLAIM], false, Some("net-10-0-0-1"))],
            vec![],
            "a new; {}; next 10.0.0.1",
        ),
        // Another controller still uses the claim.
        (
            vec![claim("a", &[CLAIM, DATA], true, Some("net-10-0-0-1"))],
            one(),
            "{\"a\": \"10.0.0.1\"}; next 10.0.0.2",
        ),
        (
            vec![claim("a", &[CLAIM], true, Some("net-10-0-0-1"))],
            one(),
            "release a 10.0.0.1; {}; next 10.0.0.1",
        ),
        (
            vec![claim("a", &[CLAIM], true, None)],
            vec![],
            "release a ; {}; next 10.0.0.1",
        ),
        // The claim was removed by force.
        (
            vec![],
            one(),
            "{\"a\": \"10.0.0.1\"}; next 10.0.0.2; unclaimed",
        ),
        (
            vec![],
            vec![address("p", 1, "a", true)],
            "orphan 10.0.0.1; {}; next 10.0.0.1",
        ),
        // A deleted address of a claim that exists stays.
        (
            vec![claim("a", &[CLAIM], false, Some("net-10-0-0-1"))],
            vec![address("p", 1, "a", true)],
            "{\"a\": \"10.0.0.1\"}; next 10.0.0.2",
        ),
        // Another pool has an object of the name.
        (
            vec![],
            vec![address("q", 1, "a", false)],
            "{}; next 10.0.0.2",
        ),
    ] {
        assert_eq!(text(&claims, &addresses, &none), expected);
    }
    let foreign = json!([{
        "apiVersion": "ipam.cluster.x-k8s.io/v1beta2", "kind": "IPAddress",
        "metadata": {"name": "x"},
        "spec": {
            "address": "10.0.0.1", "claimRef": {"name": "c"},
            "poolRef": {"apiGroup": "ipam.metal3.io", "kind": "IPPool", "name": "p"},
        },
    }]);
    assert_eq!(text(&[], &[], &foreign), "{}; next 10.0.0.2; unclaimed");
}

#[test]
fn address_is_owned_by_pool_and_claim() {
    let pool = pool();
    let claim = claim("a", &[], false, None);
    let mut allocator = Allocator::new(&pool.spec);
    let key = ClaimKey {
        kind: ClaimKind::Metal3,
        name: "a".to_owned(),
    };
    let allocation = allocator.allocate(&key, None, &mut |_| 0).unwrap();
    let made = new_address(&pool, &claim, &allocation).unwrap();
    let owner = |kind: &str, name: &str| {
        json!({
            "apiVersion": "ipam.metal3.io/v1alpha1", "kind": kind, "name": name,
            "uid": format!("{name}-uid"),
        })
    };
    assert_eq!(
        serde_json::to_value(made).unwrap(),
        json!({
            "apiVersion": "ipam.metal3.io/v1alpha1", "kind": "IPAddress",
            "metadata": {
                "name": "net-10-0-0-1", "namespace": "team", "labels": {"l": "v"},
                "finalizers": ["ipaddress.ipam.metal3.io"],
                "ownerReferences": [owner("IPPool", "p"), owner("IPClaim", "a")],
            },
            "spec": {
                "address": "10.0.0.1", "prefix": 24, "gateway": "10.0.0.254",
                "dnsServers": ["10.0.0.53"],
                "claim": {"name": "a", "namespace": "team"},
                "pool": {"name": "p", "namespace": "team"},
            },
        })
    );
    assert_eq!(
        new_address(
            &IPPool::new("p", IPPoolSpec::default()),
            &claim,
            &allocation
        ),
        None
    );
}

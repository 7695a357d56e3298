use serde_json::{Value, json};

use super::super::claim::{key, new_address};
use super::*;
use crate::ipam::contract;
use crate::ipam::kinds::{IPClaim, IPPoolSpec};

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

/// A kind of claims in tests.
trait Sample: Claim + PartialEq {
    /// Returns the spec and the status of a claim.
    fn fields(address: Option<&str>) -> [Value; 2];

    /// Returns the spec of an address.
    fn address_spec(pool: &str, address: &str, claim: &str) -> Value;
}

impl Sample for IPClaim {
    fn fields(address: Option<&str>) -> [Value; 2] {
        let address = address.map(|name| json!({"name": name}));
        [json!({"pool": {"name": "p"}}), json!({"address": address})]
    }

    fn address_spec(pool: &str, address: &str, claim: &str) -> Value {
        json!({"address": address, "pool": {"name": pool}, "claim": {"name": claim}})
    }
}

impl Sample for contract::IPAddressClaim {
    fn fields(address: Option<&str>) -> [Value; 2] {
        let address = address.map(|name| json!({"name": name}));
        let pool = json!({"apiGroup": "ipam.metal3.io", "kind": "IPPool", "name": "p"});
        [json!({"poolRef": pool}), json!({"addressRef": address})]
    }

    fn address_spec(pool: &str, address: &str, claim: &str) -> Value {
        let pool = json!({"apiGroup": "ipam.metal3.io", "kind": "IPPool", "name": pool});
        json!({"address": address, "poolRef": pool, "claimRef": {"name": claim}})
    }
}

fn claim<C: Sample>(name: &str, finalizers: &[&str], is_deleted: bool, address: Option<&str>) -> C {
    let [spec, status] = C::fields(address);
    serde_json::from_value(json!({
        "apiVersion": C::api_version(&()), "kind": C::kind(&()),
        "metadata": {
            "name": name, "namespace": "team", "uid": format!("{name}-uid"),
            "finalizers": finalizers, "labels": {"l": "v"},
            "deletionTimestamp": is_deleted.then_some("2026-01-02T00:00:00Z"),
        },
        "spec": spec, "status": status,
    }))
    .unwrap()
}

fn address<C: Sample>(pool: &str, number: u8, claim: &str, is_deleted: bool) -> C::Address {
    serde_json::from_value(json!({
        "apiVersion": C::Address::api_version(&()), "kind": C::Address::kind(&()),
        "metadata": {
            "name": format!("net-10-0-0-{number}"), "finalizers": [C::Address::FINALIZER],
            "deletionTimestamp": is_deleted.then_some("2026-01-02T00:00:00Z"),
        },
        "spec": C::address_spec(pool, &format!("10.0.0.{number}"), claim),
    }))
    .unwrap()
}

/// Returns a plan as text, and the addresses in use.
fn text<C: Sample>(claims: &[C], addresses: &[C::Address]) -> String {
    let pool = pool();
    let mut allocator = Allocator::new(&pool.spec);
    let plan = Plan::of(&pool, claims, addresses, &mut allocator);
    let mut words = Vec::new();
    for (claim, addresses) in plan.released {
        let addresses: Vec<_> = addresses.iter().map(|one| one.address()).collect();
        words.push(format!(
            "release {} {}",
            claim.name_any(),
            addresses.join(",")
        ));
    }
    for address in plan.orphaned {
        words.push(format!("orphan {}", address.address()));
    }
    for (claim, address) in plan.incomplete {
        let address = address.map_or("new", ClaimedAddress::address);
        words.push(format!("{} {address}", claim.name_any()));
    }
    words.push(format!("{:?}", allocator.indexes()));
    let next = key(&claim::<C>("next", &[], false, None));
    let next = allocator.allocate(&next, None, &mut |_| 0).unwrap().address;
    words.push(format!("next {next}"));
    if plan.has_unclaimed {
        words.push("unclaimed".to_owned());
    }
    words.join("; ")
}

#[test]
fn addresses_stay_in_use_until_their_claim_is_released() {
    check_addresses_in_use::<IPClaim>();
    check_addresses_in_use::<contract::IPAddressClaim>();
}

fn check_addresses_in_use<C: Sample>() {
    let address = address::<C>;
    let one = || vec![address("p", 1, "a", false)];
    for (claims, addresses, expected) in [
        (
            vec![claim("a", &[], false, None)],
            vec![],
            "a new; {}; next 10.0.0.1",
        ),
        // The operator was stopped before the status of the claim was written.
        (
            vec![claim("a", &[C::FINALIZER], false, None)],
            one(),
            "a 10.0.0.1; {\"a\": \"10.0.0.1\"}; next 10.0.0.2",
        ),
        (
            vec![claim("a", &[C::FINALIZER], false, Some("net-10-0-0-1"))],
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
            vec![claim("a", &[C::FINALIZER], false, Some("net-10-0-0-1"))],
            vec![],
            "a new; {}; next 10.0.0.1",
        ),
        // Another controller still uses the claim.
        (
            vec![claim(
                "a",
                &[C::FINALIZER, DATA],
                true,
                Some("net-10-0-0-1"),
            )],
            one(),
            "{\"a\": \"10.0.0.1\"}; next 10.0.0.2",
        ),
        (
            vec![claim("a", &[C::FINALIZER], true, Some("net-10-0-0-1"))],
            one(),
            "release a 10.0.0.1; {}; next 10.0.0.1",
        ),
        (
            vec![claim("a", &[C::FINALIZER], true, None)],
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
            vec![claim("a", &[C::FINALIZER], false, Some("net-10-0-0-1"))],
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
        assert_eq!(text::<C>(&claims, &addresses), expected);
    }
}

#[test]
fn both_kinds_of_claims_share_the_addresses_of_a_pool() {
    let pool = pool();
    let mut allocator = Allocator::new(&pool.spec);
    let claims = [claim::<IPClaim>("a", &[], false, None)];
    let plan = Plan::of(&pool, &claims, &[], &mut allocator);
    assert_eq!(plan.incomplete.len(), 1);
    let taken = [address::<contract::IPAddressClaim>("p", 1, "a", false)];
    let others = [claim(
        "a",
        &["ipam.metal3.io/ipaddressclaim"],
        false,
        Some("net-10-0-0-1"),
    )];
    let plan: Plan<'_, contract::IPAddressClaim> = Plan::of(&pool, &others, &taken, &mut allocator);
    assert_eq!(plan.incomplete, []);
    let free = allocator.allocate(&key(&claims[0]), None, &mut |_| 0);
    assert_eq!(free.unwrap().address.to_string(), "10.0.0.2");
}

#[test]
fn claims_of_pools_of_other_providers_are_left_alone() {
    let mut other: contract::IPAddressClaim = claim("a", &[], false, None);
    other.spec.pool_ref.api_group = Some("ipam.example.com".to_owned());
    assert_eq!(text(&[other], &[]), "{}; next 10.0.0.1");
}

#[test]
fn address_is_owned_by_pool_and_claim() {
    let pool = pool();
    let claim: IPClaim = claim("a", &[], false, None);
    let mut allocator = Allocator::new(&pool.spec);
    let allocation = allocator.allocate(&key(&claim), None, &mut |_| 0).unwrap();
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

//! Addresses that claims get.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::range::Family;
use super::*;

fn pool(spec: Value) -> IPPoolSpec {
    serde_json::from_value(spec).unwrap()
}

fn claim(name: &str) -> ClaimKey {
    ClaimKey {
        kind: ClaimKind::Metal3,
        name: name.to_owned(),
    }
}

fn address(text: &str) -> Address {
    Address::parse(text).unwrap()
}

/// Allocates one after another, and returns addresses or messages.
fn allocate(allocator: &mut Allocator<'_>, claims: &[(&str, Option<&str>)]) -> Vec<String> {
    let mut got = Vec::new();
    for (name, requested) in claims {
        let result = allocator.allocate(&claim(name), *requested, &mut |_| 0);
        got.push(match result {
            Ok(allocation) => allocation.address.to_string(),
            Err(error) => error.to_string(),
        });
    }
    got
}

#[test]
fn addresses_are_taken_in_order_until_pools_are_exhausted() {
    let pool = pool(json!({"namePrefix": "p", "pools": [
        {"start": "10.0.0.10", "end": "10.0.0.11"},
        {"start": "nonsense"},
        {"subnet": "10.0.1.0/30"},
        {"start": "2001:db8::1", "end": "2001:db8::1"},
    ]}));
    let mut allocator = Allocator::new(&pool);
    let claims: Vec<_> = ["a", "b", "c", "d", "e", "f", "g", "a"]
        .map(|name| (name, None))
        .into();
    assert_eq!(
        allocate(&mut allocator, &claims),
        [
            "10.0.0.10",
            "10.0.0.11",
            "10.0.1.1",
            "10.0.1.2",
            "10.0.1.3",
            "2001:db8::1",
            "Exhausted IP Pools",
            "10.0.0.10",
        ]
    );
    assert_eq!(allocator.indexes()["f"], "2001:db8::1");
    assert_eq!(allocator.indexes().len(), 6);
}

#[test]
fn gaps_are_reused() {
    let pool = pool(json!({"pools": [{"subnet": "10.0.0.0/24"}]}));
    let mut allocator = Allocator::new(&pool);
    allocator.record(address("10.0.0.1"), Some(claim("a")));
    allocator.record(address("10.0.0.3"), None);
    allocator.record(address("10.0.0.4"), Some(claim("c")));
    let claims = [("b", None), ("d", None), ("c", None), ("a", None)];
    assert_eq!(
        allocate(&mut allocator, &claims),
        ["10.0.0.2", "10.0.0.5", "10.0.0.4", "10.0.0.1"]
    );
}

#[test]
fn kept_addresses_are_for_their_claims_only() {
    let pool = pool(json!({
        "pools": [{"start": "10.0.0.1", "end": "10.0.0.4"}],
        "preAllocations": {
            "a": "10.0.0.2", "far": "10.9.9.9", "wrong": "ten", "late": "10.0.0.4",
        },
    }));
    let mut allocator = Allocator::new(&pool);
    // It had the address before that was kept for another claim.
    allocator.record(address("10.0.0.4"), Some(claim("early")));
    assert_eq!(
        allocate(
            &mut allocator,
            &[
                ("x", None),
                ("y", None),
                ("z", None),
                ("a", Some("10.0.0.3")),
                ("a", Some("10.0.0.2")),
                ("far", None),
                ("wrong", None),
                ("late", None),
                ("early", None),
            ]
        ),
        [
            "10.0.0.1",
            "10.0.0.3",
            "Exhausted IP Pools",
            "PreAllocation and requested ip address are conflicting",
            "10.0.0.2",
            "Pre-allocated IP out of bounds",
            "Pre-allocated IP out of bounds",
            "Pre-allocated IP not available",
            "10.0.0.4",
        ]
    );
}

#[test]
fn requested_addresses_are_granted_if_they_are_free() {
    let pool = pool(json!({
        "pools": [{"subnet": "2001:db8::/64"}, {"start": "10.0.0.1", "end": "10.0.0.4"}],
        "preAllocations": {"kept": "10.0.0.3"},
    }));
    let mut allocator = Allocator::new(&pool);
    assert_eq!(
        allocate(
            &mut allocator,
            &[
                ("a", Some("10.0.0.2")),
                ("b", Some("10.0.0.2")),
                ("b", Some("10.0.0.3")),
                ("b", Some("10.0.0.5")),
                ("b", Some("ten")),
                ("b", Some("2001:DB8:0::5")),
                ("c", Some("2001:db8::5")),
                ("c", Some("")),
            ]
        ),
        [
            "10.0.0.2",
            "Requested IP not available",
            "Requested IP not available",
            "Requested IP not available",
            "Invalid ipAddress annotation \"ten\": not a valid IP address",
            "2001:db8::5",
            "Requested IP not available",
            "2001:db8::1",
        ]
    );
}

#[test]
fn network_of_the_entry_overrides_that_of_the_pool() {
    let pool = pool(json!({
        "pools": [
            {"start": "10.0.0.1", "end": "10.0.0.1", "prefix": 25, "gateway": "10.0.0.126",
             "dnsServers": ["10.0.0.53"]},
            {"start": "10.0.1.1", "end": "10.0.1.1", "prefix": 0},
        ],
        "prefix": 24, "gateway": "10.0.1.254", "dnsServers": ["8.8.8.8", "8.8.4.4"],
        "preAllocations": {"kept": "10.0.0.1"},
    }));
    let mut allocator = Allocator::new(&pool);
    let mut got = |name| allocator.allocate(&claim(name), None, &mut |_| 0).unwrap();
    let of_pool = Allocation {
        address: address("10.0.1.1"),
        prefix: Some(24),
        gateway: Some("10.0.1.254".to_owned()),
        dns_servers: vec!["8.8.8.8".to_owned(), "8.8.4.4".to_owned()],
    };
    assert_eq!(got("a"), of_pool);
    let of_entry = Allocation {
        address: address("10.0.0.1"),
        prefix: Some(25),
        gateway: Some("10.0.0.126".to_owned()),
        dns_servers: vec!["10.0.0.53".to_owned()],
    };
    assert_eq!(got("kept"), of_entry);
}

#[test]
fn claims_of_both_kinds_have_their_own_addresses() {
    let pool = pool(json!({"pools": [{"subnet": "10.0.0.0/24"}]}));
    let mut allocator = Allocator::new(&pool);
    let other = ClaimKey {
        kind: ClaimKind::ClusterApi,
        ..claim("a")
    };
    let mut got = |claim| {
        let allocation = allocator.allocate(claim, None, &mut |_| 0).unwrap();
        allocation.address.to_string()
    };
    assert_eq!([got(&claim("a")), got(&other)], ["10.0.0.1", "10.0.0.2"]);
}

#[test]
fn random_address_is_searched_from_a_random_one_on() {
    let pool = pool(json!({
        "allocationStrategy": "random",
        "pools": [{"start": "10.0.0.1", "end": "10.0.0.4"}],
    }));
    let mut allocator = Allocator::new(&pool);
    let mut got = |name, offset| {
        let random = &mut |max| {
            assert_eq!(max, 3);
            offset
        };
        let result = allocator.allocate(&claim(name), None, random);
        result.map(|allocation| allocation.address.to_string())
    };
    assert_eq!(got("a", 2), Ok("10.0.0.3".to_owned()));
    assert_eq!(got("b", 2), Ok("10.0.0.4".to_owned()));
    assert_eq!(got("c", 2), Ok("10.0.0.1".to_owned()));
    assert_eq!(got("d", 9), Ok("10.0.0.2".to_owned()));
    assert_eq!(got("e", 0), Err(AllocationError::Exhausted));
}

#[test]
fn cost_does_not_grow_with_the_subnet() {
    for strategy in ["sequential", "random"] {
        let pool = pool(json!({
            "allocationStrategy": strategy,
            "pools": [{"subnet": "2001:db8::/64"}],
            "preAllocations": {"last": "2001:db8::ffff:ffff:ffff:fff0"},
        }));
        let began = Instant::now();
        let mut allocator = Allocator::new(&pool);
        let mut distinct = BTreeSet::new();
        for at in 0..10_000_u128 {
            let random = &mut |max: u128| (at * 0x9e37_79b9_7f4a_7c15) % max;
            let got = allocator
                .allocate(&claim(&format!("c{at}")), None, random)
                .unwrap();
            assert!(distinct.insert(got.address));
        }
        // A walk through the subnet would not end; even one through the claims would take longer.
        let got = allocate(
            &mut allocator,
            &[("last", None), ("x", Some("2001:db9::1"))],
        );
        assert_eq!(
            got,
            [
                "2001:db8::ffff:ffff:ffff:fff0",
                "Requested IP not available"
            ]
        );
        assert!(
            began.elapsed() < Duration::from_secs(5),
            "{:?}",
            began.elapsed()
        );
    }
}

/// A claim that is made: its name, the address that it requests, and a random number.
type Made = (u8, Option<u8>, u128);

fn any_pool() -> impl Strategy<Value = IPPoolSpec> {
    let entry = (0..24_u8, 0..8_u8, any::<bool>()).prop_map(|(first, length, is_ipv6)| {
        let net = if is_ipv6 { "2001:db8::" } else { "10.0.0." };
        json!({"start": format!("{net}{first}"), "end": format!("{net}{}", first + length)})
    });
    let kept = prop::collection::btree_map(0..6_u8, 0..24_u8, 0..3).prop_map(|kept| {
        let pairs = kept.into_iter();
        let pairs = pairs.map(|(name, at)| (format!("c{name}"), json!(format!("10.0.0.{at}"))));
        Value::Object(pairs.collect())
    });
    (prop::collection::vec(entry, 0..4), kept, any::<bool>()).prop_map(
        |(entries, kept, is_random)| {
            let strategy = if is_random { "random" } else { "sequential" };
            pool(json!({
                "pools": entries, "preAllocations": kept, "allocationStrategy": strategy,
            }))
        },
    )
}

fn run(pool: &IPPoolSpec, claims: &[Made]) -> Vec<Result<Address, AllocationError>> {
    let mut allocator = Allocator::new(pool);
    let claims = claims.iter();
    let results = claims.map(|(name, requested, number)| {
        let requested = requested.map(|at| format!("10.0.0.{at}"));
        let random = &mut |max: u128| number % (max + 1);
        let got = allocator.allocate(&claim(&format!("c{name}")), requested.as_deref(), random);
        got.map(|allocation| allocation.address)
    });
    results.collect()
}

proptest! {
    #[test]
    fn no_address_is_given_twice_and_all_are_in_bounds(
        pool in any_pool(),
        claims in prop::collection::vec((0..20_u8, prop::option::of(0..30_u8), any::<u128>()), 0..60),
    ) {
        let results = run(&pool, &claims);
        let ranges: Vec<_> = pool.pools.iter().filter_map(Range::of).collect();
        let mut holders = BTreeMap::new();
        for ((name, _, _), result) in claims.iter().zip(&results) {
            let Ok(address) = result else { continue };
            prop_assert!(ranges.iter().any(|range| range.contains(*address)));
            prop_assert_eq!(holders.entry(*address).or_insert(name), &name);
            let keeper = pool.pre_allocations.iter().find(|(_, kept)| {
                Address::parse(kept) == Some(*address)
            });
            if let Some((keeper, _)) = keeper {
                // Two claims may keep one address; the first one gets it.
                let own = pool.pre_allocations.get(&format!("c{name}"));
                prop_assert!(own.is_some_and(|own| Address::parse(own) == Some(*address)), "{keeper}");
            }
        }
    }

    #[test]
    fn sequential_allocation_takes_the_first_free_address(
        mut pool in any_pool(),
        claims in prop::collection::vec((0..20_u8, Just(None), any::<u128>()), 0..60),
    ) {
        pool.allocation_strategy = None;
        pool.pre_allocations.clear();
        let results = run(&pool, &claims);
        // The random numbers do not matter.
        let others: Vec<_> = claims.iter().map(|(name, requested, _)| (*name, *requested, 7)).collect();
        prop_assert_eq!(&run(&pool, &others), &results);
        let ranges = pool.pools.iter().filter_map(Range::of);
        let mut expected = BTreeSet::new();
        let mut order = ranges.flat_map(|range| {
            let numbers = range.first..=range.last;
            numbers.map(move |number| Address { family: range.family, number })
        }).filter(|address| expected.insert(*address));
        let mut known = BTreeMap::new();
        for ((name, _, _), result) in claims.iter().zip(results) {
            let next = known.get(name).copied().or_else(|| order.next());
            if let Some(next) = next {
                known.insert(*name, next);
            }
            prop_assert_eq!(result, next.ok_or(AllocationError::Exhausted));
        }
        prop_assert!(known.values().all(|address| address.family.bits() >= Family::Ipv4.bits()));
    }
}

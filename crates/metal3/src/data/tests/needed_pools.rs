//! Pools that need a claim.

use super::pools::{PoolKind, claim_name, pools};
use super::*;
use crate::ipam::contract::PoolReference;

/// Returns the pools of a template, as `GROUP/KIND/NAME`.
fn needed(spec: Value) -> Result<Vec<String>, RenderError> {
    let pools = with_sources(|sources| pools(&template(spec), sources))?;
    let text = |(name, pool): (String, PoolReference)| {
        assert_eq!(name, pool.name);
        format!("{}/{}/{}", pool.api_group.unwrap(), pool.kind, name)
    };
    Ok(pools.into_iter().map(text).collect())
}

#[test]
fn every_reference_to_a_pool_is_found() {
    let pool = |name: &str| json!([{"key": "k", "name": name}]);
    let routes = |name: &str| {
        json!([
            {"network": "n", "gateway": {"fromIPPool": format!("{name}-name")},
             "services": {"dnsFromIPPool": format!("{name}-dns")}},
            {"network": "o", "gateway": {"fromPoolRef": {"name": format!("{name}-ref")}}},
        ])
    };
    let network = |name: &str| json!([{"id": "n", "link": "l", "routes": routes(name)}]);
    let with_pool = |name: &str| {
        let mut list = network(name);
        list[0]["ipAddressFromIPPool"] = json!(format!("{name}-own"));
        list
    };
    let found = needed(json!({
        "metaData": {
            "ipAddressesFromPool": pool("m-ip"), "prefixesFromPool": pool("m-prefix"),
            "gatewaysFromPool": pool("m-gateway"), "dnsServersFromPool": pool("m-dns"),
        },
        "networkData": {
            "networks": {
                "ipv4": with_pool("v4"), "ipv6": with_pool("v6"), "ipv4DHCP": network("d4"),
                "ipv6DHCP": network("d6"), "ipv6SLAAC": network("s6"),
            },
            "services": {"dnsFromIPPool": "services"},
        },
    }));
    let mut names = Vec::new();
    for name in ["d4", "d6", "s6", "v4", "v6"] {
        names.extend(["dns", "name", "ref"].map(|part| format!("{name}-{part}")));
    }
    names.extend(
        [
            "v4-own",
            "v6-own",
            "m-ip",
            "m-prefix",
            "m-gateway",
            "m-dns",
            "services",
        ]
        .map(String::from),
    );
    names.sort();
    let expected: Vec<_> = names
        .iter()
        .map(|name| format!("ipam.metal3.io/IPPool/{name}"))
        .collect();
    assert_eq!(found, Ok(expected));
    assert_eq!(needed(json!({})), Ok(vec![]));
}

#[test]
fn first_source_of_a_pool_counts() {
    let annotation = json!({"object": "machine", "annotation": "pool"});
    let other = json!({"name": "b", "kind": "GlobalPool", "apiGroup": "ipam.example"});
    for (fields, expected) in [
        (
            json!({"fromPoolAnnotation": annotation, "fromPoolRef": other, "ipAddressFromIPPool": "c"}),
            "ipam.metal3.io/IPPool/annotated",
        ),
        (
            json!({"fromPoolRef": other, "ipAddressFromIPPool": "c"}),
            "ipam.example/GlobalPool/b",
        ),
        (
            json!({"fromPoolAnnotation": {}, "fromPoolRef": {}, "ipAddressFromIPPool": "c"}),
            "ipam.metal3.io/IPPool/c",
        ),
        (
            json!({"fromPoolRef": {"name": "b", "apiGroup": "", "kind": ""}}),
            "ipam.metal3.io/IPPool/b",
        ),
    ] {
        let mut network = json!({"id": "n", "link": "l"});
        network
            .as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        let found = needed(json!({"networkData": {"networks": {"ipv4": [network]}}}));
        assert_eq!(found, Ok(vec![expected.to_owned()]), "{fields}");
    }
    let route = json!({"network": "n", "gateway": {
        "string": "10.0.0.1", "fromPoolAnnotation": annotation, "fromIPPool": "c",
    }});
    let network = json!({"id": "n", "link": "l", "routes": [route]});
    let found = needed(json!({"networkData": {"networks": {"ipv4DHCP": [network]}}}));
    assert_eq!(found, Ok(vec![]), "a text needs no pool");
}

#[test]
fn metadata_uses_the_kind_of_pool_that_it_names() {
    let item = json!({"key": "k", "name": "p", "apiGroup": "ipam.example", "kind": "GlobalPool"});
    let found = needed(json!({"metaData": {"prefixesFromPool": [item]}}));
    assert_eq!(found, Ok(vec!["ipam.example/GlobalPool/p".to_owned()]));
}

#[test]
fn two_kinds_of_pools_cannot_have_one_name() {
    let network =
        json!({"id": "n", "link": "l", "fromPoolRef": {"name": "p", "kind": "GlobalPool"}});
    let found = needed(json!({
        "metaData": {"ipAddressesFromPool": [{"key": "k", "name": "p"}]},
        "networkData": {"networks": {"ipv6": [network]}},
    }));
    assert_eq!(found, Err(RenderError::TwoKinds("p".to_owned())));
}

#[test]
fn missing_pool_of_a_network_is_an_error() {
    let network = json!({"id": "n", "link": "l"});
    let found = needed(json!({"networkData": {"networks": {"ipv6": [network]}}}));
    assert_eq!(found, Err(RenderError::NoPool("n".to_owned())));
}

#[test]
fn kind_of_the_claim_follows_the_kind_of_the_pool() {
    for (group, kind, expected) in [
        ("ipam.metal3.io", "IPPool", PoolKind::Metal3),
        ("ipam.metal3.io", "GlobalPool", PoolKind::Other),
        ("ipam.example", "IPPool", PoolKind::Other),
    ] {
        let pool = PoolReference {
            api_group: Some(group.to_owned()),
            kind: kind.to_owned(),
            name: "p".to_owned(),
        };
        assert_eq!(PoolKind::of(&pool), expected);
    }
    assert_eq!(claim_name("workers-0", "p"), "workers-0-p");
}

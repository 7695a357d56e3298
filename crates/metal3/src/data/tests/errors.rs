//! Templates that cannot be rendered.

use super::*;

#[test]
fn metadata_without_a_value_is_an_error() {
    for (spec, expected) in [
        (
            json!({"objectNames": [{"key": "k", "object": "node"}]}),
            "object \"node\" is none of machine, metal3machine and baremetalhost",
        ),
        (
            json!({"fromLabels": [{"key": "k", "object": "", "label": "a"}]}),
            "object \"\" is none of machine, metal3machine and baremetalhost",
        ),
        (
            json!({"fromAnnotations": [{"key": "k", "object": "x", "annotation": "a"}]}),
            "object \"x\" is none of machine, metal3machine and baremetalhost",
        ),
        (
            json!({"fromHostInterfaces": [{"key": "k", "interface": "eth9"}]}),
            "the host has no network interface \"eth9\"",
        ),
        (
            json!({"fromHostInterfaces": [{"key": "k"}]}),
            "the host has no network interface \"\"",
        ),
        (
            json!({"ipAddressesFromPool": [{"key": "k", "name": "missing"}]}),
            "there is no address from pool \"missing\"",
        ),
        (
            json!({"dnsServersFromPool": [{"key": "k", "name": "missing"}]}),
            "there is no address from pool \"missing\"",
        ),
        (
            json!({"prefixesFromPool": [{"key": "k", "name": "bare"}]}),
            "the address from pool \"bare\" has no prefix",
        ),
    ] {
        assert_eq!(render_metadata(spec).unwrap_err().to_string(), expected);
    }
}

#[test]
fn host_without_hardware_has_no_mac_addresses() {
    let render = |item: Value| {
        let template = template(json!({"metaData": {"fromHostInterfaces": [item]}}));
        let (meta, host) = (meta("m-1"), BareMetalHost::default());
        let sources = Sources {
            machine: &meta,
            metal3_machine: &meta,
            host: &host,
            namespace: "team-a",
            index: 0,
        };
        metadata::render(&template.meta_data.unwrap(), &sources, &addresses())
    };
    let by_name = render(json!({"key": "k", "interface": "eth0"}));
    assert_eq!(by_name, Err(RenderError::NoInterfaces));
    let boot = render(json!({"key": "k", "fromBootMAC": true})).unwrap_err();
    assert_eq!(
        boot.to_string(),
        "key \"k\" needs the bootMACAddress of the host, which is empty"
    );
}

#[test]
fn invalid_links_are_errors() {
    let ethernet =
        |mac: Value| json!({"ethernets": [{"type": "phy", "id": "e", "macAddress": mac}]});
    let bond = |parameters: Value| json!({"bonds": [{"id": "b", "bondMode": "802.3ad", "parameters": parameters}]});
    for (links, expected) in [
        (
            ethernet(json!({})),
            "link \"e\" has \"\", which is no MAC address",
        ),
        (
            ethernet(json!({"string": "52:54:00:11:22"})),
            "link \"e\" has \"52:54:00:11:22\", which is no MAC address",
        ),
        (
            ethernet(json!({"string": "52:54:00:11:22:3g"})),
            "link \"e\" has \"52:54:00:11:22:3g\", which is no MAC address",
        ),
        (
            ethernet(json!({"string": "525400112233"})),
            "link \"e\" has \"525400112233\", which is no MAC address",
        ),
        (
            ethernet(json!({"fromHostInterface": "eth2"})),
            "link \"e\" has \"none\", which is no MAC address",
        ),
        (
            ethernet(json!({"fromHostInterface": "eth9"})),
            "the host has no network interface \"eth9\"",
        ),
        (
            ethernet(json!({"fromAnnotation": {"object": "baremetalhost", "annotation": "mac"}})),
            "link \"e\" has \"\", which is no MAC address",
        ),
        (
            ethernet(json!({"fromAnnotation": {"object": "x", "annotation": "mac"}})),
            "object \"x\" is none of machine, metal3machine and baremetalhost",
        ),
        (
            bond(json!([
                {"name": "mode", "value": 1}, {"name": "miimon", "value": 1},
                {"name": "links", "value": []}, {"name": "xmit_hash_policy", "value": ""},
            ])),
            "bond \"b\" has parameters that are fields of their own: mode, links, xmit_hash_policy",
        ),
        (
            bond(json!([{"name": "miimon", "value": 1}, {"name": "miimon", "value": 2}])),
            "bond \"b\" has parameters that are fields of their own: miimon",
        ),
        (
            json!({"vlans": [{"id": "v", "vlanLink": "e"}]}),
            "vlan \"v\" has no vlanID",
        ),
    ] {
        let error = render_network(json!({"links": links})).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn invalid_networks_are_errors() {
    let ipv4 = |fields: Value| {
        let mut network = json!({"id": "n", "link": "e"});
        network
            .as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        json!({"networks": {"ipv4": [network]}})
    };
    let route = |route: Value| json!({"networks": {"ipv4DHCP": [{"id": "n", "link": "e", "routes": [route]}]}});
    for (spec, expected) in [
        (ipv4(json!({})), "network \"n\" names no pool"),
        (
            ipv4(json!({"ipAddressFromIPPool": "missing"})),
            "there is no address from pool \"missing\"",
        ),
        (
            ipv4(
                json!({"fromPoolAnnotation": {"object": "baremetalhost", "annotation": "pool"},
                        "ipAddressFromIPPool": "four"}),
            ),
            "annotation \"pool\" of \"baremetalhost\" with the name of a pool is missing or empty",
        ),
        (
            ipv4(json!({"ipAddressFromIPPool": "six"})),
            "prefix 64 is not between 0 and 32",
        ),
        (
            route(json!({"network": "10.0.0.0", "prefix": 33})),
            "prefix 33 is not between 0 and 32",
        ),
        (
            route(json!({"network": "10.0.0.0", "gateway": {"fromIPPool": "missing"}})),
            "there is no address from pool \"missing\"",
        ),
        (
            route(json!({"network": "10.0.0.0", "services": {"dnsFromIPPool": "missing"}})),
            "there is no address from pool \"missing\"",
        ),
        (
            json!({"services": {"dnsFromIPPool": "missing"}}),
            "there is no address from pool \"missing\"",
        ),
    ] {
        assert_eq!(render_network(spec).unwrap_err().to_string(), expected);
    }
}

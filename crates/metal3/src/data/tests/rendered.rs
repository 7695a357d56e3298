//! Exact texts of rendered data.

use super::*;

#[test]
fn r17_r38_metadata_of_all_sources_is_rendered() {
    let spec = json!({
        "strings": [{"key": "text", "value": "a b"}, {"key": "number", "value": "42"}],
        "objectNames": [
            {"key": "name-machine", "object": "machine"},
            {"key": "name-metal3machine", "object": "Metal3Machine"},
            {"key": "name-host", "object": "baremetalhost"},
        ],
        "indexes": [
            {"key": "index"},
            {"key": "index-all", "offset": 10, "step": 2, "prefix": "n-", "suffix": ".example"},
            {"key": "index-zero", "step": 0},
        ],
        "namespaces": [{"key": "namespace"}],
        "ipAddressesFromPool": [{"key": "ip", "name": "four"}, {"key": "ip6", "name": "six"}],
        "prefixesFromPool": [{"key": "prefix", "name": "four"}],
        "gatewaysFromPool": [{"key": "gateway", "name": "four"}, {"key": "gateway-none", "name": "other"}],
        "dnsServersFromPool": [{"key": "dns", "name": "four"}, {"key": "dns-none", "name": "other"}],
        "fromHostInterfaces": [
            {"key": "mac", "interface": "eth1"}, {"key": "mac-boot", "fromBootMAC": true},
        ],
        "fromLabels": [
            {"key": "label", "object": "machine", "label": "role"},
            {"key": "label-host", "object": "baremetalhost", "label": "role"},
            {"key": "label-none", "object": "metal3machine", "label": "missing"},
        ],
        "fromAnnotations": [
            {"key": "note", "object": "metal3machine", "annotation": "note"},
            {"key": "note-none", "object": "baremetalhost", "annotation": "missing"},
        ],
    });
    let expected = include_str!("golden/metadata.yaml");
    assert_eq!(render_metadata(spec).unwrap(), expected);
}

#[test]
fn later_sources_win_and_the_provider_id_always() {
    let keys = [
        (
            "fromHostInterfaces",
            json!({"interface": "eth1"}),
            "52:54:00:ab:cd:ef",
        ),
        (
            "ipAddressesFromPool",
            json!({"name": "four"}),
            "192.168.0.14",
        ),
        ("prefixesFromPool", json!({"name": "four"}), "\"24\""),
        ("gatewaysFromPool", json!({"name": "four"}), "192.168.0.1"),
        (
            "dnsServersFromPool",
            json!({"name": "four"}),
            "8.8.8.8,8.8.4.4",
        ),
        ("indexes", json!({}), "\"3\""),
        ("namespaces", json!({}), "team-a"),
        ("objectNames", json!({"object": "machine"}), "machine-1"),
        (
            "fromLabels",
            json!({"object": "machine", "label": "role"}),
            "machine-1-role",
        ),
        (
            "fromAnnotations",
            json!({"object": "machine", "annotation": "note"}),
            "machine-1 note",
        ),
        ("strings", json!({"value": "text"}), "text"),
    ];
    let mut spec = json!({});
    for (list, mut item, expected) in keys {
        item["key"] = json!("k");
        let mut also = item.clone();
        also["key"] = json!("providerid");
        spec[list] = json!([item, also]);
        let text = format!("k: {expected}\nproviderid: team-a/h-1/m-1\n");
        assert_eq!(render_metadata(spec.clone()).unwrap(), text, "{list}");
    }
    assert_eq!(
        render_metadata(json!({})).unwrap(),
        "providerid: team-a/h-1/m-1\n"
    );
}

#[test]
fn r18_r38_network_data_of_all_kinds_is_rendered() {
    let dns = json!({"dns": ["1.1.1.1"], "dnsFromIPPool": "four"});
    let spec = json!({
        "links": {
            "ethernets": [
                {"type": "phy", "id": "eth0", "macAddress": {"fromHostInterface": "eth0"}},
                {"type": "vif", "id": "eth1", "mtu": 9000, "name": "uplink",
                 "macAddress": {"string": "52-54-00-AB-CD-EF", "fromHostInterface": "eth0"}},
                {"type": "phy", "id": "eth2"},
            ],
            "bonds": [
                {"id": "bond0", "bondMode": "802.3ad", "bondXmitHashPolicy": "layer3+4", "mtu": 1400,
                 "name": "bond", "bondLinks": ["eth0", "eth1"],
                 "macAddress": {"fromAnnotation": {"object": "metal3machine", "annotation": "mac"}},
                 "parameters": [
                    {"name": "miimon", "value": 100}, {"name": "lacp_rate", "value": "fast"},
                    {"name": "nested", "value": {"b": [1, "2"], "a": null}},
                 ]},
                {"id": "bond1", "bondMode": "active-backup"},
            ],
            "vlans": [
                {"id": "vlan1", "vlanID": 101, "vlanLink": "bond0", "name": "storage",
                 "macAddress": {"string": "52:54:00:12:34:56"}},
                {"id": "vlan0", "vlanID": 0, "vlanLink": "eth0"},
            ],
        },
        "networks": {
            "ipv4": [
                {"id": "private", "link": "bond0", "ipAddressFromIPPool": "four", "routes": [
                    {"network": "0.0.0.0", "prefix": 0, "gateway": {"fromIPPool": "four"}},
                    {"network": "10.0.0.0", "prefix": 8, "gateway": {"string": "192.168.0.2"},
                     "services": dns},
                    {"network": "172.16.0.0", "prefix": 12, "gateway": {
                        "fromPoolRef": {"name": "other", "kind": "X", "apiGroup": "g"},
                    }},
                ]},
                {"id": "by-annotation", "link": "eth1", "ipAddressFromIPPool": "four",
                 "fromPoolRef": {"name": "other"},
                 "fromPoolAnnotation": {"object": "machine", "annotation": "pool"},
                 "routes": [{"network": "0.0.0.0", "gateway": {"fromPoolAnnotation":
                    {"object": "machine", "annotation": "pool"}}}]},
                {"id": "without-prefix", "link": "eth1", "ipAddressFromIPPool": "bare"},
            ],
            "ipv6": [
                {"id": "public", "link": "bond0",
                 "fromPoolRef": {"name": "six", "kind": "GlobalPool", "apiGroup": "ipam.example"},
                 "ipAddressFromIPPool": "four", "routes": [
                    {"network": "::", "gateway": {"fromIPPool": "six"},
                     "services": {"dns": ["2001:4860:4860::8844"], "dnsFromIPPool": "six"}},
                    {"network": "2001:db8:1::", "prefix": 56, "gateway": {"string": "fe80::1"}},
                ]},
            ],
            "ipv4DHCP": [{"id": "dhcp4", "link": "eth1", "routes": [
                {"network": "10.1.0.0", "prefix": 16, "gateway": {"fromIPPool": "four"}},
            ]}],
            "ipv6DHCP": [{"id": "dhcp6", "link": "eth1"}],
            "ipv6SLAAC": [{"id": "slaac6", "link": "eth1", "routes": [
                {"network": "2001:db8:2::", "prefix": 64, "gateway": {}},
            ]}],
        },
        "services": dns,
    });
    let expected = include_str!("golden/network.yaml");
    assert_eq!(render_network(spec).unwrap(), expected);
}

#[test]
fn empty_network_data_has_empty_lists() {
    let empty = "links: []\nnetworks: []\nservices: []\n";
    assert_eq!(render_network(json!({})).unwrap(), empty);
    let parts = json!({"links": {}, "networks": {}, "services": {}});
    assert_eq!(render_network(parts).unwrap(), empty);
}

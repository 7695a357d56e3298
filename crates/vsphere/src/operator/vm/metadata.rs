//! The cloud-init metadata of a virtual machine.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::ResourceExt;
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::kinds::{NetworkDevice, VSphereVM};
use crate::vcenter::MachineCard;

/// The key of the extra configuration.
pub(super) const KEY: &str = "guestinfo.metadata";
/// Annotation that identifies the virtual machine of a VSphereVM after a move, when its UID is
/// another. It is created once, and moved along.
pub(super) const MARK: &str = "vsphere.insula.dev/mark";

/// The metadata.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Metadata<'a> {
    instance_id: &'a str,
    local_hostname: &'a str,
    /// The VSphereVM that it belongs to: no other may adopt the virtual machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    wait_on_network: Wait,
    network: Network<'a>,
}

#[derive(Serialize)]
struct Wait {
    ipv4: bool,
    ipv6: bool,
}

#[derive(Serialize)]
struct Network<'a> {
    version: u8,
    ethernets: BTreeMap<String, Ethernet<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    routes: Option<&'a Value>,
}

#[derive(Serialize)]
struct Ethernet<'a> {
    #[serde(rename = "match")]
    card: Match<'a>,
    #[serde(rename = "set-name")]
    name: String,
    wakeonlan: bool,
    dhcp4: bool,
    dhcp6: bool,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    addresses: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    gateway4: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gateway6: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mtu: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nameservers: Option<Nameservers<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    routes: Option<&'a Value>,
    #[serde(rename = "dhcp4-overrides", skip_serializing_if = "Option::is_none")]
    dhcp4_overrides: Option<Value>,
    #[serde(rename = "dhcp6-overrides", skip_serializing_if = "Option::is_none")]
    dhcp6_overrides: Option<Value>,
}

#[derive(Serialize)]
struct Match<'a> {
    macaddress: &'a str,
}

#[derive(Serialize)]
struct Nameservers<'a> {
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    addresses: &'a [String],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    search: &'a [String],
}

/// Returns the desired metadata in base64; none until all network cards are known.
pub(super) fn desired(vm: &VSphereVM, cards: &[MachineCard]) -> Option<String> {
    let devices = &vm.spec.machine.network.devices;
    if cards.len() < devices.len() || cards.iter().any(|card| card.mac.is_empty()) {
        return None;
    }
    let name = vm.metadata.name.as_deref().unwrap_or_default();
    let ethernets = devices.iter().zip(cards).enumerate();
    let metadata = Metadata {
        instance_id: name,
        local_hostname: name,
        owner: owner(vm),
        wait_on_network: Wait {
            ipv4: devices.iter().any(|device| device.dhcp4 == Some(true)),
            ipv6: devices.iter().any(|device| device.dhcp6 == Some(true)),
        },
        network: Network {
            version: 2,
            ethernets: ethernets
                .map(|(at, (device, card))| (format!("id{at}"), ethernet(at, device, card)))
                .collect(),
            routes: filled(vm.spec.machine.network.rest.get("routes")),
        },
    };
    let options = serde_saphyr::ser_options! { folded_wrap_chars: usize::MAX };
    let text = serde_saphyr::to_string_with_options(&metadata, options).ok()?;
    Some(STANDARD.encode(text))
}

/// Returns the owner that is named in the metadata, if any.
pub(super) fn owner_of(metadata: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Owner {
        owner: Option<String>,
    }
    let text = STANDARD.decode(metadata).ok()?;
    let text = String::from_utf8(text).ok()?;
    serde_saphyr::from_str::<Owner>(&text).ok()?.owner
}

/// Returns the owner: namespace and name, which a move does not change and which are unique in a
/// space, and the digest of the mark, which no other space knows. The digest does not reveal the
/// mark to readers of the vCenter or the guest. Without a mark there is no owner.
pub(super) fn owner(vm: &VSphereVM) -> Option<String> {
    let mark = digest(&SHA256, mark(vm)?.as_bytes());
    let mark: String = mark
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let (namespace, name) = (vm.namespace().unwrap_or_default(), vm.name_any());
    Some(format!("{namespace}/{name}/{mark}"))
}

/// Returns the mark that identifies the virtual machine, once it exists.
pub(super) fn mark(vm: &VSphereVM) -> Option<&str> {
    let mark = vm.annotations().get(MARK).map(String::as_str);
    mark.filter(|mark| !mark.is_empty())
}

fn ethernet<'a>(at: usize, device: &'a NetworkDevice, card: &'a MachineCard) -> Ethernet<'a> {
    let named = !device.nameservers.is_empty() || !device.search_domains.is_empty();
    Ethernet {
        card: Match {
            macaddress: &card.mac,
        },
        name: device
            .device_name
            .clone()
            .unwrap_or_else(|| format!("eth{at}")),
        wakeonlan: true,
        dhcp4: device.dhcp4 == Some(true),
        dhcp6: device.dhcp6 == Some(true),
        addresses: &device.ip_addrs,
        gateway4: device.gateway4.as_deref(),
        gateway6: device.gateway6.as_deref(),
        mtu: device.mtu,
        nameservers: named.then_some(Nameservers {
            addresses: &device.nameservers,
            search: &device.search_domains,
        }),
        routes: filled(device.rest.get("routes")),
        dhcp4_overrides: overrides(device.rest.get("dhcp4Overrides")),
        dhcp6_overrides: overrides(device.rest.get("dhcp6Overrides")),
    }
}

fn filled(list: Option<&Value>) -> Option<&Value> {
    list.filter(|list| list.as_array().is_some_and(|list| !list.is_empty()))
}

/// Renames the keys for netplan, for example `useDNS` to `use-dns`.
fn overrides(given: Option<&Value>) -> Option<Value> {
    let given = given?.as_object().filter(|given| !given.is_empty())?;
    let renamed = given.iter().map(|(name, value)| {
        let name = match name.as_str() {
            "hostname" => "hostname".to_owned(),
            name => dashed(name),
        };
        (name, value.clone())
    });
    Some(Value::Object(renamed.collect()))
}

/// Converts `sendHostname` to `send-hostname`, and `useMTU` to `use-mtu`.
fn dashed(name: &str) -> String {
    let mut out = String::new();
    let mut was_lower = false;
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && was_lower {
            out.push('-');
        }
        was_lower = letter.is_ascii_lowercase();
        out.push(letter.to_ascii_lowercase());
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn vm(network: Value) -> VSphereVM {
        serde_json::from_value(json!({
            "apiVersion": crate::names::API_VERSION,
            "kind": "VSphereVM",
            "metadata": {
                "name": "prod-1", "namespace": "team-a", "annotations": {MARK: "abc"},
            },
            "spec": {"template": "ubuntu", "network": network},
        }))
        .expect("a VSphereVM")
    }

    /// The mark is the SHA-256 digest of `abc`.
    const OWNER: &str = "team-a/prod-1/\
        ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    fn card(mac: &str) -> MachineCard {
        MachineCard {
            mac: mac.to_owned(),
            ..MachineCard::default()
        }
    }

    fn decoded(vm: &VSphereVM, cards: &[MachineCard]) -> String {
        let text = desired(vm, cards).expect("all is known");
        let text = STANDARD.decode(text).expect("base64");
        String::from_utf8(text).expect("text")
    }

    #[test]
    fn metadata_has_the_name_and_the_cards_by_mac_address() {
        let vm = vm(json!({
            "devices": [
                {"networkName": "VM Network", "dhcp4": true},
                {
                    "networkName": "storage", "deviceName": "stor0", "mtu": 9000,
                    "ipAddrs": ["10.0.0.5/24"], "gateway4": "10.0.0.1",
                    "nameservers": ["10.0.0.2"], "searchDomains": ["a.example"],
                    "routes": [{"to": "10.9.0.0/16", "via": "10.0.0.9", "metric": 3}],
                    "dhcp4Overrides": {"useDNS": false, "sendHostname": true, "useMTU": true},
                },
            ],
        }));
        let read: Value =
            serde_saphyr::from_str(&decoded(&vm, &[card("aa:01"), card("aa:02")])).expect("YAML");
        assert_eq!(
            read,
            json!({
                "instance-id": "prod-1",
                "local-hostname": "prod-1",
                "owner": OWNER,
                "wait-on-network": {"ipv4": true, "ipv6": false},
                "network": {
                    "version": 2,
                    "ethernets": {
                        "id0": {
                            "match": {"macaddress": "aa:01"}, "set-name": "eth0",
                            "wakeonlan": true, "dhcp4": true, "dhcp6": false,
                        },
                        "id1": {
                            "match": {"macaddress": "aa:02"}, "set-name": "stor0",
                            "wakeonlan": true, "dhcp4": false, "dhcp6": false,
                            "addresses": ["10.0.0.5/24"], "gateway4": "10.0.0.1", "mtu": 9000,
                            "nameservers": {"addresses": ["10.0.0.2"], "search": ["a.example"]},
                            "routes": [{"to": "10.9.0.0/16", "via": "10.0.0.9", "metric": 3}],
                            "dhcp4-overrides": {
                                "use-dns": false, "send-hostname": true, "use-mtu": true,
                            },
                        },
                    },
                },
            })
        );
    }

    #[test]
    fn metadata_waits_until_all_cards_are_known() {
        let vm = vm(json!({"devices": [{"networkName": "a"}, {"networkName": "b"}]}));
        for cards in [vec![], vec![card("aa:01")], vec![card("aa:01"), card("")]] {
            assert_eq!(desired(&vm, &cards), None, "{cards:?}");
        }
    }

    #[test]
    fn metadata_is_deterministic() {
        let vm = vm(json!({"devices": [{"networkName": "a", "dhcp4": true}]}));
        let cards = [card("aa:01")];
        assert_eq!(desired(&vm, &cards), desired(&vm.clone(), &cards));
    }

    #[test]
    fn owner_is_read_only_from_metadata_with_a_mark() {
        let vm = vm(json!({"devices": []}));
        let metadata = desired(&vm, &[]).expect("all is known");
        assert_eq!(owner_of(&metadata).as_deref(), Some(OWNER));
        for mark in [None, Some("")] {
            let mut unmarked = vm.clone();
            let mark = mark.map(|mark| (MARK.to_owned(), mark.to_owned()));
            unmarked.metadata.annotations = Some(mark.into_iter().collect());
            let metadata = desired(&unmarked, &[]).expect("all is known");
            assert_eq!(owner_of(&metadata), None);
        }
        for other in [
            "",
            "%%%",
            "aGVsbG8=",
            &STANDARD.encode("a: 1"),
            &STANDARD.encode([255]),
        ] {
            assert_eq!(owner_of(other), None, "{other}");
        }
    }

    #[test]
    fn name_of_any_shape_stays_a_yaml_string() {
        let mut odd = vm(json!({"devices": []}));
        for name in ["1e3", "null", "yes", "0.1", "a: b", "- x", "#"] {
            odd.metadata.name = Some(name.to_owned());
            let read: Value = serde_saphyr::from_str(&decoded(&odd, &[])).expect("YAML");
            assert_eq!(read["instance-id"], json!(name));
        }
    }
}

//! `Metal3DataTemplate`: how metadata and network data of machines are rendered.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A template of metadata and network data.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "Metal3DataTemplate",
    plural = "metal3datatemplates",
    namespaced,
    status = "Metal3DataTemplateStatus",
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default"
)]
#[serde(rename_all = "camelCase")]
pub struct Metal3DataTemplateSpec {
    /// The cluster; not used any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_name: Option<String>,
    /// The metadata.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta_data: Option<MetaData>,
    /// The network data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_data: Option<NetworkData>,
}

/// The status of a template.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metal3DataTemplateStatus {
    /// The time of the last change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<Time>,
    /// The indexes in use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub indexes: Vec<IndexEntry>,
}

/// An index in use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexEntry {
    /// The name of the claim that uses it.
    pub name: String,
    /// The index.
    #[serde(default)]
    pub index: u32,
}

/// The values of metadata, by where they come from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MetaData {
    /// Texts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub strings: Vec<TextItem>,
    /// Names of objects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub object_names: Vec<NameItem>,
    /// Numbers from the index.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub indexes: Vec<IndexItem>,
    /// The namespace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<NamespaceItem>,
    /// Addresses from pools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ip_addresses_from_pool: Vec<PoolItem>,
    /// Prefix lengths from pools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prefixes_from_pool: Vec<PoolItem>,
    /// Gateways from pools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gateways_from_pool: Vec<PoolItem>,
    /// DNS servers from pools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dns_servers_from_pool: Vec<PoolItem>,
    /// MAC addresses of the host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub from_host_interfaces: Vec<InterfaceItem>,
    /// Labels of objects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub from_labels: Vec<LabelItem>,
    /// Annotations of objects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub from_annotations: Vec<AnnotationItem>,
}

/// A text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextItem {
    /// The key.
    pub key: String,
    /// The value.
    #[serde(default)]
    pub value: String,
}

/// The name of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameItem {
    /// The key.
    pub key: String,
    /// `machine`, `metal3machine` or `baremetalhost`.
    pub object: String,
}

/// A number from the index.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexItem {
    /// The key.
    pub key: String,
    /// What is added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<i32>,
    /// What the index is multiplied with, by default 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<i32>,
    /// The text before the number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// The text after the number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suffix: Option<String>,
}

/// The namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamespaceItem {
    /// The key.
    pub key: String,
}

/// A value from a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolItem {
    /// The key.
    pub key: String,
    /// The name of the pool.
    pub name: String,
    /// The group of its kind, by default that of Metal3's pools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_group: Option<String>,
    /// Its kind, by default `IPPool`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
}

/// A MAC address of the host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceItem {
    /// The key.
    pub key: String,
    /// The name of the interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// Whether it is the address that the host boots from.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        rename = "fromBootMAC"
    )]
    pub from_boot_mac: Option<bool>,
}

/// A label of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabelItem {
    /// The key.
    pub key: String,
    /// `machine`, `metal3machine` or `baremetalhost`.
    pub object: String,
    /// The key of the label.
    pub label: String,
}

/// An annotation of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnnotationItem {
    /// The key.
    pub key: String,
    /// `machine`, `metal3machine` or `baremetalhost`.
    pub object: String,
    /// The key of the annotation.
    pub annotation: String,
}

/// The network of a machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NetworkData {
    /// Its links.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub links: Option<Links>,
    /// Its networks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub networks: Option<Networks>,
    /// Its services.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub services: Option<Services>,
}

/// Links by their type.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Links {
    /// Network interfaces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ethernets: Vec<Ethernet>,
    /// Interfaces that act as one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bonds: Vec<Bond>,
    /// Virtual networks on a link.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vlans: Vec<Vlan>,
}

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ethernet {
    /// Its type, such as `phy`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its ID.
    pub id: String,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its MTU, by default 1500.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<i32>,
    /// Its MAC address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac_address: Option<MacSource>,
}

/// Interfaces that act as one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bond {
    /// The mode, such as `802.3ad`.
    pub bond_mode: String,
    /// How the interface of a packet is chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bond_xmit_hash_policy: Option<String>,
    /// Its ID.
    pub id: String,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its MTU, by default 1500.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<i32>,
    /// Its MAC address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac_address: Option<MacSource>,
    /// Further parameters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<BondParameter>,
    /// The IDs of its links.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bond_links: Vec<String>,
}

/// A parameter of a bond.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BondParameter {
    /// Its name.
    pub name: String,
    /// Its value.
    #[serde(default)]
    pub value: Value,
}

/// A virtual network on a link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Vlan {
    /// Its number.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "vlanID")]
    pub vlan_id: Option<i32>,
    /// Its ID.
    pub id: String,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its MTU, by default 1500.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<i32>,
    /// Its MAC address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac_address: Option<MacSource>,
    /// The ID of the link that it is on.
    pub vlan_link: String,
}

/// Where a MAC address comes from. The first one that is set counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MacSource {
    /// The address itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub string: Option<String>,
    /// The name of an interface of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_host_interface: Option<String>,
    /// An annotation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_annotation: Option<AnnotationSource>,
}

/// An annotation with a value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnnotationSource {
    /// `machine`, `metal3machine` or `baremetalhost`.
    #[serde(default)]
    pub object: String,
    /// The key of the annotation.
    #[serde(default)]
    pub annotation: String,
}

/// Networks by how machines get their address.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Networks {
    /// IPv4, from a pool.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ipv4: Vec<PoolNetwork>,
    /// IPv6, from a pool.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ipv6: Vec<PoolNetwork>,
    /// IPv4, from a DHCP server.
    #[serde(default, skip_serializing_if = "Vec::is_empty", rename = "ipv4DHCP")]
    pub ipv4_dhcp: Vec<DynamicNetwork>,
    /// IPv6, from a DHCP server.
    #[serde(default, skip_serializing_if = "Vec::is_empty", rename = "ipv6DHCP")]
    pub ipv6_dhcp: Vec<DynamicNetwork>,
    /// IPv6, configured by the machine itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty", rename = "ipv6SLAAC")]
    pub ipv6_slaac: Vec<DynamicNetwork>,
}

/// A network with addresses from a pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolNetwork {
    /// Its ID.
    pub id: String,
    /// The ID of its link.
    pub link: String,
    /// The name of a pool of Metal3.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        rename = "ipAddressFromIPPool"
    )]
    pub ip_address_from_ip_pool: Option<String>,
    /// A pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_pool_ref: Option<PoolSource>,
    /// An annotation with the name of a pool of Metal3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_pool_annotation: Option<AnnotationSource>,
    /// Its routes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<Route>,
}

/// A network whose addresses do not come from a pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DynamicNetwork {
    /// Its ID.
    pub id: String,
    /// The ID of its link.
    pub link: String,
    /// Its routes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<Route>,
}

/// A reference to a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolSource {
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// Its kind, by default `IPPool`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The group of its kind, by default that of Metal3's pools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_group: Option<String>,
}

/// A route.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Route {
    /// The network that it leads to.
    pub network: String,
    /// The prefix length of that, by default 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<i32>,
    /// The gateway.
    #[serde(default)]
    pub gateway: GatewaySource,
    /// Services there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub services: Option<Services>,
}

/// Where a gateway comes from. The first one that is set counts, in the order of the text, the
/// annotation, the reference and the name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewaySource {
    /// The gateway itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub string: Option<String>,
    /// The name of a pool of Metal3.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        rename = "fromIPPool"
    )]
    pub from_ip_pool: Option<String>,
    /// A pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_pool_ref: Option<PoolSource>,
    /// An annotation with the name of a pool of Metal3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_pool_annotation: Option<AnnotationSource>,
}

/// Services of a network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Services {
    /// DNS servers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dns: Vec<String>,
    /// The name of a pool of Metal3 with further DNS servers.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        rename = "dnsFromIPPool"
    )]
    pub dns_from_ip_pool: Option<String>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn all_fields_have_their_names() {
        let annotation = json!({"object": "machine", "annotation": "a"});
        let pool = json!({"key": "k", "name": "p", "apiGroup": "g", "kind": "K"});
        let reference = json!({"name": "p", "apiGroup": "g", "kind": "K"});
        let services = json!({"dns": ["1.1.1.1"], "dnsFromIPPool": "p"});
        let mac = json!({"string": "m", "fromHostInterface": "i", "fromAnnotation": annotation});
        let routes = json!([{"network": "n", "prefix": 1, "services": services, "gateway": {
            "string": "g", "fromIPPool": "p", "fromPoolRef": reference,
            "fromPoolAnnotation": annotation,
        }}]);
        let network = json!([{"id": "n", "link": "l", "routes": routes}]);
        let with_pool = json!([{
            "id": "n", "link": "l", "routes": routes, "ipAddressFromIPPool": "p",
            "fromPoolRef": reference, "fromPoolAnnotation": annotation,
        }]);
        let spec = json!({
            "clusterName": "c",
            "metaData": {
                "strings": [{"key": "k", "value": "v"}],
                "objectNames": [{"key": "k", "object": "machine"}],
                "indexes": [{"key": "k", "offset": 1, "step": 2, "prefix": "p", "suffix": "s"}],
                "namespaces": [{"key": "k"}],
                "ipAddressesFromPool": [pool], "prefixesFromPool": [pool],
                "gatewaysFromPool": [pool], "dnsServersFromPool": [pool],
                "fromHostInterfaces": [{"key": "k", "interface": "i", "fromBootMAC": true}],
                "fromLabels": [{"key": "k", "object": "machine", "label": "l"}],
                "fromAnnotations": [{"key": "k", "object": "machine", "annotation": "a"}],
            },
            "networkData": {
                "links": {
                    "ethernets": [
                        {"type": "phy", "id": "i", "name": "n", "mtu": 1, "macAddress": mac},
                    ],
                    "bonds": [{
                        "bondMode": "m", "bondXmitHashPolicy": "p", "id": "i", "name": "n",
                        "mtu": 1, "macAddress": mac, "bondLinks": ["l"],
                        "parameters": [{"name": "p", "value": {"a": 1}}],
                    }],
                    "vlans": [{
                        "vlanID": 1, "id": "i", "name": "n", "mtu": 1, "macAddress": mac,
                        "vlanLink": "l",
                    }],
                },
                "networks": {
                    "ipv4": with_pool, "ipv6": with_pool, "ipv4DHCP": network,
                    "ipv6DHCP": network, "ipv6SLAAC": network,
                },
                "services": services,
            },
        });
        let read: Metal3DataTemplateSpec = serde_json::from_value(spec.clone()).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), spec);
        let status = json!({
            "lastUpdated": "2026-01-01T00:00:00Z", "indexes": [{"name": "m", "index": 0}],
        });
        let read: Metal3DataTemplateStatus = serde_json::from_value(status.clone()).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), status);
    }
}

//! Objects with all fields set.

use super::*;

/// Returns a virtual machine with all fields set.
fn everything() -> Value {
    json!({
        "template": "/DC0/vm/ubuntu",
        "cloneMode": "linkedClone",
        "snapshot": "root",
        "server": "vcenter.example:8443",
        "thumbprint": "ab:cd",
        "datacenter": "DC0",
        "folder": "f",
        "datastore": "d",
        "storagePolicyName": "p",
        "resourcePool": "r",
        "network": {
            "devices": [{
                "networkName": "VM Network",
                "deviceName": "eth0",
                "dhcp4": true,
                "dhcp6": false,
                "gateway4": "192.0.2.1",
                "gateway6": "2001:db8::1",
                "ipAddrs": ["192.0.2.7/24"],
                "mtu": 1500,
                "macAddr": "00:50:56:00:00:01",
                "nameservers": ["192.0.2.2"],
                "searchDomains": ["example"],
                "routes": [{"to": "10.0.0.0/8", "via": "192.0.2.3", "metric": 3}],
                "addressesFromPools": [
                    {"apiGroup": "ipam.cluster.x-k8s.io", "kind": "InClusterIPPool", "name": "p"},
                ],
                "dhcp4Overrides": {"hostname": "h", "routeMetric": 1, "sendHostname": true,
                    "useDNS": true, "useDomains": "true", "useHostname": true, "useMTU": true,
                    "useNTP": true, "useRoutes": "true"},
                "dhcp6Overrides": {"useDNS": false},
                "skipIPAllocation": true,
            }],
            "routes": [{"to": "10.0.0.0/8", "via": "192.0.2.3", "metric": 3}],
            "preferredAPIServerCidr": "192.0.2.0/24",
        },
        "numCPUs": 4,
        "numCoresPerSocket": 2,
        "memoryMiB": 8192,
        "diskGiB": 40,
        "additionalDisksGiB": [1, 2],
        "customVMXKeys": {"a": "b"},
        "tagIDs": ["urn:vmomi:InventoryServiceTag:5736bf56-49f5-4667-b38c-b97e09dc9578:GLOBAL"],
        "pciDevices": [{"deviceId": 1, "vendorId": 2}, {"vGPUProfile": "grid"}],
        "os": "Linux",
        "hardwareVersion": "vmx-19",
        "dataDisks": [{"name": "d", "sizeGiB": 1, "provisioningMode": "Thin"}],
        "powerOffMode": "trySoft",
        "guestSoftPowerOffTimeoutSeconds": 60,
    })
}

pub(super) fn with(mut spec: Value, more: Value) -> Value {
    let more = more.as_object().unwrap().clone();
    spec.as_object_mut().unwrap().extend(more);
    spec
}

fn cluster() -> Value {
    json!({
        "server": "vcenter.example",
        "thumbprint": "AA:BB",
        "controlPlaneEndpoint": {"host": "192.0.2.9", "port": 6443},
        "identityRef": {"kind": "Secret", "name": "mine"},
        "clusterModules": [{"controlPlane": true, "targetObjectName": "kcp", "moduleUUID": "u"}],
        "disableClusterModule": false,
        "failureDomainSelector": {},
    })
}

fn machine() -> Value {
    let more = json!({
        "providerID": "vsphere://4210d7a9-0000-0000-0000-000000000000",
        "failureDomain": "zone-a",
        "naming": {"template": "{{ .machine.name }}"},
    });
    with(everything(), more)
}

/// Returns an object of every kind with all fields set.
pub fn whole() -> Vec<(&'static str, Value)> {
    let part =
        |kind: &str| json!({"name": "n", "type": kind, "tagCategory": "c", "autoConfigure": false});
    let metadata = json!({"labels": {"a": "b"}, "annotations": {"c": "d"}});
    let thumbprint = "0123456789abcdefABCD0123456789abcdefABCD";
    vec![
        (
            "vsphereclusteridentities",
            json!({
                "secretName": "s",
                "allowedNamespaces": {"selector": {
                    "matchLabels": {"team": "a"},
                    "matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}],
                }},
                "allowedServers": [
                    {"address": "vcenter.example:8443", "thumbprint": thumbprint},
                    {"address": "[2001:db8::1]", "insecureSkipVerify": true},
                ],
            }),
        ),
        ("vsphereclusters", cluster()),
        (
            "vsphereclustertemplates",
            json!({"template": {"metadata": metadata, "spec": cluster()}}),
        ),
        ("vspheremachines", machine()),
        (
            "vspheremachinetemplates",
            json!({"template": {"metadata": metadata, "spec": machine()}}),
        ),
        (
            "vspherevms",
            with(
                everything(),
                json!({"bootstrapRef": {"name": "b"}, "biosUUID": "u"}),
            ),
        ),
        (
            "vspheredeploymentzones",
            json!({
                "server": "vcenter.example",
                "failureDomain": "f",
                "controlPlane": true,
                "placementConstraint": {"resourcePool": "r", "folder": "f"},
                "identityRef": {"kind": "VSphereClusterIdentity", "name": "i"},
            }),
        ),
        (
            "vspherefailuredomains",
            json!({
                "region": part("Datacenter"),
                "zone": part("ComputeCluster"),
                "topology": {
                    "datacenter": "DC0", "computeCluster": "C0", "datastore": "d",
                    "hosts": {"vmGroupName": "v", "hostGroupName": "h"},
                    "networks": ["n"],
                    "networkConfigurations": [{"networkName": "n", "dhcp4": true, "dhcp6": false,
                        "nameservers": ["192.0.2.2"], "searchDomains": ["example"],
                        "dhcp4Overrides": {"useDNS": true}, "dhcp6Overrides": {"useDNS": true},
                        "addressesFromPools": [{"apiGroup": "g", "kind": "K", "name": "n"}]}],
                },
            }),
        ),
    ]
}

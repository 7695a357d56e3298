//! An object of every kind with all fields set, in both versions.

use serde_json::{Value, json};

/// The specification of an object in both versions.
pub struct Specification {
    pub plural: &'static str,
    pub name: &'static str,
    /// The specification in `v1beta1`.
    pub old: Value,
    /// The specification in `v1beta2`.
    pub new: Value,
}

/// The status of an object in both versions.
pub struct Status {
    pub plural: &'static str,
    /// The status in `v1beta1`.
    pub old: Value,
    /// The status in `v1beta2`.
    pub new: Value,
}

fn with(mut spec: Value, more: Value) -> Value {
    let more = more.as_object().unwrap().clone();
    spec.as_object_mut().unwrap().extend(more);
    spec
}

fn cluster() -> (Value, Value) {
    let both = json!({
        "controlPlaneEndpoint": {"host": "192.0.2.9", "port": 6443},
        "cloudProviderEnabled": true,
        "identityRef": {"name": "hosts", "context": "pool-a"},
    });
    let old = json!({
        "noCloudProvider": false,
        "failureDomains": {
            "a": {"controlPlane": true, "attributes": {"rack": "1"}},
            "b": {"controlPlane": false},
        },
    });
    let new = json!({
        "failureDomains": [
            {"name": "a", "controlPlane": true, "attributes": {"rack": "1"}},
            {"name": "b", "controlPlane": false},
        ],
    });
    (with(both.clone(), old), with(both, new))
}

fn machine() -> (Value, Value) {
    let image = json!({
        "url": "http://images.example/ubuntu.qcow2",
        "checksum": "http://images.example/ubuntu.qcow2.sha256sum",
        "checksumType": "sha256",
    });
    let both = json!({
        "providerID": "metal3://default/node-0/x",
        "customDeploy": {"method": "install_coreos"},
        "hostSelector": {
            "matchLabels": {"size": "large"},
            "matchExpressions": [
                {"key": "cpu", "operator": "gt", "values": ["4"]},
                {"key": "cpu", "operator": "lt", "values": ["64"]},
            ],
        },
        "dataTemplate": {"name": "t", "namespace": "default"},
        "userData": {"name": "u", "namespace": "default"},
        "metaData": {"name": "m"},
        "networkData": {"name": "n"},
        "automatedCleaningMode": "metadata",
        "failureDomain": "a",
        "identityRef": {"name": "hosts", "context": "pool-a"},
    });
    let old = with(image.clone(), json!({"format": "qcow2"}));
    let new = with(image, json!({"diskFormat": "qcow2"}));
    (
        with(both.clone(), json!({"image": old})),
        with(both, json!({"image": new})),
    )
}

fn network(family: &str) -> Value {
    let (address, prefix) = match family {
        "ipv4" => ("192.0.2.0", 24),
        _ => ("2001:db8::", 64),
    };
    let pool = json!({"apiGroup": "ipam.metal3.io", "kind": "IPPool", "name": "p"});
    json!({
        "id": "n", "link": "l",
        "routes": [
            {
                "network": address, "prefix": prefix, "gateway": {"string": address},
                "services": {"dns": [address], "dnsFromIPPool": "p"},
            },
            {"network": address, "prefix": prefix, "gateway": {"fromIPPool": "p"}},
            {"network": address, "prefix": prefix, "gateway": {"fromPoolRef": pool}},
            {"network": address, "prefix": prefix, "gateway": {
                "fromPoolAnnotation": {"object": "machine", "annotation": "a"},
            }},
        ],
    })
}

fn networks() -> Value {
    let pool = json!({"apiGroup": "ipam.metal3.io", "kind": "IPPool", "name": "p"});
    let sources = |family: &str| {
        let annotation = json!({"object": "baremetalhost", "annotation": "a"});
        json!([
            with(
                network(family),
                json!({"id": "1", "ipAddressFromIPPool": "p"})
            ),
            with(network(family), json!({"id": "2", "fromPoolRef": pool})),
            with(
                network(family),
                json!({"id": "3", "fromPoolAnnotation": annotation})
            ),
        ])
    };
    json!({
        "ipv4": sources("ipv4"),
        "ipv4DHCP": [network("ipv4")],
        "ipv6": sources("ipv6"),
        "ipv6DHCP": [network("ipv6")],
        "ipv6SLAAC": [network("ipv6")],
    })
}

/// Returns a data template; only names of fields, and parameters of bonds, differ.
fn data_template(suffix: &str, parameters: &Value) -> Value {
    let pools = json!([{"key": "k", "name": "p", "apiGroup": "ipam.metal3.io", "kind": "IPPool"}]);
    let mut metadata = json!({
        "strings": [{"key": "s", "value": "v"}, {"key": "empty", "value": ""}],
        "objectNames": [{"key": "o", "object": "machine"}],
        "indexes": [{"key": "i", "offset": 10, "step": 2, "prefix": "a", "suffix": "b"}],
        "namespaces": [{"key": "n"}],
        "fromHostInterfaces": [
            {"key": "h", "interface": "eth0"}, {"key": "boot", "fromBootMAC": true},
        ],
        "fromLabels": [{"key": "l", "object": "baremetalhost", "label": "a"}],
        "fromAnnotations": [{"key": "a", "object": "metal3machine", "annotation": "a"}],
    });
    for field in ["ipAddresses", "prefixes", "gateways", "dnsServers"] {
        metadata[format!("{field}From{suffix}")] = pools.clone();
    }
    json!({
        "clusterName": "c",
        "metaData": metadata,
        "networkData": {
            "links": {
                "ethernets": [
                    {"id": "e", "type": "phy", "name": "eth0", "mtu": 9000,
                        "macAddress": {"fromHostInterface": "eth0"}},
                    {"id": "f", "type": "vif", "mtu": 1500,
                        "macAddress": {"string": "00:00:5e:00:53:01"}},
                ],
                "bonds": [{
                    "id": "b", "bondMode": "802.3ad", "bondXmitHashPolicy": "layer3+4",
                    "bondLinks": ["e", "f"], "mtu": 1500, "parameters": parameters,
                    "macAddress": {"fromAnnotation": {"object": "machine", "annotation": "a"}},
                }],
                "vlans": [
                    {"id": "v", "vlanID": 7, "vlanLink": "b", "mtu": 1500,
                        "macAddress": {"string": "00:00:5e:00:53:01"}},
                    {"id": "w", "vlanID": 7, "vlanLink": "e", "mtu": 1500},
                ],
            },
            "networks": networks(),
            "services": {"dns": ["192.0.2.53", "2001:db8::53"], "dnsFromIPPool": "p"},
        },
    })
}

/// Returns a specification of every kind with two versions.
pub fn infrastructure() -> Vec<Specification> {
    let (old_cluster, new_cluster) = cluster();
    let (old_machine, new_machine) = machine();
    let old_reference = json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1",
        "kind": "K", "name": "t", "namespace": "default", "uid": "u"});
    let reference = json!({"name": "t", "namespace": "default"});
    let data = json!({
        "index": 3,
        "metaData": {"name": "x-metadata", "namespace": "hosts"},
        "networkData": {"name": "x-networkdata", "namespace": "hosts"},
    });
    let specification = |plural, name, old, new| Specification {
        plural,
        name,
        old,
        new,
    };
    let old_strategy = json!({"strategy": {"type": "Reboot", "retryLimit": 2, "timeout": "5m"}});
    let strategy = json!({"strategy": {"type": "Reboot", "retryLimit": 2, "timeoutSeconds": 300}});
    vec![
        specification(
            "metal3clusters",
            "x",
            old_cluster.clone(),
            new_cluster.clone(),
        ),
        specification(
            "metal3clustertemplates",
            "x",
            json!({"template": {"spec": old_cluster}}),
            json!({"template": {"spec": new_cluster}}),
        ),
        specification(
            "metal3machines",
            "x",
            old_machine.clone(),
            new_machine.clone(),
        ),
        specification(
            "metal3machinetemplates",
            "x",
            json!({"template": {"spec": old_machine}, "nodeReuse": true}),
            json!({"template": {"spec": new_machine}, "nodeReuse": true}),
        ),
        specification(
            "metal3datatemplates",
            "x",
            with(
                data_template("IPPool", &json!({"lacp_rate": "fast", "miimon": 100})),
                json!({"templateReference": "r"}),
            ),
            data_template(
                "Pool",
                &json!([{"name": "lacp_rate", "value": "fast"}, {"name": "miimon", "value": 100}]),
            ),
        ),
        specification(
            "metal3dataclaims",
            "x",
            json!({"template": old_reference}),
            json!({"template": reference}),
        ),
        specification(
            "metal3datas",
            "t-3",
            with(
                data.clone(),
                json!({"template": old_reference, "claim": old_reference, "templateReference": "r"}),
            ),
            with(data, json!({"template": reference, "claim": reference})),
        ),
        specification(
            "metal3remediations",
            "x",
            old_strategy.clone(),
            strategy.clone(),
        ),
        specification(
            "metal3remediationtemplates",
            "x",
            json!({"template": {"spec": old_strategy}}),
            json!({"template": {"spec": strategy}}),
        ),
    ]
}

/// Returns the statuses of clusters and of machines, without the fields that only one has.
fn provisioned() -> (Value, Value) {
    let at = "2026-01-01T00:00:00Z";
    let conditions = json!([{"type": "Ready", "status": "True", "reason": "Ready",
        "message": "", "observedGeneration": 1, "lastTransitionTime": at}]);
    let old_conditions = json!([{"type": "Ready", "status": "False", "severity": "Error",
        "reason": "r", "message": "m", "lastTransitionTime": at}]);
    let old = json!({
        "ready": true,
        "lastUpdated": at,
        "failureReason": "r",
        "failureMessage": "m",
        "conditions": old_conditions,
        "v1beta2": {"conditions": conditions},
    });
    let new = json!({
        "initialization": {"provisioned": true},
        "lastUpdated": at,
        "conditions": conditions,
        "deprecated": {"v1beta1": {
            "conditions": old_conditions,
            "failureReason": "r",
            "failureMessage": "m",
        }},
    });
    (old, new)
}

/// Returns a status of every kind that has one in two versions.
pub fn statuses() -> Vec<Status> {
    let at = "2026-01-01T00:00:00Z";
    let secret = json!({"name": "s", "namespace": "hosts"});
    let reference = json!({"name": "t-3", "namespace": "default"});
    let remediation = json!({"phase": "Deleting machine", "retryCount": 2, "lastRemediated": at});
    let machine = json!({
        "addresses": [{"type": "InternalIP", "address": "192.0.2.7"}],
        "renderedData": reference,
        "userData": secret, "metaData": secret, "networkData": secret,
    });
    let (old, new) = provisioned();
    let status = |plural, old, new| Status { plural, old, new };
    let same = |plural, value: Value| status(plural, value.clone(), value);
    vec![
        status(
            "metal3clusters",
            with(
                old.clone(),
                json!({"failureDomains": {"a": {"controlPlane": true}}}),
            ),
            with(
                new.clone(),
                json!({"failureDomains": [{"name": "a", "controlPlane": true}]}),
            ),
        ),
        status(
            "metal3machines",
            with(old, machine.clone()),
            with(new, machine),
        ),
        status(
            "metal3datatemplates",
            json!({"lastUpdated": at, "indexes": {"a": 1, "b": 0}}),
            json!({"lastUpdated": at, "indexes": [
                {"name": "b", "index": 0}, {"name": "a", "index": 1},
            ]}),
        ),
        same(
            "metal3dataclaims",
            json!({"renderedData": reference, "errorMessage": "e"}),
        ),
        same("metal3datas", json!({"ready": true, "errorMessage": "e"})),
        same("metal3remediations", remediation.clone()),
        same("metal3remediationtemplates", json!({"status": remediation})),
    ]
}

/// Returns a specification of every kind of address pools.
pub fn addresses() -> Vec<(&'static str, Value)> {
    let reference = json!({"apiVersion": "ipam.metal3.io/v1alpha1", "kind": "K", "name": "p",
        "namespace": "default", "uid": "u"});
    vec![
        (
            "ippools",
            json!({
                "clusterName": "c",
                "namePrefix": "p",
                "pools": [
                    {"start": "192.0.2.10", "end": "192.0.2.20", "prefix": 25,
                        "gateway": "192.0.2.1", "dnsServers": ["192.0.2.53"]},
                    {"subnet": "2001:db8::/64"},
                ],
                "allocationStrategy": "random",
                "preAllocations": {"claim": "192.0.2.12"},
                "prefix": 24,
                "gateway": "192.0.2.2",
                "dnsServers": ["2001:db8::53"],
            }),
        ),
        ("ipclaims", json!({"pool": reference})),
        (
            "ipaddresses",
            json!({
                "address": "192.0.2.12", "claim": reference, "pool": reference,
                "prefix": 24, "gateway": "192.0.2.1", "dnsServers": ["192.0.2.53"],
            }),
        ),
    ]
}

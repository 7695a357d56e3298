//! What the definitions admit, keep and refuse, in the system's space and in a tenant's.

use insula_testkit::server::Client;
use serde_json::{Value, json};

use crate::scene::{Scene, object, path};

const MERGE: &str = "merge";

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

fn with(mut spec: Value, more: Value) -> Value {
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

#[tokio::test]
async fn every_field_is_stored_unchanged() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    for (space, client) in scene.spaces() {
        for (plural, spec) in whole() {
            let strict = format!("{}?fieldValidation=Strict", path(plural));
            let made = client.post(&strict, &object(plural, "x", &spec)).await?;
            assert_eq!(made.status, 201, "{space} {plural}: {}", made.text());
            assert_eq!(made.json()["spec"], spec, "{space} {plural}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn a3_missing_and_empty_selectors_stay_distinct() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    let plural = "vsphereclusteridentities";
    for (space, client) in scene.spaces() {
        for (name, allowed) in [
            ("null", json!(null)),
            ("all", json!({})),
            ("selector", json!({"selector": {}})),
            ("labels", json!({"selector": {"matchLabels": {}}})),
            ("expressions", json!({"selector": {"matchExpressions": []}})),
            (
                "one",
                json!({"selector": {"matchLabels": {"kubernetes.io/metadata.name": "foo"}}}),
            ),
        ] {
            let spec = json!({"secretName": "s", "allowedNamespaces": allowed});
            let made = client
                .post(&path(plural), &object(plural, name, &spec))
                .await?;
            assert_eq!(made.status, 201, "{space} {name}: {}", made.text());
            let one = format!("{}/{name}", path(plural));
            let found = client.get(&one).await?.json();
            assert_eq!(
                found["spec"]["allowedNamespaces"], allowed,
                "{space} {name}"
            );
            // It is unchanged after a write of another field.
            let label = json!({"metadata": {"labels": {"a": "b"}}});
            client.patch(&one, MERGE, &label).await?;
            let found = client.get(&one).await?.json();
            assert_eq!(
                found["spec"]["allowedNamespaces"], allowed,
                "{space} {name}"
            );
        }
        let spec = json!({"secretName": "s"});
        client
            .post(&path(plural), &object(plural, "missing", &spec))
            .await?;
        let found = client
            .get(&format!("{}/missing", path(plural)))
            .await?
            .json();
        assert_eq!(found["spec"], spec, "{space}");
    }
    Ok(())
}

/// Returns the message with which a creation is refused.
async fn refused(client: &Client, plural: &str, spec: &Value) -> anyhow::Result<String> {
    let made = client
        .post(&path(plural), &object(plural, "x", spec))
        .await?;
    anyhow::ensure!(
        made.status == 422,
        "{spec}: {} {}",
        made.status,
        made.text()
    );
    let told = made.message();
    Ok(told
        .split_once(" is invalid: ")
        .map_or(told.clone(), |(_, why)| why.to_owned()))
}

#[tokio::test]
async fn a4_a5_invalid_fields_are_refused_by_name() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    let clusters = |reference: Value| {
        (
            "vsphereclusters",
            json!({"server": "v", "identityRef": reference}),
        )
    };
    let zones = |reference: Value| {
        let spec = json!({"server": "v", "failureDomain": "f", "identityRef": reference});
        ("vspheredeploymentzones", spec)
    };
    let selector = |expression: Value| {
        let allowed = json!({"selector": {"matchExpressions": [expression]}});
        (
            "vsphereclusteridentities",
            json!({"secretName": "s", "allowedNamespaces": allowed}),
        )
    };
    let server = |server: Value| {
        (
            "vsphereclusteridentities",
            json!({"secretName": "s", "allowedServers": [server]}),
        )
    };
    let values = "In and NotIn need values, Exists and DoesNotExist have none";
    let cases = [
        (
            clusters(json!({"kind": "ConfigMap", "name": "n"})),
            r#"spec.identityRef.kind: Unsupported value: "ConfigMap": supported values: "VSphereClusterIdentity", "Secret""#,
        ),
        (
            clusters(json!({"kind": "Secret", "name": ""})),
            r#"spec.identityRef.name: Invalid value: "": spec.identityRef.name in body should be at least 1 chars long"#,
        ),
        (
            clusters(json!({"kind": "VSphereClusterIdentity", "name": "shared/status"})),
            "spec.identityRef.name in body should match",
        ),
        (
            clusters(json!({"kind": "Secret", "name": "%73hared"})),
            "spec.identityRef.name in body should match",
        ),
        (
            zones(json!({"kind": "VSphereClusterIdentity", "name": "shared?x"})),
            "spec.identityRef.name in body should match",
        ),
        (
            (
                "vspheredeploymentzones",
                json!({"server": "v", "failureDomain": "../x"}),
            ),
            "spec.failureDomain in body should match",
        ),
        (
            ("vsphereclusteridentities", json!({"secretName": "a/b"})),
            "spec.secretName in body should match",
        ),
        (
            (
                "vspheremachines",
                json!({
                    "template": "t", "failureDomain": "a/b",
                    "network": {"devices": [{"networkName": "n"}]},
                }),
            ),
            "spec.failureDomain in body should match",
        ),
        (
            clusters(json!({"name": "n"})),
            "spec.identityRef.kind: Required value",
        ),
        (
            clusters(json!({"kind": "Secret"})),
            "spec.identityRef.name: Required value",
        ),
        (
            ("vsphereclusters", json!({"server": ""})),
            r#"spec.server: Invalid value: "": spec.server in body should be at least 1 chars long"#,
        ),
        (
            zones(json!({"kind": "Secret", "name": "n"})),
            r#"spec.identityRef.kind: Unsupported value: "Secret": supported values: "VSphereClusterIdentity""#,
        ),
        (
            ("vsphereclusteridentities", json!({"secretName": ""})),
            r#"spec.secretName: Invalid value: "": spec.secretName in body should be at least 1 chars long"#,
        ),
        (
            ("vsphereclusteridentities", json!({})),
            "spec.secretName: Required value",
        ),
        (
            selector(json!({"key": "k", "operator": "Contains", "values": ["v"]})),
            r#"spec.allowedNamespaces.selector.matchExpressions[0].operator: Unsupported value: "Contains": supported values: "In", "NotIn", "Exists", "DoesNotExist""#,
        ),
        (selector(json!({"key": "k", "operator": "In"})), values),
        (
            selector(json!({"key": "k", "operator": "NotIn", "values": []})),
            values,
        ),
        (
            selector(json!({"key": "k", "operator": "Exists", "values": ["v"]})),
            values,
        ),
        (
            server(json!({"address": "https://v"})),
            r"spec.allowedServers[0].address in body should match '^[^\s/@,]+$'",
        ),
        (
            server(json!({"address": "v", "thumbprint": "AA:BB"})),
            "spec.allowedServers[0].thumbprint in body should match",
        ),
        (
            server(
                json!({"address": "v", "thumbprint": "ab".repeat(20), "insecureSkipVerify": true}),
            ),
            "thumbprint and insecureSkipVerify exclude each other",
        ),
        (
            ("vspheremachines", json!({"template": "t"})),
            "spec.network: Required value",
        ),
        (
            (
                "vspherevms",
                json!({"template": "t", "network": {"devices": [{}]}}),
            ),
            "spec.network.devices[0].networkName: Required value",
        ),
    ];
    for (space, client) in scene.spaces() {
        for ((plural, spec), expected) in &cases {
            let why = refused(client, plural, spec).await?;
            assert!(why.contains(expected), "{space} {spec}: {why}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn machine_defaults_are_any_datacenter_and_hard_power_off() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    let spec = json!({"template": "t", "network": {"devices": []}});
    for (plural, expected) in [
        (
            "vspheremachines",
            json!({"datacenter": "*", "powerOffMode": "hard"}),
        ),
        ("vspherevms", json!({"powerOffMode": "hard"})),
    ] {
        let made = scene
            .acme
            .post(&path(plural), &object(plural, "x", &spec))
            .await?;
        assert_eq!(
            made.json()["spec"],
            with(spec.clone(), expected),
            "{plural}"
        );
    }
    Ok(())
}

/// Returns another value of the same type.
fn other(value: &Value) -> Value {
    match value {
        Value::Bool(one) => json!(!one),
        Value::Number(one) => json!(one.as_i64().unwrap() + 1),
        Value::String(one) if one == "Linux" => json!("Windows"),
        Value::String(one) if one == "linkedClone" => json!("fullClone"),
        Value::String(one) if one == "Thin" => json!("Thick"),
        Value::String(one) if one == "trySoft" => json!("soft"),
        Value::String(one) if one.starts_with("vmx") => json!("vmx-20"),
        Value::String(one) => json!(format!("{one}1")),
        Value::Array(elements) => json!(
            elements
                .iter()
                .chain(elements)
                .map(other)
                .take(1)
                .collect::<Vec<_>>()
        ),
        Value::Object(members) => members
            .iter()
            .map(|(key, value)| (key.clone(), other(value)))
            .collect(),
        Value::Null => json!(null),
    }
}

#[tokio::test]
async fn clone_source_is_immutable_and_other_fields_are_not() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    let changeable = [
        (
            "vspheremachines",
            "providerID powerOffMode guestSoftPowerOffTimeoutSeconds thumbprint network",
        ),
        (
            "vspherevms",
            "bootstrapRef powerOffMode guestSoftPowerOffTimeoutSeconds thumbprint network",
        ),
    ];
    for (space, client) in scene.spaces() {
        for (plural, changeable) in changeable {
            let spec = whole().into_iter().find(|(of, _)| *of == plural).unwrap().1;
            client
                .post(&path(plural), &object(plural, "x", &spec))
                .await?;
            let one = format!("{}/x", path(plural));
            for (field, value) in spec.as_object().unwrap() {
                let patch = json!({"spec": {field: match field.as_str() {
                    "network" => json!({"devices": other(&value["devices"])}),
                    _ => other(value),
                }}});
                let answer = client.patch(&one, MERGE, &patch).await?;
                if changeable.split(' ').any(|word| word == field) {
                    assert_eq!(answer.status, 200, "{space} {field}: {}", answer.text());
                    continue;
                }
                assert_eq!(answer.status, 422, "{space} {field}: {}", answer.text());
                let once = plural == "vspherevms" && ["os", "biosUUID"].contains(&field.as_str());
                let rule = if once { " once it is set" } else { "" };
                let said = answer.message();
                assert!(
                    said.ends_with(&format!(": {field} cannot be changed{rule}")),
                    "{said}"
                );
                // The field cannot be removed either.
                let answer = client
                    .patch(&one, MERGE, &json!({"spec": {field: null}}))
                    .await?;
                assert_eq!(answer.status, 422, "{space} {field}: {}", answer.text());
            }
            for field in ["routes", "preferredAPIServerCidr"] {
                let patch = json!({"spec": {"network": {field: null}}});
                let said = client.patch(&one, MERGE, &patch).await?.message();
                assert!(
                    said.ends_with(&format!(": network.{field} cannot be changed")),
                    "{said}"
                );
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn late_fields_can_be_set_once() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    let (plural, client) = ("vspherevms", &scene.acme);
    let spec = json!({"template": "t", "network": {"devices": []}});
    client
        .post(&path(plural), &object(plural, "x", &spec))
        .await?;
    let one = format!("{}/x", path(plural));
    for (field, first, second) in [("biosUUID", "u", "v"), ("os", "Linux", "Windows")] {
        let set = async |value: &str| {
            client
                .patch(&one, MERGE, &json!({"spec": {field: value}}))
                .await
        };
        assert_eq!(set(first).await?.status, 200);
        assert_eq!(set(first).await?.status, 200, "the same again");
        assert_eq!(set(second).await?.status, 422);
    }
    // A missing field cannot be added later.
    let answer = client
        .patch(&one, MERGE, &json!({"spec": {"folder": "f"}}))
        .await?;
    assert!(
        answer.message().ends_with(": folder cannot be changed"),
        "{}",
        answer.message()
    );
    Ok(())
}

#[tokio::test]
async fn cluster_template_is_immutable() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    let (plural, client) = ("vsphereclustertemplates", &scene.acme);
    let spec = json!({"template": {"spec": {"server": "v"}}});
    client
        .post(&path(plural), &object(plural, "x", &spec))
        .await?;
    let one = format!("{}/x", path(plural));
    let patch = json!({"spec": {"template": {"spec": {"server": "w"}}}});
    let answer = client.patch(&one, MERGE, &patch).await?;
    assert_eq!(answer.status, 422);
    let said = answer.message();
    assert!(
        said.ends_with(": a template cannot be changed, create another one"),
        "{said}"
    );
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    assert_eq!(client.patch(&one, MERGE, &label).await?.status, 200);
    Ok(())
}

#[tokio::test]
async fn a6_c7_identity_reference_is_optional_and_mutable() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    let (plural, client) = ("vsphereclusters", &scene.acme);
    client
        .post(&path(plural), &object(plural, "x", &json!({"server": "v"})))
        .await?;
    let one = format!("{}/x", path(plural));
    for reference in [
        json!({"kind": "Secret", "name": "a"}),
        json!({"kind": "VSphereClusterIdentity", "name": "b"}),
        json!(null),
        json!({"kind": "Secret", "name": "c"}),
    ] {
        let patch = json!({"spec": {"identityRef": reference}});
        let answer = client.patch(&one, MERGE, &patch).await?;
        assert_eq!(
            answer.json()["spec"]["identityRef"],
            reference,
            "{}",
            answer.text()
        );
    }
    Ok(())
}

/// Returns the cells of the only row, by column.
fn cells(table: &Value) -> Vec<(String, Value)> {
    let columns = table["columnDefinitions"].as_array().unwrap();
    let cells = table["rows"][0]["cells"].as_array().unwrap();
    let name = |column: &Value| column["name"].as_str().unwrap().to_owned();
    columns.iter().map(name).zip(cells.clone()).collect()
}

#[tokio::test]
async fn cr1_table_output_shows_the_reason() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    let client = &scene.acme;
    let condition = |kind: &str, reason: &str| {
        json!({"type": kind, "status": "False", "reason": reason, "message": "m",
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    for (plural, status, shown) in [
        (
            "vsphereclusters",
            json!({"conditions": [condition("VCenterAvailable", "NamespaceNotAllowed")]}),
            "NamespaceNotAllowed",
        ),
        (
            "vsphereclusteridentities",
            json!({"ready": false, "users": 2, "usedBy": ["VSphereCluster a/b"],
                "conditions": [condition("Available", "SecretNotAvailable")]}),
            "SecretNotAvailable",
        ),
        (
            "vspheremachines",
            json!({"conditions": [condition("VirtualMachineProvisioned", "WaitingForBootstrapData")]}),
            "WaitingForBootstrapData",
        ),
        (
            "vspherevms",
            json!({"conditions": [condition("VirtualMachineProvisioned", "WaitingForClone")]}),
            "WaitingForClone",
        ),
        (
            "vspheredeploymentzones",
            json!({"conditions": [condition("VCenterAvailable", "NoCredentials")]}),
            "NoCredentials",
        ),
    ] {
        let spec = whole().into_iter().find(|(of, _)| *of == plural).unwrap().1;
        client
            .post(&path(plural), &object(plural, "x", &spec))
            .await?;
        let one = format!("{}/x/status", path(plural));
        let answer = client
            .patch(&one, MERGE, &json!({"status": status}))
            .await?;
        assert_eq!(answer.json()["status"], status, "{}", answer.text());
        let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let table = client.accept(&path(plural), accept).await?.json();
        let shown_now = cells(&table);
        let reason = shown_now.iter().find(|(name, _)| name == "Reason");
        assert_eq!(
            reason.map(|(_, value)| value),
            Some(&json!(shown)),
            "{table}"
        );
    }
    Ok(())
}

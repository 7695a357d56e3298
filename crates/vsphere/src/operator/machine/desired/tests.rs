use serde_json::{Value, json};

use super::*;

fn of<K: serde::de::DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).expect("an object")
}

fn cluster(status: Value) -> Cluster {
    of(json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"name": "prod", "namespace": "team-a"},
        "spec": {}, "status": status,
    }))
}

fn owner(control_plane: bool, data: Option<&str>, zone: Option<&str>) -> Machine {
    let labels = match control_plane {
        true => json!({CONTROL_PLANE_LABEL: ""}),
        false => json!({}),
    };
    of(json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
        "metadata": {"name": "prod-1", "namespace": "team-a", "labels": labels},
        "spec": {
            "clusterName": "prod", "bootstrap": {"dataSecretName": data}, "failureDomain": zone,
        },
    }))
}

fn machine(spec: Value) -> VSphereMachine {
    of(json!({
        "apiVersion": crate::names::API_VERSION, "kind": "VSphereMachine",
        "metadata": {"name": "infra-1", "namespace": "team-a", "uid": "u-1"},
        "spec": spec,
    }))
}

fn infrastructure() -> VSphereCluster {
    of(json!({
        "apiVersion": crate::names::API_VERSION, "kind": "VSphereCluster",
        "metadata": {"name": "prod", "namespace": "team-a"},
        "spec": {"server": "vcenter.example", "thumbprint": "AA"},
    }))
}

fn zone(topology: Value, constraint: Value) -> Zone {
    let metadata = json!({"name": "z"});
    Zone {
        zone: of(json!({
            "apiVersion": crate::names::API_VERSION, "kind": "VSphereDeploymentZone",
            "metadata": metadata,
            "spec": {
                "server": "vcenter.example:443", "failureDomain": "d",
                "placementConstraint": constraint,
            },
        })),
        domain: of(json!({
            "apiVersion": crate::names::API_VERSION, "kind": "VSphereFailureDomain",
            "metadata": metadata,
            "spec": {"topology": topology},
        })),
    }
}

fn inputs<'a>(
    machine: &'a VSphereMachine,
    owner: &'a Machine,
    cluster: &'a Cluster,
    infrastructure: &'a VSphereCluster,
) -> Inputs<'a> {
    Inputs {
        machine,
        owner,
        cluster,
        infrastructure,
    }
}

#[test]
fn machine_waits_for_cluster_then_control_plane_then_bootstrap_data() {
    let ready = |plane: bool| {
        json!({"initialization": {
            "infrastructureProvisioned": true, "controlPlaneInitialized": plane,
        }})
    };
    for (status, control_plane, data, expected) in [
        (
            json!({}),
            true,
            Some("b"),
            Some("WaitingForClusterInfrastructureReady"),
        ),
        (
            json!({"initialization": {"infrastructureProvisioned": false}}),
            true,
            Some("b"),
            Some("WaitingForClusterInfrastructureReady"),
        ),
        (
            ready(false),
            false,
            None,
            Some("WaitingForControlPlaneInitialized"),
        ),
        (ready(false), true, None, Some("WaitingForBootstrapData")),
        (ready(true), false, None, Some("WaitingForBootstrapData")),
        (
            ready(true),
            false,
            Some(""),
            Some("WaitingForBootstrapData"),
        ),
        (ready(false), false, Some("b"), None),
        (ready(true), true, Some("b"), None),
    ] {
        let told = format!("{status} {control_plane} {data:?}");
        let (cluster, owner) = (cluster(status), owner(control_plane, data, None));
        let (machine, infrastructure) = (machine(json!({})), infrastructure());
        let inputs = inputs(&machine, &owner, &cluster, &infrastructure);
        let reason = inputs.wait_reason().map(|(reason, _)| reason);
        assert_eq!(reason, expected, "{told}");
    }
}

#[test]
fn vm_is_owned_by_its_machine_and_labelled_with_its_cluster() {
    let machine = machine(json!({
        "template": "ubuntu", "numCPUs": 4, "thumbprint": "BB",
        "network": {"devices": [{"networkName": "n", "dhcp4": true}]},
        "tagIDs": ["t"], "providerID": "vsphere://x", "failureDomain": "",
    }));
    let (owner, cluster) = (owner(true, Some("boot"), None), cluster(json!({})));
    let infrastructure = infrastructure();
    let inputs = inputs(&machine, &owner, &cluster, &infrastructure);
    assert_eq!(inputs.zone(), None);
    let name = inputs.name().expect("a name");
    let vm = serde_json::to_value(inputs.vm(&name, None)).expect("JSON");
    assert_eq!(
        vm,
        json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2",
            "kind": "VSphereVM",
            "metadata": {
                "name": "prod-1", "namespace": "team-a",
                "labels": {
                    "cluster.x-k8s.io/cluster-name": "prod",
                    "cluster.x-k8s.io/control-plane": "",
                },
                "ownerReferences": [{
                    "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2",
                    "kind": "VSphereMachine", "name": "infra-1", "uid": "u-1", "controller": true,
                }],
            },
            "spec": {
                "template": "ubuntu", "numCPUs": 4, "server": "vcenter.example",
                "thumbprint": "BB",
                "network": {"devices": [{"networkName": "n", "dhcp4": true}]},
                "tagIDs": ["t"],
                "bootstrapRef": {"name": "boot"},
            },
        })
    );
}

#[test]
fn zone_overrides_machine_and_machine_overrides_cluster() {
    let own = json!({
        "template": "t", "server": "other.example", "datacenter": "DC9", "folder": "own",
        "resourcePool": "own", "datastore": "own",
        "network": {"devices": [{"networkName": "a"}, {"networkName": "b"}]},
    });
    let everything = zone(
        json!({
            "datacenter": "DC1", "computeCluster": "C1", "datastore": "fast", "networks": ["n1"],
        }),
        json!({"folder": "teams", "resourcePool": "C1/Resources/team"}),
    );
    let cluster_only = zone(
        json!({"datacenter": "DC1", "computeCluster": "C1"}),
        json!({}),
    );
    let nothing = zone(json!({}), json!({}));
    type Expected<'a> = [&'a str; 7];
    let table: &[(&str, Option<&Zone>, Expected<'_>)] = &[
        (
            "none",
            None,
            ["other.example", "DC9", "own", "own", "own", "a", "b"],
        ),
        (
            "one that says all",
            Some(&everything),
            [
                "vcenter.example:443",
                "DC1",
                "teams",
                "C1/Resources/team",
                "fast",
                "n1",
                "b",
            ],
        ),
        (
            "one that says a cluster",
            Some(&cluster_only),
            [
                "vcenter.example:443",
                "DC1",
                "own",
                "C1/Resources",
                "own",
                "a",
                "b",
            ],
        ),
        (
            "one that says nothing",
            Some(&nothing),
            ["vcenter.example:443", "DC9", "own", "own", "own", "a", "b"],
        ),
    ];
    for (told, zone, expected) in table {
        let (machine, owner) = (machine(own.clone()), owner(false, Some("b"), Some("z")));
        let (cluster, infrastructure) = (cluster(json!({})), infrastructure());
        let inputs = inputs(&machine, &owner, &cluster, &infrastructure);
        let spec = inputs.vm("vm", *zone).spec.machine;
        let text = |text: Option<String>| text.unwrap_or_default();
        let networks = spec.network.devices.into_iter();
        let mut found = vec![
            text(spec.server),
            text(spec.datacenter),
            text(spec.folder),
            text(spec.resource_pool),
            text(spec.datastore),
        ];
        found.extend(networks.map(|device| device.network_name));
        assert_eq!(found, expected, "{told}");
    }
}

#[test]
fn zone_of_the_owner_machine_takes_precedence() {
    for (theirs, own, expected) in [
        (Some("a"), json!("b"), Some("a")),
        (Some(""), json!("b"), Some("b")),
        (None, json!("b"), Some("b")),
        (None, json!(null), None),
    ] {
        let machine = machine(json!({"failureDomain": own}));
        let (owner, cluster) = (owner(false, None, theirs), cluster(json!({})));
        let infrastructure = infrastructure();
        let inputs = inputs(&machine, &owner, &cluster, &infrastructure);
        assert_eq!(inputs.zone(), expected);
    }
}

#[test]
fn mutable_fields_are_passed_on() {
    let (owner, cluster) = (owner(false, Some("b"), None), cluster(json!({})));
    let infrastructure = infrastructure();
    for (before, after, expected) in [
        (json!({}), json!({}), None),
        (
            json!({}),
            json!({"powerOffMode": "trySoft", "guestSoftPowerOffTimeoutSeconds": 7}),
            Some(json!({"powerOffMode": "trySoft", "guestSoftPowerOffTimeoutSeconds": 7})),
        ),
        (
            json!({"thumbprint": "AA"}),
            json!({"thumbprint": "BB", "template": "other"}),
            Some(json!({"thumbprint": "BB"})),
        ),
        (
            json!({"thumbprint": "AA"}),
            json!({}),
            Some(json!({"thumbprint": null})),
        ),
    ] {
        let machine_before = machine(before);
        let inputs = inputs(&machine_before, &owner, &cluster, &infrastructure);
        let vm = inputs.vm("vm", None);
        assert_eq!(changes(&machine(after), &vm, None), expected);
    }
}

#[test]
fn cards_are_passed_on_and_allocated_addresses_are_kept() {
    let (owner, cluster) = (owner(false, Some("b"), None), cluster(json!({})));
    let infrastructure = infrastructure();
    let card = json!({"networkName": "n"});
    let given = json!({"networkName": "n", "ipAddrs": ["10.0.0.5/24"], "gateway4": "10.0.0.1"});
    let large = json!({"networkName": "n", "mtu": 9000});
    let both = json!({
        "networkName": "n", "mtu": 9000, "ipAddrs": ["10.0.0.5/24"], "gateway4": "10.0.0.1",
    });
    let other = json!({"networkName": "o", "ipAddrs": ["10.0.0.6/24"]});
    let zoned = json!({"networkName": "n", "ipAddrs": ["10.0.0.6/24"]});
    for (law, there, wanted, made, zone, expected) in [
        ("the same", json!([card]), json!([card]), true, None, None),
        (
            "mended",
            json!([card]),
            json!([given]),
            false,
            None,
            Some(json!([given])),
        ),
        (
            "only there",
            json!([given]),
            json!([card]),
            true,
            None,
            None,
        ),
        (
            "both",
            json!([given]),
            json!([large]),
            true,
            None,
            Some(json!([both])),
        ),
        (
            "others",
            json!([given]),
            json!([other]),
            true,
            None,
            Some(json!([other])),
        ),
        (
            "in a zone",
            json!([card]),
            json!([other]),
            true,
            Some("z"),
            Some(json!([zoned])),
        ),
        (
            "one more",
            json!([card]),
            json!([card, card]),
            false,
            None,
            Some(json!([card, card])),
        ),
        (
            "one more, too late",
            json!([card]),
            json!([card, card]),
            true,
            None,
            None,
        ),
        (
            "one less, too late",
            json!([card]),
            json!([]),
            true,
            None,
            None,
        ),
    ] {
        let with = |devices: Value| machine(json!({"network": {"devices": devices}}));
        let before = with(there);
        let mut vm = inputs(&before, &owner, &cluster, &infrastructure).vm("vm", None);
        vm.spec.bios_uuid = made.then(|| "b".to_owned());
        let expected = expected.map(|devices| json!({"network": {"devices": devices}}));
        assert_eq!(changes(&with(wanted), &vm, zone), expected, "{law}");
    }
}

#[test]
fn vm_has_the_watch_label_of_its_machine() {
    let (owner, cluster) = (owner(false, Some("b"), None), cluster(json!({})));
    let (mut machine, infrastructure) = (machine(json!({})), infrastructure());
    let filter = (WATCH_LABEL.to_owned(), "us".to_owned());
    machine.metadata.labels = Some([filter].into());
    let vm = inputs(&machine, &owner, &cluster, &infrastructure).vm("vm", None);
    let label = vm.labels().get(WATCH_LABEL).map(String::as_str);
    assert_eq!(label, Some("us"));
}

#[test]
fn vm_of_a_deleted_machine_is_not_owned_by_its_successor() {
    let (owner, cluster) = (owner(false, Some("b"), None), cluster(json!({})));
    let (machine, infrastructure) = (machine(json!({})), infrastructure());
    let mut vm = inputs(&machine, &owner, &cluster, &infrastructure).vm("vm", None);
    assert!(is_owned(&vm, &machine));
    let mut next = machine.clone();
    next.metadata.uid = Some("u-2".to_owned());
    assert!(!is_owned(&vm, &next));
    vm.metadata.owner_references = None;
    assert!(!is_owned(&vm, &machine));
}

//! Tests of the checks, without I/O.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use serde_json::{Value, json};

use super::snapshot::{Account, Member, Snapshot};
use super::{Check, NAMES, Outcome, Target, checks, table};
use crate::globalnet::{Allocation, Allocations, ClustersetIp, Globalnet};

fn target() -> Target {
    Target {
        url: "https://broker.example:6443".to_owned(),
        namespace: "n".to_owned(),
    }
}

fn object(kind: &str, name: &str, data: Value) -> DynamicObject {
    let kind = GroupVersionKind::gvk("submariner.io", "v1", kind);
    DynamicObject::new(name, &ApiResource::from_gvk(&kind)).data(data)
}

fn cluster(id: &str, pods: &str, global: &[&str]) -> DynamicObject {
    let spec = json!({"cluster_id": id, "cluster_cidr": [pods], "service_cidr": [], "global_cidr": global});
    object("Cluster", id, json!({ "spec": spec }))
}

fn endpoint(id: &str) -> DynamicObject {
    object(
        "Endpoint",
        &format!("{id}-cable"),
        json!({"spec": {"cluster_id": id}}),
    )
}

fn account(id: &str) -> Account {
    Account {
        cluster_id: id.to_owned(),
        uid: Some(format!("account-{id}")),
        cluster_uid: Some(format!("cluster-{id}")),
    }
}

fn allocated(map: &mut ConfigMap, ranges: &[(&str, &str)]) {
    let clusters = ranges.iter().map(|(id, range)| Allocation {
        cluster_id: (*id).to_owned(),
        global_cidr: vec![(*range).to_owned()],
    });
    let allocations = Allocations {
        clusters: clusters.collect(),
    };
    allocations.write(map);
}

/// A healthy ClusterSet of two clusters, with global addresses.
fn healthy() -> Snapshot {
    let settings = Globalnet::validate(true, "242.0.0.0/8", 65536).unwrap();
    let mut globalnet = settings.config_map("n");
    allocated(
        &mut globalnet,
        &[("east", "242.0.0.0/16"), ("west", "242.1.0.0/16")],
    );
    let mut ips = ClustersetIp::disabled().config_map("n");
    allocated(
        &mut ips,
        &[("east", "243.0.0.0/20"), ("west", "243.0.16.0/20")],
    );
    let spec = json!({"spec": {"globalnetEnabled": true}});
    Snapshot {
        missing_permissions: Ok(Vec::new()),
        missing_kinds: Ok(Vec::new()),
        broker: Ok(Some(object("Broker", "submariner-broker", spec))),
        globalnet: Ok(Some(globalnet)),
        clusterset_ips: Ok(Some(ips)),
        accounts: Ok(vec![account("east"), account("west")]),
        clusters: Ok(vec![
            cluster("east", "10.0.0.0/16", &["242.0.0.0/16"]),
            cluster("west", "10.0.0.0/16", &["242.1.0.0/16"]),
        ]),
        endpoints: Ok(vec![endpoint("east"), endpoint("west")]),
        services: Ok(Vec::new()),
        member: Some(Ok(Some(Member {
            cluster_id: "east".to_owned(),
            namespace: "n".to_owned(),
            server: "broker.example:6443".to_owned(),
            is_same_server: true,
            account: Some("account-east".to_owned()),
        }))),
    }
}

/// The messages of the failed checks after a change of the healthy state.
fn failures(change: impl FnOnce(&mut Snapshot)) -> Vec<(&'static str, String)> {
    let mut snapshot = healthy();
    change(&mut snapshot);
    let checks = checks::all(&snapshot, &target()).into_iter();
    let failed = checks.filter(|check| check.result == Outcome::Failed);
    failed
        .map(|check| {
            assert!(check.hint.is_some(), "{check:?}");
            (check.name, check.message)
        })
        .collect()
}

/// Without global addresses.
fn without_globalnet(snapshot: &mut Snapshot) {
    snapshot.globalnet = Ok(Some(Globalnet::disabled().config_map("n")));
    snapshot.broker = Ok(Some(object("Broker", "submariner-broker", json!({}))));
}

#[test]
fn healthy_clusterset_passes_every_check() {
    let checks = checks::all(&healthy(), &target());
    let names: Vec<_> = checks.iter().map(|check| check.name).collect();
    assert_eq!(names, NAMES[2..]);
    let messages: Vec<_> = checks
        .iter()
        .map(|check| (check.result, check.message.as_str()))
        .collect();
    assert_eq!(
        messages,
        [
            "clusters can be joined and removed",
            "all kinds are served",
            "it is deployed in namespace n",
            "known: east, west",
            "known: 2",
            "on, 242.0.0.0/8; 2 clusters have addresses",
            "243.0.0.0/8; 2 clusters have addresses",
            "Globalnet is on: they may overlap",
            "there are no conflicts",
            "it has joined as east",
        ]
        .map(|message| (Outcome::Ok, message))
    );
}

#[test]
fn missing_parts_of_the_broker_are_named() {
    assert_eq!(
        failures(|state| state.missing_kinds = Ok(vec!["endpoints.submariner.io".to_owned()])),
        [("kinds", "not served: endpoints.submariner.io".to_owned())]
    );
    assert_eq!(
        failures(|state| state.missing_permissions = Ok(vec!["list secrets".to_owned()])),
        [(
            "permissions",
            "missing permissions: list secrets".to_owned()
        )]
    );
    assert_eq!(
        failures(|state| {
            state.broker = Ok(None);
            state.globalnet = Ok(None);
        })[0],
        (
            "broker",
            "there is no Broker submariner-broker; there is no ConfigMap submariner-globalnet-info"
                .to_owned()
        )
    );
    assert_eq!(
        failures(|state| state.broker = Ok(Some(object("Broker", "submariner-broker", json!({}))))),
        [(
            "broker",
            "Globalnet is off in the Broker and on in ConfigMap submariner-globalnet-info, which joins use"
                .to_owned()
        )]
    );
}

#[test]
fn clusters_and_endpoints_that_do_not_match_are_named() {
    assert_eq!(
        failures(|state| state.clusters.as_mut().unwrap().truncate(1)),
        [
            ("clusters", "joined and published nothing: west".to_owned()),
            (
                "endpoints",
                "has an endpoint but no Cluster: west".to_owned()
            ),
        ]
    );
    assert_eq!(
        failures(|state| state.accounts.as_mut().unwrap().truncate(1)),
        [(
            "clusters",
            "published a Cluster but did not join: west".to_owned()
        )]
    );
    assert_eq!(
        failures(|state| state.endpoints = Ok(Vec::new())),
        [("endpoints", "has no endpoint: east, west".to_owned())]
    );
    let checks = {
        let mut snapshot = healthy();
        snapshot.accounts = Ok(Vec::new());
        snapshot.clusters = Ok(Vec::new());
        snapshot.endpoints = Ok(Vec::new());
        snapshot.member = None;
        checks::all(&snapshot, &target())
    };
    assert!(checks.iter().all(|check| check.result == Outcome::Ok));
    assert_eq!(checks[3].message, "no cluster has joined");
}

#[test]
fn overlapping_addresses_are_named() {
    let clash = |state: &mut Snapshot| {
        let map = state.globalnet.as_mut().unwrap().as_mut().unwrap();
        allocated(map, &[("east", "242.0.0.0/16"), ("west", "242.0.128.0/17")]);
    };
    assert_eq!(
        failures(clash),
        [(
            "globalnet",
            "242.0.128.0/17 of west overlaps 242.0.0.0/16 of east; west uses 242.1.0.0/16, but was allocated 242.0.128.0/17"
                .to_owned()
        )]
    );
    assert_eq!(
        failures(|state| {
            let map = state.clusterset_ips.as_mut().unwrap().as_mut().unwrap();
            allocated(map, &[("east", "243.0.0.0/20"), ("west", "x")]);
        }),
        [("clusterset-ips", "\"x\" of west is not a range".to_owned())]
    );
    assert_eq!(
        failures(without_globalnet),
        [(
            "cluster-cidrs",
            "10.0.0.0/16 of west overlaps 10.0.0.0/16 of east".to_owned()
        )]
    );
    assert_eq!(
        failures(|state| {
            without_globalnet(state);
            state.clusters.as_mut().unwrap()[1] = cluster("west", "10.1.0.0/16", &[]);
        }),
        []
    );
}

#[test]
fn name_conflicts_are_named() {
    assert_eq!(
        failures(|state| {
            let accounts = state.accounts.as_mut().unwrap();
            accounts[1].cluster_uid = Some("cluster-east".to_owned());
        }),
        [("names", "one cluster has joined as east, west".to_owned())]
    );
    assert_eq!(
        failures(|state| {
            let clusters = state.clusters.as_mut().unwrap();
            clusters[1].metadata.name = Some("other".to_owned());
        }),
        [("names", "Cluster other has the ID west".to_owned())]
    );
    let service = |status: &str| {
        let condition = json!({"type": "Conflict", "status": status});
        let kind = GroupVersionKind::gvk("multicluster.x-k8s.io", "v1alpha1", "ServiceExport");
        DynamicObject::new("web", &ApiResource::from_gvk(&kind))
            .data(json!({"status": {"conditions": [condition]}}))
    };
    assert_eq!(
        failures(|state| state.services = Ok(vec![service("False"), service("True")])),
        [("names", "ServiceExport web is in conflict".to_owned())]
    );
}

#[test]
fn membership_of_the_context_is_checked() {
    let member = |change: fn(&mut Member)| {
        move |state: &mut Snapshot| {
            let member = state.member.as_mut().unwrap().as_mut().unwrap();
            change(member.as_mut().unwrap());
        }
    };
    assert_eq!(
        failures(|state| state.member = Some(Ok(None))),
        [(
            "member",
            "the cluster of the context has not joined".to_owned()
        )]
    );
    assert_eq!(
        failures(member(|it| it.namespace = "m".to_owned())),
        [(
            "member",
            "it has joined as east, through namespace m".to_owned()
        )]
    );
    assert_eq!(
        failures(member(|it| it.cluster_id = "north".to_owned())),
        [(
            "member",
            "the broker has no service account for north".to_owned()
        )]
    );
    assert_eq!(
        failures(member(|it| it.account = Some("earlier".to_owned()))),
        [(
            "member",
            "its token is not that of service account cluster-east at this broker".to_owned()
        )]
    );
}

#[test]
fn table_has_one_line_for_each_check() {
    let checks = [
        Check::ok("credentials", "good"),
        Check::failed("clusters", "a\u{1b}[2J\nb", "do it"),
        Check::skipped("names", "credentials"),
    ];
    assert_eq!(
        table(&checks),
        "ok        credentials        good\n\
         failed    clusters           a\u{fffd}[2J\u{fffd}b (hint: do it)\n\
         skipped   names              depends on credentials\n"
    );
}

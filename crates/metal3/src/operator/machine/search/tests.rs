use serde_json::{Value, json};

use super::*;
use crate::hosts::choose::{Choice, HostPlace, choose};

fn host(name: &str, metadata: Value, spec: Value, status: Value) -> BareMetalHost {
    let mut whole = json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
        "metadata": metadata, "spec": spec, "status": status,
    });
    whole["metadata"]["name"] = json!(name);
    serde_json::from_value(whole).unwrap()
}

fn state(state: &str) -> Value {
    json!({"provisioning": {"state": state}})
}

fn machine(selector: Value) -> Metal3Machine {
    serde_json::from_value(json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "Metal3Machine",
        "metadata": {"name": "m"}, "spec": {"hostSelector": selector, "failureDomain": "z1"},
    }))
    .unwrap()
}

fn of(selector: Value) -> Search {
    search(
        &machine(selector),
        Consumer::machine("team-a", "m"),
        Some(ReuseGroup::deployment(
            "d",
            Consumer::cluster("team-a", "c"),
            HostPlace::Elsewhere,
        )),
    )
    .unwrap()
}

#[test]
fn message_counts_hosts_by_obstacle() {
    let search = of(json!({"matchLabels": {"rack": "1"}}));
    let here = || json!({"rack": "1"});
    let used = json!({"consumerRef": {"kind": "Metal3Machine", "name": "x"}});
    let mark = |mark: &str| json!({"labels": here(), "annotations": {mark: ""}});
    let hosts = [
        host("a", json!({}), json!({}), state("available")),
        host(
            "b",
            json!({"labels": here()}),
            used.clone(),
            state("provisioned"),
        ),
        host("c", json!({"labels": here()}), used, state("available")),
        host(
            "d",
            json!({"labels": {"rack": "1", NODE_REUSE: "md-other"}}),
            json!({}),
            state("available"),
        ),
        host(
            "e",
            json!({"labels": here(), "deletionTimestamp": "2026-01-01T00:00:00Z"}),
            json!({}),
            state("available"),
        ),
        host(
            "f",
            json!({"labels": here()}),
            json!({}),
            json!({"errorMessage": "no power", "provisioning": {"state": "available"}}),
        ),
        host("g", mark(HOST_UNHEALTHY), json!({}), state("available")),
        host("h", mark(HOST_PAUSED), json!({}), state("available")),
        host(
            "i",
            json!({"labels": here()}),
            json!({}),
            state("inspecting"),
        ),
    ];
    assert_eq!(choose(&hosts, &search, &mut |_| 0), Choice::None);
    assert_eq!(
        no_host(&hosts, &search, "pool-a"),
        "no available host: of 9 hosts in namespace pool-a, 1 not selected by hostSelector, \
         2 in use, 1 kept for other machines, 1 being deleted, 1 with an error, \
         1 marked as unhealthy, 1 paused, 1 not available yet"
    );
    assert_eq!(
        no_host(&hosts[1..2], &search, "pool-a"),
        "no available host: of 1 host in namespace pool-a, 1 in use"
    );
    assert_eq!(
        no_host(&[], &search, "pool-a"),
        "no available host: there are no hosts in namespace pool-a"
    );
}

#[test]
fn search_has_selector_and_failure_domain_of_the_machine() {
    let labels = json!({"matchLabels": {"a": "b"}, "matchExpressions": [
        {"key": "c", "operator": "In", "values": ["d"]},
    ]});
    let found = of(labels);
    assert_eq!(found.selector.to_string(), "a in (b),c in (d)");
    assert_eq!(found.failure_domain.as_deref(), Some("z1"));
    let wrong = machine(json!({"matchExpressions": [
        {"key": "c", "operator": "like", "values": ["d"]},
    ]}));
    let error = search(&wrong, Consumer::machine("team-a", "m"), None).unwrap_err();
    assert_eq!(
        error,
        InvalidSelector::Operator {
            key: "c".to_owned(),
            operator: "like".to_owned()
        }
    );
}

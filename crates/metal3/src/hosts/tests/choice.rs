//! Which host a machine gets.

use proptest::prelude::*;

use super::*;
use crate::hosts::choose::{Choice, HostPlace, ReuseGroup, Search, choose};
use crate::hosts::selector::Selector;

fn search() -> Search {
    Search {
        machine: machine(),
        selector: Selector::default(),
        reuse: Some(ReuseGroup::deployment(
            "workers",
            Consumer::cluster("team-a", "prod"),
            HostPlace::Elsewhere,
        )),
        failure_domain: None,
    }
}

/// Describes a choice in short.
fn chosen(hosts: &[BareMetalHost], search: &Search) -> String {
    let name = |host: &BareMetalHost| host.metadata.name.clone().unwrap();
    match choose(hosts, search, &mut |_| 0) {
        Choice::Claimed(host) => format!("claimed {}", name(host)),
        Choice::Reused(host) => format!("reused {}", name(host)),
        Choice::Free(host) => format!("free {}", name(host)),
        Choice::NotYet(host) => format!("not yet {}", name(host)),
        Choice::None => "none".to_owned(),
    }
}

/// Returns the fields of a host that is kept for a group.
fn kept(label: &str, cluster: (&str, &str)) -> Value {
    let mut fields = consumer("Cluster", "cluster.x-k8s.io/v1beta2", cluster.0, cluster.1);
    let label = json!({
        "metadata": {"labels": {"infrastructure.cluster.x-k8s.io/node-reuse": label}},
    });
    merge(&mut fields, &label);
    fields
}

#[test]
fn r38_only_hosts_that_are_available_and_unmarked_are_candidates() {
    let annotated = |key: &str| json!({"metadata": {"annotations": {key: ""}}});
    for (fields, is_candidate) in [
        (json!({}), true),
        (state("ready"), true),
        (state("available"), true),
        (state(""), false),
        (state("unmanaged"), false),
        (state("registering"), false),
        (state("match profile"), false),
        (state("preparing"), false),
        (state("provisioning"), false),
        (state("provisioned"), false),
        (state("externally provisioned"), false),
        (state("deprovisioning"), false),
        (state("inspecting"), false),
        (state("powering off before delete"), false),
        (state("deleting"), false),
        (state("some new state"), false),
        (json!({"status": {"errorMessage": "broken"}}), false),
        (
            json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
            false,
        ),
        (annotated("baremetalhost.metal3.io/paused"), false),
        (annotated("capm3.metal3.io/unhealthy"), false),
        (annotated("capi.metal3.io/unhealthy"), false),
        (annotated("baremetalhost.metal3.io/detached"), true),
        (json!({"spec": {"consumerRef": {"name": "x"}}}), false),
        (
            consumer(
                "Metal3Machine",
                "infrastructure.cluster.x-k8s.io/v1beta1",
                "team-b",
                "m-1",
            ),
            false,
        ),
        (kept("md-workers", ("team-b", "prod")), false),
        (
            json!({"metadata": {"labels": {"infrastructure.cluster.x-k8s.io/node-reuse": "md-workers"}}}),
            false,
        ),
    ] {
        let hosts = [host("h-1", fields.clone())];
        let expected = if is_candidate { "free h-1" } else { "none" };
        assert_eq!(chosen(&hosts, &search()), expected, "{fields}");
    }
    let no_status: BareMetalHost = serde_json::from_value(json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
        "metadata": {"name": "h-1"}, "spec": {"online": true},
    }))
    .unwrap();
    assert_eq!(chosen(&[no_status], &search()), "none");
    assert_eq!(chosen(&[], &search()), "none");
}

#[test]
fn r38_claimed_host_is_taken_first_in_any_state() {
    let hosts = [
        host("h-0", json!({})),
        host("h-2", kept("md-workers", ("team-a", "prod"))),
        own(json!({
            "status": {"errorMessage": "broken", "provisioning": {"state": "provisioned"}},
        })),
    ];
    assert_eq!(chosen(&hosts, &search()), "claimed h-1");
}

#[test]
fn consumer_is_compared_without_version_and_uid() {
    let group = "infrastructure.cluster.x-k8s.io";
    for (kind, version, namespace, name, is_own) in [
        (
            "Metal3Machine",
            format!("{group}/v1beta1"),
            "team-a",
            "m-1",
            true,
        ),
        (
            "Metal3Machine",
            format!("{group}/v9"),
            "team-a",
            "m-1",
            true,
        ),
        (
            "Metal3Machine",
            format!("{group}/v1/x"),
            "team-a",
            "m-1",
            false,
        ),
        ("Metal3Machine", group.to_owned(), "team-a", "m-1", false),
        ("Metal3Machine", "v1".to_owned(), "team-a", "m-1", false),
        (
            "Metal3Machine",
            "other/v1beta1".to_owned(),
            "team-a",
            "m-1",
            false,
        ),
        (
            "Machine",
            format!("{group}/v1beta1"),
            "team-a",
            "m-1",
            false,
        ),
        (
            "Metal3Machine",
            format!("{group}/v1beta1"),
            "team-b",
            "m-1",
            false,
        ),
        (
            "Metal3Machine",
            format!("{group}/v1beta1"),
            "team-a",
            "m-2",
            false,
        ),
    ] {
        let mut fields = consumer(kind, &version, namespace, name);
        fields["spec"]["consumerRef"]["uid"] = json!("of another cluster");
        assert_eq!(
            machine().has(&host("h", fields)),
            is_own,
            "{kind} {version} {namespace} {name}"
        );
    }
    assert!(!machine().has(&host("h", json!({}))));
    let reference = machine().reference("v1beta2");
    assert!(machine().is(&reference));
    assert_eq!(
        serde_json::to_value(reference).unwrap(),
        json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "Metal3Machine",
            "namespace": "team-a", "name": "m-1",
        })
    );
}

#[test]
fn host_that_is_kept_for_the_group_comes_before_free_ones() {
    let ours = || kept("md-workers", ("team-a", "prod"));
    let not_yet = || {
        let mut fields = ours();
        merge(&mut fields, &state("deprovisioning"));
        fields
    };
    let free = || host("free", json!({}));
    for (hosts, expected) in [
        (vec![free(), host("kept", ours())], "reused kept"),
        (
            vec![free(), host("later", not_yet()), host("kept", ours())],
            "reused kept",
        ),
        (
            vec![free(), host("kept", ours()), host("later", not_yet())],
            "reused kept",
        ),
        (vec![free(), host("later", not_yet())], "not yet later"),
        (
            vec![host("b", kept("md-others", ("team-a", "prod"))), free()],
            "free free",
        ),
        (
            vec![host("b", kept("cp-workers", ("team-a", "prod"))), free()],
            "free free",
        ),
        // The same label of another team, and of another cluster.
        (
            vec![host("b", kept("md-workers", ("team-b", "prod"))), free()],
            "free free",
        ),
        (
            vec![host("b", kept("md-workers", ("team-a", "test"))), free()],
            "free free",
        ),
    ] {
        assert_eq!(chosen(&hosts, &search()), expected);
    }
    let hosts = [host("kept", ours()), free()];
    let unknown = Search {
        reuse: None,
        ..search()
    };
    assert_eq!(chosen(&hosts, &unknown), "free free");
    let cluster = Consumer::cluster("team-a", "prod");
    let control_plane = Search {
        reuse: Some(ReuseGroup::control_plane(
            "prod-cp",
            cluster,
            HostPlace::Elsewhere,
        )),
        ..search()
    };
    let hosts = [host("cp", kept("cp-prod-cp", ("team-a", "prod"))), free()];
    assert_eq!(chosen(&hosts, &control_plane), "reused cp");
}

#[test]
fn label_without_a_consumer_suffices_next_to_the_machines_only() {
    let label = json!({
        "metadata": {"labels": {"infrastructure.cluster.x-k8s.io/node-reuse": "md-workers"}},
    });
    let hosts = [host("kept", label), host("free", json!({}))];
    let cluster = Consumer::cluster("team-a", "prod");
    for (place, expected) in [
        (HostPlace::Beside, "reused kept"),
        (HostPlace::Elsewhere, "free free"),
    ] {
        let search = Search {
            reuse: Some(ReuseGroup::deployment("workers", cluster.clone(), place)),
            ..search()
        };
        assert_eq!(chosen(&hosts, &search), expected);
    }
}

#[test]
fn failure_domain_is_preferred_but_not_required() {
    let inside = |name: &str, domain: &str| {
        let key = "infrastructure.cluster.x-k8s.io/failure-domain";
        host(name, json!({"metadata": {"labels": {key: domain}}}))
    };
    let hosts = [
        host("none", json!({})),
        inside("a", "rack-a"),
        inside("b", "rack-b"),
    ];
    for (domain, expected) in [
        (None, "free none"),
        (Some(""), "free none"),
        (Some("rack-a"), "free a"),
        (Some("rack-b"), "free b"),
        (Some("rack-c"), "free none"),
    ] {
        let search = Search {
            failure_domain: domain.map(str::to_owned),
            ..search()
        };
        assert_eq!(chosen(&hosts, &search), expected);
    }
}

#[test]
fn selector_limits_all_hosts_but_the_claimed_one() {
    let labelled = |name: &str| host(name, json!({"metadata": {"labels": {"size": name}}}));
    let hosts = [
        labelled("small"),
        labelled("large"),
        host("none", json!({})),
    ];
    let size = [("size".to_owned(), "large".to_owned())].into();
    let search = Search {
        selector: Selector::new(&size, []).unwrap(),
        ..search()
    };
    assert_eq!(chosen(&hosts, &search), "free large");
    let hosts = [labelled("large"), own(json!({}))];
    assert_eq!(chosen(&hosts, &search), "claimed h-1");
}

proptest! {
    #[test]
    fn r38_every_candidate_can_be_chosen_and_no_other(
        kinds in prop::collection::vec((any::<bool>(), any::<bool>()), 0..8),
        number in any::<usize>(),
    ) {
        let hosts: Vec<_> = kinds.iter().enumerate().map(|(at, (is_free, is_inside))| {
            let mut fields = state(if *is_free { "available" } else { "provisioned" });
            let domain = if *is_inside { "rack-a" } else { "rack-b" };
            let label = json!({"metadata": {"labels": {
                "infrastructure.cluster.x-k8s.io/failure-domain": domain,
            }}});
            merge(&mut fields, &label);
            host(&format!("h-{at}"), fields)
        }).collect();
        let search = Search { failure_domain: Some("rack-a".to_owned()), ..search() };
        let mut count = None;
        let choice = choose(&hosts, &search, &mut |below| {
            count = Some(below);
            number % below
        });
        let free = || hosts.iter().zip(&kinds).filter(|(_, (is_free, _))| *is_free);
        let inside: Vec<_> = free().filter(|(_, (_, is_inside))| *is_inside).collect();
        let candidates = if inside.is_empty() { free().collect() } else { inside };
        let expected = match candidates.len() {
            0 => Choice::None,
            below => Choice::Free(candidates[number % below].0),
        };
        prop_assert_eq!(choice, expected);
        prop_assert_eq!(count, Some(candidates.len()).filter(|count| *count > 0));
    }
}

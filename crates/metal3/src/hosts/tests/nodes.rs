//! The node of a machine.

use insula_capi::provider_id::ProviderId;
use k8s_openapi::api::core::v1::Node;

use super::*;
use crate::hosts::node::{
    Bootstrap, IdWriter, NodeMatch, NodeProblem, NodeSearch, find_node, provider_id,
};

const ID: &str = "metal3://team-a/h-1/m-1";

fn node(name: &str, id: &str, labels: Value) -> Node {
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
        "spec": {"providerID": id},
    });
    serde_json::from_value(node).unwrap()
}

fn of_host(name: &str, id: &str) -> Node {
    node(name, id, json!({"metal3.io/uuid": "u-1"}))
}

fn named(name: &str, id: &str) -> Node {
    node(name, id, json!({"kubernetes.io/hostname": "node-1"}))
}

fn search() -> NodeSearch<'static> {
    NodeSearch {
        current: None,
        expected: ID,
        host_uid: "u-1",
        hostnames: &["node-1"],
        writer: IdWriter::Operator,
        bootstrap: Bootstrap::Provider,
    }
}

fn accepted(node_to_write: Option<&str>) -> NodeMatch {
    NodeMatch {
        provider_id: Some(ID.to_owned()),
        node_to_write: node_to_write.map(str::to_owned),
        problem: None,
    }
}

fn failed(problem: NodeProblem) -> NodeMatch {
    NodeMatch {
        problem: Some(problem),
        ..NodeMatch::default()
    }
}

fn several(what: &'static str) -> NodeProblem {
    let nodes = vec!["a".to_owned(), "b".to_owned()];
    NodeProblem::Several { what, nodes }
}

fn other_id() -> NodeProblem {
    NodeProblem::OtherId {
        node: "a".to_owned(),
        found: "metal3://x".to_owned(),
        expected: ID.to_owned(),
    }
}

#[test]
fn provider_id_has_the_namespace_of_the_machine() {
    let id = provider_id("team-a", "h-1", "m-1");
    assert_eq!(id, ID);
    let parsed: ProviderId = id.parse().unwrap();
    assert_eq!(
        parsed.segments().collect::<Vec<_>>(),
        ["team-a", "h-1", "m-1"]
    );
}

#[test]
fn known_node_is_accepted() {
    let search = NodeSearch {
        current: Some(ID),
        ..search()
    };
    assert_eq!(
        find_node(&search, &[node("a", ID, json!({}))]),
        accepted(None)
    );
    // A host of the same name in another group of hosts is no duplicate.
    let others = [
        node("a", ID, json!({})),
        node("b", "metal3://team-a/h-1/m-2", json!({})),
    ];
    assert_eq!(find_node(&search, &others), accepted(None));
    let twice = [node("a", ID, json!({})), node("b", ID, json!({}))];
    assert_eq!(
        find_node(&search, &twice),
        failed(several("one provider ID"))
    );
}

#[test]
fn provider_id_in_its_former_form_is_kept() {
    let former = |id: &str, node_to_write: Option<&str>| NodeMatch {
        provider_id: Some(id.to_owned()),
        ..accepted(node_to_write)
    };
    let known = NodeSearch {
        current: Some("metal3://u-1"),
        ..search()
    };
    let nodes = [node("a", "metal3://u-1", json!({}))];
    assert_eq!(find_node(&known, &nodes), former("metal3://u-1", None));
    let labelled = [of_host("a", "")];
    assert_eq!(
        find_node(&known, &labelled),
        former("metal3://u-1", Some("a"))
    );
    // The machine does not know its node yet, which has the UID of the host.
    let labelled = [of_host("a", "metal3://u-1")];
    assert_eq!(
        find_node(&search(), &labelled),
        former("metal3://u-1", None)
    );
    let cloud = NodeSearch {
        writer: IdWriter::CloudProvider,
        ..search()
    };
    assert_eq!(find_node(&cloud, &nodes), former("metal3://u-1", None));
    // The host was moved, and has another UID than before.
    let moved = NodeSearch {
        current: Some("metal3://u-0"),
        ..search()
    };
    let nodes = [of_host("a", "metal3://u-0")];
    assert_eq!(find_node(&moved, &nodes), former("metal3://u-0", None));
    // Both forms at once.
    let both = [
        node("a", "metal3://u-1", json!({})),
        node("b", ID, json!({})),
    ];
    assert_eq!(find_node(&known, &both), failed(several("one provider ID")));
}

#[test]
fn cloud_provider_is_waited_for() {
    let search = NodeSearch {
        writer: IdWriter::CloudProvider,
        ..search()
    };
    let none = failed(NodeProblem::NoneWithId(ID.to_owned()));
    assert_eq!(find_node(&search, &[of_host("a", "")]), none);
    assert_eq!(
        find_node(&search, &[node("a", ID, json!({}))]),
        accepted(None)
    );
}

#[test]
fn node_with_the_label_of_the_host_gets_the_id() {
    let none = failed(NodeProblem::NoneWithLabel("u-1".to_owned()));
    assert_eq!(find_node(&search(), &[]), none);
    assert_eq!(find_node(&search(), &[named("a", "")]), none);
    assert_eq!(
        find_node(&search(), &[of_host("a", "")]),
        accepted(Some("a"))
    );
    assert_eq!(find_node(&search(), &[of_host("a", ID)]), accepted(None));
    assert_eq!(
        find_node(&search(), &[of_host("a", "metal3://x")]),
        failed(other_id())
    );
    let two = [of_host("a", ""), of_host("b", "")];
    assert_eq!(
        find_node(&search(), &two),
        failed(several("the label of one host"))
    );
}

#[test]
fn machine_of_a_users_secret_is_provisioned_before_its_node_is_known() {
    let search = NodeSearch {
        bootstrap: Bootstrap::Secret,
        ..search()
    };
    let with = |problem| NodeMatch {
        problem: Some(problem),
        ..accepted(None)
    };
    assert_eq!(find_node(&search, &[]), with(NodeProblem::NoneWithHostname));
    assert_eq!(find_node(&search, &[of_host("a", "")]), accepted(Some("a")));
    assert_eq!(find_node(&search, &[named("a", "")]), accepted(Some("a")));
    assert_eq!(find_node(&search, &[named("a", ID)]), accepted(None));
    assert_eq!(
        find_node(&search, &[named("a", "metal3://x")]),
        with(other_id())
    );
    let two = [named("a", ""), named("b", "")];
    assert_eq!(
        find_node(&search, &two),
        with(several("the name of one host"))
    );
    let unnamed = NodeSearch {
        hostnames: &[],
        ..search
    };
    assert_eq!(
        find_node(&unnamed, &[named("a", "")]),
        with(NodeProblem::NoneWithHostname)
    );
}

#[test]
fn problems_say_what_is_expected() {
    for (problem, is_transient, text) in [
        (
            NodeProblem::NoneWithId(ID.to_owned()),
            true,
            "no node has the provider ID metal3://team-a/h-1/m-1 yet",
        ),
        (
            NodeProblem::NoneWithLabel("u-1".to_owned()),
            true,
            "no node has the label metal3.io/uuid=u-1 yet",
        ),
        (
            NodeProblem::NoneWithHostname,
            true,
            "no node has the name of the host yet",
        ),
        (
            several("one provider ID"),
            false,
            "several nodes have one provider ID: a, b",
        ),
        (
            other_id(),
            false,
            "node a has the provider ID metal3://x, and metal3://team-a/h-1/m-1 is expected",
        ),
    ] {
        assert_eq!(problem.is_transient(), is_transient);
        assert_eq!(problem.to_string(), text);
    }
}

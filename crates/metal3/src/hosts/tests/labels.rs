//! Labels of hosts on nodes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};

use crate::hosts::labels::{InvalidPrefix, SyncedPrefixes, changes};

const RECORD: &str = "infrastructure.cluster.x-k8s.io/synced-labels";

fn prefixes(text: &str) -> SyncedPrefixes {
    SyncedPrefixes::parse(text).0
}

fn node(labels: Value, record: Option<&str>) -> Node {
    let annotations = json!({ RECORD: record.unwrap_or_default(), "other": "x" });
    let mut metadata = json!({"name": "n", "labels": labels, "annotations": annotations});
    if record.is_none() {
        metadata["annotations"]
            .as_object_mut()
            .unwrap()
            .remove(RECORD);
    }
    serde_json::from_value(json!({ "metadata": metadata })).unwrap()
}

fn patch(text: &str, host: Value, node: &Node) -> Option<Value> {
    let host: BTreeMap<String, String> = serde_json::from_value(host).unwrap();
    changes(&prefixes(text), &host, node)
}

fn expected(labels: Value, record: Option<&str>) -> Option<Value> {
    Some(json!({"labels": labels, "annotations": { RECORD: record }}))
}

#[test]
fn l01_labels_with_a_listed_prefix_are_copied() {
    let host = json!({"rack.test/row": "7", "rack.test/unit": "", "other.test/a": "b", "row": "1",
        "sub.rack.test/a": "b"});
    let found = node(json!({"rack.test/row": "6", "own": "x"}), None);
    let all = Some("rack.test/row,rack.test/unit");
    let labels = json!({"rack.test/row": "7", "rack.test/unit": ""});
    assert_eq!(
        patch(" rack.test ,,", host.clone(), &found),
        expected(labels, all)
    );
    let found = node(json!({"rack.test/row": "7", "rack.test/unit": ""}), all);
    assert_eq!(patch("rack.test", host, &found), None);
}

#[test]
fn l02_only_copied_labels_are_removed() {
    let both = json!({"rack.test/row": "7", "rack.test/own": "x"});
    let found = node(both.clone(), Some("rack.test/row"));
    let removed = json!({"rack.test/row": null});
    // The host has no such label any more, or the cluster does not list the prefix any more.
    assert_eq!(
        patch("rack.test", json!({}), &found),
        expected(removed.clone(), None)
    );
    let host = json!({"rack.test/row": "7"});
    assert_eq!(patch("", host.clone(), &found), expected(removed, None));
    // What was there with the same value is the host's from now on.
    let adopted = expected(json!({}), Some("rack.test/row"));
    assert_eq!(patch("rack.test", host, &node(both.clone(), None)), adopted);
    assert_eq!(patch("rack.test", json!({}), &node(both, None)), None);
}

#[test]
fn l03_invalid_and_reserved_prefixes_are_reported_and_others_used() {
    let text = "a.test,-x,A.test,kubernetes.io,node-role.kubernetes.io,k8s.io,\
                cluster.x-k8s.io,mykubernetes.io,my-prefix.metal3.io";
    let (found, problems) = SyncedPrefixes::parse(text);
    assert_eq!(
        found,
        prefixes("a.test,mykubernetes.io,my-prefix.metal3.io")
    );
    let form = |text: &str| InvalidPrefix::Form(text.to_owned());
    let reserved = |text: &str| InvalidPrefix::Reserved(text.to_owned());
    assert_eq!(
        problems,
        [
            form("-x"),
            form("A.test"),
            reserved("kubernetes.io"),
            reserved("node-role.kubernetes.io"),
            reserved("k8s.io"),
            reserved("cluster.x-k8s.io"),
        ]
    );
}

#[test]
fn l04_host_writes_no_label_with_a_meaning() {
    let host = json!({
        "metal3.io/uuid": "other", "metal3.io/a": "b", "node-role.kubernetes.io/master": "",
        "metal3.io/": "x", "metal3.io/-": "x", "metal3.io/c": "not valid",
    });
    let found = node(json!({"metal3.io/uuid": "own"}), None);
    let labels = json!({"metal3.io/a": "b"});
    let patched = patch("metal3.io,node-role.kubernetes.io", host, &found);
    assert_eq!(patched, expected(labels, Some("metal3.io/a")));
}

#[test]
fn l04_record_of_a_kubelet_removes_no_label_with_a_meaning() {
    let labels = json!({"node-restriction.kubernetes.io/a": "b", "metal3.io/uuid": "u", "c": "d"});
    let record = Some("node-restriction.kubernetes.io/a,metal3.io/uuid,c,");
    let found = node(labels, record);
    assert_eq!(
        patch("a.test", json!({}), &found),
        expected(json!({}), None)
    );
}

#[test]
fn l03_report_of_prefixes_is_bounded() {
    let text = format!("{},kubernetes.io,{}", "X".repeat(10_000), "Y,".repeat(1000));
    let warnings = SyncedPrefixes::warnings(&text);
    assert_eq!(warnings.len(), 6);
    let total: usize = warnings.iter().map(String::len).sum();
    assert!(total < 1000, "{total}");
    let last = "annotation metal3.io/metal3-label-sync-prefixes: 997 more are not used";
    assert_eq!(warnings.last().map(String::as_str), Some(last));
    assert_eq!(SyncedPrefixes::warnings("a.test"), Vec::<String>::new());
}

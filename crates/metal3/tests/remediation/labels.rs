//! Labels of hosts on nodes.

use std::time::{Duration, Instant};

use insula_metal3::kinds::cluster::Metal3Cluster;
use serde_json::{Value, json};

use crate::case::{Case, Mode};
use crate::world::{condition, eventually};

const PREFIXES: &str = "metal3.io/metal3-label-sync-prefixes";
/// A change on the host must be faster than the next look at the node, which is after a minute.
const LATENCY: Duration = Duration::from_secs(30);

async fn list_prefixes(case: &Case, text: &str) -> anyhow::Result<()> {
    let patch = json!({"metadata": {"annotations": { PREFIXES: text }}});
    let management = case.scene.management();
    management
        .patch::<Metal3Cluster>("team-a", "c", patch)
        .await?;
    Ok(())
}

async fn label_host(case: &Case, labels: Value) -> anyhow::Result<()> {
    case.patch_host("h0", json!({"metadata": {"labels": labels}}))
        .await
}

/// Waits until a label of the node has a value, or is missing.
async fn wait_for_label(case: &Case, key: &str, expected: Value) -> anyhow::Result<()> {
    let begin = Instant::now();
    eventually(async || {
        let node = case.scene.workload.get_node("n0").await?;
        Ok((node["metadata"]["labels"][key] == expected).then_some(()))
    })
    .await?;
    anyhow::ensure!(
        begin.elapsed() < LATENCY,
        "{key} after {:?}",
        begin.elapsed()
    );
    Ok(())
}

#[tokio::test]
async fn l01_labels_of_the_host_follow_to_the_node() -> anyhow::Result<()> {
    for mode in Mode::ALL {
        let case = Case::with_machine(mode).await?;
        let own = json!({"metadata": {"labels": {"rack.test/own": "kept"}}});
        let plain = &case.scene.workload.plain;
        plain.patch("/api/v1/nodes/n0", "merge", &own).await?;
        label_host(&case, json!({"rack.test/row": "7", "other.test/a": "b"})).await?;
        list_prefixes(&case, "rack.test").await?;
        wait_for_label(&case, "rack.test/row", json!("7")).await?;
        label_host(&case, json!({"rack.test/row": "8", "rack.test/unit": "1"})).await?;
        wait_for_label(&case, "rack.test/row", json!("8")).await?;
        wait_for_label(&case, "rack.test/unit", json!("1")).await?;
        label_host(&case, json!({"rack.test/row": null})).await?;
        wait_for_label(&case, "rack.test/row", Value::Null).await?;
        let labels = case.scene.workload.get_node("n0").await?["metadata"]["labels"].clone();
        for (key, expected) in [
            ("rack.test/unit", json!("1")),
            ("rack.test/own", json!("kept")),
            ("kept", json!("yes")),
            ("other.test/a", Value::Null),
            ("for", Value::Null),
        ] {
            assert_eq!(labels[key], expected, "{key}");
        }
        // A prefix that is not listed any more takes its labels along.
        list_prefixes(&case, "").await?;
        wait_for_label(&case, "rack.test/unit", Value::Null).await?;
        wait_for_label(&case, "rack.test/own", json!("kept")).await?;
    }
    Ok(())
}

#[tokio::test]
async fn l03_reserved_prefixes_are_reported_and_never_copied() -> anyhow::Result<()> {
    let case = Case::with_machine(Mode::Identity).await?;
    let management = case.scene.management();
    let labels = json!({
        "node-role.kubernetes.io/control-plane": "", "kubernetes.io/hostname": "other",
        "metal3.io/uuid": "other", "metal3.io/row": "7",
    });
    label_host(&case, labels).await?;
    let before = case.scene.workload.get_node("n0").await?["metadata"]["labels"].clone();
    list_prefixes(
        &case,
        "kubernetes.io,node-role.kubernetes.io,metal3.io,Not_Valid",
    )
    .await?;
    wait_for_label(&case, "metal3.io/row", json!("7")).await?;
    let mut expected = before;
    expected["metal3.io/row"] = "7".into();
    let after = case.scene.workload.get_node("n0").await?["metadata"]["labels"].clone();
    assert_eq!(after, expected);
    let kind = "BaremetalInfrastructureReady";
    let is_reported = |cluster: &Metal3Cluster| {
        condition(cluster, kind).is_some_and(|[status, _, message]| {
            let named = [
                "prefix kubernetes.io ",
                "node-role.kubernetes.io ",
                "\"Not_Valid\"",
            ];
            status == "True" && named.iter().all(|text| message.contains(text))
        })
    };
    management.wait_until("team-a", "c", is_reported).await?;
    Ok(())
}

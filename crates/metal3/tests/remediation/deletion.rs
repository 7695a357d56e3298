//! Remediations that end early.

use insula_capi::Machine;
use insula_metal3::kinds::machine::Metal3Machine;
use insula_metal3::kinds::remediation::Metal3Remediation;
use serde_json::json;

use crate::case::{Case, Mode, OUT_OF_SERVICE, has_request, is_on};

#[tokio::test]
async fn m04_deleted_remediation_leaves_the_host_on_and_the_node_untainted() -> anyhow::Result<()> {
    for mode in Mode::ALL {
        let case = Case::with_machine(mode).await?;
        let management = case.scene.management();
        case.pod_on("n0").await?;
        case.remediate("m0").await?;
        case.wait_for_taints("n0", &[OUT_OF_SERVICE]).await?;
        assert!(!is_on(&case.host("h0").await?));
        management
            .delete::<Metal3Remediation>("team-a", "m0")
            .await?;
        management
            .wait_until_gone::<Metal3Remediation>("team-a", "m0")
            .await?;
        let host = case.wait_for_host("h0", is_on).await?;
        assert!(!has_request(&host));
        assert_eq!(case.taints("n0").await?, [""; 0]);
    }
    Ok(())
}

#[tokio::test]
async fn m04_machine_that_is_deleted_meanwhile_gives_its_host_back_without_requests()
-> anyhow::Result<()> {
    for mode in Mode::ALL {
        let case = Case::with_machine(mode).await?;
        let management = case.scene.management();
        case.pod_on("n0").await?;
        case.remediate("m0").await?;
        case.wait_for_taints("n0", &[OUT_OF_SERVICE]).await?;
        management.delete::<Machine>("team-a", "m0").await?;
        management
            .wait_until_gone::<Metal3Machine>("team-a", "m0")
            .await?;
        // The garbage collector deletes it with its owner.
        management
            .wait_until_gone::<Metal3Remediation>("team-a", "m0")
            .await?;
        let host = case
            .wait_for_host("h0", |host| host.spec.consumer_ref.is_none())
            .await?;
        assert!(!has_request(&host));
        // The next machine on it is not switched off. Cluster API has deleted the node.
        let node = case.scene.workload.plain.delete("/api/v1/nodes/n0").await?;
        assert_eq!(node.status, 200);
        case.scene.machines("team-a", &["m1"]).await?;
        case.scene.provisioned("team-a", "m1").await?;
        assert!(is_on(&case.host("h0").await?));
    }
    Ok(())
}

#[tokio::test]
async fn m04_request_of_a_remediation_that_was_moved_is_withdrawn() -> anyhow::Result<()> {
    let case = Case::with_machine(Mode::InCluster).await?;
    let lost = "reboot.metal3.io/metal3-remediation-00000000-lost";
    let requests = json!({lost: r#"{"mode":"hard"}"#});
    case.patch_host("h0", json!({"metadata": {"annotations": requests}}))
        .await?;
    case.wait_for_host("h0", |host| !is_on(host)).await?;
    case.remediate("m0").await?;
    let host = case
        .wait_for_host("h0", |host| is_on(host) && !has_request(host))
        .await?;
    drop(host);
    case.wait_for_phase("Waiting", |_| true).await?;
    Ok(())
}

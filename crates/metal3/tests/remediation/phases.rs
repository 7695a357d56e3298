//! The phases of a remediation.

use insula_capi::{Cluster, Machine};
use insula_metal3::kinds::remediation::Metal3Remediation;
use insula_testkit::bare_metal::{ErrorType, State};
use kube::ResourceExt;
use serde_json::json;

use crate::case::{Case, Mode, OUT_OF_SERVICE, has_request, is_on, owner_asked, retries};
use crate::world::eventually;

const FINALIZER: &str = "metal3remediation.infrastructure.cluster.x-k8s.io";

#[tokio::test]
async fn m01_host_is_off_while_its_workload_is_evicted_and_on_again() -> anyhow::Result<()> {
    for mode in Mode::ALL {
        let case = Case::with_machine(mode).await?;
        case.pod_on("n0").await?;
        case.remediate("m0").await?;
        // Only a host that is off is tainted, and it stays off until the pod is evicted.
        case.wait_for_taints("n0", &[OUT_OF_SERVICE]).await?;
        let host = case.host("h0").await?;
        assert!(!is_on(&host) && has_request(&host));
        let key = host
            .annotations()
            .keys()
            .find(|key| key.starts_with("reboot."));
        let remediation = case.wait_for_phase("Running", |_| true).await?;
        let uid = remediation.uid().unwrap();
        let expected = format!("reboot.metal3.io/metal3-remediation-{uid}");
        assert_eq!(key, Some(&expected));
        assert_eq!(host.annotations()[&expected], r#"{"mode":"hard"}"#);
        assert_eq!(remediation.finalizers(), [FINALIZER]);
        assert_eq!(retries(&remediation), None);

        case.evict().await?;
        case.touch().await?;
        let done = |one: &Metal3Remediation| one.finalizers().is_empty();
        case.wait_for_phase("Waiting", done).await?;
        let host = case.wait_for_host("h0", is_on).await?;
        assert!(!has_request(&host));
        assert_eq!(case.taints("n0").await?, [""; 0]);
        assert_eq!(
            case.bare_metal().power(&case.host_key("h0")),
            [true, false, true]
        );
        let node = case.scene.workload.get_node("n0").await?;
        assert_eq!(node["metadata"]["labels"]["kept"], "yes");
        let management = case.scene.management();
        for reason in ["RemediationStarted", "HostRestarted"] {
            management.event("team-a", "m0", reason).await?;
        }
        // The node is healthy, and the health check deletes the remediation.
        management
            .delete::<Metal3Remediation>("team-a", "m0")
            .await?;
        management
            .wait_until_gone::<Metal3Remediation>("team-a", "m0")
            .await?;
        let user = match mode {
            Mode::InCluster => continue,
            Mode::Identity => case.scene.world.hosts.user_name("user-a"),
        };
        let users = case.scene.world.hosts.users_of("baremetalhosts")?;
        assert_eq!(users.into_iter().collect::<Vec<_>>(), [user]);
    }
    Ok(())
}

#[tokio::test]
async fn m02_machine_that_stays_unhealthy_is_handed_to_its_owner() -> anyhow::Result<()> {
    for mode in Mode::ALL {
        let case = Case::with_machine(mode).await?;
        let management = case.scene.management();
        case.remediate("m0").await?;
        case.wait_for_phase("Waiting", |one| one.finalizers().is_empty())
            .await?;
        assert_eq!(
            owner_asked(management, "m0").await?,
            [json!(null), json!(null)]
        );
        case.expire().await?;
        let retried =
            |one: &Metal3Remediation| one.finalizers().is_empty() && retries(one) == Some(1);
        case.wait_for_phase("Waiting", retried).await?;
        let power = case.bare_metal().power(&case.host_key("h0"));
        assert_eq!(power, [true, false, true, false, true]);
        assert!(
            !case
                .host("h0")
                .await?
                .annotations()
                .contains_key("capm3.metal3.io/unhealthy")
        );

        case.expire().await?;
        case.wait_for_phase("Deleting machine", |one| retries(one) == Some(1))
            .await?;
        let reason = json!("WaitingForRemediation");
        assert_eq!(
            owner_asked(management, "m0").await?,
            [reason.clone(), reason]
        );
        let host = case.host("h0").await?;
        assert_eq!(
            host.annotations()["capm3.metal3.io/unhealthy"],
            "capm3/UnhealthyNode"
        );
        management
            .event("team-a", "m0", "RemediationFailed")
            .await?;
        // The owner deletes the machine; its host is not given to the next one.
        management.delete::<Machine>("team-a", "m0").await?;
        management
            .wait_until_gone::<Metal3Remediation>("team-a", "m0")
            .await?;
        let host = case
            .wait_for_host("h0", |host| host.spec.consumer_ref.is_none())
            .await?;
        assert!(host.annotations().contains_key("capm3.metal3.io/unhealthy"));
        case.scene.machines("team-a", &["m1"]).await?;
        let message = case
            .scene
            .host_problem("team-a", "m1", "AssociateBareMetalHostFailed");
        assert!(message.await?.contains("unhealthy"));
    }
    Ok(())
}

#[tokio::test]
async fn m02_host_that_is_not_switched_off_counts_as_an_attempt() -> anyhow::Result<()> {
    let case = Case::with_machine(Mode::Identity).await?;
    let key = case.host_key("h0");
    let problem = ErrorType::PowerManagement;
    case.bare_metal().fail(
        &key,
        State::Provisioned,
        problem,
        "controller does not answer",
    );
    case.remediate("m0").await?;
    case.wait_for_host("h0", has_request).await?;
    // Its node may still run, so nothing is evicted.
    assert_eq!(case.taints("n0").await?, [""; 0]);
    for (phase, count) in [("Waiting", None), ("Waiting", Some(1))] {
        case.wait_for_host("h0", has_request).await?;
        case.expire().await?;
        case.wait_for_phase(phase, |one| retries(one) == count)
            .await?;
        case.wait_for_host("h0", |host| !has_request(host)).await?;
        case.expire().await?;
    }
    case.wait_for_phase("Deleting machine", |_| true).await?;
    assert_eq!(case.taints("n0").await?, [""; 0]);
    assert_eq!(case.bare_metal().power(&key), [true]);
    Ok(())
}

#[tokio::test]
async fn m05_paused_cluster_is_not_remediated() -> anyhow::Result<()> {
    let case = Case::with_machine(Mode::Identity).await?;
    let management = case.scene.management();
    let pause = |paused: bool| json!({"spec": {"paused": paused}});
    management
        .patch::<Cluster>("team-a", "c", pause(true))
        .await?;
    case.remediate("m0").await?;
    management
        .wait_for_condition::<insula_metal3::kinds::machine::Metal3Machine>(
            "team-a",
            "m0",
            "Paused",
            ("True", "Paused"),
        )
        .await?;
    let remediation: Metal3Remediation = management.api("team-a").get("m0").await?;
    assert_eq!(remediation.status, None);
    management
        .patch::<Cluster>("team-a", "c", pause(false))
        .await?;
    case.wait_for_phase("Waiting", |one| one.finalizers().is_empty())
        .await?;
    let restarted = async || {
        let power = case.bare_metal().power(&case.host_key("h0"));
        Ok((power == [true, false, true]).then_some(()))
    };
    eventually(restarted).await
}

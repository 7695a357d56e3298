//! Remediations with a credential that breaks meanwhile.

use insula_metal3::kinds::remediation::Metal3Remediation;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;

use crate::case::{Case, Mode, OUT_OF_SERVICE, has_request, is_on, phase_of};
use crate::world::settings;

#[tokio::test]
async fn m06_broken_identity_delays_the_remediation_and_never_skips_a_step() -> anyhow::Result<()> {
    let case = Case::with_machine(Mode::Identity).await?;
    let (management, world) = (case.scene.management(), &case.scene.world);
    case.pod_on("n0").await?;
    case.remediate("m0").await?;
    case.wait_for_taints("n0", &[OUT_OF_SERVICE]).await?;
    management.delete::<Secret>("team-a", "hosts").await?;
    case.evict().await?;
    case.touch().await?;
    let event = management
        .event("team-a", "m0", "IdentitySecretNotFound")
        .await?;
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    // Also if its time is over, the machine is not given up because of it.
    case.expire().await?;
    let found: Metal3Remediation = management.api("team-a").get("m0").await?;
    assert_eq!(phase_of(&found), "Running");
    assert!(!is_on(&case.host("h0").await?));

    world
        .identity("team-a", "hosts", ("user-a", "pool-a"))
        .await?;
    case.wait_for_phase("Waiting", |one| one.finalizers().is_empty())
        .await?;
    let host = case.wait_for_host("h0", is_on).await?;
    assert!(!has_request(&host));
    let found: Metal3Remediation = management.api("team-a").get("m0").await?;
    assert_eq!(crate::case::retries(&found), None);
    Ok(())
}

#[tokio::test]
async fn m06_deleted_remediation_waits_for_its_identity() -> anyhow::Result<()> {
    let case = Case::with_machine(Mode::Identity).await?;
    let (management, world) = (case.scene.management(), &case.scene.world);
    case.pod_on("n0").await?;
    case.remediate("m0").await?;
    case.wait_for_taints("n0", &[OUT_OF_SERVICE]).await?;
    management.delete::<Secret>("team-a", "hosts").await?;
    management
        .delete::<Metal3Remediation>("team-a", "m0")
        .await?;
    management
        .event("team-a", "m0", "IdentitySecretNotFound")
        .await?;
    let found: Metal3Remediation = management.api("team-a").get("m0").await?;
    assert!(!found.finalizers().is_empty());
    assert!(has_request(&case.host("h0").await?));
    world
        .identity("team-a", "hosts", ("user-a", "pool-a"))
        .await?;
    management
        .wait_until_gone::<Metal3Remediation>("team-a", "m0")
        .await?;
    case.wait_for_host("h0", is_on).await?;
    assert_eq!(case.taints("n0").await?, [""; 0]);
    Ok(())
}

#[tokio::test]
async fn m06_replaced_operator_goes_on_with_a_remediation() -> anyhow::Result<()> {
    let mut case = Case::with_machine(Mode::Identity).await?;
    case.pod_on("n0").await?;
    case.remediate("m0").await?;
    case.wait_for_taints("n0", &[OUT_OF_SERVICE]).await?;
    case.scene.running.take().unwrap().kill().await;
    case.evict().await?;
    case.scene.running = Some(case.scene.world.start_with(settings()));
    case.wait_for_phase("Waiting", |one| one.finalizers().is_empty())
        .await?;
    case.wait_for_host("h0", is_on).await?;
    Ok(())
}

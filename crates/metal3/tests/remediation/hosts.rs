//! Hosts that are restarted in another way, or not at all.

use insula_metal3::kinds::machine::Metal3Machine;
use insula_metal3::kinds::remediation::Metal3Remediation;
use insula_testkit::bare_metal::State;
use kube::ResourceExt;
use serde_json::json;

use crate::case::{Case, Mode, has_request, phase_of};

#[tokio::test]
async fn m03_host_that_must_stay_on_restarts_once() -> anyhow::Result<()> {
    let case = Case::with_machine(Mode::Identity).await?;
    case.patch_host("h0", json!({"spec": {"disablePowerOff": true}}))
        .await?;
    case.remediate("m0").await?;
    case.wait_for_phase("Waiting", |one| one.finalizers().is_empty())
        .await?;
    let host = case.host("h0").await?;
    let left = host.annotations().keys();
    let left = left.filter(|key| key.contains("reboot") || key.contains("restart"));
    assert_eq!(left.collect::<Vec<_>>(), Vec::<&String>::new());
    assert_eq!(
        case.bare_metal().power(&case.host_key("h0")),
        [true, false, true]
    );
    assert_eq!(case.taints("n0").await?, [""; 0]);
    Ok(())
}

#[tokio::test]
async fn m05_host_that_is_to_be_off_is_not_remediated() -> anyhow::Result<()> {
    let case = Case::with_machine(Mode::Identity).await?;
    let management = case.scene.management();
    // Else the machine switches its host on.
    let pause = json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": ""}}});
    management
        .patch::<Metal3Machine>("team-a", "m0", pause)
        .await?;
    management
        .wait_for_condition::<Metal3Machine>("team-a", "m0", "Paused", ("True", "Paused"))
        .await?;
    case.patch_host("h0", json!({"spec": {"online": false}}))
        .await?;
    case.remediate("m0").await?;
    case.wait_for_phase("Failed", |_| true).await?;
    management
        .event("team-a", "m0", "RemediationNotPossible")
        .await?;
    assert!(!has_request(&case.host("h0").await?));
    Ok(())
}

#[tokio::test]
async fn m05_host_that_is_being_provisioned_is_not_switched_off() -> anyhow::Result<()> {
    let case = Case::start(Mode::Identity).await?;
    let management = case.scene.management();
    let (space, pool) = case.hosts_of("team-a");
    space.host(pool, "h0", json!({})).await?;
    case.bare_metal().hold(State::Provisioning);
    case.scene.machines("team-a", &["m0"]).await?;
    space.wait_for_host(pool, "h0", "provisioning").await?;
    case.remediate("m0").await?;
    case.wait_for_phase("Running", |one| !one.finalizers().is_empty())
        .await?;
    // It does not become ready in time either way.
    for count in [None, Some(1)] {
        case.wait_for_phase("Running", |one| crate::case::retries(one) == count)
            .await?;
        case.expire().await?;
        case.wait_for_phase("Waiting", |_| true).await?;
        case.expire().await?;
    }
    case.wait_for_phase("Deleting machine", |_| true).await?;
    let host = case.host("h0").await?;
    assert!(!has_request(&host));
    assert!(host.annotations().contains_key("capm3.metal3.io/unhealthy"));
    let remediation: Metal3Remediation = management.api("team-a").get("m0").await?;
    assert_eq!(phase_of(&remediation), "Deleting machine");
    Ok(())
}

#[tokio::test]
async fn m06_host_of_another_object_is_never_touched() -> anyhow::Result<()> {
    for mode in Mode::ALL {
        let case = Case::with_machine(mode).await?;
        let management = case.scene.management();
        case.machine("team-a", "m1", "h1", "n1").await?;
        // A user with rights to machines names the host of another one.
        let pool = case.hosts_of("team-a").1.to_owned();
        let annotation = json!({"metal3.io/BareMetalHost": format!("{pool}/h1")});
        let patch = json!({"metadata": {"annotations": annotation}});
        management
            .patch::<Metal3Machine>("team-a", "m0", patch)
            .await?;
        case.scene
            .host_problem("team-a", "m0", "BareMetalHostInUse")
            .await?;
        let before = case.host("h1").await?.resource_version();
        case.remediate("m0").await?;
        management
            .event("team-a", "m0", "BareMetalHostInUse")
            .await?;
        // Nor if its own host is that of a machine of the same name of another tenant.
        let annotation = json!({"metal3.io/BareMetalHost": format!("{pool}/h0")});
        let other = json!({"infrastructure.cluster.x-k8s.io/tenant": "t9"});
        case.patch_host("h0", json!({"metadata": {"annotations": other}}))
            .await?;
        let of_other = case.host("h0").await?.resource_version();
        let patch = json!({"metadata": {"annotations": annotation}});
        management
            .patch::<Metal3Machine>("team-a", "m0", patch)
            .await?;
        case.touch().await?;
        case.scene
            .host_problem("team-a", "m0", "BareMetalHostInUse")
            .await?;
        assert_eq!(case.host("h1").await?.resource_version(), before);
        assert_eq!(case.host("h0").await?.resource_version(), of_other);
        let remediation: Metal3Remediation = management.api("team-a").get("m0").await?;
        assert_eq!(remediation.status, None);
        // It can be deleted.
        management
            .delete::<Metal3Remediation>("team-a", "m0")
            .await?;
        management
            .wait_until_gone::<Metal3Remediation>("team-a", "m0")
            .await?;
    }
    Ok(())
}

//! Restarts of hosts.

use serde_json::{Value, json};

use super::{change, host, merge};
use crate::hosts::release::{FastTrack, deprovision};
use crate::hosts::restart::{RestartRequest, can_restart, is_left_alone};

const OWN: RestartRequest<'static> = RestartRequest {
    uid: "u-1",
    attempt: 2,
};

fn annotated(annotations: Value) -> Value {
    json!({"metadata": {"annotations": annotations}})
}

#[test]
fn m03_host_is_switched_off_by_an_annotation_and_on_without_it() {
    let on = host("h", json!({"status": {"poweredOn": true}}));
    let name = "reboot.metal3.io/metal3-remediation-u-1";
    let placed = annotated(json!({name: r#"{"mode":"hard"}"#}));
    assert_eq!(change(&on, |host| OWN.place(host)), Some(placed.clone()));
    assert!(!OWN.is_placed(&on));
    let mut requested = placed;
    requested["status"] = json!({"poweredOn": true});
    let requested_on = host("h", requested.clone());
    assert!(OWN.is_placed(&requested_on) && !OWN.is_done(&requested_on));
    requested["status"] = json!({"poweredOn": false});
    let off = host("h", requested);
    assert!(OWN.is_done(&off));
    let withdrawn = change(&off, |host| OWN.withdraw(host, |_| true));
    assert_eq!(withdrawn, Some(annotated(json!({name: null}))));
}

#[test]
fn m03_host_that_must_stay_on_restarts_once_for_each_attempt() {
    let stays_on = json!({"spec": {"disablePowerOff": true}, "status": {"poweredOn": true}});
    let before = host("h", stays_on.clone());
    let record = "infrastructure.cluster.x-k8s.io/restart";
    let placed = json!({"reboot.metal3.io": r#"{"mode":"hard"}"#, record: "u-1/2"});
    let patch = change(&before, |host| OWN.place(host));
    assert_eq!(patch, Some(annotated(placed.clone())));
    for (annotations, is_placed, is_done) in [
        (placed, true, false),
        (json!({record: "u-1/2"}), true, true),
        (json!({record: "u-1/1"}), false, true),
        (json!({"reboot.metal3.io": ""}), false, false),
    ] {
        let mut fields = stays_on.clone();
        merge(&mut fields, &annotated(annotations));
        let found = host("h", fields);
        assert_eq!(OWN.is_placed(&found), is_placed);
        assert_eq!(OWN.is_done(&found), is_done);
    }
}

#[test]
fn m04_only_requests_of_the_own_and_of_lost_remediations_are_withdrawn() {
    let prefix = "reboot.metal3.io/metal3-remediation-";
    let all = json!({
        format!("{prefix}u-1"): "", format!("{prefix}lost"): "", format!("{prefix}other"): "",
        "reboot.metal3.io/admin": "", "reboot.metal3.io": "",
    });
    let found = host("h", annotated(all));
    let exists = |uid: &str| uid == "other" || uid == "u-1";
    let removed = json!({format!("{prefix}u-1"): null, format!("{prefix}lost"): null});
    let patch = change(&found, |host| OWN.withdraw(host, exists));
    assert_eq!(patch, Some(annotated(removed)));
    assert!(OWN.is_to_withdraw(&found, exists));
    let admin = host("h", annotated(json!({"reboot.metal3.io/admin": ""})));
    assert!(!OWN.is_to_withdraw(&admin, exists));
    let record = "infrastructure.cluster.x-k8s.io/restart";
    let recorded = annotated(json!({"reboot.metal3.io": "", record: "u-1/1"}));
    let patch = change(&host("h", recorded), |host| OWN.withdraw(host, exists));
    let removed = json!({"reboot.metal3.io": null, record: null});
    assert_eq!(patch, Some(annotated(removed)));
}

#[test]
fn m04_host_of_a_deleted_machine_has_no_requests_of_remediations() {
    let prefix = "reboot.metal3.io/metal3-remediation-";
    let requests = json!({format!("{prefix}a"): "", "reboot.metal3.io/admin": ""});
    let found = host("h", annotated(requests));
    let patch = change(&found, |host| deprovision(host, FastTrack::Off));
    assert_eq!(patch, Some(annotated(json!({format!("{prefix}a"): null}))));
}

#[test]
fn m05_only_hosts_that_run_something_can_restart() {
    let image = json!({"image": {"url": "u"}});
    for (state, spec, expected) in [
        ("provisioned", image.clone(), true),
        (
            "provisioned",
            json!({"customDeploy": {"method": "m"}}),
            true,
        ),
        // What it ran is being removed.
        ("provisioned", json!({}), false),
        ("externally provisioned", json!({}), true),
        ("provisioning", image.clone(), false),
        ("deprovisioning", image.clone(), false),
        ("available", image, false),
    ] {
        let status = json!({"provisioning": {"state": state}});
        let found = host("h", json!({"spec": spec, "status": status}));
        assert_eq!(can_restart(&found), expected, "{state}");
    }
    for (name, expected) in [
        ("baremetalhost.metal3.io/paused", true),
        ("baremetalhost.metal3.io/detached", true),
        ("baremetalhost.metal3.io/status", false),
    ] {
        let found = host("h", annotated(json!({name: ""})));
        assert_eq!(is_left_alone(&found), expected, "{name}");
    }
}

//! What is taken from a host when its machine is deleted.

use super::*;
use crate::hosts::choose::{HostPlace, ReuseGroup};
use crate::hosts::consumer::{is_owned, remove_owners};
use crate::hosts::release::{FastTrack, deprovision, is_deprovisioned, release};

#[test]
fn x05_everything_that_the_host_ran_is_cleared() {
    let before = own(json!({"spec": {
        "online": true, "image": {"url": "u"}, "customDeploy": {"method": "m"},
        "userData": {"name": "a"}, "metaData": {"name": "b"}, "networkData": {"name": "c"},
        "automatedCleaningMode": "metadata", "bmc": {"address": "x", "credentialsName": "y"},
    }}));
    let mut after = before.clone();
    deprovision(&mut after, FastTrack::Off);
    assert_eq!(
        between(&before, &after, Guard::AnyVersion),
        Some(json!({"spec": {
            "online": false, "image": null, "customDeploy": null,
            "userData": null, "metaData": null, "networkData": null,
        }}))
    );
    // The second time, the host is waited for.
    assert_eq!(
        change(&after, |host| deprovision(host, FastTrack::Off)),
        None
    );
}

#[test]
fn machine_is_removed_from_the_owners_of_its_host() {
    let owner = |kind: &str, name: &str| {
        json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": kind, "name": name,
            "uid": "u"})
    };
    let other = owner("Other", "x");
    let before = own(json!({"metadata": {"ownerReferences": [
        owner("Metal3Machine", "m-1"), other,
    ]}}));
    assert_eq!(
        change(&before, remove_owners),
        Some(json!({"metadata": {"ownerReferences": [other]}}))
    );
    let mut after = before.clone();
    remove_owners(&mut after);
    assert!(is_owned(&before) && !is_owned(&after) && !is_owned(&own(json!({}))));
}

#[test]
fn host_stays_on_if_it_cannot_be_off_or_is_cleaned_for_the_next_machine() {
    use FastTrack::{Off, On};
    for (fast_track, cleaning, disable_power_off, online) in [
        (Off, "disabled", true, true),
        (On, "disabled", true, true),
        (Off, "metadata", true, true),
        (On, "metadata", true, true),
        (Off, "disabled", false, false),
        (On, "disabled", false, false),
        (Off, "metadata", false, false),
        (On, "metadata", false, true),
    ] {
        let mut host = own(json!({"spec": {
            "automatedCleaningMode": cleaning, "disablePowerOff": disable_power_off,
        }}));
        deprovision(&mut host, fast_track);
        assert_eq!(
            host.spec.online, online,
            "{fast_track:?} {cleaning} {disable_power_off}"
        );
    }
    let mut unset = own(json!({}));
    deprovision(&mut unset, On);
    assert!(unset.spec.online, "disks are cleaned by default");
}

#[test]
fn r38_state_decides_whether_a_host_is_released() {
    for (text, is_released) in [
        ("", true),
        ("unmanaged", true),
        ("registering", true),
        ("match profile", true),
        ("inspecting", true),
        ("ready", true),
        ("available", true),
        ("preparing", false),
        ("provisioning", false),
        ("provisioned", false),
        ("deprovisioning", false),
        ("powering off before delete", false),
        ("deleting", false),
        ("some new state", false),
    ] {
        for is_on in [false, true] {
            let mut fields = state(text);
            merge(&mut fields, &json!({"status": {"poweredOn": is_on}}));
            assert_eq!(
                is_deprovisioned(&own(fields)),
                is_released,
                "{text} {is_on}"
            );
        }
    }
    for is_on in [false, true] {
        let mut fields = state("externally provisioned");
        merge(&mut fields, &json!({"status": {"poweredOn": is_on}}));
        assert_eq!(is_deprovisioned(&own(fields)), !is_on);
    }
}

#[test]
fn released_host_is_free_or_kept_for_the_group() {
    let before = own(json!({"metadata": {
        "labels": {"cluster.x-k8s.io/cluster-name": "prod", "size": "large"},
        "annotations": {"baremetalhost.metal3.io/paused": "metal3.io/capm3", "note": "x"},
    }}));
    assert_eq!(
        change(&before, |host| release(host, "prod", None)),
        Some(json!({
            "metadata": {
                "labels": {"cluster.x-k8s.io/cluster-name": null},
                "annotations": {"baremetalhost.metal3.io/paused": null},
            },
            "spec": {"consumerRef": null},
        }))
    );
    let group = ReuseGroup::deployment(
        "workers",
        Consumer::cluster("team-a", "prod"),
        HostPlace::Beside,
    );
    assert_eq!(
        change(&before, |host| release(host, "prod", Some(&group))),
        Some(json!({
            "metadata": {
                "labels": {
                    "cluster.x-k8s.io/cluster-name": null,
                    "infrastructure.cluster.x-k8s.io/node-reuse": "md-workers",
                },
                "annotations": {"baremetalhost.metal3.io/paused": null},
            },
            "spec": {"consumerRef": {
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "prod",
            }},
        }))
    );
}

#[test]
fn cleaning_mode_of_a_machine_ends_with_it() {
    use crate::hosts::provision::{Deployment, provision};
    let cleaned = |mode: &str| Deployment {
        automated_cleaning_mode: Some(mode.to_owned()),
        ..Deployment::default()
    };
    let group = ReuseGroup::deployment(
        "workers",
        Consumer::cluster("team-a", "prod"),
        HostPlace::Elsewhere,
    );
    for former in [json!({}), json!({"automatedCleaningMode": "metadata"})] {
        let before = own(json!({"spec": former}));
        let mut host = before.clone();
        // It may change during the life of the machine.
        provision(&mut host, &cleaned("metadata")).unwrap();
        provision(&mut host, &cleaned("disabled")).unwrap();
        deprovision(&mut host, FastTrack::Off);
        let mode = |host: &BareMetalHost| host.spec.automated_cleaning_mode.clone();
        assert_eq!(mode(&host).as_deref(), Some("disabled"));
        // The machines of a group share the mode.
        release(&mut host, "prod", Some(&group));
        assert_eq!(mode(&host).as_deref(), Some("disabled"));
        release(&mut host, "prod", None);
        assert_eq!(mode(&host), mode(&before), "{former}");
        let annotations = host.metadata.annotations.unwrap_or_default();
        assert_eq!(annotations, before.metadata.annotations.unwrap_or_default());
    }
    // A mode that no machine has set stays.
    let mut host = own(json!({"spec": {"automatedCleaningMode": "disabled"}}));
    provision(&mut host, &cleaned("disabled")).unwrap();
    release(&mut host, "prod", None);
    let mode = host.spec.automated_cleaning_mode.as_deref();
    assert_eq!(mode, Some("disabled"));
}

#[test]
fn marks_of_others_stay_on_a_released_host() {
    let before = own(json!({"metadata": {
        "labels": {"cluster.x-k8s.io/cluster-name": "other"},
        "annotations": {"baremetalhost.metal3.io/paused": "by-user"},
    }}));
    assert_eq!(
        change(&before, |host| release(host, "prod", None)),
        Some(json!({"spec": {"consumerRef": null}}))
    );
}

#[test]
fn x08_host_is_not_released_before_its_status_is_restored() {
    let status = "baremetalhost.metal3.io/status";
    for (annotations, is_released) in [
        (json!({status: "{}"}), false),
        (json!({status: ""}), true),
        (json!({}), true),
    ] {
        let mut host = own(json!({"metadata": {"annotations": annotations}}));
        host.status = None;
        assert_eq!(is_deprovisioned(&host), is_released, "{annotations}");
    }
}

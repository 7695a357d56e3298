//! Annotations for moves.

use super::*;
use crate::hosts::pause::{ClusterState, HostMove, Step, apply, next_step};

fn annotated(annotations: Value) -> BareMetalHost {
    own(json!({"metadata": {
        "labels": {"cluster.x-k8s.io/cluster-name": "prod"},
        "annotations": annotations,
    }}))
}

fn next(host: &BareMetalHost, state: ClusterState) -> Option<Step> {
    next_step(host, &machine(), "prod", state, HostMove::WithMachine)
}

#[test]
fn r35_steps_follow_the_annotations() {
    use ClusterState::{Paused, Running};
    let (paused, blocked, status) = (
        "baremetalhost.metal3.io/paused",
        "clusterctl.cluster.x-k8s.io/block-move",
        "baremetalhost.metal3.io/status",
    );
    let own = "metal3.io/capm3";
    for (annotations, running, in_pause) in [
        (json!({}), Some(Step::BlockMove), Some(Step::BlockMove)),
        (json!({blocked: ""}), None, Some(Step::Pause)),
        (
            json!({blocked: "", paused: own, status: "{}"}),
            Some(Step::Resume),
            Some(Step::AllowMove),
        ),
        (json!({paused: own, status: "{}"}), Some(Step::Resume), None),
        // A pause of a user stays; a move needs a copy of the status also then.
        (
            json!({paused: ""}),
            Some(Step::BlockMove),
            Some(Step::CopyStatus),
        ),
        (
            json!({blocked: "", paused: ""}),
            None,
            Some(Step::CopyStatus),
        ),
        (
            json!({blocked: "", paused: "", status: "{}"}),
            None,
            Some(Step::AllowMove),
        ),
        (
            json!({paused: "", status: "{}"}),
            Some(Step::BlockMove),
            None,
        ),
    ] {
        let host = annotated(annotations.clone());
        assert_eq!(next(&host, Running), running, "{annotations}");
        assert_eq!(next(&host, Paused), in_pause, "{annotations}");
    }
    let mut other = annotated(json!({paused: own}));
    other.metadata.labels = Some([("cluster.x-k8s.io/cluster-name".into(), "x".into())].into());
    assert_eq!(next(&other, Running), None, "another cluster paused it");
}

#[test]
fn r35_pause_and_resume_take_these_requests() {
    let status = json!({
        "operationalStatus": "OK", "errorMessage": "", "poweredOn": true, "errorCount": 0,
        "provisioning": {"state": "provisioned", "ID": "1"}, "hardware": {"hostname": "x"},
    });
    let mut host = own(json!({
        "metadata": {"labels": {"cluster.x-k8s.io/cluster-name": "prod"}}, "status": status,
    }));
    let mut run = |state| {
        let mut steps = Vec::new();
        while let Some(step) = next(&host, state) {
            steps.push((step, change(&host, |host| apply(host, step)).unwrap()));
            apply(&mut host, step);
            assert!(steps.len() < 9, "{steps:?}");
        }
        steps
    };
    let patch = |annotations: Value| json!({"metadata": {"annotations": annotations}});
    let block = || patch(json!({"clusterctl.cluster.x-k8s.io/block-move": ""}));
    assert_eq!(run(ClusterState::Running), [(Step::BlockMove, block())]);
    let copy = r#"{"errorCount":0,"errorMessage":"","operationalStatus":"OK","poweredOn":true,"provisioning":{"ID":"1","state":"provisioned"}}"#;
    assert_eq!(
        run(ClusterState::Paused),
        [
            (
                Step::Pause,
                patch(json!({
                    "baremetalhost.metal3.io/paused": "metal3.io/capm3",
                    "baremetalhost.metal3.io/status": copy,
                })),
            ),
            (
                Step::AllowMove,
                patch(json!({"clusterctl.cluster.x-k8s.io/block-move": null})),
            ),
        ]
    );
    assert_eq!(
        run(ClusterState::Running),
        [
            (
                Step::Resume,
                patch(json!({"baremetalhost.metal3.io/paused": null})),
            ),
            (Step::BlockMove, block()),
        ]
    );
}

#[test]
fn r34_r36_host_of_an_identity_is_never_annotated() {
    for annotations in [
        json!({}),
        json!({"clusterctl.cluster.x-k8s.io/block-move": ""}),
        json!({"baremetalhost.metal3.io/paused": "metal3.io/capm3"}),
    ] {
        for state in [ClusterState::Running, ClusterState::Paused] {
            let host = annotated(annotations.clone());
            let step = next_step(&host, &machine(), "prod", state, HostMove::Never);
            assert_eq!(step, None);
        }
    }
}

#[test]
fn host_of_another_machine_is_not_annotated() {
    let other = Consumer::machine("team-b", "m-1");
    let host = annotated(json!({}));
    for state in [ClusterState::Running, ClusterState::Paused] {
        assert_eq!(
            next_step(&host, &other, "prod", state, HostMove::WithMachine),
            None
        );
    }
}

#[test]
fn r35_pause_keeps_the_copy_of_a_status_that_is_not_restored_yet() {
    let status = "baremetalhost.metal3.io/status";
    let copy = json!({"provisioning": {"state": "provisioned"}}).to_string();
    let mut host = annotated(json!({status: copy}));
    host.status = None;
    apply(&mut host, Step::Pause);
    let annotations = host.metadata.annotations.unwrap();
    assert_eq!(annotations[status], copy);
    assert_eq!(
        annotations["baremetalhost.metal3.io/paused"],
        "metal3.io/capm3"
    );
}

//! Volumes and claims.

use serde_json::Value;

use crate::Object;
use crate::defaults::tree;

pub(super) fn create_volume(volume: &mut Object, now: &str) {
    protect(volume, "pv");
    let status = tree::child_mut(volume, "status");
    status.insert("phase".to_owned(), "Pending".into());
    status.insert("lastPhaseTransitionTime".to_owned(), now.into());
}

pub(super) fn create_claim(claim: &mut Object) {
    protect(claim, "pvc");
    tree::child_mut(claim, "status").insert("phase".to_owned(), "Pending".into());
    let spec = tree::child_mut(claim, "spec");
    forget_namespaced_source(spec, false);
    forget_unknown_source(spec, false);
    pair_sources(spec);
}

pub(super) fn update_claim(old: &Object, claim: &mut Object) {
    protect(claim, "pvc");
    let before = tree::child(old, "spec");
    let used = |source: &str| before.is_some_and(|spec| tree::given(spec, source));
    let (source, reference) = (used("dataSource"), used("dataSourceRef"));
    let spec = tree::child_mut(claim, "spec");
    forget_namespaced_source(spec, reference);
    forget_unknown_source(spec, source || reference);
    pair_sources(spec);
}

/// Keeps what is in use from being deleted.
pub(super) fn protect(object: &mut Object, what: &str) {
    let finalizer = format!("kubernetes.io/{what}-protection");
    tree::include(
        tree::child_mut(object, "metadata"),
        "finalizers",
        &finalizer,
    );
}

/// Sources in other namespaces are not served.
fn forget_namespaced_source(spec: &mut Object, used: bool) {
    let elsewhere = tree::child(spec, "dataSourceRef")
        .is_some_and(|reference| !tree::empty(reference, "namespace"));
    if elsewhere && !used {
        spec.remove("dataSourceRef");
    }
}

/// The older field only ever meant claims and snapshots; the rest was ignored.
fn forget_unknown_source(spec: &mut Object, used: bool) {
    if used || tree::given(spec, "dataSourceRef") {
        return;
    }
    let known = tree::child(spec, "dataSource").is_some_and(|source| {
        matches!(
            (tree::text(source, "apiGroup"), tree::text(source, "kind")),
            ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot")
        )
    });
    if !known {
        spec.remove("dataSource");
    }
}

/// Two fields name one source: each follows the other.
fn pair_sources(spec: &mut Object) {
    let given = |field: &str| tree::child(spec, field).cloned();
    match (given("dataSource"), given("dataSourceRef")) {
        (Some(source), None) => {
            spec.insert("dataSourceRef".to_owned(), Value::Object(source));
        }
        (None, Some(mut reference)) if tree::empty(&reference, "namespace") => {
            reference.remove("namespace");
            spec.insert("dataSource".to_owned(), Value::Object(reference));
        }
        _ => {}
    }
}

/// A phase that does not change keeps the time of its beginning.
pub(super) fn keep_transition(old: &Object, volume: &mut Object) {
    let empty = Object::new();
    let before = tree::child(old, "status").unwrap_or(&empty);
    let status = tree::child_mut(volume, "status");
    let changed = tree::text(status, "phase") != tree::text(before, "phase");
    if !changed && !tree::given(status, "lastPhaseTransitionTime") {
        tree::copy(before, status, "lastPhaseTransitionTime");
    }
}

/// A phase that changes begins now, unless the client says when.
pub(super) fn date_transition(old: &Object, volume: &mut Object, now: &str) {
    const WHEN: &str = "lastPhaseTransitionTime";
    let empty = Object::new();
    let before = tree::child(old, "status").unwrap_or(&empty);
    let status = tree::child_mut(volume, "status");
    let changed = tree::text(status, "phase") != tree::text(before, "phase");
    let told = tree::given(status, WHEN) && status.get(WHEN) != before.get(WHEN);
    if changed && !told {
        status.insert(WHEN.to_owned(), now.into());
    }
}

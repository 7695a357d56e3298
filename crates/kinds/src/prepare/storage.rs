//! Volumes and claims.

use serde_json::Value;

use crate::Object;
use crate::defaults::tree;

pub(super) fn create_volume(volume: &mut Object, now: &str) {
    add_protection_finalizer(volume, "pv");
    let status = tree::child_mut(volume, "status");
    status.insert("phase".to_owned(), "Pending".into());
    status.insert("lastPhaseTransitionTime".to_owned(), now.into());
}

pub(super) fn create_claim(claim: &mut Object) {
    add_protection_finalizer(claim, "pvc");
    tree::child_mut(claim, "status").insert("phase".to_owned(), "Pending".into());
    let spec = tree::child_mut(claim, "spec");
    drop_namespaced_source(spec, false);
    drop_unknown_source(spec, false);
    sync_data_sources(spec);
}

pub(super) fn update_claim(old: &Object, claim: &mut Object) {
    add_protection_finalizer(claim, "pvc");
    let before = tree::child(old, "spec");
    let used = |source: &str| before.is_some_and(|spec| tree::is_present(spec, source));
    let (source, reference) = (used("dataSource"), used("dataSourceRef"));
    let spec = tree::child_mut(claim, "spec");
    drop_namespaced_source(spec, reference);
    drop_unknown_source(spec, source || reference);
    sync_data_sources(spec);
}

/// Adds the finalizer that protects objects in use from deletion.
pub(super) fn add_protection_finalizer(object: &mut Object, what: &str) {
    let finalizer = format!("kubernetes.io/{what}-protection");
    tree::push_unique(
        tree::child_mut(object, "metadata"),
        "finalizers",
        &finalizer,
    );
}

/// Drops a `dataSourceRef` to another namespace, which is not supported.
fn drop_namespaced_source(spec: &mut Object, used: bool) {
    let elsewhere = tree::child(spec, "dataSourceRef")
        .is_some_and(|reference| !tree::is_empty(reference, "namespace"));
    if elsewhere && !used {
        spec.remove("dataSourceRef");
    }
}

/// Drops a `dataSource` that is neither a claim nor a snapshot, which Kubernetes ignores.
fn drop_unknown_source(spec: &mut Object, used: bool) {
    if used || tree::is_present(spec, "dataSourceRef") {
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

/// Keeps `dataSource` and `dataSourceRef` in sync.
fn sync_data_sources(spec: &mut Object) {
    let given = |field: &str| tree::child(spec, field).cloned();
    match (given("dataSource"), given("dataSourceRef")) {
        (Some(source), None) => {
            spec.insert("dataSourceRef".to_owned(), Value::Object(source));
        }
        (None, Some(mut reference)) if tree::is_empty(&reference, "namespace") => {
            reference.remove("namespace");
            spec.insert("dataSource".to_owned(), Value::Object(reference));
        }
        _ => {}
    }
}

/// Keeps the transition time if the phase does not change.
pub(super) fn keep_transition_time(old: &Object, volume: &mut Object) {
    let empty = Object::new();
    let before = tree::child(old, "status").unwrap_or(&empty);
    let status = tree::child_mut(volume, "status");
    let changed = tree::text(status, "phase") != tree::text(before, "phase");
    if !changed && !tree::is_present(status, "lastPhaseTransitionTime") {
        tree::copy(before, status, "lastPhaseTransitionTime");
    }
}

/// Sets the transition time if the phase changes, unless the client set it.
pub(super) fn set_transition_time(old: &Object, volume: &mut Object, now: &str) {
    const TRANSITION_TIME: &str = "lastPhaseTransitionTime";
    let empty = Object::new();
    let before = tree::child(old, "status").unwrap_or(&empty);
    let status = tree::child_mut(volume, "status");
    let changed = tree::text(status, "phase") != tree::text(before, "phase");
    let set_by_client = tree::is_present(status, TRANSITION_TIME)
        && status.get(TRANSITION_TIME) != before.get(TRANSITION_TIME);
    if changed && !set_by_client {
        status.insert(TRANSITION_TIME.to_owned(), now.into());
    }
}

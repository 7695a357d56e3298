//! Checks of volumes.

use std::collections::BTreeSet;

use insula_kinds::Value;

use super::Violation;
use crate::pod_security::pod::{Pod, items};
use crate::pod_security::text::{join_quoted, join_set, plural};

/// The volume sources that hardened pods may use.
const ALLOWED_SOURCES: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

/// The other volume sources, in the order in which the first is reported.
const FORBIDDEN_SOURCES: [&str; 21] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "gitRepo",
    "nfs",
    "iscsi",
    "glusterfs",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "fc",
    "azureFile",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "storageos",
];

/// Pods must not mount folders of the host.
pub fn host_path(pod: Pod<'_>) -> Option<Violation> {
    let volumes = items(&pod.spec()["volumes"]);
    let bad: Vec<_> = volumes
        .filter(|volume| has_source(volume, "hostPath"))
        .map(name)
        .collect();
    if bad.is_empty() {
        return None;
    }
    let noun = plural("volume", "volumes", bad.len());
    let detail = format!("{noun} {}", join_quoted(bad));
    Violation::new("hostPath volumes", detail)
}

/// Pods may use only sources that need no trust in the pod's author.
pub fn restricted(pod: Pod<'_>) -> Option<Violation> {
    let mut bad = Vec::new();
    let mut sources = BTreeSet::new();
    for volume in items(&pod.spec()["volumes"]) {
        let has = |source: &&&str| has_source(volume, source);
        if ALLOWED_SOURCES.iter().any(|source| has(&source)) {
            continue;
        }
        bad.push(name(volume));
        let source = FORBIDDEN_SOURCES.iter().find(has);
        sources.insert(source.copied().unwrap_or("unknown"));
    }
    if bad.is_empty() {
        return None;
    }
    let detail = format!(
        "{} {} {} {} {}",
        plural("volume", "volumes", bad.len()),
        join_quoted(bad.iter().copied()),
        plural("uses", "use", bad.len()),
        plural(
            "restricted volume type",
            "restricted volume types",
            sources.len()
        ),
        join_set(&sources)
    );
    Violation::new("restricted volume types", detail)
}

fn has_source(volume: &Value, source: &str) -> bool {
    !volume[source].is_null()
}

fn name(volume: &Value) -> &str {
    volume["name"].as_str().unwrap_or_default()
}

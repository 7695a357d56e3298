//! Volumes, claims, storage classes and CSI objects.

use super::row::{At, Row};
use crate::Value;

const UNSET: &str = "<unset>";
const OLD_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

pub(super) fn persistent_volume(row: &Row<'_>) -> Vec<Value> {
    let claim = row.at("spec.claimRef").if_exists();
    let claim = claim.map_or(String::new(), |claim| {
        let (namespace, name) = (claim.get("namespace").text(), claim.get("name").text());
        format!("{namespace}/{name}")
    });
    vec![
        row.name(),
        Value::from(row.at("spec.capacity.storage").quantity()),
        Value::from(access_modes(row.at("spec.accessModes"))),
        row.text("spec.persistentVolumeReclaimPolicy"),
        phase(row),
        Value::from(claim),
        class(row),
        Value::from(row.at("spec.volumeAttributesClassName").set_or(UNSET)),
        row.text("status.reason"),
        row.age(),
        Value::from(row.at("spec.volumeMode").set_or(UNSET)),
    ]
}

pub(super) fn persistent_volume_claim(row: &Row<'_>) -> Vec<Value> {
    // The capacity is known only when the claim is bound to a volume.
    let bound = !row.at("spec.volumeName").text().is_empty();
    let (capacity, modes) = match bound {
        true => (
            row.at("status.capacity.storage").quantity(),
            access_modes(row.at("status.accessModes")),
        ),
        false => Default::default(),
    };
    vec![
        row.name(),
        phase(row),
        row.text("spec.volumeName"),
        Value::from(capacity),
        Value::from(modes),
        class(row),
        Value::from(row.at("spec.volumeAttributesClassName").set_or(UNSET)),
        row.age(),
        Value::from(row.at("spec.volumeMode").set_or(UNSET)),
    ]
}

fn phase(row: &Row<'_>) -> Value {
    match row.deleting() {
        true => Value::from("Terminating"),
        false => row.text("status.phase"),
    }
}

fn class(row: &Row<'_>) -> Value {
    let old = row.at("metadata.annotations").get(OLD_CLASS);
    Value::from(old.set_or(row.at("spec.storageClassName").text()))
}

/// Returns the access modes by their short names, without duplicates, in the usual order.
fn access_modes(modes: At<'_>) -> String {
    const SHORT: [(&str, &str); 4] = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let has = |mode: &str| modes.items().any(|found| found.text() == mode);
    let short = SHORT.iter().filter(|(mode, _)| has(mode));
    let short: Vec<_> = short.map(|(_, short)| *short).collect();
    short.join(",")
}

pub(super) fn storage_class(row: &Row<'_>) -> Vec<Value> {
    const DEFAULT: [&str; 2] = [
        "storageclass.kubernetes.io/is-default-class",
        "storageclass.beta.kubernetes.io/is-default-class",
    ];
    let mut name = row.at("metadata.name").text().to_owned();
    if DEFAULT.iter().any(|mark| row.annotation(mark) == "true") {
        name.push_str(" (default)");
    }
    vec![
        Value::from(name),
        row.text("provisioner"),
        Value::from(row.at("reclaimPolicy").set_or("Delete")),
        Value::from(row.at("volumeBindingMode").set_or("Immediate")),
        row.flag("allowVolumeExpansion"),
        row.age(),
    ]
}

pub(super) fn csi_driver(row: &Row<'_>) -> Vec<Value> {
    let requests = row.at("spec.tokenRequests").if_exists();
    let requests = requests.map_or(UNSET.to_owned(), |requests| {
        let audiences = requests.items().map(|request| request.get("audience"));
        let audiences: Vec<_> = audiences.map(At::text).collect();
        audiences.join(",")
    });
    let modes = match row.at("spec.volumeLifecycleModes").joined() {
        modes if modes.is_empty() => "<none>".to_owned(),
        modes => modes,
    };
    vec![
        row.name(),
        Value::from(row.at("spec.attachRequired").flag().unwrap_or(true)),
        row.flag("spec.podInfoOnMount"),
        row.flag("spec.storageCapacity"),
        Value::from(requests),
        row.flag("spec.requiresRepublish"),
        Value::from(modes),
        row.age(),
    ]
}

pub(super) fn csi_node(row: &Row<'_>) -> Vec<Value> {
    vec![row.name(), row.count("spec.drivers"), row.age()]
}

pub(super) fn volume_attachment(row: &Row<'_>) -> Vec<Value> {
    vec![
        row.name(),
        row.text("spec.attacher"),
        row.text("spec.source.persistentVolumeName"),
        row.text("spec.nodeName"),
        row.flag("status.attached"),
        row.age(),
    ]
}

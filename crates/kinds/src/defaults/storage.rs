//! Defaults of volumes, claims, storage classes and CSI drivers.

use super::Rule;

pub(super) const RULES: &[Rule] = &[
    Rule::run("api.core.v1.PersistentVolume", |volume| {
        // Not a rule of the spec's type: a VolumeAttachment that holds one inline keeps
        // it unchanged.
        let spec = super::tree::child_mut(volume, "spec");
        super::tree::fill_empty(spec, "persistentVolumeReclaimPolicy", "Retain");
        super::tree::fill(spec, "volumeMode", "Filesystem");
    }),
    Rule::set(
        "api.core.v1.PersistentVolumeStatus",
        &[("phase", r#""Pending""#)],
    ),
    Rule::set(
        "api.core.v1.PersistentVolumeClaimSpec",
        &[("volumeMode", r#""Filesystem""#)],
    ),
    Rule::set(
        "api.core.v1.PersistentVolumeClaimStatus",
        &[("phase", r#""Pending""#)],
    ),
    Rule::set(
        "api.storage.v1.StorageClass",
        &[
            ("reclaimPolicy", r#""Delete""#),
            ("volumeBindingMode", r#""Immediate""#),
        ],
    ),
    Rule::set(
        "api.storage.v1.CSIDriverSpec",
        &[
            ("attachRequired", "true"),
            ("podInfoOnMount", "false"),
            ("storageCapacity", "false"),
            ("fsGroupPolicy", r#""ReadWriteOnceWithFSType""#),
            ("volumeLifecycleModes", r#"["Persistent"]"#),
            ("requiresRepublish", "false"),
            ("seLinuxMount", "false"),
        ],
    ),
];

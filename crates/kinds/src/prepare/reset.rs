//! Fields that a write leaves unchanged, by the table of kinds.

use crate::Object;
use crate::defaults::tree;
use crate::kind::Kind;

/// Whether a write to the object or to the subresource leaves the field unchanged.
pub(super) fn is_reset(kind: &Kind, subresource: Option<&str>, field: &str) -> bool {
    let kept = kind.reset_fields.get(subresource.unwrap_or("main"));
    kept.is_some_and(|kept| kept.iter().any(|path| path == field))
}

/// Restores all fields that the write leaves unchanged.
pub(super) fn apply(kind: &Kind, subresource: Option<&str>, old: &Object, new: &mut Object) {
    let kept = kind.reset_fields.get(subresource.unwrap_or("main"));
    for path in kept.into_iter().flatten() {
        match path.split_once('.') {
            None if path == "metadata" => restore_user_metadata(old, new),
            None => tree::copy(old, new, path),
            Some((parent, field)) => restore_field(old, new, parent, field),
        }
    }
}

/// Restores a nested field.
pub(super) fn restore_field(old: &Object, new: &mut Object, parent: &str, field: &str) {
    match tree::child(old, parent) {
        Some(before) => tree::copy(before, tree::child_mut(new, parent), field),
        None => {
            if let Some(now) = tree::existing_mut(new, parent) {
                now.remove(field);
            }
        }
    }
}

/// Restores user-written metadata, which a status update does not change.
pub(super) fn restore_user_metadata(old: &Object, new: &mut Object) {
    for field in [
        "labels",
        "annotations",
        "finalizers",
        "ownerReferences",
        "deletionTimestamp",
        "generation",
    ] {
        restore_field(old, new, "metadata", field);
    }
}

/// Restores all metadata except the fields that guard and record the write itself.
pub(super) fn restore_metadata(old: &Object, new: &mut Object) {
    let mut kept = tree::child(old, "metadata").cloned().unwrap_or_default();
    let written = tree::child_mut(new, "metadata");
    for field in ["managedFields", "resourceVersion"] {
        tree::copy(written, &mut kept, field);
    }
    *written = kept;
}

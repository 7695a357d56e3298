//! Events: the same fields under different names.

use crate::Object;

/// Field names in the core group and in `events.k8s.io`.
const NAMES: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

pub(super) fn to_events_group(event: &mut Object) {
    for (old, new) in NAMES {
        rename(event, old, new);
    }
}

pub(super) fn to_core_group(event: &mut Object) {
    for (old, new) in NAMES {
        rename(event, new, old);
    }
}

fn rename(event: &mut Object, from: &str, to: &str) {
    if let Some(value) = event.remove(from) {
        event.insert(to.to_owned(), value);
    }
}

//! What may be done with the resource in Azure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use tracing::warn;

use crate::names::{RECONCILE_POLICY, SKIP_RECONCILE_V1};
use crate::settings::ReconcilePolicy;

/// The annotations of an object or a namespace.
pub(super) type Annotations = BTreeMap<String, String>;

/// The maximum length of a name in the log.
const MAX_LOGGED: usize = 253;
/// The maximum number of unknown policies in the log.
const MAX_REPORTED: usize = 100;

/// Returns the policy of an object: its own, else that of its namespace, else the default. An
/// unknown one is reported, and the default counts.
pub(super) fn policy(
    object: &Annotations,
    namespace: &Annotations,
    default: ReconcilePolicy,
) -> ReconcilePolicy {
    if is_skipped_v1(object) {
        return ReconcilePolicy::Skip;
    }
    let named = [object, namespace].map(|annotations| annotations.get(RECONCILE_POLICY));
    let Some(name) = named.into_iter().flatten().next() else {
        return default;
    };
    ReconcilePolicy::named(name).unwrap_or_else(|| {
        report_unknown(name);
        default
    })
}

/// Logs an unknown policy once. Users write them, so neither their length nor their number is
/// unlimited.
fn report_unknown(name: &str) {
    static REPORTED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let name: String = name.chars().take(MAX_LOGGED).collect();
    let mut reported = REPORTED.lock().unwrap_or_else(PoisonError::into_inner);
    if reported.len() < MAX_REPORTED && reported.insert(name.clone()) {
        warn!(policy = name, "unknown reconcile policy ignored");
    }
}

fn is_skipped_v1(object: &Annotations) -> bool {
    let value = object.get(SKIP_RECONCILE_V1);
    value.is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

/// Returns whether an object itself says that its resource is only read.
pub(super) fn is_skipped(object: &Annotations) -> bool {
    let policy = object.get(RECONCILE_POLICY).map(String::as_str);
    is_skipped_v1(object) || policy.and_then(ReconcilePolicy::named) == Some(ReconcilePolicy::Skip)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_decides_before_its_namespace_and_the_default() {
        use ReconcilePolicy::{DetachOnDelete, Manage, Skip};
        let annotated = |pairs: &[(&str, &str)]| -> Annotations {
            let pairs = pairs.iter();
            pairs
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect()
        };
        let skip = annotated(&[(RECONCILE_POLICY, "skip")]);
        let manage = annotated(&[(RECONCILE_POLICY, "manage")]);
        let unknown = annotated(&[(RECONCILE_POLICY, "whatever")]);
        let old = annotated(&[(SKIP_RECONCILE_V1, "TRUE")]);
        let none = Annotations::new();
        for (object, namespace, default, expected) in [
            (&none, &none, Manage, Manage),
            (&none, &none, DetachOnDelete, DetachOnDelete),
            (&none, &skip, Manage, Skip),
            (&manage, &skip, DetachOnDelete, Manage),
            (&unknown, &skip, DetachOnDelete, DetachOnDelete),
            (&old, &manage, Manage, Skip),
        ] {
            assert_eq!(policy(object, namespace, default), expected);
        }
    }
}

//! Conversion of an object to another version or group.
//!
//! Two kinds are served twice: HorizontalPodAutoscaler in an old and a new version, and
//! Event in two groups. Conversion in both directions is lossless.

mod autoscaler;
mod event;

use crate::Object;
use crate::kind::Kind;

/// Converts an object of one kind to another kind that represents the same object.
///
/// Kinds without a conversion of their own change only their `kind` and `apiVersion`.
pub fn convert(from: &Kind, to: &Kind, object: &mut Object) {
    match (
        (
            from.group.as_str(),
            from.version.as_str(),
            from.kind.as_str(),
        ),
        (to.group.as_str(), to.version.as_str(), to.kind.as_str()),
    ) {
        (from, to) if from == to => {}
        (("autoscaling", "v1", _), ("autoscaling", "v2", _)) => autoscaler::to_v2(object),
        (("autoscaling", "v2", _), ("autoscaling", "v1", _)) => autoscaler::to_v1(object),
        (("", _, "Event"), ("events.k8s.io", _, _)) => event::to_events_group(object),
        (("events.k8s.io", _, _), ("", _, "Event")) => event::to_core_group(object),
        _ => {}
    }
    object.insert("apiVersion".to_owned(), to.api_version().into());
    object.insert("kind".to_owned(), to.kind.as_str().into());
}

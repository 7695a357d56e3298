//! Rate-limited Kubernetes events about objects.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::ObjectMeta;

/// The maximum length of a note that API servers accept.
const MAX_NOTE_BYTES: usize = 1024;
/// The maximum length of a reporting instance.
const MAX_INSTANCE_CHARS: usize = 128;

/// The content of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEvent<'a> {
    /// Whether the type is `Warning`.
    pub warning: bool,
    /// The reason, one word.
    pub reason: &'a str,
    /// The note, a sentence.
    pub note: String,
}

/// The reporter of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reporter<'a> {
    /// The controller's name.
    pub controller: &'a str,
    /// The instance of the controller.
    pub instance: &'a str,
}

/// Builds an event about an object in the object's namespace, or in `default` for a
/// cluster-scoped object.
pub fn event(regarding: ObjectReference, event: NewEvent<'_>, reporter: Reporter<'_>) -> Event {
    let name = regarding.name.as_deref().unwrap_or_default();
    let namespace = regarding.namespace.as_deref().unwrap_or("default");
    let mut note = event.note;
    note.truncate(note.floor_char_boundary(MAX_NOTE_BYTES));
    Event {
        metadata: ObjectMeta {
            generate_name: Some(format!("{name}-")),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        type_: Some(if event.warning { "Warning" } else { "Normal" }.to_owned()),
        reason: Some(event.reason.to_owned()),
        note: Some(note),
        action: Some("Reconcile".to_owned()),
        event_time: Some(MicroTime(Timestamp::now())),
        reporting_controller: Some(reporter.controller.to_owned()),
        reporting_instance: Some(reporter.instance.chars().take(MAX_INSTANCE_CHARS).collect()),
        regarding: Some(regarding),
        ..Event::default()
    }
}

/// Limits the events per object, so that an object that flaps does not fill the server with
/// events. The status always has the current state.
#[derive(Debug, Default)]
pub struct EventRateLimit {
    event: Mutex<HashMap<String, (Instant, u32)>>,
}

impl EventRateLimit {
    /// The maximum number of events per window.
    const MAX_EVENTS: u32 = 6;
    const WINDOW: Duration = Duration::from_secs(60);

    /// Returns whether another event about an object is allowed.
    pub fn admit(&self, object: &str, now: Instant) -> bool {
        let mut event = self.event.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = |since: Instant| now.duration_since(since) >= Self::WINDOW;
        if event.get(object).is_none_or(|(since, _)| is_over(*since)) {
            // Keep only the objects with an event in the current window.
            event.retain(|_, (since, _)| !is_over(*since));
            event.insert(object.to_owned(), (now, 0));
        }
        let Some((_, count)) = event.get_mut(object) else {
            return true;
        };
        *count = count.saturating_add(1);
        *count <= Self::MAX_EVENTS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_per_object_are_limited_and_forgotten() {
        let (limit, begin) = (EventRateLimit::default(), Instant::now());
        let after = |seconds| begin + Duration::from_secs(seconds);
        let admitted = (0..100).filter(|_| limit.admit("a", after(1))).count();
        assert_eq!(admitted, 6);
        assert!(limit.admit("b", after(2)), "another is not affected");
        assert!(!limit.admit("a", after(60)));
        assert!(limit.admit("a", after(61)));
        for number in 0..1000 {
            assert!(limit.admit(&number.to_string(), after(61)));
        }
        assert!(limit.admit("c", after(200)));
        let kept = limit.event.lock().unwrap().len();
        assert_eq!(kept, 1);
    }

    #[test]
    fn event_is_in_the_objects_namespace_and_truncated() {
        for (namespace, expected) in [(Some("team-a"), "team-a"), (None, "default")] {
            let regarding = ObjectReference {
                name: Some("prod".to_owned()),
                namespace: namespace.map(str::to_owned),
                ..ObjectReference::default()
            };
            let new = NewEvent {
                warning: true,
                reason: "Refused",
                note: "é".repeat(2000),
            };
            let reporter = Reporter {
                controller: "example.com/operator",
                instance: &"x".repeat(500),
            };
            let event = event(regarding, new, reporter);
            assert_eq!(event.metadata.namespace.as_deref(), Some(expected));
            assert_eq!(event.metadata.generate_name.as_deref(), Some("prod-"));
            assert_eq!(event.type_.as_deref(), Some("Warning"));
            assert_eq!(event.note.map(|note| note.len()), Some(1024));
            assert_eq!(event.reporting_instance.map(|text| text.len()), Some(128));
        }
    }
}

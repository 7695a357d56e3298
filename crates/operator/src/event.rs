//! What is told beside the status of objects: events, and not too many of them.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::ObjectMeta;

/// The longest that a server takes.
const LONGEST: usize = 1024;
/// The longest name of who tells.
const LONGEST_TELLER: usize = 128;

/// What is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told<'a> {
    /// Whether somebody should look at it.
    pub warning: bool,
    /// In one word.
    pub reason: &'a str,
    /// In a sentence.
    pub note: String,
}

/// Who tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Teller<'a> {
    /// Which operator.
    pub controller: &'a str,
    /// Which of several that run.
    pub instance: &'a str,
}

/// An event about an object, in the namespace of the object; events about what is in none are
/// in `default`.
pub fn event(regarding: ObjectReference, told: Told<'_>, teller: Teller<'_>) -> Event {
    let name = regarding.name.as_deref().unwrap_or_default();
    let namespace = regarding.namespace.as_deref().unwrap_or("default");
    let mut note = told.note;
    note.truncate(note.floor_char_boundary(LONGEST));
    Event {
        metadata: ObjectMeta {
            generate_name: Some(format!("{name}-")),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        type_: Some(if told.warning { "Warning" } else { "Normal" }.to_owned()),
        reason: Some(told.reason.to_owned()),
        note: Some(note),
        action: Some("Reconcile".to_owned()),
        event_time: Some(MicroTime(Timestamp::now())),
        reporting_controller: Some(teller.controller.to_owned()),
        reporting_instance: Some(teller.instance.chars().take(LONGEST_TELLER).collect()),
        regarding: Some(regarding),
        ..Event::default()
    }
}

/// How many events are told of each object: whoever makes one go to and fro does not fill the
/// server with them. What is so stands in its status.
#[derive(Debug, Default)]
pub struct Ration {
    told: Mutex<HashMap<String, (Instant, u32)>>,
}

impl Ration {
    /// So many in this time.
    const MANY: u32 = 6;
    const WHILE: Duration = Duration::from_secs(60);

    /// Whether one more may be told of an object.
    pub fn admit(&self, object: &str, now: Instant) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = |since: Instant| now.duration_since(since) >= Self::WHILE;
        if told.get(object).is_none_or(|(since, _)| is_over(*since)) {
            // Only those are kept of whom something was told just now.
            told.retain(|_, (since, _)| !is_over(*since));
            told.insert(object.to_owned(), (now, 0));
        }
        let Some((_, count)) = told.get_mut(object) else {
            return true;
        };
        *count = count.saturating_add(1);
        *count <= Self::MANY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_each_object_a_few_events_are_told_in_a_minute_and_nothing_is_kept_for_ever() {
        let (ration, begin) = (Ration::default(), Instant::now());
        let after = |seconds| begin + Duration::from_secs(seconds);
        let admitted = (0..100).filter(|_| ration.admit("a", after(1))).count();
        assert_eq!(admitted, 6);
        assert!(ration.admit("b", after(2)), "another is not affected");
        assert!(!ration.admit("a", after(60)));
        assert!(ration.admit("a", after(61)));
        for number in 0..1000 {
            assert!(ration.admit(&number.to_string(), after(61)));
        }
        assert!(ration.admit("c", after(200)));
        let kept = ration.told.lock().unwrap().len();
        assert_eq!(kept, 1);
    }

    #[test]
    fn an_event_is_where_its_object_is_and_within_what_a_server_takes() {
        for (namespace, expected) in [(Some("team-a"), "team-a"), (None, "default")] {
            let regarding = ObjectReference {
                name: Some("prod".to_owned()),
                namespace: namespace.map(str::to_owned),
                ..ObjectReference::default()
            };
            let told = Told {
                warning: true,
                reason: "Refused",
                note: "é".repeat(2000),
            };
            let teller = Teller {
                controller: "example.com/operator",
                instance: &"x".repeat(500),
            };
            let event = event(regarding, told, teller);
            assert_eq!(event.metadata.namespace.as_deref(), Some(expected));
            assert_eq!(event.metadata.generate_name.as_deref(), Some("prod-"));
            assert_eq!(event.type_.as_deref(), Some("Warning"));
            assert_eq!(event.note.map(|note| note.len()), Some(1024));
            assert_eq!(event.reporting_instance.map(|text| text.len()), Some(128));
        }
    }
}

//! What happens to objects and to what belongs to them, as [triggers](Trigger).
//!
//! Nothing of what is seen is kept but who has changed: whoever works reads it anew.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, StreamExt, future, stream};
use kube::api::PartialObjectMeta;
use kube::core::Resource;
use kube::runtime::utils::{Backoff, ResetTimerBackoff, StreamBackoff};
use kube::runtime::watcher::{self, Config, Event, watcher};
use kube::{Api, Client, ResourceExt};
use serde::de::DeserializeOwned;
use tracing::debug;

use crate::queue::Trigger;

/// Whether lists come as the beginning of watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lists {
    /// As lists, which every server has.
    Paged,
    /// As the beginning of the watch.
    Streamed,
}

impl Lists {
    /// What this server is asked for. One that says nothing of itself is asked for what all
    /// have.
    pub async fn of(client: &Client) -> Self {
        match client.apiserver_version().await {
            Ok(version) => Self::since(&version.major, &version.minor),
            Err(_) => Self::Paged,
        }
    }

    /// The first version that has them on by itself and kept it so. Before, a server may not
    /// know the question and never say that the list is over.
    fn since(major: &str, minor: &str) -> Self {
        let number = |text: &str| text.trim_end_matches('+').parse::<u32>().ok();
        match number(major).zip(number(minor)) {
            Some(version) if version >= (1, 34) => Self::Streamed,
            _ => Self::Paged,
        }
    }
}

/// The objects that are worked on: a trigger for each that is new or has changed.
pub fn objects<K>(api: Api<PartialObjectMeta<K>>, lists: Lists) -> impl Stream<Item = Trigger>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let mut known = Known::default();
    follow(api, Config::default(), lists).flat_map(move |event| stream::iter(known.hear(event)))
}

/// How an object is known in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Under which name.
    pub name: Arc<str>,
    /// Whether it is one that is worked on.
    pub is_ours: bool,
    /// What changes with it beside what somebody wants of the object.
    pub mark: u64,
}

/// What is new about an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// It is another, wants something else, or is said to be otherwise.
    Changed,
    /// Something was written to it.
    Written,
    /// It is gone.
    Gone,
}

/// The objects of one kind of several that are worked on in one queue: `see` says how it
/// knows each, and `also` whom else it concerns. What happened in between two watches may
/// concern anybody.
pub fn keyed<K>(
    api: Api<K>,
    config: Config,
    lists: Lists,
    see: impl Fn(&K) -> Seen + Send,
    also: impl Fn(&K, News) -> Vec<Trigger> + Send,
) -> impl Stream<Item = Trigger>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let mut known = Known::default();
    follow(api, config, lists).flat_map(move |event| {
        stream::iter(match event {
            Event::Init => {
                known.listed.clear();
                Vec::new()
            }
            Event::InitApply(object) => known.list_seen(see(&object), &object),
            Event::InitDone => {
                let mut triggers = known.listed_all();
                triggers.push(Trigger::All);
                triggers
            }
            Event::Apply(object) => {
                let trigger = known.meet(see(&object), &object);
                let news = match trigger {
                    Some(Trigger::Changed(_)) => News::Changed,
                    _ => News::Written,
                };
                let mut triggers = also(&object, news);
                triggers.extend(trigger);
                triggers
            }
            Event::Delete(object) => {
                let mut triggers = also(&object, News::Gone);
                triggers.extend(known.lose(&see(&object).name));
                triggers
            }
        })
    })
}

/// What belongs to objects: `whose` says to which. When what happened in between is not
/// known, as after a watch that was taken up anew, any may have been touched.
pub fn parts<K>(
    api: Api<PartialObjectMeta<K>>,
    config: Config,
    lists: Lists,
    whose: impl Fn(&PartialObjectMeta<K>) -> Option<Trigger> + Send,
) -> impl Stream<Item = Trigger>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    follow(api, config, lists).filter_map(move |event| {
        future::ready(match event {
            Event::Apply(part) | Event::Delete(part) => whose(&part),
            Event::InitDone => Some(Trigger::All),
            Event::Init | Event::InitApply(_) => None,
        })
    })
}

/// The events of a watch that is taken up again whenever it ends.
fn follow<K>(api: Api<K>, config: Config, lists: Lists) -> impl Stream<Item = Event<K>>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let config = config.page_size(PAGE);
    let paged = watcher(api.clone(), config.clone());
    let streamed = watcher(api, config.streaming_lists())
        .take_while(|event| future::ready(!is_refused(event)))
        .take(match lists {
            Lists::Paged => 0,
            Lists::Streamed => usize::MAX,
        });
    let pauses = ResetTimerBackoff::new(Pauses::default(), CALM);
    StreamBackoff::new(streamed.chain(paged), pauses).filter_map(|event| {
        future::ready(match event {
            Ok(event) => Some(event),
            Err(error) => {
                debug!(%error, kind = std::any::type_name::<K>(), "a watch is taken up again");
                None
            }
        })
    })
}

/// Whether a server does not have streamed lists after all: they can be turned off.
fn is_refused<K>(event: &watcher::Result<Event<K>>) -> bool {
    let Err(watcher::Error::WatchStartFailed(kube::Error::Api(status))) = event else {
        return false;
    };
    matches!(status.code, 400 | 422)
}

/// How many objects of a list are at hand at the same time. Whoever may write annotations can
/// make each of them some hundred kilobytes large.
const PAGE: u32 = 50;

/// After this long without an error, pauses begin anew.
const CALM: Duration = Duration::from_secs(20);
const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(5);

/// The pauses of a watch that fails: each twice the one before.
#[derive(Debug, Default)]
struct Pauses {
    last: Option<Duration>,
}

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let next = self.last.map_or(FIRST, |last| (last * 2).min(LONGEST));
        self.last = Some(next);
        Some(next)
    }
}

impl Backoff for Pauses {
    fn reset(&mut self) {
        self.last = None;
    }
}

/// The objects that there are, and as which each was seen.
#[derive(Debug, Default)]
struct Known {
    objects: HashMap<Arc<str>, Face>,
    /// Those of a list that is not over yet.
    listed: HashMap<Arc<str>, Face>,
}

/// What changes with what somebody wants of an object, and not with what we say of it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Face {
    uid: Option<String>,
    generation: Option<i64>,
    deleting: bool,
    mark: u64,
}

impl Known {
    fn hear<K: Resource>(&mut self, event: Event<PartialObjectMeta<K>>) -> Vec<Trigger>
    where
        PartialObjectMeta<K>: ResourceExt,
    {
        match event {
            Event::Init => {
                self.listed.clear();
                Vec::new()
            }
            Event::InitApply(object) => {
                let (name, face) = seen(&object);
                let trigger = self.trigger(&name, &face);
                self.listed.insert(name, face);
                vec![trigger]
            }
            Event::InitDone => self.listed_all(),
            Event::Apply(object) => {
                let (name, face) = seen(&object);
                let trigger = self.trigger(&name, &face);
                self.objects.insert(name, face);
                vec![trigger]
            }
            Event::Delete(object) => {
                let (name, _) = seen(&object);
                self.objects.remove(&name);
                vec![Trigger::Touched(name)]
            }
        }
    }

    /// One of a list, if it is worked on.
    fn list_seen<K: Resource>(&mut self, seen: Seen, object: &K) -> Vec<Trigger> {
        if !seen.is_ours {
            return Vec::new();
        }
        let face = face(object, seen.mark);
        let trigger = self.trigger(&seen.name, &face);
        self.listed.insert(seen.name, face);
        vec![trigger]
    }

    /// One that is new or was written to; one that is not worked on any more has gone.
    fn meet<K: Resource>(&mut self, seen: Seen, object: &K) -> Option<Trigger> {
        if !seen.is_ours {
            return self.lose(&seen.name);
        }
        let face = face(object, seen.mark);
        let trigger = self.trigger(&seen.name, &face);
        self.objects.insert(seen.name, face);
        Some(trigger)
    }

    fn lose(&mut self, name: &Arc<str>) -> Option<Trigger> {
        let lost = self.objects.remove(name);
        lost.map(|_| Trigger::Touched(Arc::clone(name)))
    }

    /// A list is over: what is not in it has gone.
    fn listed_all(&mut self) -> Vec<Trigger> {
        let listed = std::mem::take(&mut self.listed);
        let before = std::mem::replace(&mut self.objects, listed);
        let gone = before
            .into_keys()
            .filter(|name| !self.objects.contains_key(name));
        gone.map(Trigger::Touched).collect()
    }

    fn trigger(&self, name: &Arc<str>, face: &Face) -> Trigger {
        match self.objects.get(name) == Some(face) {
            true => Trigger::Touched(Arc::clone(name)),
            false => Trigger::Changed(Arc::clone(name)),
        }
    }
}

fn seen<K: ResourceExt>(object: &K) -> (Arc<str>, Face) {
    (object.name_any().into(), face(object, 0))
}

fn face<K: Resource>(object: &K, mark: u64) -> Face {
    let metadata = object.meta();
    Face {
        uid: metadata.uid.clone(),
        generation: metadata.generation,
        deleting: metadata.deletion_timestamp.is_some(),
        mark,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Namespace, Secret};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
    use k8s_openapi::jiff::Timestamp;
    use kube::core::{PartialObjectMetaExt, Status};

    use super::*;

    fn secret(name: &str, uid: &str, generation: i64) -> PartialObjectMeta<Secret> {
        let metadata = ObjectMeta {
            name: Some(name.to_owned()),
            uid: Some(uid.to_owned()),
            generation: Some(generation),
            ..ObjectMeta::default()
        };
        metadata.into_response_partial()
    }

    fn deleting(mut object: PartialObjectMeta<Secret>) -> PartialObjectMeta<Secret> {
        object.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        object
    }

    fn changed(name: &str) -> Vec<Trigger> {
        vec![Trigger::Changed(name.into())]
    }

    fn touched(name: &str) -> Vec<Trigger> {
        vec![Trigger::Touched(name.into())]
    }

    #[test]
    fn what_we_say_of_an_object_is_no_change_of_it() {
        let mut known = Known::default();
        let table = [
            (Event::Init, vec![]),
            (Event::InitApply(secret("a", "1", 1)), changed("a")),
            (Event::InitDone, vec![]),
            (Event::Apply(secret("a", "1", 1)), touched("a")),
            (Event::Apply(secret("a", "1", 2)), changed("a")),
            (Event::Apply(secret("a", "1", 2)), touched("a")),
            (Event::Apply(deleting(secret("a", "1", 2))), changed("a")),
            (Event::Delete(secret("a", "1", 2)), touched("a")),
            (Event::Apply(secret("a", "2", 2)), changed("a")),
            (Event::Apply(secret("b", "3", 1)), changed("b")),
            // Taken up anew: one is as it was, one is another of its name, one is gone.
            (Event::Init, vec![]),
            (Event::InitApply(secret("a", "2", 2)), touched("a")),
            (Event::InitDone, touched("b")),
            (Event::Apply(secret("b", "4", 1)), changed("b")),
        ];
        for (number, (event, expected)) in table.into_iter().enumerate() {
            assert_eq!(known.hear(event), expected, "{number}");
        }
    }

    #[test]
    fn only_servers_that_say_so_are_asked_for_streamed_lists() {
        for (major, minor, lists) in [
            ("1", "26", Lists::Paged),
            ("1", "33+", Lists::Paged),
            ("1", "34", Lists::Streamed),
            ("1", "36+", Lists::Streamed),
            ("2", "0", Lists::Streamed),
            ("", "", Lists::Paged),
            ("1", "x", Lists::Paged),
        ] {
            assert_eq!(Lists::since(major, minor), lists, "{major}.{minor}");
        }
    }

    #[test]
    fn a_server_that_refuses_streamed_lists_is_asked_for_pages() {
        let answered = |code| {
            let status = Status {
                code,
                ..Status::default()
            };
            Err(watcher::Error::WatchStartFailed(kube::Error::Api(
                status.boxed(),
            )))
        };
        for (code, refused) in [
            (400, true),
            (422, true),
            (403, false),
            (410, false),
            (500, false),
        ] {
            assert_eq!(is_refused::<Namespace>(&answered(code)), refused, "{code}");
        }
        assert!(!is_refused::<Namespace>(&Ok(Event::Init)));
    }

    #[test]
    fn pauses_of_a_watch_grow_to_five_seconds() {
        let mut pauses = Pauses::default();
        let first: Vec<_> = pauses
            .by_ref()
            .take(8)
            .map(|pause| pause.as_millis())
            .collect();
        assert_eq!(first, [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        pauses.reset();
        assert_eq!(pauses.next(), Some(FIRST));
    }

    #[test]
    fn what_is_not_worked_on_any_more_is_forgotten_and_new_when_it_is_again() {
        let mut known = Known::default();
        let object = secret("a", "1", 1);
        let as_seen = |is_ours, mark| Seen {
            name: "Secret a".into(),
            is_ours,
            mark,
        };
        let name: Arc<str> = "Secret a".into();
        let (changed, touched) = (
            Some(Trigger::Changed(name.clone())),
            Some(Trigger::Touched(name.clone())),
        );
        for (seen, expected) in [
            (as_seen(false, 0), None),
            (as_seen(true, 0), changed.clone()),
            (as_seen(true, 0), touched.clone()),
            (as_seen(true, 1), changed.clone()),
            (as_seen(false, 1), touched),
            (as_seen(false, 1), None),
            (as_seen(true, 1), changed),
        ] {
            let told = format!("{seen:?}");
            assert_eq!(known.meet(seen, &object), expected, "{told}");
        }
        assert!(known.lose(&name).is_some());
        assert!(known.objects.is_empty());
    }
}

//! Watches of objects and of their dependents as [triggers](Trigger).
//!
//! Only what is needed to detect changes is stored: reconcilers read the objects again.

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

/// How the initial list of a watch is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListMode {
    /// As a paged list, which every server supports.
    Paged,
    /// As the beginning of the watch.
    Streamed,
}

impl ListMode {
    /// Returns the mode for a server. A server without a version gets paged lists.
    pub async fn of(client: &Client) -> Self {
        match client.apiserver_version().await {
            Ok(version) => Self::for_version(&version.major, &version.minor),
            Err(_) => Self::Paged,
        }
    }

    /// Streaming lists are enabled by default since 1.34. Older servers may ignore the option
    /// and never send the end of the list.
    fn for_version(major: &str, minor: &str) -> Self {
        let number = |text: &str| text.trim_end_matches('+').parse::<u32>().ok();
        match number(major).zip(number(minor)) {
            Some(version) if version >= (1, 34) => Self::Streamed,
            _ => Self::Paged,
        }
    }
}

/// Watches reconciled objects: a trigger for each that is new or has changed.
pub fn objects<K>(api: Api<PartialObjectMeta<K>>, mode: ListMode) -> impl Stream<Item = Trigger>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let mut known = Known::default();
    watch_events(api, Config::default(), mode)
        .flat_map(move |event| stream::iter(known.handle(event)))
}

/// An object as the queue knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// The name in the queue.
    pub name: Arc<str>,
    /// Whether the object is reconciled.
    pub is_managed: bool,
    /// A digest of further fields that count as a change of the object.
    pub digest: u64,
    /// Whether a write is known already, so that it triggers nothing unless it is a change.
    pub is_known: bool,
}

/// A change of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The object is new, or its spec, deletion or digest has changed.
    Changed,
    /// The object was written.
    Written,
    /// The object was deleted.
    Gone,
}

/// The result of a list at the beginning of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listed {
    /// All existing objects were observed.
    Complete,
    /// The objects may not be listed, or their kind is not served.
    Forbidden,
}

/// Watches objects of one of several kinds in one queue: `observe` returns how the queue knows
/// an object, and `also` the triggers of other objects. After a gap between two watches any
/// object may be affected. `listed` is called after each list.
pub fn keyed<K>(
    api: Api<K>,
    config: Config,
    mode: ListMode,
    observe: impl Fn(&K) -> Observed + Send,
    also: impl Fn(&K, Change) -> Vec<Trigger> + Send,
    listed: impl Fn(Listed) + Send,
) -> impl Stream<Item = Trigger>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let mut known = Known::default();
    watch_results(api, config, mode).flat_map(move |event| {
        let event = match event {
            Ok(event) => event,
            Err(error) => {
                if is_forbidden(&error) {
                    listed(Listed::Forbidden);
                }
                return stream::iter(Vec::new());
            }
        };
        stream::iter(match event {
            Event::Init => {
                known.listed.clear();
                Vec::new()
            }
            Event::InitApply(object) => known.observe_listed(observe(&object), &object),
            Event::InitDone => {
                listed(Listed::Complete);
                let mut triggers = known.finish_list();
                triggers.push(Trigger::All);
                triggers
            }
            Event::Apply(object) => {
                let observed = observe(&object);
                let is_known = observed.is_known;
                let trigger = known.observe(observed, &object);
                let change = match trigger {
                    Some(Trigger::Changed(_)) => Change::Changed,
                    _ if is_known => return stream::iter(Vec::new()),
                    _ => Change::Written,
                };
                let mut triggers = also(&object, change);
                triggers.extend(trigger);
                triggers
            }
            Event::Delete(object) => {
                let name = observe(&object).name;
                let mut triggers = also(&object, Change::Gone);
                triggers.extend(known.forget(&name));
                triggers
            }
        })
    })
}

/// Watches objects that belong to reconciled objects: `trigger_for` returns the trigger. After a
/// gap between two watches any object may be affected.
pub fn parts<K>(
    api: Api<PartialObjectMeta<K>>,
    config: Config,
    mode: ListMode,
    trigger_for: impl Fn(&PartialObjectMeta<K>) -> Option<Trigger> + Send,
) -> impl Stream<Item = Trigger>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    watch_events(api, config, mode).filter_map(move |event| {
        future::ready(match event {
            Event::Apply(part) | Event::Delete(part) => trigger_for(&part),
            Event::InitDone => Some(Trigger::All),
            Event::Init | Event::InitApply(_) => None,
        })
    })
}

/// The events of a watch that is restarted whenever it ends.
fn watch_events<K>(api: Api<K>, config: Config, mode: ListMode) -> impl Stream<Item = Event<K>>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    watch_results(api, config, mode).filter_map(|event| future::ready(event.ok()))
}

/// The events and errors of a watch that is restarted whenever it ends.
fn watch_results<K>(
    api: Api<K>,
    config: Config,
    mode: ListMode,
) -> impl Stream<Item = watcher::Result<Event<K>>>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let config = config.page_size(PAGE_SIZE);
    let paged = watcher(api.clone(), config.clone());
    let streamed = watcher(api, config.streaming_lists())
        .take_while(|event| future::ready(!is_refused(event)))
        .take(match mode {
            ListMode::Paged => 0,
            ListMode::Streamed => usize::MAX,
        });
    let backoff = ResetTimerBackoff::new(ExponentialBackoff::default(), BACKOFF_RESET);
    StreamBackoff::new(streamed.chain(paged), backoff).inspect(|event| {
        if let Err(error) = event {
            debug!(%error, kind = std::any::type_name::<K>(), "watch restarted");
        }
    })
}

/// Returns whether a watch failed because its objects may not be listed, or their kind is not
/// served.
fn is_forbidden(error: &watcher::Error) -> bool {
    use watcher::Error::{InitialListFailed, WatchStartFailed};
    let (InitialListFailed(error) | WatchStartFailed(error)) = error else {
        return false;
    };
    matches!(error, kube::Error::Api(status) if matches!(status.code, 403 | 404))
}

/// Returns whether a server rejected a streaming list, which can be disabled.
fn is_refused<K>(event: &watcher::Result<Event<K>>) -> bool {
    let Err(watcher::Error::WatchStartFailed(kube::Error::Api(status))) = event else {
        return false;
    };
    matches!(status.code, 400 | 422)
}

/// The page size of lists. Each object may have annotations of several hundred kilobytes, and a
/// whole page is in memory.
const PAGE_SIZE: u32 = 50;

/// Time without an error after which the backoff starts again.
const BACKOFF_RESET: Duration = Duration::from_secs(20);
const MIN_BACKOFF: Duration = Duration::from_millis(100);
const MAX_BACKOFF: Duration = Duration::from_secs(5);

/// The backoff of a failing watch: each pause is twice the previous one.
#[derive(Debug, Default)]
struct ExponentialBackoff {
    last: Option<Duration>,
}

impl Iterator for ExponentialBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let next = self
            .last
            .map_or(MIN_BACKOFF, |last| (last * 2).min(MAX_BACKOFF));
        self.last = Some(next);
        Some(next)
    }
}

impl Backoff for ExponentialBackoff {
    fn reset(&mut self) {
        self.last = None;
    }
}

/// The objects as last seen.
#[derive(Debug, Default)]
struct Known {
    objects: HashMap<Arc<str>, Snapshot>,
    /// The objects of a list that is not complete.
    listed: HashMap<Arc<str>, Snapshot>,
}

/// The fields that change with an object's desired state, but not with its status.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Snapshot {
    uid: Option<String>,
    generation: Option<i64>,
    deleting: bool,
    digest: u64,
}

impl Known {
    fn handle<K: Resource>(&mut self, event: Event<PartialObjectMeta<K>>) -> Vec<Trigger>
    where
        PartialObjectMeta<K>: ResourceExt,
    {
        match event {
            Event::Init => {
                self.listed.clear();
                Vec::new()
            }
            Event::InitApply(object) => {
                let (name, snapshot) = identify(&object);
                let trigger = self.trigger(&name, &snapshot);
                self.listed.insert(name, snapshot);
                vec![trigger]
            }
            Event::InitDone => self.finish_list(),
            Event::Apply(object) => {
                let (name, snapshot) = identify(&object);
                let trigger = self.trigger(&name, &snapshot);
                self.objects.insert(name, snapshot);
                vec![trigger]
            }
            Event::Delete(object) => {
                let (name, _) = identify(&object);
                self.objects.remove(&name);
                vec![Trigger::Touched(name)]
            }
        }
    }

    /// Records an object of a list, if it is reconciled.
    fn observe_listed<K: Resource>(&mut self, identify: Observed, object: &K) -> Vec<Trigger> {
        if !identify.is_managed {
            return Vec::new();
        }
        let snapshot = snapshot(object, identify.digest);
        let trigger = self.trigger(&identify.name, &snapshot);
        self.listed.insert(identify.name, snapshot);
        vec![trigger]
    }

    /// Records a new or written object. One that is no longer reconciled counts as deleted.
    fn observe<K: Resource>(&mut self, identify: Observed, object: &K) -> Option<Trigger> {
        if !identify.is_managed {
            return self.forget(&identify.name);
        }
        let snapshot = snapshot(object, identify.digest);
        let trigger = self.trigger(&identify.name, &snapshot);
        self.objects.insert(identify.name, snapshot);
        Some(trigger)
    }

    fn forget(&mut self, name: &Arc<str>) -> Option<Trigger> {
        let lost = self.objects.remove(name);
        lost.map(|_| Trigger::Touched(Arc::clone(name)))
    }

    /// Ends a list: objects that are missing from it were deleted.
    fn finish_list(&mut self) -> Vec<Trigger> {
        let listed = std::mem::take(&mut self.listed);
        let before = std::mem::replace(&mut self.objects, listed);
        let gone = before
            .into_keys()
            .filter(|name| !self.objects.contains_key(name));
        gone.map(Trigger::Touched).collect()
    }

    fn trigger(&self, name: &Arc<str>, snapshot: &Snapshot) -> Trigger {
        match self.objects.get(name) == Some(snapshot) {
            true => Trigger::Touched(Arc::clone(name)),
            false => Trigger::Changed(Arc::clone(name)),
        }
    }
}

fn identify<K: ResourceExt>(object: &K) -> (Arc<str>, Snapshot) {
    (object.name_any().into(), snapshot(object, 0))
}

fn snapshot<K: Resource>(object: &K, digest: u64) -> Snapshot {
    let metadata = object.meta();
    Snapshot {
        uid: metadata.uid.clone(),
        generation: metadata.generation,
        deleting: metadata.deletion_timestamp.is_some(),
        digest,
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
    fn status_update_is_no_change() {
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
            // After a restart: one object is unchanged, one was recreated, one was deleted.
            (Event::Init, vec![]),
            (Event::InitApply(secret("a", "2", 2)), touched("a")),
            (Event::InitDone, touched("b")),
            (Event::Apply(secret("b", "4", 1)), changed("b")),
        ];
        for (number, (event, expected)) in table.into_iter().enumerate() {
            assert_eq!(known.handle(event), expected, "{number}");
        }
    }

    #[test]
    fn streaming_lists_need_version_1_34() {
        for (major, minor, mode) in [
            ("1", "26", ListMode::Paged),
            ("1", "33+", ListMode::Paged),
            ("1", "34", ListMode::Streamed),
            ("1", "36+", ListMode::Streamed),
            ("2", "0", ListMode::Streamed),
            ("", "", ListMode::Paged),
            ("1", "x", ListMode::Paged),
        ] {
            assert_eq!(ListMode::for_version(major, minor), mode, "{major}.{minor}");
        }
    }

    #[test]
    fn rejected_streaming_list_falls_back_to_pages() {
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
    fn list_is_forbidden_without_the_right_or_the_kind() {
        for (code, forbidden) in [(403, true), (404, true), (401, false), (500, false)] {
            let status = || {
                let status = Status {
                    code,
                    ..Status::default()
                };
                kube::Error::Api(status.boxed())
            };
            for error in [
                watcher::Error::InitialListFailed(status()),
                watcher::Error::WatchStartFailed(status()),
            ] {
                assert_eq!(is_forbidden(&error), forbidden, "{error}");
            }
            assert!(!is_forbidden(&watcher::Error::WatchFailed(status())));
        }
    }

    #[test]
    fn watch_backoff_grows_to_five_seconds() {
        let mut backoff = ExponentialBackoff::default();
        let first: Vec<_> = backoff
            .by_ref()
            .take(8)
            .map(|pause| pause.as_millis())
            .collect();
        assert_eq!(first, [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        backoff.reset();
        assert_eq!(backoff.next(), Some(MIN_BACKOFF));
    }

    #[test]
    fn unmanaged_object_is_forgotten_and_new_when_managed_again() {
        let mut known = Known::default();
        let object = secret("a", "1", 1);
        let observed = |is_managed, digest| Observed {
            name: "Secret a".into(),
            is_managed,
            digest,
            is_known: false,
        };
        let name: Arc<str> = "Secret a".into();
        let (changed, touched) = (
            Some(Trigger::Changed(name.clone())),
            Some(Trigger::Touched(name.clone())),
        );
        for (identify, expected) in [
            (observed(false, 0), None),
            (observed(true, 0), changed.clone()),
            (observed(true, 0), touched.clone()),
            (observed(true, 1), changed.clone()),
            (observed(false, 1), touched),
            (observed(false, 1), None),
            (observed(true, 1), changed),
        ] {
            let described = format!("{identify:?}");
            assert_eq!(known.observe(identify, &object), expected, "{described}");
        }
        assert!(known.forget(&name).is_some());
        assert!(known.objects.is_empty());
    }
}

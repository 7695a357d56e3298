use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;
use crate::collection::{Change, MAX_EVENTS, Put};
use crate::delivery::Delivery;
use crate::entry::Stored;

/// Counts how often it is woken.
#[derive(Default)]
struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A collection that is written to at growing revisions.
struct Fixture {
    collection: Arc<Collection>,
    revision: u64,
}

impl Fixture {
    fn new() -> Self {
        Self {
            collection: Arc::new(Collection::new(Revision::ZERO)),
            revision: 0,
        }
    }

    fn subscribe(&self, interest: Interest) -> Subscription {
        let (end, _) = self.collection.end();
        self.collection.subscribe(interest, Space::System, end)
    }

    /// Applies changes in one transaction, and returns how many subscriptions have to be woken.
    fn apply(&mut self, changes: &[(&str, Option<&str>)]) -> usize {
        self.revision += 1;
        let revision = Revision::new(self.revision);
        let puts = changes.iter().map(|(key, label)| match label {
            Some(label) => {
                let labels = match label.split_once('=') {
                    Some((key, value)) => format!(r#""{key}":"{value}""#),
                    None => String::new(),
                };
                let json = format!(r#"{{"metadata":{{"uid":"u","labels":{{{labels}}}}}}}"#);
                Put::Object(Stored::new((*key).into(), revision, json.as_bytes()))
            }
            None => Put::Gone((*key).into()),
        });
        let recorded = self.collection.apply(puts.collect(), revision);
        let count = recorded.marked.len();
        for subscriber in recorded.marked {
            subscriber.wake();
        }
        count
    }

    fn put(&mut self, key: &str, label: &str) -> usize {
        self.apply(&[(key, Some(label))])
    }

    fn delete(&mut self, key: &str) -> usize {
        self.apply(&[(key, None)])
    }
}

fn key(key: &str) -> Interest {
    Interest::Key(key.into())
}

fn label(namespace: Option<&str>, key: &str, value: &str) -> Interest {
    Interest::Label {
        namespace: namespace.map(Into::into),
        key: key.into(),
        value: value.into(),
    }
}

/// Reads everything unread, as `key@revision`.
fn read(subscription: &Subscription) -> Vec<String> {
    let mut events = Vec::new();
    subscription.read_on(usize::MAX, &mut events).unwrap();
    let text = |event: &Arc<Event>| format!("{}@{}", event.object.key, event.revision);
    events.iter().map(text).collect()
}

#[test]
fn write_wakes_only_the_watch_of_its_name() {
    let mut fixture = Fixture::new();
    let others: Vec<_> = (0..1000)
        .map(|n| fixture.subscribe(key(&format!("ns/other-{n}"))))
        .collect();
    let mine = fixture.subscribe(key("ns/mine"));
    assert_eq!(fixture.put("ns/mine", ""), 1);
    assert_eq!(fixture.put("ns/absent", ""), 0);
    assert_eq!(fixture.put("ns2/mine", ""), 0);
    assert_eq!(read(&mine), ["ns/mine@1"]);
    assert!(others.iter().all(|other| read(other).is_empty()));
    assert_eq!(fixture.delete("ns/mine"), 1);
    assert_eq!(read(&mine), ["ns/mine@4"]);
}

#[test]
fn cluster_scoped_object_wakes_the_watch_of_its_name() {
    let mut fixture = Fixture::new();
    let (one, all) = (
        fixture.subscribe(key("a")),
        fixture.subscribe(Interest::All),
    );
    assert_eq!(fixture.put("b", ""), 1);
    assert_eq!(fixture.put("a", ""), 1, "the watch of all has yet to read");
    assert_eq!((read(&one).len(), read(&all).len()), (1, 2));
}

#[test]
fn write_wakes_the_watches_of_its_namespace_and_of_all() {
    let mut fixture = Fixture::new();
    let here = fixture.subscribe(Interest::Namespace("ns".into()));
    let elsewhere = fixture.subscribe(Interest::Namespace("n".into()));
    let all = fixture.subscribe(Interest::All);
    let name = fixture.subscribe(Interest::Name("a".into()));
    assert_eq!(fixture.put("ns/a", ""), 3);
    assert_eq!(fixture.put("n/b", ""), 1, "only the one that has read all");
    assert_eq!(read(&here), ["ns/a@1"]);
    assert_eq!(read(&elsewhere), ["n/b@2"]);
    assert_eq!(read(&all), ["ns/a@1", "n/b@2"]);
    assert_eq!(read(&name), ["ns/a@1"]);
}

#[test]
fn object_that_enters_or_leaves_a_selection_by_label_wakes_its_watches() {
    let mut fixture = Fixture::new();
    let here = fixture.subscribe(label(Some("ns"), "app", "x"));
    let all = fixture.subscribe(label(None, "app", "x"));
    let other = fixture.subscribe(label(None, "app", "y"));
    assert_eq!(fixture.put("ns/a", ""), 0);
    assert_eq!(fixture.put("ns/a", "app=x"), 2, "it enters");
    assert_eq!(
        (read(&here), read(&all)),
        (vec!["ns/a@2".into()], vec!["ns/a@2".into()])
    );
    assert_eq!(fixture.put("n/a", "app=x"), 1, "of another namespace");
    assert_eq!(read(&all), ["n/a@3"]);
    assert_eq!(fixture.put("ns/a", "app=z"), 2, "it leaves");
    assert_eq!(read(&here), ["ns/a@4"]);
    assert_eq!(read(&all), ["ns/a@4"]);
    assert_eq!(fixture.put("ns/a", "app=z"), 0);
    assert_eq!(fixture.delete("n/a"), 1);
    assert_eq!(read(&all), ["n/a@6"]);
    assert!(read(&here).is_empty() && read(&other).is_empty());
}

#[test]
fn transaction_wakes_a_watch_once_and_is_read_whole() {
    let mut fixture = Fixture::new();
    let all = fixture.subscribe(Interest::All);
    let one = fixture.subscribe(key("b"));
    let changes = [("a", Some("")), ("b", Some("")), ("c", Some(""))];
    assert_eq!(fixture.apply(&changes), 2);
    fixture.put("d", "");
    let mut events = Vec::new();
    all.read_on(1, &mut events).unwrap();
    assert_eq!(
        events.len(),
        3,
        "events of a transaction are never separated"
    );
    all.read_on(1, &mut events).unwrap();
    assert_eq!(events.len(), 4);
    assert_eq!(read(&one), ["b@1"]);
    assert_eq!(fixture.put("d", ""), 1, "both have read everything");
}

#[test]
fn log_over_all_spaces_wakes_the_same_watches() {
    let mut fixture = Fixture::new();
    let everywhere = Arc::new(Collection::new(Revision::ZERO));
    let subscribe = |interest| everywhere.subscribe(interest, Space::System, Cursor(0));
    let (mine, _other) = (subscribe(key("ns/a")), subscribe(key("ns/b")));
    fixture.put("ns/a", "");
    let (events, revision) = (Vec::new(), Revision::ZERO);
    let mut log = (fixture.collection.after(revision).unwrap(), events);
    fixture
        .collection
        .read_on(&mut log.0, 9, &mut log.1)
        .unwrap();
    let (began, marked) = everywhere.record(log.1);
    assert_eq!((began, marked.len()), (true, 1));
    assert_eq!(read(&mine), ["ns/a@1"]);
}

#[test]
fn quiet_watch_is_not_lost_because_of_other_objects() {
    let mut fixture = Fixture::new();
    let quiet = fixture.subscribe(key("ns/quiet"));
    let labelled = fixture.subscribe(label(None, "app", "x"));
    let behind = fixture.subscribe(Interest::All);
    for _ in 0..10_000 {
        fixture.put("ns/busy", "app=y");
    }
    assert_eq!(fixture.put("ns/quiet", "app=x"), 2);
    assert_eq!(read(&quiet), ["ns/quiet@10001"]);
    assert_eq!(read(&labelled), ["ns/quiet@10001"]);
    let lost = behind.read_on(1, &mut Vec::new()).unwrap_err();
    assert!(matches!(lost, Lost::Passed(_)));
    assert_eq!(behind.read_up_to(), Some(Revision::ZERO));
}

#[test]
fn watch_that_reads_in_batches_is_lost_only_with_its_own_events() {
    let mut fixture = Fixture::new();
    let watch = fixture.subscribe(Interest::Namespace("ns".into()));
    for _ in 0..3 {
        fixture.put("ns/a", "");
    }
    let mut events = Vec::new();
    watch.read_on(2, &mut events).unwrap();
    assert_eq!(watch.read_up_to(), Some(Revision::new(2)));
    watch.read_on(2, &mut events).unwrap();
    assert_eq!((events.len(), watch.read_up_to()), (3, None));
    for _ in 0..MAX_EVENTS * 2 {
        fixture.put("n/a", "");
    }
    assert!(read(&watch).is_empty());
    fixture.put("ns/a", "");
    for _ in 0..MAX_EVENTS {
        fixture.put("n/a", "");
    }
    assert!(watch.read_on(1, &mut events).is_err());
    assert_eq!(
        watch.read_up_to(),
        Some(Revision::new(3 + 2 * MAX_EVENTS as u64))
    );
}

#[test]
fn watch_begins_at_its_cursor() {
    let mut fixture = Fixture::new();
    for key in ["ns/a", "ns/b", "ns/a"] {
        fixture.put(key, "");
    }
    let from = |revision, interest| {
        let cursor = fixture.collection.after(Revision::new(revision)).unwrap();
        fixture
            .collection
            .subscribe(interest, Space::System, cursor)
    };
    assert_eq!(read(&from(0, key("ns/a"))), ["ns/a@1", "ns/a@3"]);
    assert_eq!(read(&from(1, key("ns/a"))), ["ns/a@3"]);
    assert!(read(&from(2, key("ns/b"))).is_empty());
    let resumed = from(3, Interest::All);
    resumed.resume(fixture.collection.after(Revision::new(2)).unwrap());
    assert_eq!(read(&resumed), ["ns/a@3"]);
    fixture
        .collection
        .forget(Instant::now() + Duration::from_secs(1));
    let late = fixture
        .collection
        .subscribe(key("ns/a"), Space::System, Cursor(0));
    assert!(late.read_on(1, &mut Vec::new()).is_err());
    let unknown = Some(Revision::ZERO);
    assert_eq!(late.read_up_to(), unknown, "nothing of it was read");
    let resumed = from(3, key("ns/a"));
    resumed.resume(Cursor(1));
    assert!(resumed.read_on(1, &mut Vec::new()).is_err());
    assert_eq!(resumed.read_up_to(), unknown);
}

#[test]
fn close_wakes_every_watch() {
    let fixture = Fixture::new();
    let interests = [
        Interest::All,
        Interest::Namespace("ns".into()),
        Interest::Name("a".into()),
        key("ns/a"),
        label(None, "app", "x"),
    ];
    let watches = interests.map(|interest| fixture.subscribe(interest));
    let counters = [(); 5].map(|()| Arc::new(Counter::default()));
    for (watch, counter) in watches.iter().zip(&counters) {
        let waker = Waker::from(Arc::clone(counter));
        assert!(watch.poll_unread(&Context::from_waker(&waker)).is_pending());
    }
    fixture.collection.close();
    for (watch, counter) in watches.iter().zip(&counters) {
        assert_eq!(counter.0.load(Ordering::Relaxed), 1);
        let closed = watch.read_on(1, &mut Vec::new()).unwrap_err();
        assert_eq!(closed, Lost::Closed);
    }
    let late = fixture.subscribe(Interest::All);
    assert!(late.read_on(1, &mut Vec::new()).is_err());
}

#[test]
fn closed_log_is_read_to_its_end_first() {
    let mut fixture = Fixture::new();
    let watch = fixture.subscribe(key("ns/a"));
    fixture.put("ns/a", "");
    fixture.put("ns/b", "");
    fixture.collection.close();
    assert_eq!(read(&watch), ["ns/a@1"]);
    assert_eq!(watch.read_on(1, &mut Vec::new()), Err(Lost::Closed));
}

#[test]
fn dropped_subscriptions_leave_nothing_behind() {
    let mut fixture = Fixture::new();
    let interest = |n: usize| match n % 5 {
        0 => Interest::All,
        1 => Interest::Namespace(format!("ns-{}", n % 7).into()),
        2 => Interest::Name(format!("a-{}", n % 11).into()),
        3 => key(&format!("ns/{}", n % 13)),
        _ => label(None, "app", &n.to_string()),
    };
    let mut watches: Vec<_> = (0..500).map(|n| fixture.subscribe(interest(n))).collect();
    // In an order that is neither first to last nor last to first.
    while !watches.is_empty() {
        watches.swap_remove(watches.len() * 3 / 7);
        let left = watches
            .iter()
            .filter(|watch| *watch.subscriber.interest() == Interest::All);
        let left = left.count();
        assert_eq!(fixture.put("x", ""), left);
        watches.iter().for_each(|watch| drop(read(watch)));
    }
    assert!(fixture.collection.read().subscribers.is_none());
}

#[test]
fn many_watches_are_woken_in_turns_by_space() {
    let mut fixture = Fixture::new();
    let (busy, quiet) = (
        Space::parse("busy").unwrap(),
        Space::parse("quiet").unwrap(),
    );
    let counter = |payer: &Space, count: usize| {
        let counter = Arc::new(Counter::default());
        let watches: Vec<_> = (0..count)
            .map(|_| {
                let (end, _) = fixture.collection.end();
                let watch = fixture
                    .collection
                    .subscribe(Interest::All, payer.clone(), end);
                let waker = Waker::from(Arc::clone(&counter));
                assert!(watch.poll_unread(&Context::from_waker(&waker)).is_pending());
                watch
            })
            .collect();
        (counter, watches)
    };
    let (of_busy, _busy) = counter(&busy, 1000);
    let (of_quiet, _quiet) = counter(&quiet, 10);
    fixture.revision += 1;
    let revision = Revision::new(fixture.revision);
    let object = Stored::new("a".into(), revision, b"{}");
    let recorded = fixture
        .collection
        .apply(vec![Put::Object(object)], revision);
    let mut delivery = Delivery::default();
    delivery.add(recorded.marked);
    let woken = || [&of_busy, &of_quiet].map(|counter| counter.0.load(Ordering::Relaxed));
    assert_eq!(woken(), [0, 0], "many are not woken at once");
    delivery.wake_some();
    assert_eq!(
        woken(),
        [22, 10],
        "the space with few watches does not wait"
    );
    let mut turns = 1;
    while !delivery.is_empty() {
        let before = woken();
        delivery.wake_some();
        assert!(woken()[0] - before[0] <= 32);
        turns += 1;
    }
    assert_eq!((woken(), turns), ([1000, 10], 32));
    delivery.wake_some();
}

#[test]
fn watch_that_has_read_meanwhile_is_not_woken() {
    let mut fixture = Fixture::new();
    let watch = fixture.subscribe(Interest::All);
    let counter = Arc::new(Counter::default());
    let waker = Waker::from(Arc::clone(&counter));
    assert!(watch.poll_unread(&Context::from_waker(&waker)).is_pending());
    fixture.revision += 1;
    let revision = Revision::new(fixture.revision);
    let object = Stored::new("a".into(), revision, b"{}");
    let recorded = fixture
        .collection
        .apply(vec![Put::Object(object)], revision);
    assert_eq!(read(&watch), ["a@1"]);
    recorded.marked[0].wake();
    assert_eq!(counter.0.load(Ordering::Relaxed), 0);
    assert_eq!(fixture.put("a", ""), 1);
    assert_eq!(counter.0.load(Ordering::Relaxed), 1);
}

/// One step of a history: a write, or a watch that reads.
#[derive(Clone, Debug)]
enum Step {
    Write { key: String, label: Option<String> },
    Read { watch: usize, limit: usize },
}

fn keys() -> impl Strategy<Value = String> {
    (0..3_u8, 0..3_u8).prop_map(|(namespace, name)| format!("n{namespace}/a{name}"))
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let label = prop::option::weighted(0.8, (0..3_u8).prop_map(|value| format!("app=v{value}")));
    let write = (keys(), label).prop_map(|(key, label)| Step::Write { key, label });
    let read = (0..8_usize, 1..4_usize).prop_map(|(watch, limit)| Step::Read { watch, limit });
    prop::collection::vec(prop_oneof![3 => write, 2 => read], 1..120)
}

/// Whether a watch with this interest selects an object in this state.
fn selects(interest: &Interest, object: &Stored) -> bool {
    match interest {
        Interest::All => true,
        Interest::Namespace(namespace) => object.key.starts_with(&format!("{namespace}/")),
        Interest::Name(name) => object.key.ends_with(&format!("/{name}")),
        Interest::Key(key) => **key == *object.key,
        Interest::Label {
            namespace,
            key,
            value,
        } => {
            let is_here = namespace
                .as_ref()
                .is_none_or(|namespace| object.key.starts_with(&format!("{namespace}/")));
            is_here && object.label(key) == Some(value)
        }
    }
}

proptest! {
    /// Every watch reads exactly the events that a filter over the whole history finds, and each
    /// of them has woken it or was unread already.
    #[test]
    fn no_event_of_an_interest_is_missed(steps in steps()) {
        let mut fixture = Fixture::new();
        let interests = [
            Interest::All,
            Interest::Namespace("n0".into()),
            Interest::Namespace("n2".into()),
            Interest::Name("a1".into()),
            key("n0/a0"),
            key("n1/a2"),
            label(None, "app", "v1"),
            label(Some("n1"), "app", "v1"),
        ];
        let watches = interests.clone().map(|interest| fixture.subscribe(interest));
        let mut seen = [(); 8].map(|()| Vec::new());
        for step in steps {
            match step {
                Step::Write { key, label } => {
                    let had: Vec<_> = watches.iter().map(Subscription::read_up_to).collect();
                    let woken = fixture.apply(&[(&key, label.as_deref())]);
                    let has: Vec<_> = watches.iter().map(Subscription::read_up_to).collect();
                    let became = had.iter().zip(&has).filter(|(had, has)| had.is_none() && has.is_some());
                    prop_assert_eq!(woken, became.count());
                }
                Step::Read { watch, limit } => {
                    watches[watch].read_on(limit, &mut seen[watch]).unwrap();
                }
            }
        }
        let mut history = Vec::new();
        let mut cursor = fixture.collection.after(Revision::ZERO).unwrap();
        fixture.collection.read_on(&mut cursor, usize::MAX, &mut history).unwrap();
        for ((watch, interest), mut seen) in watches.iter().zip(&interests).zip(seen) {
            watch.read_on(usize::MAX, &mut seen).unwrap();
            let concerns = |event: &&Arc<Event>| {
                let before = event.before.as_deref();
                let now = event.change != Change::Deleted && selects(interest, &event.object);
                now || before.is_some_and(|before| selects(interest, before))
            };
            let expected: Vec<_> = history.iter().filter(concerns).map(|event| event.revision).collect();
            let seen: Vec<_> = seen.iter().map(|event| event.revision).collect();
            prop_assert_eq!(seen, expected, "{:?}", interest);
        }
    }
}

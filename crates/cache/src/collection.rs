//! The objects of one kind in one space, and the log of their events.

mod lists;
mod subscribers;
mod subscription;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Instant;

use bytes::Bytes;
use insula_core::Revision;
use tokio::sync::Notify;

pub use subscribers::Interest;
pub(crate) use subscribers::Subscriber;
pub use subscription::Subscription;

use crate::entry::Stored;
use crate::objects::{Objects, Sorted};
use crate::snapshots::CHANGE_BYTES;
use crate::tenant_fields::TenantFields;
use lists::Lists;
use subscribers::Subscribers;

pub use lists::Contents;

/// The objects of one kind in one space.
///
/// A watch is a position in the log: a slow one costs no other, and gets an error when the log no
/// longer reaches back to it.
#[derive(Debug)]
pub struct Collection {
    state: RwLock<State>,
    /// What is kept for lists. Locked while the state is locked, never before.
    lists: Mutex<Option<Box<Lists>>>,
    changed: Notify,
    closed: Notify,
}

#[derive(Debug)]
struct State {
    objects: Objects,
    log: VecDeque<Arc<Event>>,
    /// The number of the first event in the log; events are counted from zero.
    first: u64,
    /// Events up to this revision are not the collection's: it belonged to a former tenant, or
    /// had another definition.
    origin: Revision,
    /// Every event after this revision is in the log.
    floor: Revision,
    /// The revision of the last event.
    last: Revision,
    weight: usize,
    closed: bool,
    /// The watches; none in most collections.
    subscribers: Option<Box<Subscribers>>,
}

/// A change to an object.
#[derive(Debug)]
pub struct Event {
    /// The revision of the change.
    pub revision: Revision,
    /// The sort of change.
    pub change: Change,
    /// The object after the change; of a deletion, its last state at the deletion's revision.
    pub object: Arc<Stored>,
    /// The object before the change, if it existed.
    pub before: Option<Arc<Stored>>,
    time: Instant,
    frame: OnceLock<Bytes>,
    other_frame: OnceLock<((Encoding, TenantFields), Bytes)>,
}

/// An encoding of an event, the same for all its watchers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// The object as JSON.
    Json,
    /// The object as protobuf.
    Protobuf,
    /// Its metadata as JSON.
    MetadataJson,
    /// Its metadata as protobuf.
    MetadataProtobuf,
    /// The object as CBOR.
    Cbor,
    /// Its metadata as CBOR.
    MetadataCbor,
}

/// The sort of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The object was created.
    Added,
    /// The object was changed.
    Modified,
    /// The object was deleted.
    Deleted,
}

/// A position in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor(u64);

/// Why a log cannot be read from a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// The log begins later, at this revision.
    Passed(Revision),
    /// The collection was dropped, with its space.
    Closed,
}

/// A change on its way into a collection.
#[derive(Debug)]
pub(super) enum Put {
    /// The object was created or changed.
    Object(Stored),
    /// The object takes the place of a built-in one.
    Shadow(Stored, Arc<Stored>),
    /// The object at this key was deleted.
    Gone(Arc<str>),
}

/// The changes of a transaction, as recorded.
#[derive(Debug)]
pub(super) struct Recorded {
    /// The events, in their order.
    pub events: Vec<Arc<Event>>,
    /// Whether the log was empty before.
    pub began: bool,
    /// The watches that have to be woken.
    pub marked: Vec<Arc<Subscriber>>,
}

/// The objects at one position of the log.
#[derive(Debug)]
pub struct Snapshot {
    /// The objects in key order.
    pub objects: Vec<Arc<Stored>>,
    /// The position.
    pub cursor: Cursor,
    /// The revision of the collection's last change.
    pub last: Revision,
}

/// The most events in a log: far more than a client misses while it reconnects.
const MAX_EVENTS: usize = 1024;

/// The most bytes of a log, so that a tenant with large objects cannot fill the memory with
/// history: four copies of a thousand usual objects, see [`Event::weight`].
const MAX_WEIGHT: usize = 5 << 20;

impl Collection {
    /// An empty collection, with no events known up to `floor`.
    pub fn new(floor: Revision) -> Self {
        Self::since(Revision::ZERO, floor)
    }

    /// An empty collection that exists since `origin`, with no events known up to `floor`.
    pub(super) fn since(origin: Revision, floor: Revision) -> Self {
        let state = State {
            objects: Objects::default(),
            log: VecDeque::new(),
            first: 0,
            origin,
            floor,
            last: floor,
            weight: 0,
            closed: false,
            subscribers: None,
        };
        Self {
            state: RwLock::new(state),
            lists: Mutex::default(),
            changed: Notify::new(),
            closed: Notify::new(),
        }
    }

    /// Returns the object at `key`.
    pub fn get(&self, key: &str) -> Option<Arc<Stored>> {
        self.read().objects.get(key).cloned()
    }

    /// Returns the objects with keys that begin with `prefix` and follow `after`.
    pub fn snapshot(&self, prefix: &str, after: Option<&str>) -> Snapshot {
        let state = self.read();
        let (objects, cursor, last) = (state.objects.clone(), state.end(), state.last);
        // Writers do not wait while the objects are collected.
        drop(state);
        Snapshot {
            objects: objects.range(prefix, after).cloned().collect(),
            cursor,
            last,
        }
    }

    /// Returns the objects as of `revision`, in key order.
    pub fn at(&self, revision: Revision) -> Result<Vec<Arc<Stored>>, Lost> {
        let state = self.read();
        let mut objects = state.objects.clone();
        for event in state.log.range(state.later(revision)?..).rev() {
            match event.stored_before() {
                Some(before) => objects.insert(Arc::clone(before)),
                None => objects.remove(&event.object.key),
            };
        }
        drop(state);
        Ok(objects.range("", None).cloned().collect())
    }

    /// Returns the object at `key` as of `revision`.
    pub fn get_at(&self, key: &str, revision: Revision) -> Result<Option<Arc<Stored>>, Lost> {
        let state = self.read();
        let later = state.later(revision)?;
        let mut events = state.log.range(later..);
        Ok(match events.find(|event| *event.object.key == *key) {
            Some(event) => event.stored_before().cloned(),
            None => state.objects.get(key).cloned(),
        })
    }

    /// Returns how many keys begin with `prefix`, counted up to `max`.
    pub fn count(&self, prefix: &str, max: usize) -> usize {
        self.read().objects.count(prefix, None).min(max)
    }

    /// Returns how many keys begin with `prefix`, counted up to `max`, and the bytes that the
    /// objects under them take.
    pub fn weigh(&self, prefix: &str, max: usize) -> (usize, usize) {
        let state = self.read();
        let objects = state.objects.range(prefix, None).take(max);
        objects.fold((0, 0), |(count, bytes), object| {
            (count + 1, bytes + object.stored_length())
        })
    }

    /// Returns the revision of the last change.
    pub fn last(&self) -> Revision {
        self.read().last
    }

    /// Returns the revision since which the collection exists.
    pub fn origin(&self) -> Revision {
        self.read().origin
    }

    /// Returns the position after `revision`.
    pub fn after(&self, revision: Revision) -> Result<Cursor, Lost> {
        let state = self.read();
        if state.closed {
            return Err(Lost::Closed);
        }
        Ok(Cursor(state.first + state.later(revision)? as u64))
    }

    /// Appends the events since `cursor`, at most `limit` and the rest of a transaction, and moves
    /// the cursor.
    pub fn read_on(
        &self,
        cursor: &mut Cursor,
        limit: usize,
        events: &mut Vec<Arc<Event>>,
    ) -> Result<(), Lost> {
        let state = self.read();
        let skip = state.unread(*cursor)?;
        let before = events.len();
        let mut unread = state.log.range(skip.min(state.log.len())..).peekable();
        events.extend(unread.by_ref().take(limit).cloned());
        // A watch that falls behind the log continues after a revision, so it must have read all
        // events of that revision.
        while let (Some(event), Some(last)) = (unread.peek(), events[before..].last())
            && event.revision == last.revision
        {
            events.extend(unread.next().cloned());
        }
        cursor.0 += (events.len() - before) as u64;
        Ok(())
    }

    /// Appends all events since `cursor` up to a revision, and moves the cursor.
    pub fn read_until(
        &self,
        cursor: &mut Cursor,
        until: Revision,
        events: &mut Vec<Arc<Event>>,
    ) -> Result<(), Lost> {
        let state = self.read();
        let skip = state.unread(*cursor)?;
        let before = events.len();
        let unread = state.log.iter().skip(skip);
        events.extend(unread.take_while(|event| event.revision <= until).cloned());
        cursor.0 += (events.len() - before) as u64;
        Ok(())
    }

    /// Notified at every change, for readers of all events. A watch [subscribes](Self::subscribe).
    pub const fn changed(&self) -> &Notify {
        &self.changed
    }

    /// Notified when the collection is dropped, with its space.
    pub const fn closed(&self) -> &Notify {
        &self.closed
    }

    /// Returns the position after the last event.
    pub fn end_of_log(&self) -> Cursor {
        self.read().end()
    }

    /// Returns the revision of the first event after `revision`, if there is one.
    pub(super) fn next_after(&self, revision: Revision) -> Result<Option<Revision>, Lost> {
        self.read().next_after(revision)
    }

    /// Returns the end of the log, and the revision of the last change.
    pub(super) fn end(&self) -> (Cursor, Revision) {
        let state = self.read();
        (state.end(), state.last)
    }

    /// Adds objects that existed when the cache was loaded, up to a revision: there is no event for
    /// them.
    pub(super) fn load(&self, objects: Sorted, last: Revision) {
        let mut state = self.write();
        state.last = state.last.max(last);
        state.objects.load(objects);
    }

    /// Applies the changes of a transaction, all under one lock.
    pub(super) fn apply(&self, changes: Vec<Put>, revision: Revision) -> Recorded {
        let mut state = self.write();
        let mut recorded = Recorded {
            events: Vec::with_capacity(changes.len()),
            began: state.log.is_empty(),
            marked: Vec::new(),
        };
        let mut replaced_bytes = 0;
        for change in changes {
            let event = match change {
                Put::Object(object) => Some(state.put(Arc::new(object), None)),
                Put::Shadow(object, of) => Some(state.put(Arc::new(object), Some(of))),
                Put::Gone(key) => state.remove(&key, revision),
            };
            if let Some(event) = event.map(Arc::new) {
                replaced_bytes += event.replaced_bytes();
                state.record(Arc::clone(&event));
                recorded.events.push(event);
            }
        }
        if !recorded.events.is_empty() {
            self.note_replaced(&mut state, revision, replaced_bytes);
        }
        recorded.marked = state.take_marked();
        drop(state);
        recorded.began &= !recorded.events.is_empty();
        if !recorded.events.is_empty() {
            self.changed.notify_waiters();
        }
        recorded
    }

    /// Adds events of other collections to a log over all spaces. Returns whether it was empty,
    /// and the watches that have to be woken.
    pub(super) fn record(&self, events: Vec<Arc<Event>>) -> (bool, Vec<Arc<Subscriber>>) {
        let mut state = self.write();
        let began = state.log.is_empty() && !events.is_empty();
        for event in events {
            state.record(event);
        }
        let marked = state.take_marked();
        drop(state);
        self.changed.notify_waiters();
        (began, marked)
    }

    /// Drops events from before `time`. Returns the time of the oldest that is left.
    pub(super) fn forget(&self, time: Instant) -> Option<Instant> {
        let mut state = self.write();
        while state.log.front().is_some_and(|event| event.time < time) {
            state.drop_oldest();
        }
        let oldest = state.log.front().map(|event| event.time);
        if oldest.is_none() {
            state.log.shrink_to_fit();
        }
        self.drop_idle_snapshots();
        oldest
    }

    /// Ends all watches, because the space is gone.
    pub(super) fn close(&self) {
        let mut state = self.write();
        state.closed = true;
        let (end, last) = (state.end(), state.last);
        if let Some(subscribers) = &mut state.subscribers {
            subscribers.mark_all(end.0, last);
        }
        let marked = state.take_marked();
        drop(state);
        self.changed.notify_waiters();
        self.closed.notify_waiters();
        for subscriber in marked {
            subscriber.wake();
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn end(&self) -> Cursor {
        Cursor(self.first + self.log.len() as u64)
    }

    /// Returns how many events precede the cursor. A closed log is readable to its end.
    fn unread(&self, cursor: Cursor) -> Result<usize, Lost> {
        let read = cursor.0.checked_sub(self.first);
        let read = read.ok_or(Lost::Passed(self.floor))? as usize;
        match self.closed && read >= self.log.len() {
            true => Err(Lost::Closed),
            false => Ok(read),
        }
    }

    /// Returns the index of the first event after `revision`.
    fn later(&self, revision: Revision) -> Result<usize, Lost> {
        if revision < self.floor {
            return Err(Lost::Passed(self.floor));
        }
        Ok(self.log.partition_point(|event| event.revision <= revision))
    }

    /// Returns the revision of the first event after `revision`, if there is one.
    fn next_after(&self, revision: Revision) -> Result<Option<Revision>, Lost> {
        let next = self.log.get(self.later(revision)?);
        Ok(next.map(|event| event.revision))
    }

    fn put(&mut self, object: Arc<Stored>, built_in: Option<Arc<Stored>>) -> Event {
        let before = self.objects.insert(Arc::clone(&object)).or(built_in);
        let change = if before.is_some() {
            Change::Modified
        } else {
            Change::Added
        };
        Event::new(object.revision, change, object, before)
    }

    fn remove(&mut self, key: &str, revision: Revision) -> Option<Event> {
        let before = self.objects.remove(key)?;
        let object = Arc::new(before.deleted(revision));
        Some(Event::new(revision, Change::Deleted, object, Some(before)))
    }

    fn record(&mut self, event: Arc<Event>) {
        self.last = self.last.max(event.revision);
        self.weight += event.weight();
        let number = self.end().0;
        if let Some(subscribers) = &mut self.subscribers {
            subscribers.mark(&event, number);
        }
        self.log.push_back(event);
        while self.log.len() > MAX_EVENTS || (self.weight > MAX_WEIGHT && self.log.len() > 1) {
            self.drop_oldest();
        }
    }

    fn take_marked(&mut self) -> Vec<Arc<Subscriber>> {
        let subscribers = self.subscribers.as_mut();
        subscribers.map_or_else(Vec::new, |subscribers| subscribers.take_marked())
    }

    fn drop_oldest(&mut self) {
        if let Some(event) = self.log.pop_front() {
            self.first += 1;
            self.floor = event.revision;
            self.weight -= event.weight();
        }
    }
}

impl Event {
    /// A change to an object.
    pub fn new(
        revision: Revision,
        change: Change,
        object: Arc<Stored>,
        before: Option<Arc<Stored>>,
    ) -> Self {
        Self {
            revision,
            change,
            object,
            before,
            time: Instant::now(),
            frame: OnceLock::new(),
            other_frame: OnceLock::new(),
        }
    }

    /// Returns the event as a line of a JSON watch, encoded once for all watchers. Lines of
    /// shared objects are not kept: each would be a full copy.
    pub fn frame(&self) -> Bytes {
        let make = || frame(self.change, &self.object.body());
        match self.object.is_shared() {
            true => make(),
            false => self.frame.get_or_init(make).clone(),
        }
    }

    /// Returns the event in another encoding than [`frame`](Self::frame)'s, with or without the
    /// fields that name the object's tenant. What is asked for first is kept for all watchers: most
    /// clients of a kind speak the same. Those of shared objects are not kept.
    pub fn frame_in(
        &self,
        encoding: Encoding,
        fields: TenantFields,
        encode: impl Fn() -> Bytes,
    ) -> Bytes {
        if self.object.is_shared() {
            return encode();
        }
        let wanted = (encoding, fields);
        let (kept, frame) = self.other_frame.get_or_init(|| (wanted, encode()));
        match *kept == wanted {
            true => frame.clone(),
            false => encode(),
        }
    }

    pub(super) fn stored_before(&self) -> Option<&Arc<Stored>> {
        self.before.as_ref().filter(|before| !before.built_in)
    }

    /// Returns the bytes that a snapshot from before the change keeps alive.
    pub(super) fn replaced_bytes(&self) -> usize {
        let before = self.stored_before();
        before.map_or(0, |before| before.weight()) + CHANGE_BYTES
    }

    /// Returns the object that is stored after the change.
    pub(super) fn stored_after(&self) -> Option<&Arc<Stored>> {
        (self.change != Change::Deleted).then_some(&self.object)
    }

    /// Returns roughly how much memory the objects before and after the change take.
    pub fn bytes(&self) -> usize {
        let before = self.before.as_ref().map_or(0, |before| before.weight());
        self.object.weight() + before
    }

    fn weight(&self) -> usize {
        // This event may be the last holder of the state before. The line for watchers and the
        // frame in another encoding are two more copies, once they are encoded.
        let frames = match self.object.is_shared() {
            true => 0,
            false => 2 * self.object.weight(),
        };
        self.bytes() + frames
    }
}

impl Change {
    /// The name of the change in watch events.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// A line of a JSON watch.
pub fn frame(change: Change, object: &[u8]) -> Bytes {
    let head = format!(r#"{{"type":"{}","object":"#, change.as_str());
    let mut line = Vec::with_capacity(head.len() + object.len() + 2);
    line.extend_from_slice(head.as_bytes());
    line.extend_from_slice(object);
    line.extend_from_slice(b"}\n");
    line.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pool;

    fn put(key: &str, revision: u64) -> Put {
        let json = format!(r#"{{"metadata":{{"name":"{key}","uid":"u"}}}}"#);
        let revision = Revision::new(revision);
        Put::Object(Stored::new(key.into(), revision, json.as_bytes()))
    }

    /// `a` created at 1, `b` at 2, `a` again at 3, `b` deleted at 4, `c` created at 5.
    fn collection() -> Collection {
        let collection = Collection::new(Revision::ZERO);
        let changes = [
            put("a", 1),
            put("b", 2),
            put("a", 3),
            Put::Gone("b".into()),
            put("c", 5),
        ];
        for (change, revision) in changes.into_iter().zip(1..) {
            collection.apply(vec![change], Revision::new(revision));
        }
        collection
    }

    const STATES: [&[(&str, u64)]; 6] = [
        &[],
        &[("a", 1)],
        &[("a", 1), ("b", 2)],
        &[("a", 3), ("b", 2)],
        &[("a", 3)],
        &[("a", 3), ("c", 5)],
    ];

    #[test]
    fn every_state_in_the_log_can_be_read() {
        let collection = collection();
        for (revision, wanted) in (0..).zip(STATES) {
            let at = Revision::new(revision);
            let found = collection.at(at).unwrap();
            let found: Vec<_> = found
                .iter()
                .map(|object| (&*object.key, object.revision.get()))
                .collect();
            assert_eq!(found, wanted, "{revision}");
            for key in ["a", "b", "c", "d"] {
                let found = collection.get_at(key, at).unwrap();
                let found = found.map(|object| object.revision.get());
                let wanted = wanted.iter().find(|(of, _)| *of == key);
                assert_eq!(found, wanted.map(|(_, at)| *at), "{key} at {revision}");
            }
        }
        collection.forget(Instant::now() + std::time::Duration::from_secs(1));
        let passed = Lost::Passed(Revision::new(5));
        assert_eq!(collection.at(Revision::new(4)).unwrap_err(), passed);
        assert_eq!(
            collection.get_at("a", Revision::new(4)).unwrap_err(),
            passed
        );
        assert_eq!(collection.at(Revision::new(5)).unwrap().len(), 2);
    }

    #[test]
    fn closed_log_can_be_read_to_its_end() {
        let collection = collection();
        let (mut cursor, mut events) = (collection.after(Revision::new(1)).unwrap(), Vec::new());
        let until = Revision::new(3);
        collection
            .read_until(&mut cursor, until, &mut events)
            .unwrap();
        collection
            .read_until(&mut cursor, until, &mut events)
            .unwrap();
        collection.close();
        let end = Revision::new(9);
        collection
            .read_until(&mut cursor, end, &mut events)
            .unwrap();
        let told: Vec<_> = events.iter().map(|event| event.revision.get()).collect();
        assert_eq!(told, [2, 3, 4, 5]);
        let closed = collection.read_on(&mut cursor, 1, &mut events);
        assert_eq!(closed, Err(Lost::Closed));
        assert_eq!(collection.after(end), Err(Lost::Closed));
    }

    #[test]
    fn event_is_encoded_once_for_all_watchers_of_an_encoding() {
        let Put::Object(object) = put("a", 1) else {
            unreachable!("an object is put");
        };
        let event = Event::new(Revision::new(1), Change::Added, Arc::new(object), None);
        let first = event.frame_in(Encoding::Protobuf, TenantFields::Full, || {
            Bytes::from_static(b"p")
        });
        let again = || unreachable!("the frame is kept");
        assert_eq!(
            event.frame_in(Encoding::Protobuf, TenantFields::Full, again),
            first
        );
        let other = event.frame_in(Encoding::MetadataJson, TenantFields::Full, || {
            Bytes::from_static(b"m")
        });
        assert_eq!(other, "m");
        let other = event.frame_in(Encoding::Protobuf, TenantFields::None, || {
            Bytes::from_static(b"n")
        });
        assert_eq!(other, "n", "without fields it is another frame");
        assert_eq!(
            event.frame_in(Encoding::Protobuf, TenantFields::Full, again),
            "p"
        );
    }

    #[test]
    fn shared_chunks_are_freed_with_their_last_holder() {
        let pool = Arc::new(Pool::default());
        let text: String = (0..8_000).map(|n| format!("{n:05}")).collect();
        let json = format!(r#"{{"kind":"K","metadata":{{"uid":"u"}},"spec":"{text}"}}"#);
        let collection = Collection::new(Revision::ZERO);
        for revision in 1..=500 {
            let at = Revision::new(revision);
            let object = Stored::shared("a".into(), at, json.as_bytes(), &pool);
            collection.apply(vec![Put::Object(object)], at);
        }
        // The log could not hold five hundred copies; it holds what they share.
        assert_eq!(collection.after(Revision::ZERO), Ok(Cursor(0)));
        assert!(pool.count() < 80, "{}", pool.count());
        collection.apply(vec![Put::Gone("a".into())], Revision::new(501));
        assert!(pool.count() > 0, "watchers may still be told");
        assert_eq!(collection.forget(Instant::now()), None);
        assert_eq!(pool.count(), 0);
    }
}

//! The objects of one kind in one space, and the log of what happened to them.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, OnceLock, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Instant;

use bytes::Bytes;
use insula_core::Revision;
use tokio::sync::Notify;

use super::entry::Stored;

/// The objects of one kind in one space.
///
/// Its watchers are cursors on its log: a slow one costs nobody else anything, and is told
/// when the log has passed it.
#[derive(Debug)]
pub struct Collection {
    state: RwLock<State>,
    changed: Notify,
}

#[derive(Debug)]
struct State {
    objects: BTreeMap<Arc<str>, Arc<Stored>>,
    log: VecDeque<Arc<Event>>,
    /// The number of the first event in the log; events are counted from zero.
    first: u64,
    /// Every event after this revision is in the log.
    floor: Revision,
    /// The revision of the last event.
    last: Revision,
    weight: usize,
    closed: bool,
}

/// Something that happened to an object.
#[derive(Debug)]
pub struct Event {
    /// When.
    pub revision: Revision,
    /// What.
    pub change: Change,
    /// The object as it is now; for a deletion as it was last, at the deletion's revision.
    pub object: Arc<Stored>,
    /// The object as it was before, if it was.
    pub before: Option<Arc<Stored>>,
    time: Instant,
    frame: OnceLock<Bytes>,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It came about.
    Added,
    /// It changed.
    Modified,
    /// It is gone.
    Deleted,
}

/// A place in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor(u64);

/// Why a log cannot be read from a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// The log begins after it, at this revision.
    Passed(Revision),
    /// The collection is gone, with its space.
    Closed,
}

/// A change on its way into a collection.
#[derive(Debug)]
pub(super) enum Put {
    /// The object came about or changed.
    Object(Stored),
    /// The object that every space has is stored in this one from now on.
    Shadow(Stored, Arc<Stored>),
    /// The object at this key is gone.
    Gone(Arc<str>),
}

/// What became of a transaction's changes.
#[derive(Debug)]
pub(super) struct Recorded {
    /// They, in their order.
    pub events: Vec<Arc<Event>>,
    /// Whether the log was empty before.
    pub began: bool,
}

/// Objects and the place in the log that they are the state of.
#[derive(Debug)]
pub struct Snapshot {
    /// The objects in key order.
    pub objects: Vec<Arc<Stored>>,
    /// Where changes to them begin.
    pub cursor: Cursor,
    /// The revision of the collection's last change.
    pub last: Revision,
}

/// The most events in a log: what a client misses while it connects again is far less.
const MAX_EVENTS: usize = 1024;

/// The most bytes that a log holds on to, so that a tenant with large objects cannot fill
/// the memory of all with history.
const MAX_WEIGHT: usize = 4 << 20;

impl Collection {
    /// An empty one, of which nothing before `floor` is known.
    pub fn new(floor: Revision) -> Self {
        let state = State {
            objects: BTreeMap::new(),
            log: VecDeque::new(),
            first: 0,
            floor,
            last: floor,
            weight: 0,
            closed: false,
        };
        Self {
            state: RwLock::new(state),
            changed: Notify::new(),
        }
    }

    /// The object at `key`.
    pub fn get(&self, key: &str) -> Option<Arc<Stored>> {
        self.read().objects.get(key).cloned()
    }

    /// The objects whose keys begin with `prefix` and are larger than `after`.
    pub fn snapshot(&self, prefix: &str, after: Option<&str>) -> Snapshot {
        let state = self.read();
        let objects = state.range(prefix, after).cloned().collect();
        Snapshot {
            objects,
            cursor: state.end(),
            last: state.last,
        }
    }

    /// At most `limit` of them, and how many are left.
    pub fn page(&self, prefix: &str, after: Option<&str>, limit: usize) -> (Snapshot, usize) {
        let state = self.read();
        let mut rest = state.range(prefix, after);
        let objects = rest.by_ref().take(limit).cloned().collect();
        let left = rest.count();
        (
            Snapshot {
                objects,
                cursor: state.end(),
                last: state.last,
            },
            left,
        )
    }

    /// How many keys begin with `prefix`, counted up to `most`.
    pub fn count(&self, prefix: &str, most: usize) -> usize {
        self.read().range(prefix, None).take(most).count()
    }

    /// The revision of the last change.
    pub fn last(&self) -> Revision {
        self.read().last
    }

    /// Where the events after `revision` begin.
    pub fn after(&self, revision: Revision) -> Result<Cursor, Lost> {
        let state = self.read();
        if state.closed {
            return Err(Lost::Closed);
        }
        if revision < state.floor {
            return Err(Lost::Passed(state.floor));
        }
        let known = state
            .log
            .partition_point(|event| event.revision <= revision);
        Ok(Cursor(state.first + known as u64))
    }

    /// Moves what happened since `cursor` to `events`, which is at most `limit`.
    pub fn read_on(
        &self,
        cursor: &mut Cursor,
        limit: usize,
        events: &mut Vec<Arc<Event>>,
    ) -> Result<(), Lost> {
        let state = self.read();
        if state.closed {
            return Err(Lost::Closed);
        }
        let Some(skip) = cursor.0.checked_sub(state.first) else {
            return Err(Lost::Passed(state.floor));
        };
        let before = events.len();
        events.extend(state.log.iter().skip(skip as usize).take(limit).cloned());
        cursor.0 += (events.len() - before) as u64;
        Ok(())
    }

    /// Is notified at every change.
    pub fn changed(&self) -> &Notify {
        &self.changed
    }

    /// The end of the log, and the revision of the last change.
    pub(super) fn end(&self) -> (Cursor, Revision) {
        let state = self.read();
        (state.end(), state.last)
    }

    /// Puts an object that was there before anybody watched.
    pub(super) fn load(&self, object: Stored) {
        let mut state = self.write();
        state.last = state.last.max(object.revision);
        state
            .objects
            .insert(Arc::clone(&object.key), Arc::new(object));
    }

    /// What one transaction did: all of it, before anybody sees any.
    pub(super) fn apply(&self, changes: Vec<Put>, revision: Revision) -> Recorded {
        let mut state = self.write();
        let mut recorded = Recorded {
            events: Vec::with_capacity(changes.len()),
            began: state.log.is_empty(),
        };
        for change in changes {
            let event = match change {
                Put::Object(object) => Some(state.put(Arc::new(object), None)),
                Put::Shadow(object, of) => Some(state.put(Arc::new(object), Some(of))),
                Put::Gone(key) => state.remove(&key, revision),
            };
            if let Some(event) = event.map(Arc::new) {
                state.record(Arc::clone(&event));
                recorded.events.push(event);
            }
        }
        drop(state);
        recorded.began &= !recorded.events.is_empty();
        if !recorded.events.is_empty() {
            self.changed.notify_waiters();
        }
        recorded
    }

    /// Events of other collections, for a log over all spaces. Says whether it was empty.
    pub(super) fn record(&self, events: Vec<Arc<Event>>) -> bool {
        let mut state = self.write();
        let began = state.log.is_empty() && !events.is_empty();
        for event in events {
            state.record(event);
        }
        drop(state);
        self.changed.notify_waiters();
        began
    }

    /// Forgets what happened before `time`, and says when the oldest did that is left.
    pub(super) fn forget(&self, time: Instant) -> Option<Instant> {
        let mut state = self.write();
        while state.log.front().is_some_and(|event| event.time < time) {
            state.drop_oldest();
        }
        let oldest = state.log.front().map(|event| event.time);
        if oldest.is_none() {
            state.log.shrink_to_fit();
        }
        oldest
    }

    /// Ends all watches: the space is gone.
    pub(super) fn close(&self) {
        self.write().closed = true;
        self.changed.notify_waiters();
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state
            .write()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl State {
    fn range(&self, prefix: &str, after: Option<&str>) -> impl Iterator<Item = &Arc<Stored>> {
        let start = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        let range = self.objects.range::<str, _>((start, Bound::Unbounded));
        let inside = range.take_while(move |(key, _)| key.starts_with(prefix));
        inside.map(|(_, object)| object)
    }

    fn end(&self) -> Cursor {
        Cursor(self.first + self.log.len() as u64)
    }

    fn put(&mut self, object: Arc<Stored>, built_in: Option<Arc<Stored>>) -> Event {
        let before = self
            .objects
            .insert(Arc::clone(&object.key), Arc::clone(&object))
            .or(built_in);
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
        self.log.push_back(event);
        while self.log.len() > MAX_EVENTS || (self.weight > MAX_WEIGHT && self.log.len() > 1) {
            self.drop_oldest();
        }
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
    fn new(
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
        }
    }

    /// The event as a line of a JSON watch, made once for all watchers. One of what is shared
    /// is made for each: kept, it would be a whole copy after all.
    pub fn frame(&self) -> Bytes {
        let make = || frame(self.change, &self.object.body());
        match self.object.is_shared() {
            true => make(),
            false => self.frame.get_or_init(make).clone(),
        }
    }

    fn weight(&self) -> usize {
        // The state before is the previous event's or nobody's: it is held by this one. The
        // line for watchers is another copy, once there is one.
        let before = self.before.as_ref().map_or(0, |before| before.weight());
        let line = match self.object.is_shared() {
            true => 0,
            false => self.object.weight(),
        };
        self.object.weight() + line + before
    }
}

impl Change {
    /// As watches name it.
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
    use crate::cache::Pool;

    #[test]
    fn pieces_go_when_neither_an_object_nor_the_log_has_them() {
        let pool = Arc::new(Pool::default());
        let text: String = (0..8_000).map(|n| format!("{n:05}")).collect();
        let json = format!(r#"{{"kind":"K","metadata":{{"uid":"u"}},"spec":"{text}"}}"#);
        let collection = Collection::new(Revision::ZERO);
        for revision in 1..=500 {
            let at = Revision::new(revision);
            let object = Stored::shared("a".into(), at, json.as_bytes(), &pool);
            collection.apply(vec![Put::Object(object)], at);
        }
        // Five hundred copies would be too much to remember; what they share is not.
        assert_eq!(collection.after(Revision::ZERO), Ok(Cursor(0)));
        assert!(pool.count() < 80, "{}", pool.count());
        collection.apply(vec![Put::Gone("a".into())], Revision::new(501));
        assert!(pool.count() > 0, "watchers may still be told");
        assert_eq!(collection.forget(Instant::now()), None);
        assert_eq!(pool.count(), 0);
    }
}

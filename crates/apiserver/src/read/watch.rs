//! Objects as they change.

mod begin;
mod start;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::stream;
use insula_core::{Revision, Space, Spaces};
use tokio::sync::futures::Notified;
use tokio::time::{Instant, Sleep};

use begin::begin;
use start::{Start, start};

use super::Selection;
use crate::codec::body::Body;
use crate::codec::view::View;
use crate::pipeline::authorize::{Caller, Granted};
use crate::registry::Registry;
use crate::registry::apis::Offer;
use crate::registry::publish::{Overlay, Sharing};
use crate::registry::versions;
use crate::request::query::Query;
use crate::status::{Result, StatusError};
use insula_cache::{Change, Collection, Cursor, Derived, Event, Lost, SpaceState, Stored};

/// One watch: a cursor on a log.
struct Watcher {
    registry: Arc<Registry>,
    granted: Granted,
    /// The space that the caller's rights come from, and which state of it was asked.
    rights: Arc<SpaceState>,
    asked: Revision,
    /// The space that is watched, of a kind that users define there.
    defined_in: Option<Arc<SpaceState>>,
    collection: Arc<Collection>,
    cursor: Cursor,
    /// What the system publishes beside it, if it can.
    published: Option<Overlay>,
    /// Events up to this one are not told.
    after: Revision,
    /// Everything up to it was looked at.
    seen: Revision,
    view: View,
    selection: Selection,
    prefix: String,
    initial: std::vec::IntoIter<Arc<Stored>>,
    /// The bookmark that ends what was there at the start.
    initial_end: Option<Revision>,
    bookmarks: Option<Bookmarks>,
    deadline: Instant,
    timer: Pin<Box<Sleep>>,
    first: bool,
    over: bool,
}

struct Bookmarks {
    due: Instant,
    told: Revision,
}

/// How often a quiet watcher is told how far it is.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);

/// The last bookmark comes so long before the end that it arrives.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);

/// How many events are looked at, at once.
const BATCH: usize = 256;

/// How many bytes are sent at once.
const PIECE: usize = 64 << 10;

/// A stream of what happens to the objects that path and selectors choose.
pub async fn watch(
    registry: &Arc<Registry>,
    granted: Caller<'_>,
    query: &Query,
    view: View,
) -> Result<Body> {
    let path = granted.path();
    let mut selection = Selection::read(query, &path.kind)?;
    if let Some(name) = &path.name {
        selection = selection.only(name);
    }
    let start = start(query)?;
    let timeout = timeout(query)?;
    let begun = begin(registry, granted, start, &selection, &view).await;
    let begun = match begun {
        Ok(begun) => begun,
        // A watch that cannot begin there says so as an event, and ends.
        Err(
            refusal @ StatusError {
                code: 410 | 504, ..
            },
        ) => {
            let line = view.error(&refusal);
            return Ok(Body::Stream(Box::pin(stream::iter([line]))));
        }
        Err(refusal) => return Err(refusal),
    };
    let now = Instant::now();
    let bookmarks = query.flag("allowWatchBookmarks").then(|| Bookmarks {
        due: bookmark_due(now, now + timeout),
        told: begun.revision,
    });
    let marked = matches!(start, Start::State { marked: true, .. }) && bookmarks.is_some();
    let home = &granted.principal().home;
    let rights = registry.cache().space_state(home);
    let rights =
        rights.ok_or_else(|| StatusError::expired("the space that was watched is gone"))?;
    let watcher = Watcher {
        registry: Arc::clone(registry),
        granted: granted.granted.clone(),
        // What changed since the request was authorized is asked again at once.
        asked: Revision::ZERO,
        rights,
        defined_in: defined_in(registry, &granted),
        collection: begun.collection,
        cursor: begun.cursor,
        published: begun.published,
        after: begun.after,
        seen: begun.revision,
        view,
        prefix: selection.prefix(path.namespace.as_deref()),
        selection,
        initial: begun.objects.into_iter(),
        initial_end: marked.then_some(begun.revision),
        bookmarks,
        deadline: now + timeout,
        timer: Box::pin(tokio::time::sleep_until(now + timeout)),
        first: true,
        over: false,
    };
    let stream = stream::unfold(watcher, |mut watcher| async move {
        let piece = watcher.next().await?;
        Some((piece, watcher))
    });
    Ok(Body::Stream(Box::pin(stream)))
}

/// The space whose definitions decide what is watched, if users define it.
fn defined_in(registry: &Registry, granted: &Granted) -> Option<Arc<SpaceState>> {
    granted.path().kind.custom()?;
    let space = match granted.spaces() {
        Spaces::One(space) => space,
        Spaces::All => &Space::System,
    };
    registry.cache().space_state(space)
}

fn too_old(lost: Lost, asked: Revision) -> StatusError {
    match lost {
        Lost::Passed(floor) => {
            StatusError::expired(format!("too old resource version: {asked} ({floor})"))
        }
        Lost::Closed => StatusError::expired("the space that was watched is gone"),
    }
}

/// What was asked for, or half an hour to an hour: not all at the same moment.
fn timeout(query: &Query) -> Result<Duration> {
    let asked = query
        .integer("timeoutSeconds")?
        .filter(|seconds| *seconds > 0);
    Ok(match asked {
        Some(seconds) => {
            Duration::from_secs(seconds.unsigned_abs()).min(Duration::from_secs(86_400))
        }
        None => {
            let spread = uuid::Uuid::new_v4().as_u128() % 1800;
            Duration::from_secs(1800 + spread as u64)
        }
    })
}

/// Waits for it, or for ever if it is nothing.
async fn any(told: Option<Notified<'_>>) {
    match told {
        Some(told) => told.await,
        None => std::future::pending().await,
    }
}

fn bookmark_due(now: Instant, deadline: Instant) -> Instant {
    let last = deadline
        .checked_sub(BOOKMARK_BEFORE_END)
        .unwrap_or(deadline);
    let next = now + BOOKMARK_EVERY;
    if now < last { next.min(last) } else { next }
}

impl Watcher {
    /// The next bytes to send; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.over {
                return None;
            }
            // Asked for before rights and log are read, so that nothing is missed in between.
            let rights = Arc::clone(&self.rights);
            let rights_changed = rights.changed().notified();
            let defined_in = self.defined_in.clone();
            let redefined = defined_in.as_ref().map(|life| life.changed().notified());
            let system = self.published.as_ref().map(|of| Arc::clone(of.system()));
            let system_changed = system.as_ref().map(|system| system.changed().notified());
            if let Err(refusal) = self.may_go_on() {
                self.over = true;
                return Some(self.view.error(&refusal));
            }
            if let Err(refusal) = self.is_served() {
                // What happened before its kind was gone is told first.
                if self.is_withdrawn()
                    && let Ok(Some(piece)) = self.events().await
                {
                    return Some(piece);
                }
                self.over = true;
                return Some(self.view.error(&refusal));
            }
            if let Err(refusal) = self.prepare_initial().await {
                self.over = true;
                return Some(self.view.error(&refusal));
            }
            if let Some(piece) = self.initial_piece() {
                return Some(piece);
            }
            let collection = Arc::clone(&self.collection);
            let changed = collection.changed().notified();
            let registry = Arc::clone(&self.registry);
            let closing = registry.closing().told().notified();
            let advanced = registry.cache().advanced().notified();
            let applied = registry.cache().applied();
            match self.events().await {
                Err(refusal) => {
                    self.over = true;
                    return Some(self.view.error(&refusal));
                }
                Ok(Some(piece)) => return Some(piece),
                Ok(None) => {}
            }
            let now = Instant::now();
            if now >= self.deadline || registry.closing().is_closed() {
                return None;
            }
            if let Some(bookmark) = self.bookmark(now, applied) {
                return Some(bookmark);
            }
            self.set_timer();
            let ahead = self
                .published
                .as_ref()
                .is_some_and(|of| of.is_ahead(applied));
            tokio::select! {
                () = changed => {}
                () = any(system_changed) => {}
                () = any(ahead.then_some(advanced)) => {}
                () = closing => {}
                () = rights_changed => {}
                () = any(redefined) => {}
                () = self.timer.as_mut() => {}
            }
        }
    }

    /// Whether the caller still has the right to watch. It is asked again only if something
    /// has changed that can take it away.
    fn may_go_on(&mut self) -> Result<()> {
        let now = self.rights.revision_of(Derived::Access);
        if self.rights.is_over() {
            return Err(too_old(Lost::Closed, self.seen));
        }
        if now > self.asked {
            self.asked = now;
            let still = self.granted.still(&self.registry);
            return match self.is_going() {
                true => still.map_err(|_| too_old(Lost::Closed, self.seen)),
                false => still,
            };
        }
        Ok(())
    }

    /// Whether what is watched is still defined as it was: clients begin again, and see it as
    /// it is now.
    fn is_served(&self) -> Result<()> {
        let Some(custom) = self.granted.path().kind.custom() else {
            return Ok(());
        };
        let offer = self.offer();
        match offer.is_some_and(|offer| offer.defined.id() == custom.defined().id()) {
            true => Ok(()),
            false => Err(StatusError::expired(
                "what is watched is defined anew, or no more",
            )),
        }
    }

    /// Whether what is watched is served no more.
    fn is_withdrawn(&self) -> bool {
        self.offer().is_none()
    }

    /// What is watched, as its space serves it by now.
    fn offer(&self) -> Option<Offer> {
        let kind = &self.granted.path().kind;
        let space = match self.granted.spaces() {
            Spaces::One(space) => space,
            Spaces::All => &Space::System,
        };
        let apis = self.registry.apis(space)?;
        apis.offer(&kind.group, &kind.resource).cloned()
    }

    /// Whether rights go because the tenant that gave them does: nobody took them away.
    fn is_going(&self) -> bool {
        let tenant = self.granted.principal().home.tenant();
        let state = tenant.map(|name| self.registry.tenant(name.as_str()));
        state.is_some_and(|state| state.is_none_or(|tenant| tenant.terminating))
    }

    /// What only a webhook can convert of what was there at the start.
    async fn prepare_initial(&self) -> Result<()> {
        let (kind, objects) = (&self.granted.path().kind, self.initial.as_slice());
        versions::prepare(&self.registry, None, kind, objects.iter()).await
    }

    /// What was there at the start, and its end mark.
    fn initial_piece(&mut self) -> Option<Bytes> {
        let mut piece = BytesMut::new();
        while piece.len() < PIECE {
            let Some(object) = self.initial.next() else {
                break;
            };
            if self.selection.is_everything() || self.selection.chooses(&self.view, &object) {
                let line = self.view.event_of(Change::Added, &object, self.first);
                piece.extend_from_slice(&line);
                self.first = false;
            }
        }
        if self.initial.len() == 0
            && let Some(revision) = self.initial_end.take()
        {
            piece.extend_from_slice(&self.view.bookmark(revision, true, self.first));
            self.first = false;
            if let Some(bookmarks) = &mut self.bookmarks {
                bookmarks.told = revision;
            }
        }
        (!piece.is_empty()).then(|| piece.freeze())
    }

    /// What happened since; `None` if nothing that is to be told.
    async fn events(&mut self) -> Result<Option<Bytes>> {
        loop {
            let mut events = Vec::new();
            let (cache, cursor) = (self.registry.cache(), &mut self.cursor);
            let read = match &mut self.published {
                Some(published) => published.read_on(cursor, cache.applied(), &mut events),
                None => self.collection.read_on(cursor, BATCH, &mut events),
            };
            read.map_err(|lost| too_old(lost, self.seen))?;
            if events.is_empty() {
                return Ok(None);
            }
            self.keep_shared(&mut events)?;
            let before = events.iter().filter_map(|event| event.before.as_ref());
            let objects = events.iter().map(|event| &event.object).chain(before);
            versions::prepare(&self.registry, None, &self.granted.path().kind, objects).await?;
            let mut lines = Vec::new();
            for event in &events {
                lines.extend(self.line(event));
                self.seen = self.seen.max(event.revision);
            }
            match lines.len() {
                0 => {}
                1 => return Ok(lines.pop()),
                _ => return Ok(Some(lines.concat().into())),
            }
        }
    }

    /// Leaves out what happened in spaces that call something else so.
    fn keep_shared(&self, events: &mut Vec<Arc<Event>>) -> Result<()> {
        let (kind, spaces) = (&self.granted.path().kind, self.granted.spaces());
        let Some(sharing) = Sharing::of(self.registry.cache(), kind, spaces) else {
            return Ok(());
        };
        let mut kept = Vec::with_capacity(events.len());
        for event in events.drain(..) {
            let shared = sharing.includes_object(&event.object);
            if shared.map_err(|lost| too_old(lost, self.seen))? {
                kept.push(event);
            }
        }
        *events = kept;
        Ok(())
    }

    /// The event as this watcher sees it: who enters its selection is added, who leaves it
    /// is deleted.
    fn line(&mut self, event: &Event) -> Option<Bytes> {
        if event.revision <= self.after || !event.object.key.starts_with(&self.prefix) {
            return None;
        }
        let line = if self.selection.is_everything() {
            let change = match event.before.as_deref() {
                Some(before) if !self.showed(before) => Change::Added,
                _ => event.change,
            };
            self.view.event(event, change, &event.object, self.first)
        } else {
            let chosen = |object: &Stored| self.selection.chooses(&self.view, object);
            let before = event.before.as_deref();
            let before = before.is_some_and(|before| self.showed(before) && chosen(before));
            let now = event.change != Change::Deleted && chosen(&event.object);
            let change = match (before, now) {
                (false, false) => return None,
                (false, true) => Change::Added,
                (true, true) => Change::Modified,
                (true, false) => Change::Deleted,
            };
            match (change, event.change, &event.before) {
                (Change::Deleted, Change::Modified, Some(before)) => {
                    let left = before.deleted(event.revision);
                    self.view.event_of(Change::Deleted, &left, self.first)
                }
                _ => self.view.event(event, change, &event.object, self.first),
            }
        };
        self.first = false;
        Some(line)
    }

    /// Whether this watch is about such objects: over all spaces only stored ones are shown.
    fn showed(&self, before: &Stored) -> bool {
        !before.built_in || *self.granted.spaces() != Spaces::All
    }

    fn bookmark(&mut self, now: Instant, applied: Revision) -> Option<Bytes> {
        let bookmarks = self
            .bookmarks
            .as_mut()
            .filter(|bookmarks| bookmarks.due <= now)?;
        bookmarks.due = bookmark_due(now, self.deadline);
        if applied <= bookmarks.told {
            return None;
        }
        bookmarks.told = applied;
        let first = std::mem::take(&mut self.first);
        Some(self.view.bookmark(applied, false, first))
    }

    fn set_timer(&mut self) {
        let bookmark = self.bookmarks.as_ref().map(|bookmarks| bookmarks.due);
        let due = bookmark.unwrap_or(self.deadline).min(self.deadline);
        if self.timer.deadline() != due {
            self.timer.as_mut().reset(due);
        }
    }
}

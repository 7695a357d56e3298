//! Watch: events from a position in the log of a collection on.

mod begin;
mod clock;
mod control;
mod encoder;
mod events;
mod permission;
mod replay;
mod signals;
mod start;

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::stream;
use insula_access::jwt;
use insula_cache::{Lost, Stored};
use insula_core::{Principal, Proof, Revision, Spaces};
use tokio::time::Instant;

use begin::begin;
use clock::Clock;
use control::{Control, Handle};
use encoder::Encoder;
use events::{Beginning, Events};
use permission::Permission;
use signals::{Signals, Sources, optional};
use start::{Start, start};

use super::Selection;
use crate::codec::body::Body;
use crate::codec::view::View;
use crate::pipeline::authorize::Caller;
use crate::pipeline::trust::CurrentTrust;
use crate::registry::Registry;
use crate::registry::versions;
use crate::request::query::Query;
use crate::status::{Result, StatusError};

/// One watch.
struct Watcher {
    permission: Permission,
    initial: Initial,
    events: Events,
    encoder: Encoder,
    clock: Clock,
    control: Arc<Control>,
    signals: Signals,
    /// Whether the permission has to be checked before anything is sent.
    is_unchecked: bool,
    /// The size of the next piece.
    piece: usize,
    /// Whether the last line was sent.
    over: bool,
}

/// The objects that exist when a watch begins.
struct Initial {
    objects: std::vec::IntoIter<Arc<Stored>>,
    /// The revision of the bookmark that ends them, until it is sent.
    end: Option<Revision>,
}

/// The size from which on a piece is sent.
const MAX_PIECE: usize = 64 << 10;

/// The size of the first piece. The next is twice as large, because the client has read this one:
/// a client that reads nothing holds no more than this.
const FIRST_PIECE: usize = 8 << 10;

/// Returns a stream of the events of the objects that path and selectors choose.
pub async fn watch(
    registry: &Arc<Registry>,
    trust: &Arc<CurrentTrust>,
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
    let timeout = timeout(query)?.min(until_expiry(granted.principal()));
    let begun = begin(registry, granted, start, &selection, &view).await;
    let begun = match begun {
        Ok(begun) => begun,
        // A watch that cannot begin there is answered with an error event.
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
    let bookmarks = query.flag("allowWatchBookmarks");
    let marked = matches!(start, Start::State { marked: true, .. }) && bookmarks;
    let permission = Permission::new(registry, trust, granted.granted)?;
    let (revision, after) = (begun.revision, begun.after);
    let initial = Initial {
        objects: begun.objects.into_iter(),
        end: marked.then_some(revision),
    };
    let beginning = Beginning {
        collection: begun.collection,
        position: begun.position,
        published: begun.published,
        revision,
        needs_before: !selection.is_everything(),
    };
    let interest = selection.interest(path.namespace.as_deref());
    let events = Events::new(registry, permission.granted(), interest, beginning);
    let sources = Sources::new(&permission, &events);
    let control = Control::new(&permission, &sources, Instant::now() + timeout);
    control.set_initial(initial.objects.len());
    let watcher = Watcher {
        permission,
        initial,
        events,
        encoder: Encoder {
            view,
            prefix: selection.prefix(path.namespace.as_deref()),
            selection,
            after,
            built_in: *granted.spaces() != Spaces::All,
            first: true,
        },
        clock: Clock::new(timeout, bookmarks, revision),
        control: Arc::clone(&control),
        signals: Signals::new(&sources),
        is_unchecked: true,
        piece: FIRST_PIECE,
        over: false,
    };
    let stream = stream::unfold(watcher, |mut watcher| async move {
        let piece = watcher.next().await?;
        Some((piece, watcher))
    });
    Ok(Body::watch(Box::pin(stream), Arc::new(Handle(control))))
}

fn too_old(lost: Lost, asked: Revision) -> StatusError {
    match lost {
        Lost::Passed(floor) => {
            StatusError::expired(format!("too old resource version: {asked} ({floor})"))
        }
        Lost::Closed => StatusError::expired("the space that was watched is gone"),
    }
}

/// Returns the timeout that the client asked for, or a random one of half an hour to an hour, so
/// that watches do not all end at the same moment.
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

/// Returns how long the credential behind a principal is accepted.
fn until_expiry(principal: &Principal) -> Duration {
    let holder = principal.authenticated();
    let credential = &holder.credential;
    let Some(expires) = credential.chain_expires.or(credential.expires) else {
        return Duration::MAX;
    };
    // Requests with a token are accepted a little longer, and so is a watch: a client would
    // otherwise open it again and again.
    let leeway = match holder.proof {
        Proof::Certificate => 0,
        _ => jwt::LEEWAY,
    };
    let seconds = expires.saturating_add(leeway) - jiff::Timestamp::now().as_second();
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

impl Watcher {
    /// Returns the next bytes to send; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        if self.over {
            return None;
        }
        match self.try_next().await {
            Ok(piece) => {
                self.piece = (self.piece * 2).min(MAX_PIECE);
                piece
            }
            Err(error) => {
                self.over = true;
                // The log of a definition that is gone may be closed before that is noticed.
                let is_clean = error.code == 410
                    && self.permission.is_redefined()
                    && self.permission.check(self.events.seen).is_ok();
                (!is_clean).then(|| self.encoder.error(&error))
            }
        }
    }

    async fn try_next(&mut self) -> Result<Option<Bytes>> {
        let registry = Arc::clone(&self.events.registry);
        loop {
            // Before rights and log are read, so that no change in between is missed.
            let progress = self.events.progress(&registry);
            if self.signals.take_changed() || self.is_unchecked {
                self.is_unchecked = true;
                self.permission.check(self.events.seen)?;
                if self.permission.is_redefined() {
                    // Events from before the definition went are sent first.
                    while self.permission.is_withdrawn()
                        && let Ok(Some(piece)) = self.next_events().await
                    {
                        if !piece.is_empty() {
                            return Ok(Some(piece));
                        }
                    }
                    return Ok(None);
                }
                self.is_unchecked = false;
            }
            // A watch that always has unread events ends, too.
            let now = Instant::now();
            if self.clock.has_run_out(now) {
                return Ok(None);
            }
            if let Some(piece) = self.next_initial().await? {
                return Ok(Some(piece));
            }
            let applied = registry.cache().applied();
            let piece = self.next_events().await?;
            if let Some(piece) = piece.as_ref().filter(|piece| !piece.is_empty()) {
                match self.is_over_meanwhile()? {
                    true => continue,
                    false => return Ok(Some(piece.clone())),
                }
            }
            if registry.closing().is_closed() {
                return Ok(None);
            }
            if piece.is_some() {
                // None of them was selected, and more may follow.
                continue;
            }
            if self.clock.takes_bookmark(now, applied) {
                if self.is_over_meanwhile()? {
                    continue;
                }
                return Ok(Some(self.encoder.bookmark(applied, false)));
            }
            let progress = progress.filter(|_| self.events.awaits_progress(applied));
            tokio::select! {
                biased;
                () = self.events.unread() => {}
                () = poll_fn(|context| self.signals.poll_changed(context)) => {}
                () = optional(progress) => {}
                () = self.clock.next() => {}
            }
        }
    }

    /// Checks rights that changed while events were read: that may take long if they come from the
    /// store's history, or if a webhook converts them. Returns whether the resource was defined anew
    /// meanwhile: a client that is given a later revision would not list again.
    fn is_over_meanwhile(&mut self) -> Result<bool> {
        let changed = self.signals.take_changed();
        if changed || self.permission.depends_on_objects() {
            self.is_unchecked = true;
            self.permission.check(self.events.seen)?;
        }
        Ok(changed && self.permission.is_redefined() && !self.permission.is_withdrawn())
    }

    /// Returns the next lines of the initial state.
    async fn next_initial(&mut self) -> Result<Option<Bytes>> {
        let initial = &mut self.initial;
        if initial.objects.len() == 0 && initial.end.is_none() {
            return Ok(None);
        }
        let kind = &self.permission.granted().path().kind;
        if kind.custom().is_some() {
            let objects = initial.objects.as_slice().iter();
            // Boxed, so that idle watches do not keep the space for calls of webhooks.
            Box::pin(versions::prepare(
                &self.events.registry,
                None,
                kind,
                objects,
            ))
            .await?;
        }
        let mut piece = BytesMut::new();
        while piece.len() < self.piece {
            let Some(object) = initial.objects.next() else {
                break;
            };
            if let Some(line) = self.encoder.initial(&object) {
                piece.extend_from_slice(&line);
            }
        }
        self.control.set_initial(initial.objects.len());
        if initial.objects.len() == 0 {
            // The list of an idle watch is not kept.
            initial.objects = Vec::new().into_iter();
        }
        if initial.objects.len() == 0
            && let Some(revision) = initial.end.take()
        {
            piece.extend_from_slice(&self.encoder.bookmark(revision, true));
            self.clock.note_bookmark(revision);
        }
        Ok((!piece.is_empty()).then(|| piece.freeze()))
    }

    /// Returns the lines of the next events that the client selects, or nothing of events that it
    /// does not; `None` if there are no events yet.
    async fn next_events(&mut self) -> Result<Option<Bytes>> {
        let events = self.events.read(self.permission.granted()).await?;
        if events.is_empty() {
            return Ok(None);
        }
        let lines = events.iter().filter_map(|event| self.encoder.event(event));
        let mut lines: Vec<Bytes> = lines.collect();
        Ok(Some(match lines.len() {
            1 => lines.pop().unwrap_or_default(),
            _ => lines.concat().into(),
        }))
    }
}

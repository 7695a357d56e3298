//! Who may do what in a space: its roles and bindings, made ready while somebody asks.
//!
//! A policy is a reader of the space's logs like any watcher: what changed since it was last
//! asked is put into it before it answers. When nobody asks, its memory is given back.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};

use insula_access::rbac::{Policy, RbacKind, RbacObject};
use insula_core::{Revision, Space};
use insula_kinds::KindId;

use crate::cache::{Cache, Change, Cursor, Event, Life, Stored};
use crate::registry::is_terminating;
use crate::registry::rbac_kinds::{RBAC, rbac_kind, table};
use insula_kinds::core_kind;

/// A policy, and how far it has read.
pub struct Compiled {
    policy: Policy,
    /// Where each kind's log is read on; none where nothing of the kind has been.
    cursors: [Option<Cursor>; RBAC.len()],
    /// The state of the space that it shows.
    at: Revision,
    /// Whether it was asked since somebody looked.
    asked: AtomicBool,
}

/// How many events of a log are read at once.
const BATCH: usize = 1024;

/// Whether changes to objects of the kind can take a right away from somebody.
pub fn decides_access(kind: KindId, events: &[Arc<Event>]) -> bool {
    static ACCOUNTS: OnceLock<KindId> = OnceLock::new();
    let accounts = *ACCOUNTS.get_or_init(|| core_kind("serviceaccounts"));
    // A service account that is new has no tokens yet; those of one that goes are over.
    let gone = |event: &Arc<Event>| match event.change {
        Change::Added => false,
        Change::Modified => is_terminating(&event.object),
        Change::Deleted => true,
    };
    rbac_kind(kind).is_some() || (kind == accounts && events.iter().any(gone))
}

impl Life {
    /// Asks the policy of the space, with everything that the cache shows.
    pub fn ask<R>(
        self: &Arc<Self>,
        cache: &Cache,
        space: &Space,
        question: impl FnOnce(&Policy) -> R,
    ) -> R {
        let at = self.access();
        let held = self.policy.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(compiled) = held.as_ref().filter(|compiled| compiled.at >= at) {
            compiled.asked.store(true, Ordering::Relaxed);
            return question(&compiled.policy);
        }
        drop(held);
        let mut held = self.policy.write().unwrap_or_else(PoisonError::into_inner);
        if held.is_none() {
            cache.note_compiled(self);
        }
        let compiled = held.get_or_insert_with(Compiled::empty);
        // Read before the logs are: what happens in between is read again.
        compiled.at = self.access();
        if !compiled.read_on(cache, space) {
            let at = compiled.at;
            *compiled = Compiled::empty();
            compiled.at = at;
            compiled.load(cache, space);
        }
        compiled.asked.store(true, Ordering::Relaxed);
        question(&compiled.policy)
    }

    /// Gives the policy's memory back if nobody asked since the last call. Says whether it
    /// is still there.
    pub fn keeps_policy(&self) -> bool {
        let mut held = self.policy.write().unwrap_or_else(PoisonError::into_inner);
        let asked = held
            .as_ref()
            .is_some_and(|compiled| compiled.asked.swap(false, Ordering::Relaxed));
        if !asked {
            *held = None;
        }
        asked
    }
}

impl Compiled {
    fn empty() -> Self {
        Self {
            policy: Policy::new(),
            cursors: [None; RBAC.len()],
            at: Revision::ZERO,
            asked: AtomicBool::new(true),
        }
    }

    /// Reads what happened; `false` if some log has passed it.
    fn read_on(&mut self, cache: &Cache, space: &Space) -> bool {
        for (at, (kind, id)) in RBAC.iter().map(|(kind, _)| *kind).zip(table()).enumerate() {
            let Some(collection) = cache.find(*id, space) else {
                continue;
            };
            let Some(mut cursor) = self.cursors[at] else {
                let snapshot = collection.snapshot("", None);
                snapshot.objects.iter().for_each(|one| self.put(kind, one));
                self.cursors[at] = Some(snapshot.cursor);
                continue;
            };
            loop {
                let mut events = Vec::new();
                if collection.read_on(&mut cursor, BATCH, &mut events).is_err() {
                    return false;
                }
                for event in &events {
                    match event.change {
                        Change::Deleted => {
                            let object = &event.object;
                            self.policy.remove(kind, object.namespace(), object.name());
                        }
                        Change::Added | Change::Modified => self.put(kind, &event.object),
                    }
                }
                if events.len() < BATCH {
                    break;
                }
            }
            self.cursors[at] = Some(cursor);
        }
        true
    }

    /// Reads everything. A log that is gone by then leaves nothing, which allows nothing.
    fn load(&mut self, cache: &Cache, space: &Space) {
        self.cursors = [None; RBAC.len()];
        if !self.read_on(cache, space) {
            tracing::error!(%space, "the roles of a space could not be read");
        }
    }

    fn put(&mut self, kind: RbacKind, object: &Stored) {
        match RbacObject::parse(kind, &object.body()) {
            Ok(parsed) => self.policy.put(parsed),
            // It was validated when it was written. Without it less is allowed, not more.
            Err(error) => {
                tracing::error!(%error, key = %object.key, "a role or binding cannot be read");
                self.policy.remove(kind, object.namespace(), object.name());
            }
        }
    }
}

impl fmt::Debug for Compiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compiled").field("at", &self.at).finish()
    }
}

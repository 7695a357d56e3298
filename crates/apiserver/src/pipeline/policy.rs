//! The RBAC policy of a space: its roles and bindings, compiled on demand.
//!
//! A policy reads the event logs of the space like a watch: the changes since the last
//! decision are applied before the next. An unused policy is dropped.

use std::fmt;
use std::sync::Arc;

use insula_access::rbac::{Policy, RbacKind, RbacObject};
use insula_core::Space;

use crate::registry::rbac_kinds::{RBAC, table};
use insula_cache::{Cache, Change, Cursor, Derived, SpaceState, Stored};

/// A compiled policy, and its positions in the event logs.
pub struct Compiled {
    policy: Policy,
    /// The position in the log of each kind; `None` if the kind has no collection yet.
    cursors: [Option<Cursor>; RBAC.len()],
}

/// The number of events that are read at once.
const BATCH: usize = 1024;

/// Evaluates `question` against the policy of a space, as of the cache.
pub fn ask<R>(
    cache: &Cache,
    state: &Arc<SpaceState>,
    space: &Space,
    question: impl FnOnce(&Policy) -> R,
) -> R {
    let mut question = Some(question);
    let mut answer = |compiled: &Compiled| {
        let question = question.take().expect("a policy is asked once");
        question(&compiled.policy)
    };
    if let Some(answer) = cache.derived(state, Derived::Access, &mut answer) {
        return answer;
    }
    let derive = |stale: Option<Box<Compiled>>, _| {
        let mut compiled = stale.unwrap_or_else(|| Box::new(Compiled::empty()));
        if !compiled.read_on(cache, space) {
            *compiled = Compiled::empty();
            compiled.load(cache, space);
        }
        compiled
    };
    cache.derive(state, Derived::Access, derive, answer)
}

impl Compiled {
    fn empty() -> Self {
        Self {
            policy: Policy::new(),
            cursors: [None; RBAC.len()],
        }
    }

    /// Applies the new events. Returns `false` if a log no longer has them.
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

    /// Loads all objects. If a log is lost meanwhile, the policy stays empty and denies all.
    fn load(&mut self, cache: &Cache, space: &Space) {
        self.cursors = [None; RBAC.len()];
        if !self.read_on(cache, space) {
            tracing::error!(%space, "RBAC policy not loaded");
        }
    }

    fn put(&mut self, kind: RbacKind, object: &Stored) {
        match RbacObject::parse(kind, &object.body()) {
            Ok(parsed) => self.policy.put(parsed),
            // The object was validated when it was written. Without it, less is allowed.
            Err(error) => {
                tracing::error!(%error, key = %object.key, "RBAC object rejected");
                self.policy.remove(kind, object.namespace(), object.name());
            }
        }
    }
}

impl fmt::Debug for Compiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compiled").finish_non_exhaustive()
    }
}

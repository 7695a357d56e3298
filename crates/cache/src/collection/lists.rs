//! What a collection keeps for lists: snapshots and indexes.

use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Instant;

use insula_core::{Revision, Space};

use super::{Collection, State};
use crate::index::{Demand, Index, Term};
use crate::objects::Objects;
use crate::snapshots::{Budget, Snapshots};

/// The objects of a collection at one revision, not copied.
#[derive(Clone, Debug)]
pub struct Contents {
    /// The objects.
    pub objects: Objects,
    /// The revision of the last change.
    pub last: Revision,
}

/// What is kept for lists of a collection.
#[derive(Debug, Default)]
pub(super) struct Lists {
    snapshots: Snapshots<Objects>,
    demand: Demand,
}

impl Collection {
    /// Returns all objects.
    pub fn contents(&self) -> Contents {
        let state = self.read();
        Contents {
            objects: state.objects.clone(),
            last: state.last,
        }
    }

    /// Returns all objects as of `revision`: the current ones, or those of a kept snapshot.
    /// Returns `None` if neither is of that revision.
    pub fn contents_at(&self, revision: Revision) -> Option<Contents> {
        let state = self.read();
        let objects = match state.last > revision {
            true => self.lists().as_mut()?.snapshots.at(revision)?,
            false => state.objects.clone(),
        };
        let last = state.last.min(revision);
        Some(Contents { objects, last })
    }

    /// Keeps the objects for the next page of a list, if the log still has the changes since.
    pub(crate) fn keep(&self, contents: &Contents, budget: &Arc<Budget>, space: &Space) {
        let state = self.read();
        let from = contents.last;
        let Ok(until) = state.next_after(from) else {
            return;
        };
        let mut lists = self.lists();
        let snapshots = &mut lists.get_or_insert_default().snapshots;
        snapshots.keep(from, until, &contents.objects, budget, space);
    }

    /// Notes that a list visited many objects for want of an index, and builds one if that
    /// happens often. Returns whether it did.
    pub(crate) fn note_scan(&self, term: &Term, budget: &Arc<Budget>, space: &Space) -> bool {
        let now = Instant::now();
        if !self
            .lists()
            .get_or_insert_default()
            .demand
            .note_scan(term, now)
        {
            return false;
        }
        // Built beside the writers, which then wait only while it catches up with them.
        let contents = self.contents();
        let mut index = Index::new(term.clone());
        for object in contents.objects.range("", None) {
            index.insert(object);
        }
        let mut state = self.write();
        let Ok(later) = state.later(contents.last) else {
            // More was written meanwhile than the log holds.
            self.lists().get_or_insert_default().demand.refuse(now);
            return false;
        };
        for event in state.log.range(later..) {
            if let Some(before) = event.stored_before() {
                index.remove(before);
            }
            if let Some(after) = event.stored_after() {
                index.insert(after);
            }
        }
        let mut lists = self.lists();
        let demand = &mut lists.get_or_insert_default().demand;
        let kept = demand.keep(&index, budget, space);
        if kept {
            state.objects.add_index(index);
        }
        kept
    }

    /// Drops indexes that no list uses. Returns whether any is left.
    pub(crate) fn drop_idle_indexes(&self, now: Instant) -> bool {
        let mut state = self.write();
        let mut lists = self.lists();
        let Some(lists) = &mut *lists else {
            return false;
        };
        let dropped = lists.demand.take_unused(state.objects.indexes(), now);
        if !dropped.is_empty() {
            state.objects.drop_indexes(&dropped);
        }
        lists.demand.has_indexes()
    }

    /// Notes that a transaction has replaced objects of so many bytes.
    pub(super) fn note_replaced(&self, state: &mut State, revision: Revision, bytes: usize) {
        let Some(lists) = &mut *self.lists() else {
            return;
        };
        lists.snapshots.note_change(revision, bytes);
        if lists.demand.has_indexes() {
            let now = Instant::now();
            let dropped = lists.demand.take_unused(state.objects.indexes(), now);
            if !dropped.is_empty() {
                state.objects.drop_indexes(&dropped);
            }
        }
    }

    /// Drops the snapshots that no list reads.
    pub(super) fn drop_idle_snapshots(&self) {
        let mut lists = self.lists();
        if let Some(kept) = &mut *lists
            && kept.snapshots.drop_idle(Instant::now())
            && !kept.demand.has_indexes()
        {
            *lists = None;
        }
    }

    fn lists(&self) -> MutexGuard<'_, Option<Box<Lists>>> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

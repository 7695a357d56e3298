//! Owners and dependents in every space, and the objects that the garbage collector has to
//! examine.
//!
//! The feed updates the graph with every change, so it is as complete as the cache: there is no
//! log to fall behind on. An object without owner references and without a finalizer that waits
//! for dependents is not in the graph, and a space of such objects costs nothing.
//!
//! Objects are handed out space by space, in turn, so that a cascade in one space does not delay
//! another. Owner references never cross spaces, whatever UIDs they name.

mod dependents;
mod node;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use insula_core::Space;
use tokio::sync::Notify;

pub use node::Node;

use crate::collection::{Change, Event};
use crate::collection_key::CollectionKey;
use crate::entry::Stored;
use dependents::{Dependents, Entry};

/// The graph of all spaces.
#[derive(Debug, Default)]
pub struct OwnerGraph {
    spaces: RwLock<HashMap<Space, Mutex<Dependents>>>,
    /// Spaces with objects to examine that no collector has taken.
    ready: Mutex<VecDeque<Space>>,
    /// Whether a collector runs.
    followed: AtomicBool,
    work_available: Notify,
}

/// Which dependents block the deletion of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// None.
    None,
    /// Some that wait for no dependents themselves.
    Plain,
    /// Only some that wait for dependents of their own: perhaps for this owner, in a cycle.
    Waiting,
}

impl OwnerGraph {
    /// Starts to hand out objects: all that exist, and those that change.
    pub fn follow(&self) {
        let mut spaces = self.spaces.write().unwrap_or_else(PoisonError::into_inner);
        self.followed.store(true, Ordering::Release);
        for (space, graph) in spaces.iter_mut() {
            let graph = graph.get_mut().unwrap_or_else(PoisonError::into_inner);
            graph.queue_all();
            self.announce(space, graph);
        }
    }

    /// Stops to hand out objects.
    pub fn leave(&self) {
        self.followed.store(false, Ordering::Release);
    }

    /// Notified when there are objects to examine.
    pub const fn work_available(&self) -> &Notify {
        &self.work_available
    }

    /// Takes the next objects to examine, at max `max`, all of one space. The space is handed out
    /// again after [`done`](Self::done).
    pub fn take(&self, max: usize) -> Option<(Space, Vec<Node>)> {
        loop {
            let space = self.ready().pop_front()?;
            if let Some(nodes) = self.find(&space, |graph| graph.take(max)) {
                return Some((space, nodes));
            }
        }
    }

    /// Notes that the objects taken of a space were examined.
    pub fn done(&self, space: &Space) {
        self.find(space, |graph| {
            graph.busy = false;
            self.announce(space, graph);
        });
        self.tidy(space);
    }

    /// Queues an object to be examined again.
    pub fn requeue(&self, space: &Space, node: Node) {
        self.find(space, |graph| {
            graph.push(Entry::Node(node));
            self.announce(space, graph);
        });
    }

    /// Keeps an object to be examined again when its space serves other resources.
    pub fn park(&self, space: &Space, node: Node) {
        self.find(space, |graph| graph.parked.insert(node));
    }

    /// Returns the dependents of an owner that follow `after`, at max `max`.
    pub fn dependents(
        &self,
        space: &Space,
        owner: &str,
        after: Option<&Node>,
        max: usize,
    ) -> Vec<Node> {
        let found = self.find(space, |graph| graph.dependents(owner, after, max));
        found.unwrap_or_default()
    }

    /// Whether an owner has dependents.
    pub fn has_dependents(&self, space: &Space, owner: &str) -> bool {
        let found = self.find(space, |graph| graph.families.contains_key(owner));
        found.unwrap_or(false)
    }

    /// Returns which dependents block an owner in foreground deletion, without those in `gone`. An
    /// object in another namespace than the owner is no dependent, whatever it references.
    pub fn hold(
        &self,
        space: &Space,
        owner: &str,
        namespace: Option<&str>,
        gone: &HashSet<Node>,
    ) -> Hold {
        let found = self.find(space, |graph| graph.hold(owner, namespace, gone));
        found.unwrap_or(Hold::None)
    }

    /// Returns the deleted object that had this UID, if it still has dependents.
    pub fn deleted_owner(&self, space: &Space, uid: &str) -> Option<Node> {
        let found = self.find(space, |graph| {
            graph.families.get(uid)?.deleted_owner.clone()
        });
        found.flatten()
    }

    /// Returns the number of spaces in the graph.
    pub fn spaces(&self) -> usize {
        let spaces = self.spaces.read().unwrap_or_else(PoisonError::into_inner);
        spaces.len()
    }

    /// Adds an object that existed when the cache was loaded. It is not queued: who
    /// [follows](Self::follow) gets all that exist.
    pub(super) fn load(&self, key: CollectionKey<'_>, space: &Space, object: &Stored) {
        if let Some(refs) = object.owner_refs() {
            let node = Node::new(key, object);
            self.with(space, |graph| {
                graph.change(&node, None, Some(&refs));
                graph.clear_queue();
            });
        }
    }

    /// Applies events of a kind in a space.
    pub(super) fn note<'e>(
        &self,
        key: CollectionKey<'_>,
        space: &Space,
        events: impl IntoIterator<Item = &'e Event>,
    ) {
        for event in events {
            let before = event.before.as_ref().and_then(|before| before.owner_refs());
            let gone = event.change == Change::Deleted;
            let now = match gone {
                true => None,
                false => event.object.owner_refs(),
            };
            if before.is_some() || now.is_some() {
                let node = Node::new(key, &event.object);
                self.with(space, |graph| {
                    graph.change(&node, before.as_ref(), now.as_ref());
                    self.announce(space, graph);
                });
            }
            // An object with another UID in the place of one is another object.
            let last = match gone {
                true => Some(&event.object),
                false => event.before.as_ref(),
            };
            let last = last.filter(|last| gone || last.uid() != event.object.uid());
            if let Some(last) = last
                && let Some(uid) = last.uid()
            {
                self.find(space, |graph| {
                    graph.note_deleted(uid, || Node::new(key, last));
                    self.announce(space, graph);
                });
            }
            if now.is_none() && before.is_some() {
                self.tidy(space);
            }
        }
    }

    /// Queues the parked objects of a space that serves other resources now.
    pub(crate) fn note_apis(&self, space: &Space) {
        self.find(space, |graph| {
            graph.unpark();
            self.announce(space, graph);
        });
    }

    /// Does the same for every space. A definition that is withdrawn is no owner in them any more.
    pub(crate) fn note_all_apis(&self, withdrawn: Option<&str>) {
        let spaces = self.spaces.read().unwrap_or_else(PoisonError::into_inner);
        for (space, graph) in spaces.iter() {
            let mut graph = lock(graph);
            graph.unpark();
            if let Some(uid) = withdrawn {
                graph.queue_dependents(uid);
            }
            self.announce(space, &mut graph);
        }
    }

    /// Drops a space.
    pub(super) fn close(&self, space: &Space) {
        let mut spaces = self.spaces.write().unwrap_or_else(PoisonError::into_inner);
        spaces.remove(space);
    }

    fn find<R>(&self, space: &Space, f: impl FnOnce(&mut Dependents) -> R) -> Option<R> {
        let spaces = self.spaces.read().unwrap_or_else(PoisonError::into_inner);
        spaces.get(space).map(|graph| f(&mut lock(graph)))
    }

    fn with<R>(&self, space: &Space, f: impl FnOnce(&mut Dependents) -> R) -> R {
        let spaces = self.spaces.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(graph) = spaces.get(space) {
            return f(&mut lock(graph));
        }
        drop(spaces);
        let mut spaces = self.spaces.write().unwrap_or_else(PoisonError::into_inner);
        let graph = spaces.entry(space.clone()).or_default();
        f(graph.get_mut().unwrap_or_else(PoisonError::into_inner))
    }

    /// Drops a space without owners and dependents.
    fn tidy(&self, space: &Space) {
        if self.find(space, |graph| graph.is_empty()) != Some(true) {
            return;
        }
        let mut spaces = self.spaces.write().unwrap_or_else(PoisonError::into_inner);
        if spaces
            .get(space)
            .is_some_and(|graph| lock(graph).is_empty())
        {
            spaces.remove(space);
        }
    }

    /// Queues a space with objects to examine, if a collector runs.
    fn announce(&self, space: &Space, graph: &mut Dependents) {
        if !self.followed.load(Ordering::Acquire) {
            graph.clear_queue();
            return;
        }
        if graph.becomes_ready() {
            self.ready().push_back(space.clone());
            self.work_available.notify_one();
        }
    }

    fn ready(&self) -> MutexGuard<'_, VecDeque<Space>> {
        lock(&self.ready)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;

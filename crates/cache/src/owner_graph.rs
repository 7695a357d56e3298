//! Who depends on whom, in every space, and what of it is to be looked at.
//!
//! The feed keeps it, change by change, so it is as whole as the cache is: there is no log to
//! fall behind on and nothing to read again. An object that names no owner and waits for no
//! dependents is not in it. A space in which there are no others costs nothing, not even
//! when its objects go.
//!
//! What is to be looked at is handed out space by space, in turn, so that a cascade in one is
//! not what another waits for. Nobody else is told of what is in another space, whatever
//! UIDs its objects name.

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

/// Who depends on whom.
#[derive(Debug, Default)]
pub struct OwnerGraph {
    spaces: RwLock<HashMap<Space, Mutex<Dependents>>>,
    /// The spaces in which there is something to be looked at and nobody who does.
    ready: Mutex<VecDeque<Space>>,
    /// Whether anybody looks.
    followed: AtomicBool,
    told: Notify,
}

/// Which dependents keep an owner waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// None.
    None,
    /// Some that wait for nobody themselves.
    Plain,
    /// Some that wait for dependents of their own: perhaps for this owner, in a circle.
    Waiting,
}

impl OwnerGraph {
    /// From now on somebody looks: at everything that is there, and at what changes.
    pub fn follow(&self) {
        let mut spaces = self.spaces.write().unwrap_or_else(PoisonError::into_inner);
        self.followed.store(true, Ordering::Release);
        for (space, kin) in spaces.iter_mut() {
            let kin = kin.get_mut().unwrap_or_else(PoisonError::into_inner);
            kin.look_at_all();
            self.announce(space, kin);
        }
    }

    /// Nobody looks any more.
    pub fn leave(&self) {
        self.followed.store(false, Ordering::Release);
    }

    /// Is notified when there is something to be looked at.
    pub const fn told(&self) -> &Notify {
        &self.told
    }

    /// The next objects to be looked at, at most so many: all of one space, which is nobody
    /// else's until [`done`](Self::done) is called.
    pub fn take(&self, most: usize) -> Option<(Space, Vec<Node>)> {
        loop {
            let space = self.ready().pop_front()?;
            if let Some(nodes) = self.find(&space, |kin| kin.take(most)) {
                return Some((space, nodes));
            }
        }
    }

    /// What was taken of a space was looked at.
    pub fn done(&self, space: &Space) {
        self.find(space, |kin| {
            kin.busy = false;
            self.announce(space, kin);
        });
        self.tidy(space);
    }

    /// An object is to be looked at again.
    pub fn look_again(&self, space: &Space, node: Node) {
        self.find(space, |kin| {
            kin.push(Entry::Node(node));
            self.announce(space, kin);
        });
    }

    /// An object is to be looked at again when its space serves other kinds.
    pub fn park(&self, space: &Space, node: Node) {
        self.find(space, |kin| kin.parked.insert(node));
    }

    /// The objects that name this owner, those after `after`, at most so many.
    pub fn dependents(
        &self,
        space: &Space,
        owner: &str,
        after: Option<&Node>,
        most: usize,
    ) -> Vec<Node> {
        let found = self.find(space, |kin| kin.dependents(owner, after, most));
        found.unwrap_or_default()
    }

    /// Whether any object names this owner.
    pub fn has_dependents(&self, space: &Space, owner: &str) -> bool {
        let found = self.find(space, |kin| kin.families.contains_key(owner));
        found.unwrap_or(false)
    }

    /// Which dependents keep an owner waiting that waits for them, those not counted that are
    /// `gone`. One that is in another namespace than the owner is not its dependent, whatever
    /// it says.
    pub fn hold(
        &self,
        space: &Space,
        owner: &str,
        namespace: Option<&str>,
        gone: &HashSet<Node>,
    ) -> Hold {
        let found = self.find(space, |kin| kin.hold(owner, namespace, gone));
        found.unwrap_or(Hold::None)
    }

    /// The object that had this UID, if it was seen to go and somebody still names it.
    pub fn departed(&self, space: &Space, uid: &str) -> Option<Node> {
        let found = self.find(space, |kin| kin.families.get(uid)?.departed.clone());
        found.flatten()
    }

    /// How many spaces it knows anything of.
    pub fn spaces(&self) -> usize {
        let spaces = self.spaces.read().unwrap_or_else(PoisonError::into_inner);
        spaces.len()
    }

    /// An object was there before anybody watched.
    pub(super) fn load(&self, mark: CollectionKey<'_>, space: &Space, object: &Stored) {
        if let Some(ties) = object.ties() {
            let node = Node::new(mark, object);
            self.with(space, |kin| kin.change(&node, None, Some(&ties)));
        }
    }

    /// Something happened to objects of a kind in a space.
    pub(super) fn note<'e>(
        &self,
        mark: CollectionKey<'_>,
        space: &Space,
        events: impl IntoIterator<Item = &'e Event>,
    ) {
        for event in events {
            let before = event.before.as_ref().and_then(|before| before.ties());
            let gone = event.change == Change::Deleted;
            let now = match gone {
                true => None,
                false => event.object.ties(),
            };
            if before.is_some() || now.is_some() {
                let node = Node::new(mark, &event.object);
                self.with(space, |kin| {
                    kin.change(&node, before.as_ref(), now.as_ref());
                    self.announce(space, kin);
                });
            }
            if gone && let Some(uid) = event.object.uid() {
                self.find(space, |kin| {
                    kin.depart(uid, || Node::new(mark, &event.object));
                    self.announce(space, kin);
                });
            }
            if now.is_none() && before.is_some() {
                self.tidy(space);
            }
        }
    }

    /// A space serves other kinds from now on: what was parked is looked at again.
    pub(crate) fn serve_anew(&self, space: &Space) {
        self.find(space, |kin| {
            kin.unpark();
            self.announce(space, kin);
        });
    }

    /// So does every space. What they all saw as an object of their own is perhaps not to be
    /// seen there any more.
    pub(crate) fn all_serve_anew(&self, withdrawn: Option<&str>) {
        let spaces = self.spaces.read().unwrap_or_else(PoisonError::into_inner);
        for (space, kin) in spaces.iter() {
            let mut kin = lock(kin);
            kin.unpark();
            if let Some(uid) = withdrawn {
                kin.look_at_dependents(uid);
            }
            self.announce(space, &mut kin);
        }
    }

    /// Forgets a space.
    pub(super) fn close(&self, space: &Space) {
        let mut spaces = self.spaces.write().unwrap_or_else(PoisonError::into_inner);
        spaces.remove(space);
    }

    fn find<R>(&self, space: &Space, f: impl FnOnce(&mut Dependents) -> R) -> Option<R> {
        let spaces = self.spaces.read().unwrap_or_else(PoisonError::into_inner);
        spaces.get(space).map(|kin| f(&mut lock(kin)))
    }

    fn with<R>(&self, space: &Space, f: impl FnOnce(&mut Dependents) -> R) -> R {
        let spaces = self.spaces.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(kin) = spaces.get(space) {
            return f(&mut lock(kin));
        }
        drop(spaces);
        let mut spaces = self.spaces.write().unwrap_or_else(PoisonError::into_inner);
        let kin = spaces.entry(space.clone()).or_default();
        f(kin.get_mut().unwrap_or_else(PoisonError::into_inner))
    }

    /// Forgets a space of which there is nothing to know.
    fn tidy(&self, space: &Space) {
        if self.find(space, |kin| kin.is_empty()) != Some(true) {
            return;
        }
        let mut spaces = self.spaces.write().unwrap_or_else(PoisonError::into_inner);
        if spaces.get(space).is_some_and(|kin| lock(kin).is_empty()) {
            spaces.remove(space);
        }
    }

    /// Tells of a space in which there is something to be looked at, if anybody looks.
    fn announce(&self, space: &Space, kin: &mut Dependents) {
        if !self.followed.load(Ordering::Acquire) {
            kin.forget_queue();
            return;
        }
        if kin.begins() {
            self.ready().push_back(space.clone());
            self.told.notify_one();
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

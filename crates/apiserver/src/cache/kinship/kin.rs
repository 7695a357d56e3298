//! Who depends on whom in one space.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::ops::Bound;

use super::{Hold, Node};
use crate::cache::ties::{Reference, Ties};

/// Who depends on whom in one space.
#[derive(Debug, Default)]
pub struct Kin {
    /// By the UID of the owner, whether there is such an object or not.
    pub families: HashMap<Box<str>, Family>,
    /// The objects that wait for their dependents, by their UIDs.
    waiting: HashMap<Box<str>, Node>,
    /// The same objects.
    waiters: HashSet<Node>,
    /// What is looked at again when the space serves other kinds.
    pub parked: HashSet<Node>,
    queue: VecDeque<Entry>,
    queued: HashSet<Entry>,
    /// Whether it is among the spaces that are ready.
    announced: bool,
    /// Whether somebody looks at what was taken.
    pub busy: bool,
}

/// Those who name the same owner.
#[derive(Debug, Default)]
pub struct Family {
    /// The dependents, and whether the owner waits for them.
    dependents: BTreeMap<Node, bool>,
    /// The owner, if it was seen to go.
    pub departed: Option<Node>,
}

/// Something to be looked at.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Entry {
    /// An object.
    Node(Node),
    /// Those that name this owner, from there on.
    Dependents(Box<str>, Option<Node>),
}

impl Kin {
    /// An object changed: so do the families that it belongs to, and it is to be looked at if
    /// that may lead to anything.
    pub fn change(&mut self, node: &Node, before: Option<&Ties>, now: Option<&Ties>) {
        let owners = |ties: Option<&Ties>| ties.map_or_else(Box::default, |of| of.owners.clone());
        let (was, is) = (owners(before), owners(now));
        if was != is {
            self.unlink(node, &was);
            self.link(node, &is);
            self.unblock(&was, &is);
            if !is.is_empty() {
                self.push(Entry::Node(node.clone()));
            }
        }
        if now.is_none() {
            self.parked.remove(node);
        }
        let awaits = |ties: Option<&Ties>| ties.is_some_and(Ties::awaits_dependents);
        let lets_go = |ties: Option<&Ties>| ties.is_some_and(Ties::lets_dependents_go);
        if let Some(ties) = before
            && !awaits(now)
            && !lets_go(now)
        {
            self.waiting.remove(&ties.uid);
            self.waiters.remove(node);
        }
        let Some(ties) = now else { return };
        if awaits(now) && !awaits(before) || lets_go(now) && !lets_go(before) {
            self.waiting.insert(ties.uid.clone(), node.clone());
            self.waiters.insert(node.clone());
            self.push(Entry::Node(node.clone()));
            if awaits(now) {
                self.look_at_dependents(&ties.uid);
            }
        }
    }

    /// An object is gone: those are looked at that name it as their owner.
    pub fn depart(&mut self, uid: &str, node: impl FnOnce() -> Node) {
        if let Some(family) = self.families.get_mut(uid) {
            family.departed = Some(node());
            self.look_at_dependents(uid);
        }
    }

    /// Those are to be looked at that name this owner.
    pub fn look_at_dependents(&mut self, uid: &str) {
        if self.families.contains_key(uid) {
            self.push(Entry::Dependents(uid.into(), None));
        }
    }

    /// All are to be looked at.
    pub fn look_at_all(&mut self) {
        let families = self.families.keys().cloned();
        let waiting = self.waiting.values().cloned().map(Entry::Node);
        let all = families.map(|uid| Entry::Dependents(uid, None));
        let all: Vec<Entry> = all.chain(waiting).collect();
        all.into_iter().for_each(|entry| self.push(entry));
    }

    /// What was parked is to be looked at.
    pub fn unpark(&mut self) {
        for node in std::mem::take(&mut self.parked) {
            self.push(Entry::Node(node));
        }
    }

    /// Something is to be looked at.
    pub fn push(&mut self, entry: Entry) {
        if self.queued.insert(entry.clone()) {
            self.queue.push_back(entry);
        }
    }

    /// The next to be looked at, at most so many.
    pub fn take(&mut self, most: usize) -> Vec<Node> {
        self.announced = false;
        self.busy = true;
        let mut nodes = Vec::new();
        while nodes.len() < most
            && let Some(entry) = self.queue.pop_front()
        {
            self.queued.remove(&entry);
            match entry {
                Entry::Node(node) => nodes.push(node),
                Entry::Dependents(uid, after) => {
                    let wanted = most - nodes.len();
                    let next = self.dependents(&uid, after.as_ref(), wanted);
                    if next.len() == wanted {
                        self.push(Entry::Dependents(uid, next.last().cloned()));
                    }
                    nodes.extend(next);
                }
            }
        }
        nodes
    }

    /// Whether somebody is to be told that there is something to be looked at. They are told
    /// once.
    pub fn begins(&mut self) -> bool {
        let begins = !self.busy && !self.announced && !self.queue.is_empty();
        self.announced |= begins;
        begins
    }

    /// Nobody looks.
    pub fn forget_queue(&mut self) {
        self.queue = VecDeque::new();
        self.queued = HashSet::new();
        self.announced = false;
    }

    /// The objects that name this owner, those after `after`, at most so many.
    pub fn dependents(&self, owner: &str, after: Option<&Node>, most: usize) -> Vec<Node> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let family = self.families.get(owner).into_iter();
        let found = family.flat_map(|family| family.dependents.range((from, Bound::Unbounded)));
        found.take(most).map(|(node, _)| node.clone()).collect()
    }

    /// Which of the owner's dependents keep it waiting, if any do.
    pub fn hold(&self, owner: &str, namespace: Option<&str>) -> Hold {
        let Some(family) = self.families.get(owner) else {
            return Hold::None;
        };
        let here = |node: &Node| namespace.is_none() || node.namespace() == namespace;
        let dependents = family.dependents.iter();
        let mut holding = dependents.filter(|(node, blocks)| **blocks && here(node));
        let waits = |(node, _): (&Node, &bool)| self.waiters.contains(node);
        match holding.next() {
            None => Hold::None,
            Some(first) if waits(first) || holding.any(waits) => Hold::Waiting,
            Some(_) => Hold::Plain,
        }
    }

    /// Whether there is nothing to know.
    pub fn is_empty(&self) -> bool {
        self.families.is_empty()
            && self.waiting.is_empty()
            && self.parked.is_empty()
            && self.queue.is_empty()
            && !self.busy
    }

    fn link(&mut self, node: &Node, owners: &[Reference]) {
        for owner in owners {
            let family = self.families.entry(owner.uid.clone()).or_default();
            *family.dependents.entry(node.clone()).or_default() |= owner.blocks();
        }
    }

    fn unlink(&mut self, node: &Node, owners: &[Reference]) {
        for owner in owners {
            let Some(family) = self.families.get_mut(&owner.uid) else {
                continue;
            };
            family.dependents.remove(node);
            if family.dependents.is_empty() {
                self.families.remove(&owner.uid);
            }
        }
    }

    /// Owners are to be looked at that waited for an object and do not any more.
    fn unblock(&mut self, was: &[Reference], is: &[Reference]) {
        for owner in was.iter().filter(|owner| owner.blocks()) {
            let still = |now: &Reference| now.uid == owner.uid && now.blocks();
            if !is.iter().any(still)
                && let Some(node) = self.waiting.get(&owner.uid)
            {
                self.push(Entry::Node(node.clone()));
            }
        }
    }
}

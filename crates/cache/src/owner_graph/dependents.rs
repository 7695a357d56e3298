//! Owners and dependents of one space.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::ops::Bound;

use super::{Hold, Node};
use crate::owner_refs::{OwnerRefs, Reference};

/// Owners and dependents of one space.
#[derive(Debug, Default)]
pub struct Dependents {
    /// By the owner's UID, whether the owner exists or not.
    pub families: HashMap<Box<str>, Family>,
    /// The objects that wait for their dependents, by UID.
    waiting: HashMap<Box<str>, Node>,
    /// Objects that are examined again when the space serves other resources.
    pub parked: HashSet<Node>,
    queue: VecDeque<Entry>,
    queued: HashSet<Entry>,
    /// Whether the space is in the queue.
    announced: bool,
    /// Whether a collector examines objects of the space.
    pub busy: bool,
}

/// The dependents of one owner.
#[derive(Debug, Default)]
pub struct Family {
    dependents: BTreeMap<Node, Relation>,
    /// Their number by namespace, so that a deletion does not count all of them.
    counts: HashMap<Option<Box<str>>, Count>,
    /// The owner, if it was deleted.
    pub deleted_owner: Option<Node>,
}

/// The relation of a dependent to its owner.
#[derive(Clone, Copy, Debug, Default)]
struct Relation {
    /// Whether it blocks the foreground deletion of the owner.
    blocks: bool,
    /// Whether it waits for dependents of its own.
    waits: bool,
}

/// The number of dependents that block an owner.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    blocking: usize,
    /// The number of those that wait themselves.
    waiting: usize,
}

/// An entry of the queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Entry {
    /// An object.
    Node(Node),
    /// The dependents of this owner, from there on.
    Dependents(Box<str>, Option<Node>),
}

impl Dependents {
    /// Applies a change to an object, and queues what it may make collectable.
    pub fn change(&mut self, node: &Node, before: Option<&OwnerRefs>, now: Option<&OwnerRefs>) {
        let owners =
            |refs: Option<&OwnerRefs>| refs.map_or_else(Box::default, |of| of.owners.clone());
        let waits = |refs: Option<&OwnerRefs>| {
            refs.is_some_and(|refs| refs.awaits_dependents() || refs.orphans_dependents())
        };
        let (was, is) = (owners(before), owners(now));
        if was != is || waits(before) != waits(now) {
            self.unlink(node, &was);
            self.link(node, &is, waits(now));
        }
        if was != is {
            self.unblock(&was, &is);
            if !is.is_empty() {
                self.push(Entry::Node(node.clone()));
            }
        }
        if now.is_none() {
            self.parked.remove(node);
        }
        let awaits = |refs: Option<&OwnerRefs>| refs.is_some_and(OwnerRefs::awaits_dependents);
        let orphans = |refs: Option<&OwnerRefs>| refs.is_some_and(OwnerRefs::orphans_dependents);
        if let Some(refs) = before
            && !waits(now)
        {
            self.waiting.remove(&refs.uid);
        }
        let Some(refs) = now else { return };
        if awaits(now) && !awaits(before) || orphans(now) && !orphans(before) {
            self.waiting.insert(refs.uid.clone(), node.clone());
            self.push(Entry::Node(node.clone()));
            if awaits(now) {
                self.queue_dependents(&refs.uid);
            }
        }
    }

    /// Notes that an object was deleted, and queues its dependents.
    pub fn note_deleted(&mut self, uid: &str, node: impl FnOnce() -> Node) {
        if let Some(family) = self.families.get_mut(uid) {
            family.deleted_owner = Some(node());
            self.queue_dependents(uid);
        }
    }

    /// Queues the dependents of an owner.
    pub fn queue_dependents(&mut self, uid: &str) {
        if self.families.contains_key(uid) {
            self.push(Entry::Dependents(uid.into(), None));
        }
    }

    /// Queues every dependent and every waiting object.
    pub fn queue_all(&mut self) {
        let families = self.families.keys().cloned();
        let waiting = self.waiting.values().cloned().map(Entry::Node);
        let all = families.map(|uid| Entry::Dependents(uid, None));
        let all: Vec<Entry> = all.chain(waiting).collect();
        all.into_iter().for_each(|entry| self.push(entry));
    }

    /// Queues the parked objects.
    pub fn unpark(&mut self) {
        for node in std::mem::take(&mut self.parked) {
            self.push(Entry::Node(node));
        }
    }

    /// Queues an entry.
    pub fn push(&mut self, entry: Entry) {
        if self.queued.insert(entry.clone()) {
            self.queue.push_back(entry);
        }
    }

    /// Takes the next objects to examine, at max `max`.
    pub fn take(&mut self, max: usize) -> Vec<Node> {
        self.announced = false;
        self.busy = true;
        let mut nodes = Vec::new();
        while nodes.len() < max
            && let Some(entry) = self.queue.pop_front()
        {
            self.queued.remove(&entry);
            match entry {
                Entry::Node(node) => nodes.push(node),
                Entry::Dependents(uid, after) => {
                    let wanted = max - nodes.len();
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

    /// Whether the space has to be queued; `true` once until it was taken.
    pub fn becomes_ready(&mut self) -> bool {
        let begins = !self.busy && !self.announced && !self.queue.is_empty();
        self.announced |= begins;
        begins
    }

    /// Drops the queue, because no collector runs.
    pub fn clear_queue(&mut self) {
        self.queue = VecDeque::new();
        self.queued = HashSet::new();
        self.announced = false;
    }

    /// Returns the dependents of an owner that follow `after`, at max `max`.
    pub fn dependents(&self, owner: &str, after: Option<&Node>, max: usize) -> Vec<Node> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let family = self.families.get(owner).into_iter();
        let found = family.flat_map(|family| family.dependents.range((from, Bound::Unbounded)));
        found.take(max).map(|(node, _)| node.clone()).collect()
    }

    /// Returns which dependents block the owner, without those in `gone`.
    pub fn hold(&self, owner: &str, namespace: Option<&str>, gone: &HashSet<Node>) -> Hold {
        let Some(family) = self.families.get(owner) else {
            return Hold::None;
        };
        let here = |of: Option<&str>| namespace.is_none() || of == namespace;
        let mut left = Count::default();
        for (_, count) in family.counts.iter().filter(|(of, _)| here(of.as_deref())) {
            left.blocking += count.blocking;
            left.waiting += count.waiting;
        }
        for node in gone.iter().filter(|node| here(node.namespace())) {
            if let Some(relation) = family.dependents.get(node) {
                left.subtract(*relation);
            }
        }
        match (left.blocking, left.waiting) {
            (0, _) => Hold::None,
            (_, 0) => Hold::Plain,
            _ => Hold::Waiting,
        }
    }

    /// Whether the space has neither owners nor dependents.
    pub fn is_empty(&self) -> bool {
        self.families.is_empty()
            && self.waiting.is_empty()
            && self.parked.is_empty()
            && self.queue.is_empty()
            && !self.busy
    }

    fn link(&mut self, node: &Node, owners: &[Reference], waits: bool) {
        for owner in owners {
            let family = self.families.entry(owner.uid.clone()).or_default();
            let before = family.dependents.get(node).copied();
            let blocks = owner.blocks() || before.is_some_and(|before| before.blocks);
            family.put(node, before, Some(Relation { blocks, waits }));
        }
    }

    fn unlink(&mut self, node: &Node, owners: &[Reference]) {
        for owner in owners {
            let Some(family) = self.families.get_mut(&owner.uid) else {
                continue;
            };
            let before = family.dependents.get(node).copied();
            family.put(node, before, None);
            if family.dependents.is_empty() {
                self.families.remove(&owner.uid);
            }
        }
    }

    /// Queues the owners that no longer wait for an object.
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

impl Family {
    /// Changes the relation of a dependent to its owner; `None` removes it.
    fn put(&mut self, node: &Node, before: Option<Relation>, now: Option<Relation>) {
        match now {
            Some(relation) => self.dependents.insert(node.clone(), relation),
            None => self.dependents.remove(node),
        };
        if before.or(now).is_none() {
            return;
        }
        let namespace = node.namespace().map(Box::from);
        let count = self.counts.entry(namespace).or_default();
        if let Some(before) = before {
            count.subtract(before);
        }
        if let Some(now) = now {
            count.add(now);
        }
    }
}

impl Count {
    fn add(&mut self, relation: Relation) {
        self.blocking += usize::from(relation.blocks);
        self.waiting += usize::from(relation.blocks && relation.waits);
    }

    fn subtract(&mut self, relation: Relation) {
        self.blocking = self.blocking.saturating_sub(usize::from(relation.blocks));
        let waiting = usize::from(relation.blocks && relation.waits);
        self.waiting = self.waiting.saturating_sub(waiting);
    }
}

//! Who depends on whom in one space.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::ops::Bound;

use super::{Hold, Node};
use crate::owner_refs::{OwnerRefs, Reference};

/// Who depends on whom in one space.
#[derive(Debug, Default)]
pub struct Dependents {
    /// By the UID of the owner, whether there is such an object or not.
    pub families: HashMap<Box<str>, Family>,
    /// The objects that wait for their dependents, by their UIDs.
    waiting: HashMap<Box<str>, Node>,
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
    dependents: BTreeMap<Node, Tie>,
    /// How many of them there are, by their namespaces, so that nobody counts ten thousand
    /// whenever one of them goes.
    counts: HashMap<Option<Box<str>>, Count>,
    /// The owner, if it was seen to go.
    pub departed: Option<Node>,
}

/// How a dependent is tied to its owner.
#[derive(Clone, Copy, Debug, Default)]
struct Tie {
    /// An owner that waits for its dependents waits for this one.
    blocks: bool,
    /// It waits for dependents of its own.
    waits: bool,
}

/// How many dependents keep an owner waiting.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    blocking: usize,
    /// How many of them wait themselves.
    waiting: usize,
}

/// Something to be looked at.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Entry {
    /// An object.
    Node(Node),
    /// Those that name this owner, from there on.
    Dependents(Box<str>, Option<Node>),
}

impl Dependents {
    /// An object changed: so do the families that it belongs to, and it is to be looked at if
    /// that may lead to anything.
    pub fn change(&mut self, node: &Node, before: Option<&OwnerRefs>, now: Option<&OwnerRefs>) {
        let owners =
            |ties: Option<&OwnerRefs>| ties.map_or_else(Box::default, |of| of.owners.clone());
        let waits = |ties: Option<&OwnerRefs>| {
            ties.is_some_and(|ties| ties.awaits_dependents() || ties.lets_dependents_go())
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
        let awaits = |ties: Option<&OwnerRefs>| ties.is_some_and(OwnerRefs::awaits_dependents);
        let lets_go = |ties: Option<&OwnerRefs>| ties.is_some_and(OwnerRefs::lets_dependents_go);
        if let Some(ties) = before
            && !waits(now)
        {
            self.waiting.remove(&ties.uid);
        }
        let Some(ties) = now else { return };
        if awaits(now) && !awaits(before) || lets_go(now) && !lets_go(before) {
            self.waiting.insert(ties.uid.clone(), node.clone());
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

    /// Which of the owner's dependents keep it waiting, if any do that are not gone.
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
            if let Some(tie) = family.dependents.get(node) {
                left.subtract(*tie);
            }
        }
        match (left.blocking, left.waiting) {
            (0, _) => Hold::None,
            (_, 0) => Hold::Plain,
            _ => Hold::Waiting,
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

    fn link(&mut self, node: &Node, owners: &[Reference], waits: bool) {
        for owner in owners {
            let family = self.families.entry(owner.uid.clone()).or_default();
            let before = family.dependents.get(node).copied();
            let blocks = owner.blocks() || before.is_some_and(|before| before.blocks);
            family.put(node, before, Some(Tie { blocks, waits }));
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

impl Family {
    /// The tie of a dependent is this from now on, or there is none.
    fn put(&mut self, node: &Node, before: Option<Tie>, now: Option<Tie>) {
        match now {
            Some(tie) => self.dependents.insert(node.clone(), tie),
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
    fn add(&mut self, tie: Tie) {
        self.blocking += usize::from(tie.blocks);
        self.waiting += usize::from(tie.blocks && tie.waits);
    }

    fn subtract(&mut self, tie: Tie) {
        self.blocking = self.blocking.saturating_sub(usize::from(tie.blocks));
        let waiting = usize::from(tie.blocks && tie.waits);
        self.waiting = self.waiting.saturating_sub(waiting);
    }
}

//! Which watches a change concerns: an index of the subscriptions of one collection.
//!
//! A subscription has an [`Interest`]. A change marks the subscriptions with an interest that
//! matches the object before or after the change, and no other. A mark may be superfluous, because
//! a watch selects again what it reads; a change that a watch selects is always marked.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use insula_core::{Revision, Space};

use super::Event;
use crate::entry::Stored;

/// The objects that a watch may select.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Every object.
    All,
    /// The objects of one namespace.
    Namespace(Box<str>),
    /// The objects of this name in all namespaces.
    Name(Box<str>),
    /// The object at one key: `namespace/name`, or `name` where there are no namespaces.
    Key(Box<str>),
    /// The objects with this label, in one namespace or in all.
    Label {
        /// The namespace, unless it is all.
        namespace: Option<Box<str>>,
        /// The key of the label.
        key: Box<str>,
        /// The value of the label.
        value: Box<str>,
    },
}

/// The part of a subscription that the collection marks.
#[derive(Debug)]
pub(crate) struct Subscriber {
    interest: Interest,
    /// The space that the watch is charged to.
    payer: Space,
    /// The number of the first event that concerns the watch and is unread; [`NONE`] if all are
    /// read. It is lowered under the write lock of the collection, and raised under its read lock
    /// by the watch alone.
    first_unread: AtomicU64,
    /// The revision of that event.
    unread_revision: AtomicU64,
    /// Whether the watch is on its way to be woken.
    is_queued: AtomicBool,
    /// The index in its list, changed under the write lock of the collection.
    slot: AtomicUsize,
    waker: Mutex<Option<Waker>>,
}

/// The subscriptions of a collection.
#[derive(Debug, Default)]
pub(crate) struct Subscribers {
    all: List,
    by_namespace: HashMap<Box<str>, List>,
    by_name: HashMap<Box<str>, List>,
    by_key: HashMap<Box<str>, List>,
    /// By namespace and label, see [`label_term`].
    by_label: HashMap<Box<str>, List>,
    /// Subscriptions that were marked, and have to be woken.
    marked: Vec<Arc<Subscriber>>,
}

type List = Vec<Arc<Subscriber>>;

/// The number of no event.
pub(crate) const NONE: u64 = u64::MAX;

/// The capacity from which on a list is shrunk.
const MIN_SHRUNK: usize = 64;

impl Interest {
    /// Whether the event may concern a watch with this interest.
    pub(crate) fn includes(&self, event: &Event) -> bool {
        let object = &event.object;
        match self {
            Self::All => true,
            Self::Namespace(namespace) => object.namespace() == Some(namespace),
            Self::Name(name) => *object.name() == **name,
            Self::Key(key) => *object.key == **key,
            Self::Label {
                namespace,
                key,
                value,
            } => {
                let has_label = |object: &Stored| object.label(key) == Some(value);
                let is_here = namespace.is_none() || object.namespace() == namespace.as_deref();
                is_here && (has_label(object) || event.before.as_deref().is_some_and(has_label))
            }
        }
    }
}

impl Subscriber {
    pub fn new(interest: Interest, payer: Space) -> Arc<Self> {
        Arc::new(Self {
            interest,
            payer,
            first_unread: AtomicU64::new(NONE),
            unread_revision: AtomicU64::new(0),
            is_queued: AtomicBool::new(false),
            slot: AtomicUsize::new(0),
            waker: Mutex::new(None),
        })
    }

    pub const fn interest(&self) -> &Interest {
        &self.interest
    }

    pub const fn payer(&self) -> &Space {
        &self.payer
    }

    /// The number of the first unread event, or [`NONE`].
    pub fn first_unread(&self) -> u64 {
        self.first_unread.load(Ordering::Acquire)
    }

    /// The revision of the first unread event, if there is one.
    pub fn unread_revision(&self) -> Option<Revision> {
        let revision = Revision::new(self.unread_revision.load(Ordering::Acquire));
        (self.first_unread() != NONE).then_some(revision)
    }

    /// Replaces the number and revision of the first unread event.
    pub fn set_unread(&self, number: u64, revision: Revision) {
        self.unread_revision
            .store(revision.get(), Ordering::Release);
        self.first_unread.store(number, Ordering::Release);
    }

    /// Notes an unread event. Returns whether the watch has to be woken for it.
    fn mark(&self, number: u64, revision: Revision) -> bool {
        // Only the first unread event matters, and numbers grow.
        if self.first_unread() != NONE {
            return false;
        }
        self.set_unread(number, revision);
        !self.is_queued.swap(true, Ordering::AcqRel)
    }

    /// Wakes the watch, unless it has read on meanwhile.
    pub fn wake(&self) {
        self.is_queued.store(false, Ordering::Release);
        if self.first_unread() == NONE {
            return;
        }
        let waker = self.waker().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Is ready when there is an unread event.
    pub fn poll_unread(&self, waker: &Waker) -> Poll<()> {
        if self.first_unread() != NONE {
            return Poll::Ready(());
        }
        let mut held = self.waker();
        match &mut *held {
            Some(held) => held.clone_from(waker),
            None => *held = Some(waker.clone()),
        }
        drop(held);
        // An event that was recorded before the waker was there has woken nothing.
        match self.first_unread() {
            NONE => Poll::Pending,
            _ => Poll::Ready(()),
        }
    }

    fn waker(&self) -> MutexGuard<'_, Option<Waker>> {
        self.waker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Subscribers {
    /// Adds a subscription.
    pub fn insert(&mut self, subscriber: &Arc<Subscriber>) {
        let list = match &subscriber.interest {
            Interest::All => &mut self.all,
            Interest::Namespace(namespace) => {
                self.by_namespace.entry(namespace.clone()).or_default()
            }
            Interest::Name(name) => self.by_name.entry(name.clone()).or_default(),
            Interest::Key(key) => self.by_key.entry(key.clone()).or_default(),
            Interest::Label {
                namespace,
                key,
                value,
            } => {
                let term = label_term(namespace.as_deref(), key, value);
                self.by_label.entry(term.into()).or_default()
            }
        };
        subscriber.slot.store(list.len(), Ordering::Relaxed);
        list.push(Arc::clone(subscriber));
    }

    /// Removes a subscription. Returns whether none is left.
    pub fn remove(&mut self, subscriber: &Arc<Subscriber>) -> bool {
        match &subscriber.interest {
            Interest::All => remove(&mut self.all, subscriber),
            Interest::Namespace(namespace) => {
                remove_from(&mut self.by_namespace, namespace, subscriber);
            }
            Interest::Name(name) => remove_from(&mut self.by_name, name, subscriber),
            Interest::Key(key) => remove_from(&mut self.by_key, key, subscriber),
            Interest::Label {
                namespace,
                key,
                value,
            } => {
                let term = label_term(namespace.as_deref(), key, value);
                remove_from(&mut self.by_label, &term, subscriber);
            }
        }
        self.all.is_empty()
            && self.by_namespace.is_empty()
            && self.by_name.is_empty()
            && self.by_key.is_empty()
            && self.by_label.is_empty()
    }

    /// Marks the subscriptions that an event concerns.
    pub fn mark(&mut self, event: &Event, number: u64) {
        let (object, revision) = (&event.object, event.revision);
        let marked = &mut self.marked;
        let mut mark = |list: Option<&List>| {
            let list = list.into_iter().flatten();
            let to_wake = list.filter(|subscriber| subscriber.mark(number, revision));
            marked.extend(to_wake.cloned());
        };
        mark(Some(&self.all));
        if !self.by_key.is_empty() {
            mark(self.by_key.get(&*object.key));
        }
        if !self.by_name.is_empty() {
            mark(self.by_name.get(object.name()));
        }
        let namespace = object.namespace();
        if let Some(namespace) = namespace.filter(|_| !self.by_namespace.is_empty()) {
            mark(self.by_namespace.get(namespace));
        }
        if self.by_label.is_empty() {
            return;
        }
        // An object that leaves a selection concerns the watch as much as one that enters it.
        let before = event.before.iter().flat_map(|before| before.labels());
        for (key, value) in object.labels().iter().chain(before) {
            mark(self.by_label.get(&*label_term(None, key, value)));
            if namespace.is_some() {
                mark(self.by_label.get(&*label_term(namespace, key, value)));
            }
        }
    }

    /// Marks every subscription, because the log ends at this number.
    pub fn mark_all(&mut self, number: u64, revision: Revision) {
        let maps = [
            &self.by_namespace,
            &self.by_name,
            &self.by_key,
            &self.by_label,
        ];
        let lists = maps.into_iter().flat_map(HashMap::values);
        for subscriber in lists.chain([&self.all]).flatten() {
            if subscriber.mark(number, revision) {
                self.marked.push(Arc::clone(subscriber));
            }
        }
    }

    /// Takes the subscriptions that have to be woken.
    pub fn take_marked(&mut self) -> Vec<Arc<Subscriber>> {
        std::mem::take(&mut self.marked)
    }
}

/// The key of a label in the index. Neither namespaces nor labels contain a line break.
fn label_term(namespace: Option<&str>, key: &str, value: &str) -> String {
    let namespace = namespace.unwrap_or("");
    let mut term = String::with_capacity(namespace.len() + key.len() + value.len() + 2);
    for (part, end) in [(namespace, "\n"), (key, "\n"), (value, "")] {
        term.push_str(part);
        term.push_str(end);
    }
    term
}

fn remove_from(lists: &mut HashMap<Box<str>, List>, key: &str, subscriber: &Arc<Subscriber>) {
    let Some(list) = lists.get_mut(key) else {
        return;
    };
    remove(list, subscriber);
    if list.is_empty() {
        lists.remove(key);
        crate::shrink(lists);
    }
}

fn remove(list: &mut List, subscriber: &Arc<Subscriber>) {
    let slot = subscriber.slot.load(Ordering::Relaxed);
    let is_there = |found: &Arc<Subscriber>| Arc::ptr_eq(found, subscriber);
    if !list.get(slot).is_some_and(is_there) {
        return;
    }
    list.swap_remove(slot);
    if let Some(moved) = list.get(slot) {
        moved.slot.store(slot, Ordering::Relaxed);
    }
    if list.capacity() > MIN_SHRUNK && list.len() < list.capacity() / 4 {
        list.shrink_to(list.len() * 2);
    }
}

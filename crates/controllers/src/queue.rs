//! The items that the controllers process, and the tasks they stand for.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use insula_apiserver::registry::Address;
use insula_cache::Place;
use insula_core::{Revision, Space};
use insula_kinds::core_kind;
use insula_kinds::{KindId, kinds};
use tokio::time::Instant;

use crate::Action;

/// One task for one object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Item {
    /// The task.
    pub task: Task,
    /// The space that it runs in.
    pub space: Space,
    /// `namespace/name` or `name` of the object; empty for tasks about the whole space.
    pub key: Arc<str>,
}

/// The kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Task {
    /// Empty and remove a namespace that is being deleted.
    Namespace,
    /// Empty and remove a tenant that is being deleted.
    Tenant,
    /// Sign an approved certificate signing request.
    Certificate,
    /// Remove the finalizer of a claim that no pod uses.
    Claim,
    /// Remove the finalizer of a volume that is not bound to a claim.
    Volume,
    /// Remove the finalizer of a VolumeAttributesClass that no claim or volume names.
    AttributesClass,
    /// Fill a token Secret of a service account, or delete it.
    TokenSecret,
    /// Check the token Secrets of a service account that was deleted.
    Account,
    /// Update the rules of a space's aggregated ClusterRoles.
    Roles,
    /// Accept the names of a CustomResourceDefinition, and remove its objects with it.
    Definition,
    /// Restore the default service account of a namespace.
    DefaultAccount,
    /// Restore the ConfigMap with the CA of the server's certificate in a namespace.
    RootCa,
    /// Recount the quotas of a namespace; the key is the namespace.
    Quotas,
    /// Update a limited tenant's usage; the key is empty.
    Usage,
}

impl Task {
    /// Tasks that are triggered by events of objects of their kind.
    pub const ALL: [Self; 12] = [
        Self::Namespace,
        Self::Tenant,
        Self::Certificate,
        Self::Claim,
        Self::Volume,
        Self::AttributesClass,
        Self::TokenSecret,
        Self::Account,
        Self::Roles,
        Self::Definition,
        Self::DefaultAccount,
        Self::RootCa,
    ];

    /// The kind of the objects that the task is about.
    pub fn kind(self) -> KindId {
        match self {
            Self::Namespace => core_kind("namespaces"),
            Self::Tenant => core_kind("tenants"),
            Self::Certificate => built_in("certificates.k8s.io", "certificatesigningrequests"),
            Self::Claim => core_kind("persistentvolumeclaims"),
            Self::Volume => core_kind("persistentvolumes"),
            Self::AttributesClass => built_in("storage.k8s.io", "volumeattributesclasses"),
            Self::TokenSecret => core_kind("secrets"),
            Self::Account | Self::DefaultAccount => core_kind("serviceaccounts"),
            Self::RootCa => core_kind("configmaps"),
            Self::Roles => built_in("rbac.authorization.k8s.io", "clusterroles"),
            Self::Definition => built_in("apiextensions.k8s.io", "customresourcedefinitions"),
            Self::Quotas => core_kind("resourcequotas"),
            Self::Usage => core_kind("tenants"),
        }
    }
}

fn built_in(group: &str, resource: &str) -> KindId {
    let found = kinds().stored(group, resource);
    found.expect("it is in the table")
}

impl Item {
    /// The item that recounts the quotas of a place.
    pub fn for_quota_place((space, namespace): Place) -> Self {
        Self {
            task: match namespace {
                Some(_) => Task::Quotas,
                None => Task::Usage,
            },
            space,
            key: namespace.map_or_else(|| "".into(), Into::into),
        }
    }

    /// The place that a quota item recounts.
    pub fn quota_place(&self) -> Place {
        let namespace = (self.task == Task::Quotas).then(|| (*self.key).into());
        (self.space.clone(), namespace)
    }

    /// The address of the object.
    pub fn address(&self) -> Address {
        let (namespace, name) = match self.key.split_once('/') {
            Some((namespace, name)) => (Some(namespace), name),
            None => (None, &*self.key),
        };
        Address {
            kind: self.task.kind().into(),
            space: self.space.clone(),
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
        }
    }
}

/// Items, each at most once, in the order in which they came.
#[derive(Debug, Default)]
pub struct Queue {
    states: HashMap<Item, State>,
    ready: VecDeque<Item>,
    waiting: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ready,
    Running,
    /// It changed while it was worked on.
    RunningStale,
    Waiting(Until),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Until {
    /// Something in its space changes after this revision.
    Changed(Revision),
    Time(Instant),
    /// The same, and its own events do not wake it.
    CooledDown(Instant),
}

impl Queue {
    /// Something is to be done about the item, as of now.
    pub fn add(&mut self, item: Item) {
        match self.states.get_mut(&item) {
            None => self.push(item),
            Some(State::Ready | State::RunningStale | State::Waiting(Until::CooledDown(_))) => {}
            Some(state @ State::Running) => *state = State::RunningStale,
            Some(State::Waiting(_)) => {
                self.waiting -= 1;
                self.push(item);
            }
        }
    }

    /// The next to be worked on.
    pub fn take(&mut self) -> Option<Item> {
        let item = self.ready.pop_front()?;
        self.states.insert(item.clone(), State::Running);
        Some(item)
    }

    /// An item that was taken was worked on.
    pub fn done(&mut self, item: Item, next: Action) {
        let stale = self.states.get(&item) == Some(&State::RunningStale);
        match next {
            Action::Retry(at) => self.wait(item, Until::Time(at)),
            Action::CoolDown(at) => self.wait(item, Until::CooledDown(at)),
            _ if stale => self.push(item),
            Action::AwaitChange(seen) => self.wait(item, Until::Changed(seen)),
            Action::Done => {
                self.states.remove(&item);
            }
        }
    }

    /// Whether anything waits.
    pub const fn has_waiting(&self) -> bool {
        self.waiting > 0
    }

    /// What waited long enough is ready again.
    pub fn wake(&mut self, now: Instant, has_changed: impl Fn(&Item, Revision) -> bool) {
        let due = |(item, state): (&Item, &State)| match state {
            State::Waiting(Until::Time(at) | Until::CooledDown(at)) => *at <= now,
            State::Waiting(Until::Changed(seen)) => has_changed(item, *seen),
            _ => false,
        };
        let due: Vec<Item> = self
            .states
            .iter()
            .filter(|(item, state)| due((item, state)))
            .map(|(item, _)| item.clone())
            .collect();
        for item in due {
            self.waiting -= 1;
            self.push(item);
        }
    }

    fn push(&mut self, item: Item) {
        self.states.insert(item.clone(), State::Ready);
        self.ready.push_back(item);
    }

    fn wait(&mut self, item: Item, until: Until) {
        self.waiting += 1;
        self.states.insert(item, State::Waiting(until));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(name: &str) -> Item {
        Item {
            task: Task::Namespace,
            space: Space::System,
            key: name.into(),
        }
    }

    #[test]
    fn item_added_while_processed_is_processed_again() {
        let mut queue = Queue::default();
        queue.add(item("a"));
        queue.add(item("a"));
        let taken = queue.take().unwrap();
        assert_eq!(queue.take(), None);
        queue.add(item("a"));
        assert_eq!(queue.take(), None, "one worker per item");
        queue.done(taken, Action::Done);
        let taken = queue.take().unwrap();
        queue.done(taken, Action::Done);
        assert_eq!(queue.take(), None);
        assert!(queue.states.is_empty());
    }

    #[test]
    fn waiting_item_is_woken_by_its_event_its_space_or_time() {
        let mut queue = Queue::default();
        let now = Instant::now();
        for (name, next) in [
            ("event", Action::AwaitChange(Revision::new(1))),
            ("space", Action::AwaitChange(Revision::new(2))),
            ("time", Action::Retry(now)),
        ] {
            queue.add(item(name));
            let taken = queue.take().unwrap();
            queue.done(taken, next);
        }
        assert!(queue.has_waiting());
        queue.add(item("event"));
        assert_eq!(queue.take(), Some(item("event")));
        queue.wake(now, |_, _| false);
        assert_eq!(queue.take(), Some(item("time")));
        queue.wake(now, |_, seen| seen == Revision::new(2));
        assert_eq!(queue.take(), Some(item("space")));
        assert!(!queue.has_waiting());
    }

    #[test]
    fn cooling_item_ignores_events_until_its_time() {
        let mut queue = Queue::default();
        let now = Instant::now();
        let later = now + std::time::Duration::from_secs(1);
        queue.add(item("a"));
        let taken = queue.take().unwrap();
        queue.add(item("a"));
        queue.done(taken, Action::CoolDown(later));
        queue.add(item("a"));
        queue.wake(now, |_, _| true);
        assert_eq!(queue.take(), None);
        assert!(queue.has_waiting());
        queue.wake(later, |_, _| false);
        let taken = queue.take().unwrap();
        queue.done(taken, Action::Done);
        assert!(!queue.has_waiting());
        assert!(queue.states.is_empty());
    }
}

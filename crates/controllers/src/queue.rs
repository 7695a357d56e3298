//! The items that the controllers process, and the tasks they stand for.

use std::collections::HashMap;
use std::sync::Arc;

use insula_apiserver::registry::Address;
use insula_cache::Place;
use insula_core::{Revision, Space};
use insula_kinds::core_kind;
use insula_kinds::{KindId, kinds};
use insula_workqueue::{Priority, WorkQueue};
use tokio::time::Instant;

use crate::Action;

/// One task for one object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Item {
    /// The task.
    pub task: Task,
    /// The space that it runs in.
    pub space: Space,
    /// `namespace/name` or `name` of the object; empty for tasks about the whole space.
    pub key: Arc<str>,
}

/// The kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
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
    let found = kinds().find_storage(group, resource);
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

/// The items to process, each at most once and by one worker at a time.
#[derive(Debug, Default)]
pub struct Queue {
    items: WorkQueue<Item, Instant>,
    /// Items that wait for a change in their space after this revision.
    awaiting: HashMap<Item, Revision>,
}

impl Queue {
    /// Makes the item due now, or when it has cooled down.
    pub fn add(&mut self, item: Item, now: Instant) {
        self.awaiting.remove(&item);
        self.items.add(item, Priority::Normal, now);
    }

    /// Takes the next item that is due.
    pub fn take(&mut self, now: Instant) -> Option<Item> {
        self.items.take(now)
    }

    /// Ends the processing of an item.
    pub fn done(&mut self, item: Item, action: Action, now: Instant) {
        let added = self.items.done(&item).is_some();
        match action {
            Action::Retry(at) => self.items.add_at(item, at),
            Action::CoolDown(until) => {
                self.items.hold(&item, until);
                self.items.add_at(item, until);
            }
            Action::AwaitChange(_) | Action::Done if added => self.add(item, now),
            Action::AwaitChange(seen) => {
                self.items.remove(&item);
                self.awaiting.insert(item, seen);
            }
            Action::Done => self.items.remove(&item),
        }
    }

    /// When the next item is due.
    pub fn next_due(&self) -> Option<Instant> {
        self.items.next_due()
    }

    /// Whether any item waits for a change in its space.
    pub fn awaits_changes(&self) -> bool {
        !self.awaiting.is_empty()
    }

    /// Makes the items due that waited for a change in their space.
    pub fn wake_changed(&mut self, now: Instant, has_changed: impl Fn(&Item, Revision) -> bool) {
        let changed = |(item, seen): &(&Item, &Revision)| has_changed(item, **seen);
        let changed: Vec<Item> = self
            .awaiting
            .iter()
            .filter(changed)
            .map(|(item, _)| item.clone())
            .collect();
        for item in changed {
            self.add(item, now);
        }
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
        let now = Instant::now();
        queue.add(item("a"), now);
        queue.add(item("a"), now);
        let taken = queue.take(now).unwrap();
        assert_eq!(queue.take(now), None);
        queue.add(item("a"), now);
        assert_eq!(queue.take(now), None, "one worker per item");
        queue.done(taken, Action::Done, now);
        let taken = queue.take(now).unwrap();
        queue.done(taken, Action::Done, now);
        assert_eq!(queue.take(now), None);
        assert!(queue.items.is_empty());
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
            queue.add(item(name), now);
            let taken = queue.take(now).unwrap();
            queue.done(taken, next, now);
        }
        assert!(queue.awaits_changes());
        queue.add(item("event"), now);
        assert_eq!(queue.take(now), Some(item("event")));
        queue.wake_changed(now, |_, _| false);
        assert_eq!(queue.take(now), Some(item("time")));
        queue.wake_changed(now, |_, seen| seen == Revision::new(2));
        assert_eq!(queue.take(now), Some(item("space")));
        assert!(!queue.awaits_changes());
    }

    #[test]
    fn cooling_item_ignores_events_until_its_time() {
        let mut queue = Queue::default();
        let now = Instant::now();
        let later = now + std::time::Duration::from_secs(1);
        queue.add(item("a"), now);
        let taken = queue.take(now).unwrap();
        queue.add(item("a"), now);
        queue.done(taken, Action::CoolDown(later), now);
        queue.add(item("a"), now);
        queue.wake_changed(now, |_, _| true);
        assert_eq!(queue.take(now), None);
        assert_eq!(queue.next_due(), Some(later));
        let taken = queue.take(later).unwrap();
        queue.done(taken, Action::Done, later);
        assert_eq!(queue.next_due(), None);
        assert!(queue.items.is_empty());
    }
}

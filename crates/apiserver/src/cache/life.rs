//! What is known of a space beside its objects.

use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use insula_core::Revision;
use tokio::sync::Notify;

use super::entry::Stored;
use crate::policy::Compiled;

/// One space, from its tenant's creation to its deletion. The next tenant of the same name
/// has another life: what was derived from this one, decisions included, ends with it.
#[derive(Debug)]
pub struct Life {
    /// The UID of the tenant's object.
    pub uid: Box<str>,
    /// When the tenant's object was created, in seconds since 1970.
    pub created: i64,
    /// At which revision: what was there before is not this tenant's.
    pub birth: Revision,
    /// The revision of the last change to something that decides who may do what here.
    access: AtomicU64,
    over: AtomicBool,
    changed: Notify,
    /// Roles and bindings made ready to decide with, while somebody asks.
    pub(crate) policy: RwLock<Option<Compiled>>,
}

impl Life {
    /// The life of a tenant whose object is `tenant`, made at `birth`.
    pub(super) fn of(tenant: &Stored, birth: Revision) -> Self {
        let created = tenant.created().unwrap_or(i64::MAX);
        Self {
            uid: tenant.uid().unwrap_or("").into(),
            created,
            birth,
            access: AtomicU64::new(birth.get()),
            over: AtomicBool::new(false),
            changed: Notify::new(),
            policy: RwLock::new(None),
        }
    }

    /// Which state of the rights of this space is the current one: grows with every change.
    pub fn access(&self) -> Revision {
        Revision::new(self.access.load(Ordering::Acquire))
    }

    /// Whether the tenant is gone.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Is notified when [`access`](Self::access) grows, and when it is over.
    pub const fn changed(&self) -> &Notify {
        &self.changed
    }

    /// Something changed that decides who may do what.
    pub(super) fn touch(&self, revision: Revision) {
        self.access.fetch_max(revision.get(), Ordering::AcqRel);
        self.changed.notify_waiters();
    }

    pub(super) fn end(&self) {
        self.over.store(true, Ordering::Release);
        self.changed.notify_waiters();
    }
}

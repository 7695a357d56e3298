//! What is known of a space beside its objects.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use insula_core::Revision;
use memchr::memmem;
use tokio::sync::Notify;

use crate::derived::{Derived, Slot};
use crate::entry::Stored;
use crate::usage::Usage;

/// One space, from its tenant's creation to its deletion. The next tenant of the same name
/// has another life: what was derived from this one, decisions included, ends with it.
#[derive(Debug)]
pub struct SpaceState {
    /// The UID of the tenant's object.
    pub uid: Box<str>,
    /// When the tenant's object was created, in seconds since 1970.
    pub created: i64,
    /// At which revision: what was there before is not this tenant's.
    pub birth: Revision,
    access: Slot,
    apis: Slot,
    admission: Slot,
    over: AtomicBool,
    /// Whether its tenant has a quota.
    limited: AtomicBool,
    usage: Mutex<Usage>,
    /// Whether it is among those whose memory is given back when nobody asks.
    pub(crate) noted: AtomicBool,
    changed: Notify,
}

impl SpaceState {
    /// The life of a tenant whose object is `tenant`, made at `birth`.
    pub(crate) fn of(tenant: &Stored, birth: Revision) -> Self {
        let created = tenant.created().unwrap_or(i64::MAX);
        Self {
            uid: tenant.uid().unwrap_or("").into(),
            created,
            birth,
            access: Slot::new(birth),
            apis: Slot::new(birth),
            admission: Slot::new(birth),
            over: AtomicBool::new(false),
            limited: AtomicBool::new(has_quota(tenant)),
            usage: Mutex::default(),
            noted: AtomicBool::new(false),
            changed: Notify::new(),
        }
    }

    /// The revision of the last change to an object that `which` is derived from.
    pub fn revision_of(&self, which: Derived) -> Revision {
        self.slot(which).changed()
    }

    /// Notes that a derived value is stale.
    pub(crate) fn invalidate(&self, which: Derived, revision: Revision) {
        self.slot(which).invalidate(revision);
        // Watches depend on rights and on resources, not on admission.
        if which != Derived::Admission {
            self.changed.notify_waiters();
        }
    }

    /// Drops the derived values that were not read since the last call. Returns whether any
    /// is kept.
    pub(crate) fn evict_idle(&self) -> bool {
        let slots = [&self.access, &self.apis, &self.admission];
        // Every slot is asked, so no short-circuiting `any`.
        slots.map(Slot::evict_if_idle).contains(&true)
    }

    pub(crate) const fn slot(&self, which: Derived) -> &Slot {
        match which {
            Derived::Access => &self.access,
            Derived::Apis => &self.apis,
            Derived::Admission => &self.admission,
        }
    }

    /// Whether the tenant is gone.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Is notified when [`Derived::Access`] or [`Derived::Apis`] becomes stale, and when the
    /// tenant is gone.
    pub const fn changed(&self) -> &Notify {
        &self.changed
    }

    /// Whether its tenant has a quota.
    pub fn is_limited(&self) -> bool {
        self.limited.load(Ordering::Acquire)
    }

    /// How much it has, by what the cache has.
    pub fn usage(&self) -> Usage {
        *self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tenant's object is this now.
    pub(crate) fn change(&self, tenant: &Stored) {
        self.limited.store(has_quota(tenant), Ordering::Release);
    }

    /// It has more or less than before.
    pub(crate) fn count(&self, change: impl FnOnce(Usage) -> Usage) {
        let mut usage = self.usage.lock().unwrap_or_else(PoisonError::into_inner);
        *usage = change(*usage);
    }

    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Release);
        self.changed.notify_waiters();
    }
}

/// Most tenants have no such text anywhere.
fn has_quota(tenant: &Stored) -> bool {
    memmem::find(&tenant.body(), br#""quota":{"#).is_some()
        && tenant
            .tree()
            .get("spec")
            .is_some_and(|spec| spec.get("quota").is_some())
}

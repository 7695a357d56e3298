//! The state of a space beside its objects.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use insula_core::Revision;
use memchr::memmem;
use tokio::sync::Notify;

use crate::derived::{Derived, Slot};
use crate::entry::Stored;
use crate::superseded::Superseded;
use crate::usage::Usage;

/// One space, from its tenant's creation to its deletion. The next tenant of the same name has a
/// state of its own: nothing derived from this one, decisions included, carries over.
#[derive(Debug)]
pub struct SpaceState {
    /// The UID of the tenant's object.
    pub uid: Box<str>,
    /// When the tenant's object was created, in seconds since 1970.
    pub created: i64,
    /// The revision of its creation: older objects under the name are not this tenant's.
    pub birth: Revision,
    access: Slot,
    apis: Slot,
    admission: Slot,
    revocations: Slot,
    over: AtomicBool,
    /// Whether its tenant's object sets a quota or limits.
    limited: AtomicBool,
    usage: Mutex<Usage>,
    superseded: Mutex<Superseded>,
    /// Whether the cache looks here for idle derived values.
    pub(crate) noted: AtomicBool,
    changed: Notify,
}

impl SpaceState {
    /// The state of the space of a tenant that was created at `birth`.
    pub(crate) fn of(tenant: &Stored, birth: Revision) -> Self {
        let created = tenant.created().unwrap_or(i64::MAX);
        Self {
            uid: tenant.uid().unwrap_or("").into(),
            created,
            birth,
            access: Slot::new(birth),
            apis: Slot::new(birth),
            admission: Slot::new(birth),
            revocations: Slot::new(birth),
            over: AtomicBool::new(false),
            limited: AtomicBool::new(sets_limits(tenant)),
            usage: Mutex::default(),
            superseded: Mutex::new(Superseded::new(Instant::now())),
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
        // Watches depend on rights, resources and credentials, not on admission.
        if which != Derived::Admission {
            self.changed.notify_waiters();
        }
    }

    /// Drops the derived values that were not read since the last call. Returns whether any
    /// is kept.
    pub(crate) fn evict_idle(&self) -> bool {
        let slots = [&self.access, &self.apis, &self.admission, &self.revocations];
        // Every slot is asked, so no short-circuiting `any`.
        slots.map(Slot::evict_if_idle).contains(&true)
    }

    pub(crate) const fn slot(&self, which: Derived) -> &Slot {
        match which {
            Derived::Access => &self.access,
            Derived::Apis => &self.apis,
            Derived::Admission => &self.admission,
            Derived::Revocations => &self.revocations,
        }
    }

    /// Whether the tenant is gone.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Notified when [`Derived::Access`], [`Derived::Apis`] or [`Derived::Revocations`] becomes
    /// stale, and when the tenant is gone.
    pub const fn changed(&self) -> &Notify {
        &self.changed
    }

    /// Whether its tenant's object sets a quota or limits.
    pub fn is_limited(&self) -> bool {
        self.limited.load(Ordering::Acquire)
    }

    /// Returns the usage that the cache has counted.
    pub fn usage(&self) -> Usage {
        *self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the bytes of versions that were replaced or deleted in the last minutes. The store
    /// still has them, as history.
    pub fn superseded_bytes(&self) -> u64 {
        let superseded = self.superseded.lock();
        let mut superseded = superseded.unwrap_or_else(PoisonError::into_inner);
        superseded.sum(Instant::now())
    }

    /// Notes that versions of so many bytes were replaced or deleted.
    pub(crate) fn note_superseded(&self, bytes: u64) {
        let superseded = self.superseded.lock();
        let mut superseded = superseded.unwrap_or_else(PoisonError::into_inner);
        superseded.add(bytes, Instant::now());
    }

    /// Notes a change to the tenant's object.
    pub(crate) fn note_tenant(&self, tenant: &Stored) {
        self.limited.store(sets_limits(tenant), Ordering::Release);
    }

    /// Changes the usage.
    pub(crate) fn update_usage(&self, change: impl FnOnce(Usage) -> Usage) {
        let mut usage = self.usage.lock().unwrap_or_else(PoisonError::into_inner);
        *usage = change(*usage);
    }

    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Release);
        self.changed.notify_waiters();
    }
}

/// Whether the tenant's object sets a quota or limits. Most do not contain these words, so they
/// are searched first.
fn sets_limits(tenant: &Stored) -> bool {
    let body = tenant.body();
    let contains = |field: &[u8]| memmem::find(&body, field).is_some();
    (contains(br#""quota":{"#) || contains(br#""limits":{"#))
        && tenant
            .tree()
            .get("spec")
            .is_some_and(|spec| spec.get("quota").is_some() || spec.get("limits").is_some())
}

//! What is known of a space beside its objects.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use insula_core::Revision;
use memchr::memmem;
use tokio::sync::Notify;

use super::entry::Stored;
use super::tally::Tally;
use crate::pipeline::policy::Compiled;
use crate::registry::apis::Apis;
use crate::write::webhooks::Configured;

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
    /// The revision of the last change to the kinds that users define and it serves.
    serving: AtomicU64,
    /// The revision of the last change to who admits requests.
    admitting: AtomicU64,
    over: AtomicBool,
    /// Whether its tenant has a quota.
    limited: AtomicBool,
    tally: Mutex<Tally>,
    /// Whether it is among those whose memory is given back when nobody asks.
    pub(super) noted: AtomicBool,
    changed: Notify,
    /// Roles and bindings made ready to decide with, while somebody asks.
    pub(crate) policy: RwLock<Option<Compiled>>,
    /// The kinds that users define, made ready to serve, while somebody asks.
    pub(crate) apis: RwLock<Option<Arc<Apis>>>,
    /// Webhooks and policies made ready to admit requests, while somebody asks.
    pub(crate) admission: RwLock<Option<Arc<Configured>>>,
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
            serving: AtomicU64::new(birth.get()),
            admitting: AtomicU64::new(birth.get()),
            over: AtomicBool::new(false),
            limited: AtomicBool::new(has_quota(tenant)),
            tally: Mutex::default(),
            noted: AtomicBool::new(false),
            changed: Notify::new(),
            policy: RwLock::new(None),
            apis: RwLock::new(None),
            admission: RwLock::new(None),
        }
    }

    /// Which state of the rights of this space is the current one: grows with every change.
    pub fn access(&self) -> Revision {
        Revision::new(self.access.load(Ordering::Acquire))
    }

    /// Which state of the kinds that users define is the current one: grows with every
    /// change.
    pub fn serving(&self) -> Revision {
        Revision::new(self.serving.load(Ordering::Acquire))
    }

    /// Which state of the webhooks and policies is the current one: grows with every change.
    pub fn admitting(&self) -> Revision {
        Revision::new(self.admitting.load(Ordering::Acquire))
    }

    /// Something changed that decides who admits requests.
    pub(super) fn admit_anew(&self, revision: Revision) {
        self.admitting.fetch_max(revision.get(), Ordering::AcqRel);
    }

    /// Whether the tenant is gone.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Is notified when [`access`](Self::access) or [`serving`](Self::serving) grows, and
    /// when it is over.
    pub const fn changed(&self) -> &Notify {
        &self.changed
    }

    /// Something changed that decides who may do what.
    pub(super) fn touch(&self, revision: Revision) {
        self.access.fetch_max(revision.get(), Ordering::AcqRel);
        self.changed.notify_waiters();
    }

    /// Something changed that decides which kinds there are.
    pub(crate) fn serve_anew(&self, revision: Revision) {
        self.serving.fetch_max(revision.get(), Ordering::AcqRel);
        self.changed.notify_waiters();
    }

    /// Whether its tenant has a quota.
    pub fn is_limited(&self) -> bool {
        self.limited.load(Ordering::Acquire)
    }

    /// How much it has, by what the cache has.
    pub fn tally(&self) -> Tally {
        *self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tenant's object is this now.
    pub(super) fn change(&self, tenant: &Stored) {
        self.limited.store(has_quota(tenant), Ordering::Release);
    }

    /// It has more or less than before.
    pub(super) fn count(&self, change: impl FnOnce(Tally) -> Tally) {
        let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        *tally = change(*tally);
    }

    pub(super) fn end(&self) {
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

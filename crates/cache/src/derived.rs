//! Values that upper layers derive from a space's objects, such as its compiled RBAC.
//!
//! The cache knows when such a value is stale and gives its memory back when it is idle; what
//! it is, and how it is made, is known only to the layer that reads it.

use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, TryLockError};

use insula_core::Revision;

use crate::Cache;
use crate::space_state::SpaceState;

/// The values that are derived from the objects of a space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Derived {
    /// From roles and bindings, and from service accounts that are deleted.
    Access,
    /// From definitions of custom resources.
    Apis,
    /// From webhook configurations and admission policies.
    Admission,
    /// From revocations of credentials.
    Revocations,
}

/// One derived value of one space.
#[derive(Debug)]
pub(crate) struct Slot {
    /// The revision of the last change to an object that the value is derived from.
    changed: AtomicU64,
    /// Whether the value was read since the last [`evict_if_idle`](Self::evict_if_idle).
    used: AtomicBool,
    held: RwLock<Option<Held>>,
}

#[derive(Debug)]
struct Held {
    value: Box<dyn Any + Send + Sync>,
    /// The revision of the objects that it was derived from.
    at: Revision,
}

impl Slot {
    pub fn new(at: Revision) -> Self {
        Self {
            changed: AtomicU64::new(at.get()),
            used: AtomicBool::new(false),
            held: RwLock::new(None),
        }
    }

    /// The revision that the value has to show.
    pub fn changed(&self) -> Revision {
        Revision::new(self.changed.load(Ordering::Acquire))
    }

    pub fn invalidate(&self, revision: Revision) {
        self.changed.fetch_max(revision.get(), Ordering::AcqRel);
    }

    /// Drops the value unless it was read since the last call. Returns whether it is kept.
    pub fn evict_if_idle(&self) -> bool {
        let mut held = match self.held.try_write() {
            Ok(held) => held,
            Err(TryLockError::Poisoned(held)) => held.into_inner(),
            // It is being read or derived.
            Err(TryLockError::WouldBlock) => return true,
        };
        let used = held.is_some() && self.used.swap(false, Ordering::Relaxed);
        if !used {
            *held = None;
        }
        used
    }

    fn current<'a, T: Any>(&self, held: Option<&'a Held>) -> Option<&'a T> {
        let held = held.filter(|held| held.at >= self.changed())?;
        let value = held.value.downcast_ref()?;
        self.used.store(true, Ordering::Relaxed);
        Some(value)
    }
}

impl Cache {
    /// Reads a derived value; `None` if it is stale or was never derived.
    pub fn derived<T: Any, R>(
        &self,
        state: &SpaceState,
        which: Derived,
        read: impl FnOnce(&T) -> R,
    ) -> Option<R> {
        let slot = state.slot(which);
        let held = slot.held.read().unwrap_or_else(PoisonError::into_inner);
        slot.current(held.as_ref()).map(read)
    }

    /// Reads a derived value, and derives it first if it is stale. `derive` is given the stale
    /// value, if there is one, and other readers wait meanwhile.
    pub fn derive<T: Any + Send + Sync, R>(
        &self,
        state: &Arc<SpaceState>,
        which: Derived,
        derive: impl FnOnce(Option<Box<T>>, Revision) -> Box<T>,
        read: impl FnOnce(&T) -> R,
    ) -> R {
        let slot = state.slot(which);
        let mut held = slot.held.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(value) = slot.current(held.as_ref()) {
            return read(value);
        }
        // Taken before the objects are read: a change in between makes the value stale again.
        let at = slot.changed();
        let stale = held.take().and_then(|held| held.value.downcast().ok());
        if stale.is_none() {
            self.note_derived(state);
        }
        let value = derive(stale, at);
        let result = read(&value);
        slot.used.store(true, Ordering::Relaxed);
        *held = Some(Held { value, at });
        result
    }
}

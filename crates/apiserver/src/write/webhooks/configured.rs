//! Who admits the requests of a space, made ready while somebody asks.
//!
//! It is derived from the space's configurations when it is asked for and something of them
//! changed since. When nobody asks, its memory is given back.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, TryLockError};

use insula_admission::policy::Policies;
use insula_admission::review::Mode;
use insula_admission::validate::GROUP;
use insula_admission::webhook::Webhooks;
use insula_core::{Revision, Space};
use insula_kinds::{KindId, Object, kinds};

use crate::cache::{Cache, Life};
use crate::flow_control::cpu_bound::aside;
use crate::registry::Registry;

/// Who admits the requests of a space.
pub struct Configured {
    /// The state of the space that it shows.
    at: Revision,
    mutating: Webhooks,
    validating: Webhooks,
    policies: Policies,
    /// Whether it was asked since somebody looked.
    asked: AtomicBool,
}

const DECIDING: [&str; 4] = [
    "mutatingwebhookconfigurations",
    "validatingwebhookconfigurations",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
];

/// Whether objects of the kind decide who admits requests.
pub fn decides_admission(kind: KindId) -> bool {
    table().contains(&kind)
}

fn table() -> &'static [KindId; DECIDING.len()] {
    static TABLE: OnceLock<[KindId; DECIDING.len()]> = OnceLock::new();
    TABLE.get_or_init(|| {
        DECIDING.map(|resource| {
            let kind = kinds().find(GROUP, "v1", resource);
            kind.expect("it is in the table")
        })
    })
}

impl Configured {
    /// The webhooks of one sort.
    pub const fn webhooks(&self, mode: Mode) -> &Webhooks {
        match mode {
            Mode::Mutating => &self.mutating,
            Mode::Validating => &self.validating,
        }
    }

    /// The policies.
    pub const fn policies(&self) -> &Policies {
        &self.policies
    }

    /// Whether everything is admitted.
    pub fn is_empty(&self) -> bool {
        self.mutating.is_empty() && self.validating.is_empty() && self.policies.is_empty()
    }

    fn of(cache: &Cache, space: &Space, at: Revision) -> Self {
        let mut made = Self {
            at,
            mutating: Webhooks::default(),
            validating: Webhooks::default(),
            policies: Policies::default(),
            asked: AtomicBool::new(true),
        };
        let [mutating, validating, policies, bindings] = *table();
        let each = |kind, put: &mut dyn FnMut(&Object)| {
            let found = cache.find(kind, space);
            let found = found.map(|found| found.snapshot("", None).objects);
            for configuration in found.unwrap_or_default() {
                put(&configuration.tree());
            }
        };
        each(mutating, &mut |object| made.mutating.put(object));
        each(validating, &mut |object| made.validating.put(object));
        each(policies, &mut |object| made.policies.put_policy(object));
        each(bindings, &mut |object| made.policies.put_binding(object));
        made
    }
}

impl Registry {
    /// Who admits the requests of the space; nothing if there is no such space.
    pub fn admission(&self, space: &Space) -> Option<Arc<Configured>> {
        let life = self.cache().life(space)?;
        let at = life.admitting();
        let held = life
            .admission
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = held.as_ref().filter(|found| found.at >= at) {
            found.asked.store(true, Ordering::Relaxed);
            return Some(Arc::clone(found));
        }
        drop(held);
        // Expressions take their time, and whoever else asks meanwhile waits here.
        aside(|| self.read_admission(space, &life))
    }

    fn read_admission(&self, space: &Space, life: &Arc<Life>) -> Option<Arc<Configured>> {
        let held = life.admission.write();
        let mut held = held.unwrap_or_else(PoisonError::into_inner);
        // Read before the configurations are: what happens in between is read again.
        let at = life.admitting();
        if let Some(found) = held.as_ref().filter(|found| found.at >= at) {
            return Some(Arc::clone(found));
        }
        if held.is_none() {
            self.cache().note_compiled(life);
        }
        let made = Arc::new(Configured::of(self.cache(), space, at));
        *held = Some(Arc::clone(&made));
        Some(made)
    }
}

impl Life {
    /// Gives the memory back of what nobody asked since the last call. Says whether it is
    /// still there.
    pub fn keeps_admission(&self) -> bool {
        let mut held = match self.admission.try_write() {
            Ok(held) => held,
            Err(TryLockError::Poisoned(held)) => held.into_inner(),
            // Somebody is at it.
            Err(TryLockError::WouldBlock) => return true,
        };
        let asked = held
            .as_ref()
            .is_some_and(|found| found.asked.swap(false, Ordering::Relaxed));
        if !asked {
            *held = None;
        }
        asked
    }
}

impl fmt::Debug for Configured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Configured").field("at", &self.at).finish()
    }
}

//! Who admits the requests of a space, made ready while somebody asks.
//!
//! It is derived from the space's configurations when it is asked for and something of them
//! changed since. When nobody asks, its memory is given back.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};

use insula_admission::review::Mode;
use insula_admission::validate::GROUP;
use insula_admission::webhook::Webhooks;
use insula_core::{Revision, Space};
use insula_kinds::{KindId, kinds};

use crate::cache::{Cache, Life};
use crate::registry::Registry;

/// Who admits the requests of a space.
pub struct Configured {
    /// The state of the space that it shows.
    at: Revision,
    mutating: Webhooks,
    validating: Webhooks,
    /// Whether it was asked since somebody looked.
    asked: AtomicBool,
}

const MUTATING: &str = "mutatingwebhookconfigurations";
const VALIDATING: &str = "validatingwebhookconfigurations";

/// Whether objects of the kind decide who admits requests.
pub fn decides_admission(kind: KindId) -> bool {
    table().contains(&kind)
}

fn table() -> &'static [KindId; 2] {
    static TABLE: OnceLock<[KindId; 2]> = OnceLock::new();
    TABLE.get_or_init(|| {
        [MUTATING, VALIDATING].map(|resource| {
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

    fn of(cache: &Cache, space: &Space, at: Revision) -> Self {
        let [mutating, validating] = table().map(|kind| {
            let mut webhooks = Webhooks::default();
            let found = cache.find(kind, space);
            let found = found.map(|found| found.snapshot("", None).objects);
            for configuration in found.unwrap_or_default() {
                webhooks.put(&configuration.tree());
            }
            webhooks
        });
        Self {
            at,
            mutating,
            validating,
            asked: AtomicBool::new(true),
        }
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
        let held = life.admission.write();
        let mut held = held.unwrap_or_else(PoisonError::into_inner);
        // Read before the configurations are: what happens in between is read again.
        let at = life.admitting();
        if let Some(found) = held.as_ref().filter(|found| found.at >= at) {
            return Some(Arc::clone(found));
        }
        if held.is_none() {
            self.cache().note_compiled(&life);
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
        let held = self.admission.write();
        let mut held = held.unwrap_or_else(PoisonError::into_inner);
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

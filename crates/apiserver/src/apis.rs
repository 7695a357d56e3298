//! The kinds that users define, as a space serves them.

use insula_core::{Revision, Space};
use insula_kinds::{KindId, kinds};
use std::sync::{Arc, OnceLock};

use crate::cache::{Cache, Event};

/// The kind of what defines kinds.
pub fn definitions() -> KindId {
    static DEFINITIONS: OnceLock<KindId> = OnceLock::new();
    *DEFINITIONS.get_or_init(|| {
        let found = kinds().stored("apiextensions.k8s.io", "customresourcedefinitions");
        found.expect("it is in the table")
    })
}

impl Cache {
    /// Takes note of what a transaction did to the definitions of a space.
    pub(crate) fn redefine(&self, _space: &Space, _events: &[Arc<Event>], _revision: Revision) {}
}

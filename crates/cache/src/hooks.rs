//! What the cache asks the layer above it while it applies changes.

use std::sync::Arc;

use insula_core::Space;
use insula_kinds::KindId;

use crate::collection::Event;
use crate::derived::Derived;
use crate::entry::Stored;
use crate::space_state::SpaceState;

/// The rules that depend on what objects mean, which the cache does not know.
pub trait Hooks: std::fmt::Debug + Send + Sync {
    /// Returns the derived value that changes to objects of this kind make stale. Changes to
    /// definitions are not asked about.
    fn invalidates(&self, kind: KindId, events: &[Arc<Event>]) -> Option<Derived>;

    /// Returns the built-in object that `object` takes the place of, as the space shows it.
    fn shadowed(
        &self,
        kind: KindId,
        space: &Space,
        object: &Stored,
        state: &SpaceState,
    ) -> Option<Arc<Stored>>;

    /// Whether every tenant has a quota, also one with none in its object.
    fn limits_every_tenant(&self) -> bool {
        false
    }

    /// Notes the object of a tenant that was loaded or changed; `None` once it is deleted.
    fn note_tenant(&self, _space: &Space, _tenant: Option<&Stored>) {}
}

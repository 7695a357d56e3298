//! Storage migration: stored objects are rewritten in the storage version of their definition, so
//! that older versions can be removed from it.
//!
//! The API server stores an object in the storage version whenever it is written, and a write
//! without a change is enough. It does not tell in which version an object is stored, so the
//! progress is recorded in a ConfigMap ([`record`]). A migration that was killed goes on where it
//! was.
//!
//! | module | content |
//! |---|---|
//! | [`migration`] | rewrites the objects of definitions |
//! | `rewrite` | the writes: concurrent, with a rate |
//! | [`record`] | the recorded progress |
//! | [`status`] | which definitions are migrated |
//! | [`trim`] | removes older versions from `status.storedVersions` |

pub mod migration;
pub mod record;
mod rewrite;
pub mod status;
pub mod trim;

pub use migration::{Migrated, Migration, Outcome, Progress, Settings};
pub use record::{Phase, Records};
pub use status::{DefinitionStatus, State};
pub use trim::{Trimmed, trim};

//! Writing: until committed or refused, load, apply, default, prepare, validate, commit.

mod admission;
mod create;
mod delete;
mod metadata;
mod modify;
mod patch;
mod ranges;
pub(crate) mod rights;
pub(crate) mod rules;
mod update;

use std::sync::Arc;

pub use admission::insula_extra;
pub use create::{create, create_object};
pub use delete::{DeleteOptions, Deleted, delete, delete_collection, remove, remove_for};
pub use modify::{Modified, Modify, modify};
pub use patch::{PatchFormat, patch, patched, read_options};
pub use rules::encoded;
pub use update::update;

use crate::cache::Stored;

/// What became of a write.
#[derive(Debug)]
pub struct Done {
    /// The object as it is now.
    pub object: Arc<Stored>,
    /// Whether it came about by this write.
    pub created: bool,
    /// What the caller should know.
    pub warnings: Vec<String>,
}

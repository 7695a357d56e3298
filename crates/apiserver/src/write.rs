//! Writing: until committed or refused, load, apply, default, prepare, validate, commit.

mod admission;
mod apply;
mod create;
mod delete;
mod metadata;
mod modify;
pub(crate) mod ownership;
mod patch;
mod propagation;
mod ranges;
pub(crate) mod rights;
pub(crate) mod rules;
mod update;

use std::sync::Arc;

pub use admission::insula_extra;
pub use apply::{Config, apply};
pub use create::{create, create_object};
pub use delete::{
    DeleteOptions, Deleted, Doomed, Emptied, delete, delete_collection, goes_at_once, remove,
    remove_for, remove_together,
};
pub use modify::{Modified, Modify, Owner, modify};
pub use ownership::refuse as refuse_apply;
pub use patch::{PatchFormat, patch, patched, read_options};
pub use propagation::{FOREGROUND, ORPHAN, Policy};
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

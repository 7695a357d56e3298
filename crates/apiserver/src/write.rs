//! Writing: until committed or refused, load, apply, default, prepare, validate, commit.

pub mod admission;
mod allocate;
mod apply;
pub mod bootstrap_objects;
mod create;
mod delete;
mod metadata;
mod modify;
mod names;
pub(crate) mod ownership;
mod patch;
mod propagation;
pub mod quota;
pub(crate) mod rules;
pub(crate) mod scale;
mod update;

pub use crate::registry::encoding::encoded;
pub use admission::certificate_requester::insula_extra;
pub use apply::{Config, apply};
pub use create::{create, create_object};
pub use delete::{
    DeleteOptions, Deleted, Emptied, PendingDelete, delete, delete_collection, goes_at_once,
    remove, remove_for, remove_together,
};
pub use modify::{Modified, Modify, Owner, modify};
pub use ownership::refuse as refuse_apply;
pub use patch::{PatchFormat, patch, patched, read_options};
pub use propagation::Policy;
pub use update::update;

use crate::codec::answer::Done;

//! Writes: load, change, default, admit, prepare, validate and commit, again until the commit
//! succeeds or the write is rejected.

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
pub(crate) mod scale;
pub(crate) mod strategy;
mod update;

pub use crate::registry::encoding::encoded;
pub use admission::certificate_requester::insula_extra;
pub use apply::{Config, apply};
pub use create::{create, create_object};
pub use delete::{
    DeleteOptions, Deleted, DeletedCollection, PendingDelete, delete, delete_collection, remove,
    remove_admitted, remove_atomically, waits_only_for_finalizers,
};
pub use modify::{ManagedFields, Modified, Modify, modify};
pub use ownership::apply_error;
pub use patch::{PatchFormat, apply_patch, patch, patch_options};
pub use propagation::Policy;
pub use update::update;

use crate::codec::answer::Done;

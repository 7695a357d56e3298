//! Managed fields and server-side apply as in Kubernetes' structured-merge-diff.
//!
//! A [`Schema`] defines how values of a type are merged. A [`Set`] of paths holds the fields that a
//! manager owns. The functions of [`typed`] read values by their schema: their fields, their
//! differences, the result of a merge. [`managers`] maintains `metadata.managedFields` through
//! updates and applies.
//!
//! The crate knows no HTTP, no store, no tenants and no principals.

pub mod managers;
pub mod schema;
pub mod set;
pub mod typed;

pub use schema::Schema;
pub use set::{Element, Path, Set};

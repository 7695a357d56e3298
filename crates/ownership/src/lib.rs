//! Who set which field of an object: managed fields as Kubernetes keeps them, and server-side
//! apply, which is made of them.
//!
//! A [`Schema`] says how values of a type are merged. [`Set`]s of paths say which fields
//! somebody owns. The functions of [`typed`] read values by their schema: which fields
//! there are, what is different, what a merge gives. [`managers`] keeps the record in
//! `metadata.managedFields` through updates and applies.
//!
//! Nothing here knows HTTP, a store, a tenant or a caller.

pub mod managers;
pub mod schema;
pub mod set;
pub mod typed;

pub use schema::Schema;
pub use set::{Element, Path, Set};

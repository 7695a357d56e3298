//! Kinds that users define: what a CustomResourceDefinition says, and what follows from it
//! for an object, without I/O.
//!
//! ```text
//! definition   is the CustomResourceDefinition itself right? its names, versions, schemas
//! names        which names it may have beside the others of its group
//! condition    what its status says
//! approval     who approved it, if its group is not the user's
//! structural   a schema, compiled once and shared by all spaces that have the same
//! prune        what the schema does not know is dropped
//! default      what is missing is filled in
//! validate     what is wrong with an object, in Kubernetes' words; unchanged faults are
//!              forgiven on update
//! ```

pub mod approval;
pub mod condition;
pub mod definition;
pub mod names;

pub use condition::{Condition, set_condition};

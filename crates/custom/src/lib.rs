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
//! fill         what is missing is filled in
//! embedded     whole objects inside of objects: their metadata
//! validate     what is wrong with an object, in Kubernetes' words; unchanged faults are
//!              forgiven on update
//! kind         the definition as the server works with it
//! table        custom objects as rows, by paths (path) into them
//! scale        how many of them there are to be
//! openapi      what clients are told of their schemas
//! number       numbers as they are stored
//! ```
//!
//! A write goes through [`Schema::prune`], [`Schema::fill`] and [`Schema::coerce_embedded`] in
//! this order, then through whatever may change the object, then [`Schema::validate`], and
//! before it is stored through [`settle_numbers`]. What is read goes through `fill` and `prune`
//! and [`Schema::repair_embedded`], unless [`Schema::is_settled`].

pub mod approval;
pub mod condition;
pub mod definition;
mod embedded;
mod fill;
pub mod format;
pub mod kind;
pub mod names;
mod number;
pub mod openapi;
pub mod path;
pub mod pattern;
mod prune;
pub mod scale;
mod settled;
mod structural;
pub mod table;
mod validate;

pub use condition::{Condition, set_condition};
pub use kind::Definition;
pub use number::settle_numbers;
pub use structural::{CompileError, Schema};
pub use validate::{Change, Scale, Verdict};

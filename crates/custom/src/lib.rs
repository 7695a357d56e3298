//! Custom resources without I/O: CustomResourceDefinitions, and the handling of their objects.
//!
//! ```text
//! definition   validation of a CustomResourceDefinition: its names, versions and schemas
//! names        acceptance of its names next to the other definitions of its group
//! condition    the conditions of its status
//! approval     approval of definitions in protected groups
//! structural   a schema, compiled once and shared by all spaces that have the same
//! prune        removes fields that the schema does not specify
//! fill         fills in defaults
//! embedded     metadata of embedded resources
//! validate     validation of objects in Kubernetes' wording, with ratcheting on update
//! kind         the definition as the server uses it
//! table        table rows of custom objects, with values from JSONPaths (path)
//! scale        the scale subresource
//! openapi      published schemas
//! number       the stored form of numbers
//! ```
//!
//! A write passes through [`Schema::prune`], [`Schema::fill`] and [`Schema::coerce_embedded`] in
//! this order, then through admission, then through [`Schema::validate`], and finally through
//! [`normalize_numbers`] before it is stored. A read passes through `fill`, `prune` and
//! [`Schema::repair_embedded`], unless [`Schema::is_normalized`].

pub mod approval;
pub mod condition;
pub mod definition;
mod embedded;
mod fill;
pub mod format;
pub mod kind;
pub mod names;
mod normalized;
mod number;
pub mod openapi;
pub mod path;
pub mod pattern;
mod prune;
pub mod scale;
mod structural;
pub mod table;
mod validate;

pub use condition::{Condition, set_condition};
pub use kind::Definition;
pub use number::normalize_numbers;
pub use structural::{CompileError, Schema};
pub use validate::{Change, Scale, Verdict};

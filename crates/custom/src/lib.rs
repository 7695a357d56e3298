//! Kinds that users define: what a CustomResourceDefinition says, and what follows from it
//! for an object, without I/O.
//!
//! ```text
//! definition   is the CustomResourceDefinition itself right? its names, versions, schemas
//! structural   a schema, compiled once and shared by all spaces that have the same
//! prune        what the schema does not know is dropped
//! default      what is missing is filled in
//! validate     what is wrong with an object, in Kubernetes' words; unchanged faults are
//!              forgiven on update
//! kind         the definition as the server works with it
//! table        custom objects as rows, by paths (path) into them
//! scale        how many of them there are to be
//! openapi      what clients are told of their schemas
//! ```

pub mod kind;
pub mod openapi;
pub mod path;
pub mod scale;
pub mod table;

pub use kind::Definition;

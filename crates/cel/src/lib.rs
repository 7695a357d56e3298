//! CEL as Kubernetes has it: its macros, types, libraries, messages and costs.
//!
//! ```text
//! parse      text -> Expr, macros expanded
//! check      Expr + Environment -> Program: every node has a type, every call its overloads
//! declare    a node of a schema -> Type and Extent
//! estimate   Program + Extent -> the most it can cost
//! evaluate   Program + values + budget -> a value, and what it did cost
//! ```
//!
//! A schema is known only to `declare`, which makes types and extents of it. Nothing here knows a
//! request or a store.

mod ast;
mod budget;
mod check;
pub mod declare;
mod deep;
mod environment;
mod estimate;
mod evaluate;
mod function;
mod issue;
mod library;
mod parse;
mod program;
mod types;
mod value;

pub use ast::{Comprehension, Entry, Expr, Id, Literal, Node};
pub use budget::Budget;
pub use deep::with_room;
pub use environment::{Environment, OldSelf};
pub use estimate::{Cost, Extent, Format, Within, estimate};
pub use evaluate::{Activation, EvalError, Evaluation, Plan, PlanError, evaluate};
pub use function::{Function, Overload, function};
pub use issue::{Issue, Issues};
pub use library::{AuthorizationRequest, Authorizer, Caller, Decision, Resource, Target};
pub use program::Program;
pub use types::{Field, ObjectType, Type};
pub use value::{
    Duration, Entries, Key, List, Listing, Map, Opaque, Plain, Property, Shape, Struct, Text,
    Timestamp, Value,
};

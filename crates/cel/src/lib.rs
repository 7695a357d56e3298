//! CEL as Kubernetes implements it: its macros, types, libraries, messages and costs.
//!
//! ```text
//! parse      source text -> Expr, with macros expanded
//! check      Expr + Environment -> Program: types of nodes, overloads of calls
//! declare    a schema node -> Type and Extent
//! estimate   Program + Extent -> bounds of the cost
//! evaluate   Program + values + budget -> a value and its cost
//! ```
//!
//! Only `schema`, `declare` and the shapes of values know schemas. The crate knows no requests and
//! no store.

mod ast;
mod budget;
mod check;
pub mod declare;
mod environment;
mod error;
mod estimate;
mod evaluate;
mod function;
pub mod identifier;
mod issue;
mod library;
mod parse;
mod program;
mod schema;
mod stack;
mod types;
mod value;

pub use ast::{Comprehension, Entry, Expr, Id, Literal, Node};
pub use budget::Budget;
pub use environment::{Environment, OldSelf};
pub use error::EvalError;
pub use estimate::{Cost, Extent, Format, Within, estimate};
pub use evaluate::{Activation, Evaluation, Plan, PlanError, evaluate};
pub use function::{Function, Overload, function};
pub use issue::{Issue, Issues};
pub use program::Program;
pub use stack::with_stack;
pub use types::{Field, ObjectType, Type};
pub use value::{
    AuthorizationRequest, Authorizer, Caller, Decision, Duration, Entries, Key, List, Listing, Map,
    Opaque, Plain, Property, Resource, Shape, Struct, Target, Text, Timestamp, Value,
};

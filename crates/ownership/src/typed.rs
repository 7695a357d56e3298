//! Operations on values with their schema, one file for each.
//!
//! Decoders bound the nesting of values, so that all of these functions may be recursive.

mod check;
mod compare;
mod fields;
mod item;
mod merge;
mod problems;
mod reconcile;
mod remove;

pub use check::check;
pub use compare::{Comparison, compare};
pub use fields::{ensure_named, fields};
pub use merge::{merge, merge_without};
pub use reconcile::reconcile;
pub use remove::remove;

/// The error of a value that does not match its schema: all problems, in Kubernetes' words.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct NotOfType(pub String);

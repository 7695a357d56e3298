//! Values, read by their schema.
//!
//! One file for each thing that can be done with them. Values come from decoders, which
//! bound how deep they nest; so all of this may call itself at every level.

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
pub use merge::merge;
pub use reconcile::reconcile;
pub use remove::remove;

/// What is wrong with a value: all of it, as Kubernetes says it.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct NotOfType(pub String);

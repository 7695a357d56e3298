//! What checking finds out about a tree.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::types::Type;

/// The result of checking a tree.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    /// The type of each node, by its number.
    pub(crate) types: Vec<Type>,
    /// The candidate overloads of each call, by its number.
    pub(crate) overloads: Vec<Vec<&'static str>>,
    /// The names of used variables and types.
    pub(crate) names: BTreeSet<Arc<str>>,
    /// Why the expression cannot be evaluated although its types are right.
    pub(crate) defect: Option<String>,
}

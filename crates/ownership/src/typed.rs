//! Values, read by their schema.

use insula_kinds::Object;

use crate::{Schema, Set};

/// What is different between two objects. Where a list or a map came about as a whole, the
/// members are those of Kubernetes' `typed.Comparison`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    /// In the new one only.
    pub added: Set,
    /// In the old one only.
    pub removed: Set,
    /// In both, with other values.
    pub modified: Set,
}

/// What is wrong with a value: all of it, as Kubernetes says it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NotOfType(pub String);

/// Whether an object is as its schema says, and each element of a list is there once unless
/// duplicates are allowed.
pub fn check(_schema: &Schema, _object: &Object, _duplicates: bool) -> Result<(), NotOfType> {
    todo!()
}

/// The fields that an object has.
pub fn fields(_schema: &Schema, _object: &Object) -> Result<Set, NotOfType> {
    todo!()
}

/// What is different.
pub fn compare(_schema: &Schema, _old: &Object, _new: &Object) -> Result<Comparison, NotOfType> {
    todo!()
}

/// What applying a configuration over an object gives.
pub fn merge(_schema: &Schema, _live: &Object, _config: &Object) -> Result<Object, NotOfType> {
    todo!()
}

/// The object without these fields.
pub fn remove(_schema: &Schema, _object: &Object, _fields: &Set) -> Object {
    todo!()
}

/// The fields that are still what a schema has, if it changed since they were written down:
/// what became atomic is owned in whole. Nothing if all of them are.
pub fn reconcile(_schema: &Schema, _fields: &Set) -> Option<Set> {
    todo!()
}

//! Finalizers with a meaning to the API server itself.

/// Keeps an object that is being deleted until its dependents are gone.
pub const FOREGROUND: &str = "foregroundDeletion";

/// Keeps an object that is being deleted until its dependents no longer name it as an owner.
pub const ORPHAN: &str = "orphan";

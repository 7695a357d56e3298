//! Is a CustomResourceDefinition right? What Kubernetes fills in, what it refuses, in its
//! order, words and places.
//!
//! Definitions come here as [`insula_kinds::decode`] leaves them: every field has its type,
//! unknown ones are gone. Places in errors are those of Kubernetes' internal form, see
//! [`form`].

use insula_kinds::{FieldError, Object};

/// What is to be said about a definition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// What is wrong, metadata included; none if it may be stored.
    pub errors: Vec<FieldError>,
    /// What the client is warned of; only told if nothing is wrong.
    pub warnings: Vec<String>,
}

/// Fills in what a client may leave out.
pub fn default(_object: &mut Object) {}

/// Makes of what a client sent what is stored as a new definition: nothing is known of it
/// yet, but the version in which its objects will be stored. Metadata is the caller's.
pub fn prepare_create(_object: &mut Object) {}

/// Makes of what a client sent what is stored in the place of `old`: the status stays, and
/// knows the version in which objects are stored from now on.
pub fn prepare_update(_old: &Object, _new: &mut Object) {}

/// Makes of what a client sent to the status what is stored in the place of `old`.
pub fn prepare_status(_old: &Object, _new: &mut Object) {}

/// Judges a definition that is to be created.
pub fn create(_object: &Object) -> Verdict {
    Verdict::default()
}

/// Judges a change of a definition. What was wrong before may stay as it is.
pub fn update(_old: &Object, _new: &Object) -> Verdict {
    Verdict::default()
}

/// Judges a change of a definition's status.
pub fn update_status(_old: &Object, _new: &Object) -> Verdict {
    Verdict::default()
}

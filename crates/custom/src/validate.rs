//! What is wrong with an object, in Kubernetes' words.

mod path;
pub(crate) mod print;

pub(crate) use path::{Path, Step, Style};

use insula_kinds::{FieldError, Object};

use crate::structural::Schema;

/// An object that is written.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// The object as it is to be.
    pub new: &'a Object,
    /// The object as it is, unless it is created: faults that it had are forgiven.
    pub old: Option<&'a Object>,
    /// Whether only the status is written.
    pub status_only: bool,
    /// What is already known to be wrong, of metadata: it stands first in the verdict, and
    /// some of it keeps rules from being asked.
    pub known: &'a [FieldError],
    /// Where the kind keeps what its scale shows, if it has one.
    pub scale: Option<Scale<'a>>,
}

/// Where a kind keeps what its scale shows: `.spec.replicas`.
#[derive(Clone, Copy, Debug)]
pub struct Scale<'a> {
    /// How many are wanted.
    pub spec: &'a str,
    /// How many there are.
    pub status: &'a str,
    /// Which they are.
    pub selector: Option<&'a str>,
}

/// What is wrong with an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// What is wrong, in Kubernetes' order.
    pub errors: Vec<FieldError>,
    /// What is wrong but was wrong before, and therefore forgiven.
    pub warnings: Vec<String>,
}

impl<'a> Change<'a> {
    /// A new object of which nothing is known.
    pub fn create(new: &'a Object) -> Self {
        Self {
            new,
            old: None,
            status_only: false,
            known: &[],
            scale: None,
        }
    }

    /// An object that takes the place of another.
    pub fn update(new: &'a Object, old: &'a Object) -> Self {
        Self {
            old: Some(old),
            ..Self::create(new)
        }
    }
}

impl Schema {
    /// What is wrong with the change.
    pub fn validate(&self, change: Change<'_>) -> Verdict {
        let errors = change.known.to_vec();
        Verdict {
            errors,
            warnings: Vec::new(),
        }
    }
}

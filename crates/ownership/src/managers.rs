//! Who owns which fields, through updates and applies.

use insula_kinds::Object;

use crate::{Schema, Set};

/// Who writes, and as what.
#[derive(Clone, Copy, Debug)]
pub struct Writer<'a> {
    /// The manager: the parameter `fieldManager`, or what the user agent calls itself.
    pub manager: &'a str,
    /// The subresource that is written; empty for the object itself.
    pub subresource: &'a str,
    /// Now, as `2026-01-02T15:04:05Z`.
    pub now: &'a str,
}

/// What is written: objects of a kind in one version.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    /// `v1` or `group/version`, in which live, new and applied objects are.
    pub api_version: &'a str,
    /// kind
    pub kind: &'a str,
    /// How they are merged, in this version.
    pub schema: &'a Schema,
    /// What this endpoint leaves as it was, in this version.
    pub reset: &'a Set,
    /// An object of this version in another one in which somebody owns fields, with the
    /// schema and the reset fields of that one. Nothing if there is no such version.
    pub convert: &'a dyn Fn(&Object, &str) -> Option<Version>,
}

/// An object in another version.
pub struct Version {
    /// The object.
    pub object: Object,
    /// How objects of this version are merged.
    pub schema: Schema,
    /// What the endpoint leaves as it was.
    pub reset: Set,
}

/// Why a configuration is not applied.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// Others own what it would change: one line for each, with the path of the field.
    #[error("{message}")]
    Conflict {
        /// All of it in one text.
        message: String,
        /// `conflict with "m" using apps/v1`, and the field, such as `.spec.replicas`.
        causes: Vec<(String, String)>,
    },
    /// It is not as the schema says.
    #[error("{0}")]
    Schema(String),
    /// It says something that it must not.
    #[error("{0}")]
    BadRequest(String),
}

impl Subject<'_> {
    /// Writes into the new object who owns what after an update of the live one, which is the
    /// zero object of the kind for one that comes about. Both have their `managedFields`.
    /// Never fails: what cannot be kept is as it was.
    pub fn update(&self, _live: &Object, _new: &mut Object, _writer: Writer<'_>) {
        todo!()
    }

    /// What the live object becomes, with its `managedFields`; the empty zero object if it
    /// comes about. The same as the live one if nothing changes.
    pub fn apply(
        &self,
        _live: &Object,
        _config: &Object,
        _writer: Writer<'_>,
        _force: bool,
    ) -> Result<Object, ApplyError> {
        todo!()
    }
}

/// x
pub fn manager_of_agent(_agent: &str) -> String {
    todo!()
}
/// x
pub fn zero(_kind: &insula_kinds::Kind) -> Object {
    todo!()
}
/// x
pub fn validate(_m: &insula_kinds::Value) -> Result<(), String> {
    todo!()
}
/// x
pub fn settle_times(_old: &Object, _new: &mut Object) {
    todo!()
}

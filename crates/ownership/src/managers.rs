//! Field ownership through updates and applies.
//!
//! The owners are recorded in the object itself, in `metadata.managedFields`. A manager that
//! changes a field owns it from then on. A manager that applies a configuration owns its fields,
//! shares those that others set to the same value, and gets a conflict for fields that others own,
//! unless it forces the apply.

pub mod agent;
mod apply;
mod cap;
mod change;
mod conflict;
mod last_applied;
mod prune;
mod record;
mod reset;
pub mod scale;
mod text;
pub mod times;
pub mod zero;

use std::borrow::Cow;
use std::sync::LazyLock;

use insula_kinds::{Object, Value};

pub use record::Unreadable;
pub use reset::reset;
pub use zero::zero;

use crate::typed::NotOfType;
use crate::{Element, Schema, Set};
use change::Versions;
use record::{Entry, Operation, Record};

/// The fields that no manager owns, because the server sets them.
static UNOWNED_FIELDS: LazyLock<Set> = LazyLock::new(|| {
    let metadata = [
        "name",
        "namespace",
        "tenant",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    ];
    let field = |name: &str| Element::Field(name.into());
    let mut set = Set::default();
    for name in ["apiVersion", "kind", "metadata"] {
        set.insert(&[field(name)]);
    }
    for name in metadata {
        set.insert(&[field("metadata"), field(name)]);
    }
    set
});

/// The manager of a write without a field manager and without a user agent.
const UNKNOWN: &str = "unknown";

/// The author of a write.
#[derive(Clone, Copy, Debug)]
pub struct Writer<'a> {
    /// The manager: the parameter `fieldManager`, or the name in the user agent.
    pub manager: &'a str,
    /// The subresource that is written; empty for the object itself.
    pub subresource: &'a str,
    /// The current time, as `2026-01-02T15:04:05Z`.
    pub now: &'a str,
}

/// The kind and version of the written objects.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    /// `v1` or `group/version`: the version of the live, new and applied objects.
    pub api_version: &'a str,
    /// The schema of this version.
    pub schema: &'a Schema,
    /// The fields that this endpoint resets, in this version: [`reset()`].
    pub reset: &'a Set,
    /// The object of this kind and version without any field set: [`zero()`].
    pub zero: &'a Object,
    /// Converts an object to a version in which a manager owns fields, and returns it with the
    /// schema and the reset fields of that version. The object itself names its version, which may
    /// differ from this one. Returns `None` if there is no such version.
    pub convert: &'a dyn Fn(&Object, &str) -> Option<Version>,
}

/// An object in another version.
pub struct Version {
    /// The object.
    pub object: Object,
    /// The schema of this version.
    pub schema: Schema,
    /// The fields that the endpoint resets.
    pub reset: Set,
}

/// The error of a configuration that is not applied.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// Other managers own fields that would change.
    #[error("{message}")]
    Conflict {
        /// All conflicts in one message.
        message: String,
        /// `conflict with "m" using apps/v1`, and the field, such as `.spec.replicas`.
        causes: Vec<(String, String)>,
    },
    /// The configuration does not match the schema.
    #[error("{0}")]
    Schema(String),
    /// The configuration contains a field that it must not.
    #[error("{0}")]
    BadRequest(String),
}

impl Subject<'_> {
    /// Updates the managed fields of the new object after an update of the live one, which is the
    /// zero object of the kind for a create. Both have their `managedFields`, and both are complete
    /// ([`complete`](insula_kinds::encode::complete)).
    ///
    /// Entries of the new object are used if they are valid, except through a subresource; an empty
    /// list removes all. The update never fails: if the objects match the schema too little to be
    /// compared, all entries are removed.
    pub fn update(&self, live: &Object, new: &mut Object, writer: Writer<'_>) {
        let sent = match forget(new) {
            Some(Value::Array(sent)) if writer.subresource.is_empty() => Some(sent),
            _ => None,
        };
        let known = record::list(live).map_or(&[][..], Vec::as_slice);
        // Most clients send the list back unchanged.
        let (sent, copy) = match sent {
            Some(sent) if sent == known && !known.is_empty() => (None, sent),
            sent => (sent, Vec::new()),
        };
        let record = sent_or_known(sent.as_deref(), known);
        // Objects without entries are not tracked before the first apply.
        if record.is_empty() && is_stored(live) {
            return;
        }
        if let Ok(record) = self.track(record, live, new, writer) {
            record.write_from(copy, new);
        }
    }

    /// Applies a configuration to the live object, and returns the result with its `managedFields`.
    /// For a create the live object is the zero object of the kind. Returns the live object if
    /// nothing changes.
    pub fn apply(
        &self,
        live: &Object,
        config: &Object,
        writer: Writer<'_>,
        force: bool,
    ) -> Result<Object, ApplyError> {
        apply::apply(self, live, config, writer, force)
    }

    /// Returns the entries after an update.
    fn track<'a>(
        &self,
        mut record: Record<'a>,
        live: &Object,
        new: &Object,
        writer: Writer<'a>,
    ) -> Result<Record<'a>, NotOfType> {
        let mut versions = Versions::new(self, live);
        versions.reconcile_entries(&mut record);
        let changes = versions.changes(new)?;
        let taken = changes.own.changed.difference(&UNOWNED_FIELDS);
        let mine = (
            manager(writer),
            Operation::Update,
            self.api_version,
            writer.subresource,
        );
        // Most writers own what they change already.
        let owns = |fields: &Set| {
            !taken.is_empty()
                && taken.is_subset(fields)
                && !fields.intersects(&changes.own.removed)
                && !fields.intersects(&UNOWNED_FIELDS)
        };
        let unchanged = record.take_if(mine, owns);
        changes.take_from(&mut record);
        if let Some(mut mine) = unchanged {
            mine.set_time(Some(writer.now.into()));
            record.entries.push(mine);
        } else if !taken.is_empty() {
            let version = Cow::Owned(self.api_version.to_owned());
            let mut mine = owner(writer, Operation::Update, version, taken);
            if let Some(before) = record.take(mine.owner()) {
                mine.set_fields(mine.fields().union(before.fields()));
            }
            mine.set_time(Some(writer.now.into()));
            record.entries.push(mine);
        }
        cap::cap(&mut record);
        Ok(record)
    }
}

/// Removes the managed fields from an object.
pub fn forget(object: &mut Object) -> Option<Value> {
    let metadata = object.get_mut("metadata")?.as_object_mut()?;
    metadata.remove("managedFields")
}

/// Checks entries, which a webhook may have made invalid.
pub fn validate(entries: &Value) -> Result<(), Unreadable> {
    let list = entries.as_array().map_or(&[][..], Vec::as_slice);
    Record::read_foreign(list).map(|_| ())
}

/// Returns the entries that an update starts from.
fn sent_or_known<'a>(sent: Option<&'a [Value]>, known: &'a [Value]) -> Record<'a> {
    match sent {
        Some(sent) if record::is_reset(sent) => return Record::default(),
        Some(sent) => match Record::read_foreign(sent) {
            Ok(record) if !record.is_empty() => return record,
            _ => {}
        },
        None => {}
    }
    Record::read(known).unwrap_or_default()
}

fn is_stored(object: &Object) -> bool {
    let uid = object
        .get("metadata")
        .and_then(|metadata| metadata.get("uid"));
    uid.and_then(Value::as_str)
        .is_some_and(|uid| !uid.is_empty())
}

fn manager(writer: Writer<'_>) -> &str {
    match writer.manager {
        "" => UNKNOWN,
        manager => manager,
    }
}

fn owner<'a>(
    writer: Writer<'a>,
    operation: Operation,
    version: Cow<'a, str>,
    fields: Set,
) -> Entry<'a> {
    Entry::new(
        manager(writer).into(),
        operation,
        version,
        writer.subresource.into(),
        fields,
    )
}

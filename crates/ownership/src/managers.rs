//! Who owns which fields, through updates and applies.
//!
//! The record is a list in the object itself, `metadata.managedFields`. Whoever changes a
//! field owns it from then on. Whoever applies a configuration owns what it has, shares
//! what others set to the same, and is refused what others own, unless they insist.

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

/// What nobody owns, because it is not theirs to set.
static NOBODYS: LazyLock<Set> = LazyLock::new(|| {
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

/// Who owns what is written by somebody without a name.
const UNKNOWN: &str = "unknown";

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
    /// How they are merged, in this version.
    pub schema: &'a Schema,
    /// What this endpoint leaves as it was, in this version: [`reset()`].
    pub reset: &'a Set,
    /// An object of the kind in which nothing is set, in this version: [`zero()`].
    pub zero: &'a Object,
    /// An object of the kind in a version in which somebody owns fields, with the schema
    /// and the reset fields of that one. The object says itself in which version it is,
    /// which may be another than this one. Nothing if there is no such version.
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
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
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
    /// zero object of the kind for one that comes about. Both have their `managedFields`,
    /// and both are as they are written ([`complete`](insula_kinds::encode::complete)).
    ///
    /// Entries that the new object brings count if they can be read, except through a
    /// subresource; an empty list forgets all. Never fails: if the objects are so far from
    /// what the schema says that they cannot be compared, all is forgotten.
    pub fn update(&self, live: &Object, new: &mut Object, writer: Writer<'_>) {
        let sent = match forget(new) {
            Some(Value::Array(sent)) if writer.subresource.is_empty() => Some(sent),
            _ => None,
        };
        let known = record::list(live).map_or(&[][..], Vec::as_slice);
        // Most send back what they got.
        let (sent, copy) = match sent {
            Some(sent) if sent == known && !known.is_empty() => (None, sent),
            sent => (sent, Vec::new()),
        };
        let record = sent_or_known(sent.as_deref(), known);
        // What was forgotten, or never known, is not tracked before somebody applies.
        if record.is_empty() && is_stored(live) {
            return;
        }
        if let Ok(record) = self.track(record, live, new, writer) {
            record.write_from(copy, new);
        }
    }

    /// What the live object becomes, with its `managedFields`; the zero object of the kind
    /// is the live one if it comes about. The same as the live one if nothing changes.
    pub fn apply(
        &self,
        live: &Object,
        config: &Object,
        writer: Writer<'_>,
        force: bool,
    ) -> Result<Object, ApplyError> {
        apply::apply(self, live, config, writer, force)
    }

    /// Who owns what after an update.
    fn track<'a>(
        &self,
        mut record: Record<'a>,
        live: &Object,
        new: &Object,
        writer: Writer<'a>,
    ) -> Result<Record<'a>, NotOfType> {
        let mut versions = Versions::new(self, live);
        versions.settle(&mut record);
        let changes = versions.changes(new)?;
        changes.take_from(&mut record);
        let taken = changes.own.changed.difference(&NOBODYS);
        if !taken.is_empty() {
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

/// Takes the record out of an object.
pub fn forget(object: &mut Object) -> Option<Value> {
    let metadata = object.get_mut("metadata")?.as_object_mut()?;
    metadata.remove("managedFields")
}

/// Whether entries can be read: what a webhook made of them may be wrong.
pub fn validate(entries: &Value) -> Result<(), Unreadable> {
    let list = entries.as_array().map_or(&[][..], Vec::as_slice);
    Record::read_foreign(list).map(|_| ())
}

/// The record with which an update begins.
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

fn owner<'a>(
    writer: Writer<'a>,
    operation: Operation,
    version: Cow<'a, str>,
    fields: Set,
) -> Entry<'a> {
    let manager = match writer.manager {
        "" => UNKNOWN,
        manager => manager,
    };
    Entry::new(
        manager.into(),
        operation,
        version,
        writer.subresource.into(),
        fields,
    )
}

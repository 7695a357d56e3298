//! Who owns which fields, through updates and applies.
//!
//! The record is a list in the object itself, `metadata.managedFields`. Whoever changes a
//! field owns it from then on. Whoever applies a configuration owns what it has, shares
//! what others set to the same, and is refused what others own, unless they insist.

pub mod agent;
mod cap;
mod change;
mod conflict;
mod last_applied;
mod prune;
mod record;
pub mod scale;
pub mod times;
pub mod zero;

use std::borrow::Cow;
use std::sync::LazyLock;

use insula_kinds::{Object, Value};

pub use record::Unreadable;
pub use zero::zero;

use crate::set::equal_values;
use crate::typed::{self, NotOfType};
use crate::{Element, Schema, Set};
use change::{Changes, Versions, except};
use conflict::Conflicts;
use record::{Entry, Operation, Record};

/// What nobody owns, because it is not theirs to set.
static NOBODYS: LazyLock<Set> = LazyLock::new(|| {
    let metadata = [
        "name",
        "namespace",
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

/// Who owns what was there before anybody applied something.
const BEFORE: &str = "before-first-apply";

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
    /// What this endpoint leaves as it was, in this version.
    pub reset: &'a Set,
    /// An object of the kind in which nothing is set, in this version: [`zero`].
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

/// Why a configuration is not applied, as long as conflicts may yet be allowed.
enum Refusal {
    Conflicts(Conflicts),
    Other(ApplyError),
}

impl Subject<'_> {
    /// Writes into the new object who owns what after an update of the live one, which is the
    /// zero object of the kind for one that comes about. Both have their `managedFields`,
    /// and both are as they are written ([`zero::complete`]).
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
        self.check_kind(config)?;
        let applied = match self.merge(live, config, writer, force) {
            Err(Refusal::Conflicts(conflicts)) if writer.manager == last_applied::KUBECTL => {
                self.merge_allowed(live, config, writer, conflicts)
            }
            other => other,
        };
        let (mut object, record) = match applied {
            Ok(applied) => applied,
            Err(Refusal::Conflicts(conflicts)) => return Err(conflicts.into_error()),
            Err(Refusal::Other(error)) => return Err(error),
        };
        if writer.manager == last_applied::KUBECTL {
            last_applied::renew(&mut object, config);
        }
        record.write_to(&mut object);
        Ok(object)
    }

    /// Who owns what after an update.
    fn track<'a>(
        &self,
        mut record: Record<'a>,
        live: &Object,
        new: &Object,
        writer: Writer<'a>,
    ) -> Result<Record<'a>, NotOfType>
    where
        Self: 'a,
    {
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

    /// The live object with the configuration, and who owns what.
    fn merge<'a>(
        &self,
        live: &'a Object,
        config: &Object,
        writer: Writer<'a>,
        force: bool,
    ) -> Result<(Object, Record<'a>), Refusal>
    where
        Self: 'a,
    {
        let mut record = self.record(live, writer)?;
        self.check(live, config)?;
        let mut versions = Versions::new(self, live);
        versions.settle(&mut record);
        let fields =
            typed::fields(self.schema, config).map_err(failed("failed to get field set"))?;
        let fields = except(fields, self.reset);
        let version = Cow::Owned(self.api_version.to_owned());
        let mut mine = owner(writer, Operation::Apply, version, fields);
        let last = record.take(mine.owner());
        mine.set_time(last.as_ref().and_then(|last| last.time().cloned()));
        record.entries.push(mine);
        let new = self.merged(live, config, &record, last)?;
        let changes = versions
            .changes(&new)
            .map_err(failed("failed to compare objects"))?;
        // Mine is the last one.
        let Some(mut mine) = record.entries.pop() else {
            return Ok((new, record));
        };
        let conflicts = conflicts(&record, &changes);
        if !force && !conflicts.is_empty() {
            return Err(Refusal::Conflicts(conflicts));
        }
        changes.take_from(&mut record);
        if !times::same_but_entries(live, &new, equal_values) {
            mine.set_time(Some(writer.now.into()));
        }
        mine.set_fields(mine.fields().difference(&NOBODYS));
        if !mine.fields().is_empty() {
            record.entries.push(mine);
        }
        Ok((new, record))
    }

    /// The live object with what is applied and without what no longer is.
    fn merged(
        &self,
        live: &Object,
        config: &Object,
        record: &Record<'_>,
        last: Option<Entry<'_>>,
    ) -> Result<Object, Refusal> {
        let merged = typed::merge(self.schema, live, config);
        let mut new = merged.map_err(failed("failed to merge config"))?;
        if let (Some(last), Some(mine)) = (last, record.entries.last()) {
            let pruned = prune::prune(self, new, record, mine.fields(), &last);
            new = pruned.map_err(failed("failed to prune fields"))?;
        }
        forget(&mut new);
        Ok(new)
    }

    /// Applies in spite of conflicts, if all of them are about what kubectl itself set
    /// before servers could apply.
    fn merge_allowed<'a>(
        &self,
        live: &'a Object,
        config: &Object,
        writer: Writer<'a>,
        conflicts: Conflicts,
    ) -> Result<(Object, Record<'a>), Refusal>
    where
        Self: 'a,
    {
        let Some(allowed) = last_applied::allowed(self, live) else {
            return Err(Refusal::Conflicts(conflicts));
        };
        let conflicts = conflicts.except(&allowed);
        if !conflicts.is_empty() {
            return Err(Refusal::Conflicts(conflicts));
        }
        self.merge(live, config, writer, true)
    }

    /// Who owns what before an apply. If nobody does, somebody has to own what is there.
    fn record<'a>(&self, live: &'a Object, writer: Writer<'a>) -> Result<Record<'a>, Refusal>
    where
        Self: 'a,
    {
        let list = record::list(live).map_or(&[][..], Vec::as_slice);
        let record = Record::read(list);
        let record = record.map_err(failed("failed to decode managed fields"))?;
        if !record.is_empty() {
            return Ok(record);
        }
        let before = Writer {
            manager: BEFORE,
            ..writer
        };
        let tracked = self.track(record, self.zero, live, before);
        tracked.map_err(failed("failed to create manager for existing fields"))
    }

    fn check_kind(&self, config: &Object) -> Result<(), ApplyError> {
        let is = |name| text(config, name) == text(self.zero, name);
        if is("apiVersion") && is("kind") {
            return Ok(());
        }
        let text = format!("invalid object type: {}", sort(config));
        Err(ApplyError::BadRequest(text))
    }

    fn check(&self, live: &Object, config: &Object) -> Result<(), Refusal> {
        let entries = record::list(config);
        if entries.is_some_and(|entries| entries.iter().all(Value::is_object)) {
            let text = "metadata.managedFields must be nil".to_owned();
            return Err(Refusal::Other(ApplyError::BadRequest(text)));
        }
        let attempt = format!("failed to create typed patch object ({})", named(config));
        typed::check(self.schema, config, false).map_err(failed(&attempt))?;
        let attempt = format!("failed to create typed live object ({})", named(live));
        typed::check(self.schema, live, true).map_err(failed(&attempt))
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

fn conflicts(record: &Record<'_>, changes: &Changes<'_>) -> Conflicts {
    let mut conflicts = Conflicts::default();
    for entry in &record.entries {
        if let Some(change) = changes.of(&entry.api_version) {
            conflicts.add(entry, entry.fields().intersection(&change.changed));
        }
    }
    conflicts
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

/// Turns what went wrong into a refusal that says what was attempted.
fn failed<E: std::fmt::Display>(attempt: &str) -> impl FnOnce(E) -> Refusal {
    move |error| Refusal::Other(ApplyError::Schema(format!("{attempt}: {error}")))
}

fn text<'a>(object: &'a Object, name: &str) -> &'a str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The object as errors call it.
fn named(object: &Object) -> String {
    let empty = Object::new();
    let metadata = object.get("metadata").and_then(Value::as_object);
    let metadata = metadata.unwrap_or(&empty);
    let (namespace, name) = (text(metadata, "namespace"), text(metadata, "name"));
    format!("{namespace}/{name}; {}", sort(object))
}

/// Version and kind as Go prints them.
fn sort(object: &Object) -> String {
    let (version, kind) = (text(object, "apiVersion"), text(object, "kind"));
    match version.matches('/').count() {
        _ if version == "/" => format!("/, Kind={kind}"),
        0 => format!("/{version}, Kind={kind}"),
        1 => format!("{version}, Kind={kind}"),
        _ => "/, Kind=".to_owned(),
    }
}

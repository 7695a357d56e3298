//! Server-side apply of a configuration.

use std::borrow::Cow;

use insula_kinds::{Object, Value};

use super::change::{Changes, Versions, except};
use super::conflict::Conflicts;
use super::record::{self, Entry, Operation, Record};
use super::{
    ApplyError, Subject, UNOWNED_FIELDS, Writer, forget, last_applied, owner, prune, times,
};
use crate::set::equal_values;
use crate::typed;

/// The manager of the fields that existed before the first apply.
const BEFORE: &str = "before-first-apply";

/// The error of an apply, while conflicts may still be allowed.
enum MergeError {
    Conflicts(Conflicts),
    Other(ApplyError),
}

/// Applies a configuration. The special rules for `kubectl` are all here: the annotation with its
/// last configuration allows it more, and is updated.
pub(super) fn apply(
    subject: &Subject<'_>,
    live: &Object,
    config: &Object,
    writer: Writer<'_>,
    force: bool,
) -> Result<Object, ApplyError> {
    subject.check_kind(config)?;
    let applied = match subject.merge(live, config, writer, force) {
        Err(MergeError::Conflicts(conflicts)) if writer.manager == last_applied::KUBECTL => {
            subject.merge_allowed(live, config, writer, conflicts)
        }
        other => other,
    };
    let (mut object, record) = match applied {
        Ok(applied) => applied,
        Err(MergeError::Conflicts(conflicts)) => return Err(conflicts.into_error()),
        Err(MergeError::Other(error)) => return Err(error),
    };
    if writer.manager == last_applied::KUBECTL {
        last_applied::renew(&mut object, config);
    }
    record.write_to(&mut object);
    Ok(object)
}

impl Subject<'_> {
    /// Merges the configuration into the live object, and updates the entries.
    fn merge<'a>(
        &self,
        live: &'a Object,
        config: &Object,
        writer: Writer<'a>,
        force: bool,
    ) -> Result<(Object, Record<'a>), MergeError> {
        let mut record = self.record(live, writer)?;
        self.check(live, config)?;
        let mut versions = Versions::new(self, live);
        versions.reconcile_entries(&mut record);
        let mut mine = self.claim(config, writer)?;
        let last = record.take(mine.owner());
        mine.set_time(last.as_ref().and_then(|last| last.time().cloned()));
        record.entries.push(mine);
        let new = self.merged(live, config, &record, last)?;
        let checked = versions.check_others(&new);
        checked.map_err(|(of, error)| failed(&format!("failed to convert {of} object"))(error))?;
        let changes = versions.changes(&new);
        let changes = changes.map_err(failed("failed to compare objects"))?;
        // The applier's own entry is the last one.
        if let Some(mut mine) = record.entries.pop() {
            let conflicts = conflicts(&record, &changes);
            if !force && !conflicts.is_empty() {
                return Err(MergeError::Conflicts(conflicts));
            }
            changes.take_from(&mut record);
            if !times::same_but_entries(live, &new, equal_values) {
                mine.set_time(Some(writer.now.into()));
            }
            mine.set_fields(mine.fields().difference(&UNOWNED_FIELDS));
            let owns = !mine.fields().is_empty();
            record.entries.extend(owns.then_some(mine));
        }
        Ok((new, record))
    }

    /// Returns the entry of the applier after the apply.
    fn claim<'a>(&self, config: &Object, writer: Writer<'a>) -> Result<Entry<'a>, MergeError> {
        let fields = typed::fields(self.schema, config);
        let fields = fields.map_err(failed("failed to get field set"))?;
        let version = Cow::Owned(self.api_version.to_owned());
        let fields = except(fields, self.reset);
        Ok(owner(writer, Operation::Apply, version, fields))
    }

    /// Returns the live object with the configuration merged in, and without fields that are no
    /// longer applied.
    fn merged(
        &self,
        live: &Object,
        config: &Object,
        record: &Record<'_>,
        last: Option<Entry<'_>>,
    ) -> Result<Object, MergeError> {
        let omitted = ["metadata", "managedFields"];
        let merged = typed::merge_without(self.schema, live, config, &omitted);
        let mut new = merged.map_err(failed("failed to merge config"))?;
        if let (Some(last), Some(mine)) = (last, record.entries.last()) {
            let pruned = prune::prune(self, new, record, mine.fields(), &last);
            new = pruned.map_err(failed("failed to prune fields"))?;
        }
        forget(&mut new);
        Ok(new)
    }

    /// Applies in spite of conflicts, if all of them are about fields that kubectl set with
    /// client-side apply.
    fn merge_allowed<'a>(
        &self,
        live: &'a Object,
        config: &Object,
        writer: Writer<'a>,
        conflicts: Conflicts,
    ) -> Result<(Object, Record<'a>), MergeError> {
        let Some(allowed) = last_applied::allowed(self, live) else {
            return Err(MergeError::Conflicts(conflicts));
        };
        let conflicts = conflicts.except(&allowed);
        if !conflicts.is_empty() {
            return Err(MergeError::Conflicts(conflicts));
        }
        self.merge(live, config, writer, true)
    }

    /// Returns the entries before an apply. If there are none, one is created for the existing
    /// fields.
    fn record<'a>(&self, live: &'a Object, writer: Writer<'a>) -> Result<Record<'a>, MergeError> {
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
        let text = format!("invalid object type: {}", version_and_kind(config));
        Err(ApplyError::BadRequest(text))
    }

    fn check(&self, live: &Object, config: &Object) -> Result<(), MergeError> {
        let entries = record::list(config);
        if entries.is_some_and(|entries| entries.iter().all(Value::is_object)) {
            let text = "metadata.managedFields must be nil".to_owned();
            return Err(MergeError::Other(ApplyError::BadRequest(text)));
        }
        let attempt =
            |of, object| format!("failed to create typed {of} object ({})", named(object));
        typed::check(self.schema, config, false)
            .map_err(|error| failed(&attempt("patch", config))(error))?;
        typed::check(self.schema, live, true).map_err(|error| failed(&attempt("live", live))(error))
    }
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

/// Wraps an error with the attempted action.
fn failed<E: std::fmt::Display>(attempt: &str) -> impl FnOnce(E) -> MergeError {
    move |error| MergeError::Other(ApplyError::Schema(format!("{attempt}: {error}")))
}

fn text<'a>(object: &'a Object, name: &str) -> &'a str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the object's name in errors.
fn named(object: &Object) -> String {
    let empty = Object::new();
    let metadata = object.get("metadata").and_then(Value::as_object);
    let metadata = metadata.unwrap_or(&empty);
    let (namespace, name) = (text(metadata, "namespace"), text(metadata, "name"));
    format!("{namespace}/{name}; {}", version_and_kind(object))
}

/// Returns version and kind as Go prints them.
fn version_and_kind(object: &Object) -> String {
    let (version, kind) = (text(object, "apiVersion"), text(object, "kind"));
    match version.matches('/').count() {
        _ if version == "/" => format!("/, Kind={kind}"),
        0 => format!("/{version}, Kind={kind}"),
        1 => format!("{version}, Kind={kind}"),
        _ => "/, Kind=".to_owned(),
    }
}

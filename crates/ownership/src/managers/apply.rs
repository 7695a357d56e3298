//! What a configuration makes of an object.

use std::borrow::Cow;

use insula_kinds::{Object, Value};

use super::change::{Changes, Versions, except};
use super::conflict::Conflicts;
use super::record::{self, Entry, Operation, Record};
use super::{ApplyError, NOBODYS, Subject, Writer, forget, last_applied, owner, prune, times};
use crate::set::equal_values;
use crate::typed;

/// Who owns what was there before anybody applied something.
const BEFORE: &str = "before-first-apply";

/// Why a configuration is not applied, as long as conflicts may yet be allowed.
enum Refusal {
    Conflicts(Conflicts),
    Other(ApplyError),
}

/// What the live object becomes. Kubernetes' rules for `kubectl` itself are all here: what
/// it remembers allows it more, and is kept up.
pub(super) fn apply(
    subject: &Subject<'_>,
    live: &Object,
    config: &Object,
    writer: Writer<'_>,
    force: bool,
) -> Result<Object, ApplyError> {
    subject.check_kind(config)?;
    let applied = match subject.merge(live, config, writer, force) {
        Err(Refusal::Conflicts(conflicts)) if writer.manager == last_applied::KUBECTL => {
            subject.merge_allowed(live, config, writer, conflicts)
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

impl Subject<'_> {
    /// The live object with the configuration, and who owns what.
    fn merge<'a>(
        &self,
        live: &'a Object,
        config: &Object,
        writer: Writer<'a>,
        force: bool,
    ) -> Result<(Object, Record<'a>), Refusal> {
        let mut record = self.record(live, writer)?;
        self.check(live, config)?;
        let mut versions = Versions::new(self, live);
        versions.settle(&mut record);
        let mut mine = self.claim(config, writer)?;
        let last = record.take(mine.owner());
        mine.set_time(last.as_ref().and_then(|last| last.time().cloned()));
        record.entries.push(mine);
        let new = self.merged(live, config, &record, last)?;
        let changes = versions.changes(&new);
        let changes = changes.map_err(failed("failed to compare objects"))?;
        // Mine is the last one.
        if let Some(mut mine) = record.entries.pop() {
            let conflicts = conflicts(&record, &changes);
            if !force && !conflicts.is_empty() {
                return Err(Refusal::Conflicts(conflicts));
            }
            changes.take_from(&mut record);
            if !times::same_but_entries(live, &new, equal_values) {
                mine.set_time(Some(writer.now.into()));
            }
            mine.set_fields(mine.fields().difference(&NOBODYS));
            let owns = !mine.fields().is_empty();
            record.entries.extend(owns.then_some(mine));
        }
        Ok((new, record))
    }

    /// What whoever applies the configuration owns then.
    fn claim<'a>(&self, config: &Object, writer: Writer<'a>) -> Result<Entry<'a>, Refusal> {
        let fields = typed::fields(self.schema, config);
        let fields = fields.map_err(failed("failed to get field set"))?;
        let version = Cow::Owned(self.api_version.to_owned());
        let fields = except(fields, self.reset);
        Ok(owner(writer, Operation::Apply, version, fields))
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
    ) -> Result<(Object, Record<'a>), Refusal> {
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
    fn record<'a>(&self, live: &'a Object, writer: Writer<'a>) -> Result<Record<'a>, Refusal> {
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

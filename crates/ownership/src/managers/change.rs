//! The differences between two objects, in every version in which a manager owns fields.

use std::collections::BTreeMap;

use insula_kinds::Object;

use super::record::Record;
use super::{Subject, Version};
use crate::typed::{self, Comparison, NotOfType};
use crate::{Schema, Set};

/// The differences, without the fields that the endpoint resets.
#[derive(Debug, Default)]
pub(super) struct Change {
    /// The fields that were added or modified.
    pub(super) changed: Set,
    /// The fields that were removed.
    pub(super) removed: Set,
}

/// The live object in the versions in which managers own fields.
pub(super) struct Versions<'a> {
    subject: &'a Subject<'a>,
    live: &'a Object,
    others: BTreeMap<String, Option<Version>>,
}

/// The differences in each of these versions.
pub(super) struct Changes<'a> {
    version: &'a str,
    pub(super) own: Change,
    others: BTreeMap<String, Change>,
}

impl<'a> Versions<'a> {
    pub(super) fn new(subject: &'a Subject<'a>, live: &'a Object) -> Self {
        Self {
            subject,
            live,
            others: BTreeMap::new(),
        }
    }

    /// Drops entries of versions that no longer exist, and reconciles the others with the current
    /// schema.
    pub(super) fn reconcile_entries(&mut self, record: &mut Record<'_>) {
        record.entries.retain_mut(|entry| {
            let Some(schema) = self.schema(&entry.api_version) else {
                return false;
            };
            if let Some(fields) = typed::reconcile(schema, entry.fields()) {
                entry.set_fields(fields);
            }
            true
        });
    }

    /// Compares the live object with a new one.
    pub(super) fn changes(&self, new: &Object) -> Result<Changes<'a>, NotOfType> {
        let own = typed::compare(self.subject.schema, self.live, new)?;
        let mut others = BTreeMap::new();
        for (name, live) in &self.others {
            let converted = |_| (self.subject.convert)(new, name);
            if let (Some(live), Some(new)) = (live, live.as_ref().and_then(converted)) {
                let difference = typed::compare(&live.schema, &live.object, &new.object)?;
                others.insert(name.clone(), Change::new(difference, &live.reset));
            }
        }
        let own = Change::new(own, self.subject.reset);
        Ok(Changes {
            version: self.subject.api_version,
            own,
            others,
        })
    }

    /// Checks that the live object and a new one are objects of the other versions. The error has
    /// the object that is none.
    pub(super) fn check_others(&self, new: &Object) -> Result<(), (&'static str, NotOfType)> {
        for (name, live) in &self.others {
            let Some(live) = live else { continue };
            let checked = typed::check(&live.schema, &live.object, true);
            checked.map_err(|error| ("old", error))?;
            if let Some(new) = (self.subject.convert)(new, name) {
                let checked = typed::check(&live.schema, &new.object, true);
                checked.map_err(|error| ("new", error))?;
            }
        }
        Ok(())
    }

    fn schema(&mut self, version: &str) -> Option<&Schema> {
        if version == self.subject.api_version {
            return Some(self.subject.schema);
        }
        if !self.others.contains_key(version) {
            let converted = (self.subject.convert)(self.live, version);
            self.others.insert(version.to_owned(), converted);
        }
        self.others[version].as_ref().map(|version| &version.schema)
    }
}

impl Changes<'_> {
    /// Returns the differences in a version, or none if the new object cannot be converted to it.
    pub(super) fn of(&self, version: &str) -> Option<&Change> {
        match version == self.version {
            true => Some(&self.own),
            false => self.others.get(version),
        }
    }

    /// Removes lost fields from all entries, and drops entries that become empty.
    pub(super) fn take_from(&self, record: &mut Record<'_>) {
        record.entries.retain_mut(|entry| {
            let Some(change) = self.of(&entry.api_version) else {
                return false;
            };
            entry.remove_changed(change);
            !entry.fields().is_empty()
        });
    }
}

impl Change {
    pub(super) fn new(difference: Comparison, reset: &Set) -> Self {
        let Comparison {
            added,
            removed,
            modified,
        } = difference;
        Self {
            changed: except(join(added, modified), reset),
            removed: except(removed, reset),
        }
    }
}

/// Returns the union of two sets.
pub(super) fn join(one: Set, two: Set) -> Set {
    match (one.is_empty(), two.is_empty()) {
        (true, _) => two,
        (_, true) => one,
        _ => one.union(&two),
    }
}

/// Returns the union of all sets. Sets are joined in pairs, so that many small sets are not each
/// joined with a large one.
pub(super) fn join_all(mut sets: Vec<Set>) -> Set {
    while sets.len() > 1 {
        let mut halves = std::mem::take(&mut sets).into_iter();
        while let Some(one) = halves.next() {
            sets.push(join(one, halves.next().unwrap_or_default()));
        }
    }
    sets.pop().unwrap_or_default()
}

/// Returns the set without these fields and the fields below them.
pub(super) fn except(set: Set, fields: &Set) -> Set {
    match set.is_empty() || fields.is_empty() {
        true => set,
        false => set.recursive_difference(fields),
    }
}

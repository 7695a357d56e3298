//! What is different between two objects, in every version in which somebody owns fields.

use std::collections::BTreeMap;

use insula_kinds::Object;

use super::record::Record;
use super::{Subject, Version};
use crate::typed::{self, Comparison, NotOfType};
use crate::{Schema, Set};

/// What is different, without what the endpoint leaves as it was.
#[derive(Debug, Default)]
pub(super) struct Change {
    /// What came about or has another value.
    pub(super) changed: Set,
    /// What is gone.
    pub(super) removed: Set,
}

/// The live object in the versions in which somebody owns fields.
pub(super) struct Versions<'a> {
    subject: &'a Subject<'a>,
    live: &'a Object,
    others: BTreeMap<String, Option<Version>>,
}

/// What is different in each of these versions.
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

    /// Drops entries of versions that are no more, and makes the others what the schema of
    /// now can mean.
    pub(super) fn settle(&mut self, record: &mut Record<'_>) {
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

    /// What a new object is different in.
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
    /// In the version; nothing if the new object is not to be had in it.
    pub(super) fn of(&self, version: &str) -> Option<&Change> {
        match version == self.version {
            true => Some(&self.own),
            false => self.others.get(version),
        }
    }

    /// Takes from all what they no longer own, and drops those who are left with nothing.
    pub(super) fn take_from(&self, record: &mut Record<'_>) {
        record.entries.retain_mut(|entry| {
            let Some(change) = self.of(&entry.api_version) else {
                return false;
            };
            entry.lose(change);
            !entry.fields().is_empty()
        });
    }
}

impl Change {
    fn new(difference: Comparison, reset: &Set) -> Self {
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

/// The members of either set.
pub(super) fn join(one: Set, two: Set) -> Set {
    match (one.is_empty(), two.is_empty()) {
        (true, _) => two,
        (_, true) => one,
        _ => one.union(&two),
    }
}

/// The members of all sets. Pairs are joined until one is left, so that many small sets do
/// not cost a large one each.
pub(super) fn join_all(mut sets: Vec<Set>) -> Set {
    while sets.len() > 1 {
        let mut halves = std::mem::take(&mut sets).into_iter();
        while let Some(one) = halves.next() {
            sets.push(join(one, halves.next().unwrap_or_default()));
        }
    }
    sets.pop().unwrap_or_default()
}

/// The set without these fields and what is below them.
pub(super) fn except(set: Set, fields: &Set) -> Set {
    match set.is_empty() || fields.is_empty() {
        true => set,
        false => set.recursive_difference(fields),
    }
}

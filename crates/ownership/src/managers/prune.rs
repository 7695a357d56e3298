//! Pruning: removes fields that the manager applied before, does not apply now, and no other
//! manager owns.

use std::borrow::Cow;
use std::collections::BTreeMap;

use insula_kinds::Object;

use super::change::join_all;
use super::record::{Entry, Record};
use super::{Subject, Version};
use crate::typed::{self, NotOfType, ensure_named};
use crate::{Schema, Set};

/// An object in a version.
struct View<'a> {
    version: &'a str,
    object: Cow<'a, Object>,
    schema: Cow<'a, Schema>,
}

/// Prunes the merged object. `last` is the set applied before; the entries already have the set
/// applied now.
pub(super) fn prune(
    subject: &Subject<'_>,
    merged: Object,
    record: &Record<'_>,
    now: &Set,
    last: &Entry<'_>,
) -> Result<Object, NotOfType> {
    let same = last.api_version == subject.api_version;
    // All fields are applied again, so that there is nothing to prune.
    if same && last.fields().is_subset(now) {
        return Ok(merged);
    }
    let whole = View {
        version: subject.api_version,
        object: Cow::Borrowed(&merged),
        schema: Cow::Borrowed(subject.schema),
    };
    let Some(whole) = whole.in_version(subject, &last.api_version) else {
        return Ok(merged);
    };
    let last = ensure_named(&whole.schema, last.fields());
    let pruned = whole.without(&last);
    let pruned = whole.with_owned(subject, pruned, record)?;
    let gone = match pruned.in_version(subject, whole.version) {
        Some(pruned) => whole
            .named()?
            .difference(&pruned.named()?)
            .intersection(&last),
        None => Set::default(),
    };
    let left = whole.without(&gone);
    let back = left.in_version(subject, subject.api_version);
    Ok(back.map_or_else(|| merged.clone(), |back| back.object.into_owned()))
}

impl<'a> View<'a> {
    /// Converts the object to another version, if it exists.
    fn in_version<'b>(&'b self, subject: &Subject<'_>, version: &'b str) -> Option<View<'b>> {
        if version == self.version {
            return Some(View {
                version,
                object: Cow::Borrowed(&self.object),
                schema: Cow::Borrowed(&self.schema),
            });
        }
        let Version { object, schema, .. } = (subject.convert)(&self.object, version)?;
        Some(View {
            version,
            object: Cow::Owned(object),
            schema: Cow::Owned(schema),
        })
    }

    fn without<'b>(&'b self, fields: &Set) -> View<'b> {
        View {
            version: self.version,
            object: Cow::Owned(typed::remove(&self.schema, &self.object, fields)),
            schema: Cow::Borrowed(&self.schema),
        }
    }

    fn into_owned<'b>(self, version: &'b str) -> View<'b> {
        View {
            version,
            object: Cow::Owned(self.object.into_owned()),
            schema: Cow::Owned(self.schema.into_owned()),
        }
    }

    /// Returns the fields of the object, with the declared fields above them.
    fn named(&self) -> Result<Set, NotOfType> {
        let fields = typed::fields(&self.schema, &self.object)?;
        Ok(ensure_named(&self.schema, &fields))
    }

    /// Restores fields that a manager owns. The version in which the object was pruned comes first:
    /// conversions to others may need its fields.
    fn with_owned<'b>(
        &'b self,
        subject: &Subject<'_>,
        pruned: View<'b>,
        record: &'b Record<'_>,
    ) -> Result<View<'b>, NotOfType> {
        let mut owned: BTreeMap<&'b str, Vec<Set>> = BTreeMap::new();
        for entry in &record.entries {
            let sets = owned.entry(entry.api_version.as_ref()).or_default();
            sets.push(entry.fields().clone());
        }
        let first = owned.remove_entry(self.version);
        let mut whole = self.in_version(subject, self.version);
        let mut pruned = pruned;
        for (version, sets) in first.into_iter().chain(owned) {
            let Some(now) = &whole else { break };
            let both = (
                now.in_version(subject, version),
                pruned.in_version(subject, version),
            );
            let (Some(now), Some(left)) = both else {
                continue;
            };
            let owned = ensure_named(&now.schema, &join_all(sets));
            let gone = now.named()?.difference(&left.named()?.union(&owned));
            let left = now.without(&gone).into_owned(version);
            whole = Some(now.into_owned(version));
            pruned = left;
        }
        Ok(pruned)
    }
}

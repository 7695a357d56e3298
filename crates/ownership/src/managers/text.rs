//! Updates that change nothing of the managed fields but a time, in their text.
//!
//! Most updates are of fields that the writer owns already: its entry gets another time, and all
//! entries keep their places. Then the list need not become a tree of values and text again.

use insula_kinds::Object;
use insula_kinds::time::{self, Precision};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::cap::MAX_UPDATES;
use super::change::Change;
use super::record::Operation;
use super::{Subject, UNOWNED_FIELDS, Writer, manager};
use crate::{Set, typed};

/// An entry as the server wrote it.
#[derive(Debug, Deserialize)]
struct WrittenEntry<'a> {
    #[serde(default)]
    manager: &'a str,
    operation: &'a str,
    #[serde(rename = "apiVersion")]
    api_version: &'a str,
    time: &'a str,
    #[serde(rename = "fieldsType")]
    fields_type: &'a str,
    #[serde(borrow, rename = "fieldsV1")]
    fields: &'a RawValue,
    #[serde(default)]
    subresource: &'a str,
}

/// What the order of entries depends on.
type Place<'a> = (Operation, i64, &'a str, &'a str, &'a str);

impl Subject<'_> {
    /// Returns the text of the managed fields after an update of the live object that leaves them
    /// alone: `known` with the time of the writer's entry. `None` if more may change, or if `known`
    /// is not as the server writes it; then [`update`](Self::update) knows.
    ///
    /// Both objects are complete, and neither has its `managedFields`.
    pub fn update_text(
        &self,
        known: &str,
        live: &Object,
        new: &Object,
        writer: Writer<'_>,
    ) -> Option<String> {
        let entries: Vec<WrittenEntry<'_>> = serde_json::from_str(known).ok()?;
        let difference = typed::compare(self.schema, live, new).ok()?;
        let change = Change::new(difference, self.reset);
        let taken = change.changed.difference(&UNOWNED_FIELDS);
        let mut mine = None;
        for entry in &entries {
            let fields = entry.fields_of(self)?;
            let is_mine = entry.is_of(writer, self.api_version)?;
            let stays = match is_mine && !taken.is_empty() {
                true => {
                    taken.is_subset(&fields)
                        && !fields.intersects(&change.removed)
                        && !fields.intersects(&UNOWNED_FIELDS)
                }
                false => !fields.intersects(&change.changed) && !fields.intersects(&change.removed),
            };
            if !stays || is_mine && mine.is_some() {
                return None;
            }
            mine = mine.or(is_mine.then_some(entry));
        }
        let mine = match (taken.is_empty(), mine) {
            (true, _) => None,
            (false, mine) => Some(mine?),
        };
        let keep_places =
            has_places(&entries, None)? && has_places(&entries, mine.zip(Some(writer.now)))?;
        keep_places.then(|| match mine {
            None => known.to_owned(),
            Some(mine) => with_time(known, mine.time, writer.now),
        })
    }
}

impl WrittenEntry<'_> {
    /// Returns the fields, if the current schema has them as they are.
    fn fields_of(&self, subject: &Subject<'_>) -> Option<Set> {
        if self.fields_type != "FieldsV1" || self.api_version != subject.api_version {
            return None;
        }
        let fields = Set::read_text(self.fields.get())?;
        typed::reconcile(subject.schema, &fields)
            .is_none()
            .then_some(fields)
    }

    fn operation(&self) -> Option<Operation> {
        match self.operation {
            "Apply" => Some(Operation::Apply),
            "Update" => Some(Operation::Update),
            _ => None,
        }
    }

    /// Returns whether updates of the writer belong to the entry.
    fn is_of(&self, writer: Writer<'_>, api_version: &str) -> Option<bool> {
        let owner = (self.manager, self.api_version, self.subresource);
        let is_of_writer = owner == (manager(writer), api_version, writer.subresource);
        Some(self.operation()? == Operation::Update && is_of_writer)
    }

    fn place(&self, time: &str) -> Option<Place<'_>> {
        let seconds = time::parse(time, Precision::Seconds).ok()?.seconds;
        // Of an applier the version does not distinguish entries.
        let place = (self.manager, self.api_version, self.subresource);
        Some((self.operation()?, seconds, place.0, place.1, place.2))
    }
}

/// Returns whether the entries are in order, without duplicates, if one of them has another time.
fn has_places(
    entries: &[WrittenEntry<'_>],
    changed: Option<(&WrittenEntry<'_>, &str)>,
) -> Option<bool> {
    let mut before = None;
    let mut updates = 0;
    for entry in entries {
        let time = match changed {
            Some((mine, now)) if std::ptr::eq(mine, entry) => now,
            _ => entry.time,
        };
        let place = entry.place(time)?;
        if before.is_some_and(|before| before >= place) {
            return Some(false);
        }
        updates += usize::from(place.0 == Operation::Update);
        before = Some(place);
    }
    Some(updates <= MAX_UPDATES)
}

/// Returns the text with another time in place of one that is a part of it.
fn with_time(text: &str, time: &str, now: &str) -> String {
    let start = time.as_ptr().addr() - text.as_ptr().addr();
    let mut changed = String::with_capacity(text.len() + now.len());
    changed.push_str(&text[..start]);
    changed.push_str(now);
    changed.push_str(&text[start + time.len()..]);
    changed
}

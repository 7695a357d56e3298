//! Reading and writing of `metadata.managedFields`.

use std::borrow::Cow;

use insula_gotext::quote;
use insula_kinds::time::{self, Precision};
use insula_kinds::{Object, Value, go};

use super::change::Change;
use crate::{Set, set::NotASet};

/// The maximum number of entries in a request. Kubernetes has no such limit, but no useful object
/// has nearly as many managers, and apply entries are never merged.
const MAX_SENT_ENTRIES: usize = 1_000;

/// The operation of an entry. `Apply` sorts before `Update`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    /// The manager applied a configuration with the fields.
    Apply,
    /// The manager changed the fields.
    Update,
}

/// An entry of the managed fields.
#[derive(Debug)]
pub(super) struct Entry<'a> {
    pub(super) manager: Cow<'a, str>,
    pub(super) operation: Operation,
    pub(super) api_version: Cow<'a, str>,
    pub(super) subresource: Cow<'a, str>,
    time: Option<Cow<'a, str>>,
    /// Whether the time is another one than was read.
    has_new_time: bool,
    fields: Set,
    /// The entry as it was read and its index, while nothing but its time is changed.
    written: Option<(usize, &'a Value)>,
}

/// The entries of an object. Each owner has one, except just before they are written.
#[derive(Debug, Default)]
pub(super) struct Record<'a> {
    pub(super) entries: Vec<Entry<'a>>,
}

/// The identity of an owner: two entries that agree in it are of the same owner.
pub(super) type Owner<'e> = (&'e str, Operation, &'e str, &'e str);

/// The error of an invalid entry.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// There are too many entries.
    #[error("there are more than {MAX_SENT_ENTRIES} managed fields entries")]
    TooMany,
    /// The operation is unknown.
    #[error("operation must be `Apply` or `Update`")]
    Operation,
    /// The version is missing.
    #[error("apiVersion must not be empty")]
    ApiVersion,
    /// The fields type is missing.
    #[error("missing fieldsType in managed fields entry {0}")]
    NoType(usize),
    /// The fields type is unknown.
    #[error("invalid fieldsType {} in managed fields entry {index}", quote(form))]
    OtherType {
        /// The fields type.
        form: String,
        /// The index of the entry.
        index: usize,
    },
    /// The fields are invalid.
    #[error("error decoding versioned set from {0}: error decoding set: {1}")]
    Fields(String, NotASet),
}

impl<'a> Record<'a> {
    /// Reads a list that [`Self::write`] wrote: unchanged entries are written as they were.
    pub(super) fn read(list: &'a [Value]) -> Result<Self, Unreadable> {
        let read = |(index, entry)| Entry::read(entry, index);
        let entries = list.iter().enumerate().map(read);
        Ok(Self::of(entries.collect::<Result<_, _>>()?))
    }

    /// Reads a list from a client: entries are written in canonical form.
    pub(super) fn read_foreign(list: &'a [Value]) -> Result<Self, Unreadable> {
        if list.len() > MAX_SENT_ENTRIES {
            return Err(Unreadable::TooMany);
        }
        let mut record = Self::read(list)?;
        for entry in &mut record.entries {
            entry.written = None;
        }
        Ok(record)
    }

    /// Keeps the last of several entries of one owner.
    fn of(mut entries: Vec<Entry<'a>>) -> Self {
        entries.sort_by(|a, b| a.owner().cmp(&b.owner()));
        entries.dedup_by(|later, kept| {
            let same = later.owner() == kept.owner();
            if same {
                std::mem::swap(later, kept);
            }
            same
        });
        Self { entries }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Removes and returns the entry of an owner.
    pub(super) fn take(&mut self, owner: Owner<'_>) -> Option<Entry<'a>> {
        let at = self.entries.iter().position(|entry| entry.owner() == owner);
        at.map(|at| self.entries.swap_remove(at))
    }

    /// The same, if its fields meet a condition.
    pub(super) fn take_if(
        &mut self,
        owner: Owner<'_>,
        condition: impl FnOnce(&Set) -> bool,
    ) -> Option<Entry<'a>> {
        let at = self.entries.iter().position(|entry| entry.owner() == owner);
        let at = at.filter(|at| condition(self.entries[*at].fields()));
        at.map(|at| self.entries.swap_remove(at))
    }

    /// Writes the entries into the metadata of an object, in the order of Kubernetes, if there are
    /// any.
    pub(super) fn write_to(self, object: &mut Object) {
        self.write_from(Vec::new(), object);
    }

    /// The same, with a copy of the list that was read, from which unchanged entries are moved.
    pub(super) fn write_from(mut self, mut copy: Vec<Value>, object: &mut Object) {
        self.entries.sort_by(|a, b| a.place().cmp(&b.place()));
        let entries = self.entries.into_iter();
        let list: Vec<_> = entries.map(|entry| entry.write(&mut copy)).collect();
        let metadata = object
            .entry("metadata")
            .or_insert_with(|| Object::new().into());
        if let (false, Some(metadata)) = (list.is_empty(), metadata.as_object_mut()) {
            metadata.insert("managedFields".to_owned(), list.into());
        }
    }
}

impl<'a> Entry<'a> {
    pub(super) fn new(
        manager: Cow<'a, str>,
        operation: Operation,
        api_version: Cow<'a, str>,
        subresource: Cow<'a, str>,
        fields: Set,
    ) -> Self {
        Self {
            manager,
            operation,
            api_version,
            subresource,
            time: None,
            has_new_time: false,
            fields,
            written: None,
        }
    }

    fn read(value: &'a Value, index: usize) -> Result<Self, Unreadable> {
        let text = |name| value.get(name).and_then(Value::as_str).unwrap_or_default();
        let operation = match text("operation") {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return Err(Unreadable::Operation),
        };
        if text("apiVersion").is_empty() {
            return Err(Unreadable::ApiVersion);
        }
        match text("fieldsType") {
            "FieldsV1" => {}
            "" => return Err(Unreadable::NoType(index)),
            other => {
                let form = other.to_owned();
                return Err(Unreadable::OtherType { form, index });
            }
        }
        let fields = Set::read(value.get("fieldsV1").unwrap_or(&Value::Null));
        let entry = Self::new(
            text("manager").into(),
            operation,
            text("apiVersion").into(),
            text("subresource").into(),
            fields.map_err(|error| Unreadable::Fields(go::Printed(value).to_string(), error))?,
        );
        let time = time::canonical(text("time"), Precision::Seconds);
        Ok(Self {
            time: time.unwrap_or_default(),
            written: Some((index, value)),
            ..entry
        })
    }

    pub(super) fn owner(&self) -> Owner<'_> {
        // An applier is the same owner in all versions.
        let version = match self.operation {
            Operation::Apply => "",
            Operation::Update => &self.api_version,
        };
        (&self.manager, self.operation, version, &self.subresource)
    }

    /// Returns the owner in the form that Kubernetes sorts by.
    pub(super) fn identity(&self) -> String {
        let (manager, operation, version, subresource) = self.owner();
        let members = [
            ("manager", manager),
            ("operation", operation.name()),
            ("apiVersion", version),
            ("subresource", subresource),
        ];
        let present = members.iter().filter(|(_, text)| !text.is_empty());
        let member =
            |(name, text): &(&str, &str)| format!("\"{name}\":{}", go::json(&(*text).into()));
        let members: Vec<_> = present.map(member).collect();
        format!("{{{}}}", members.join(","))
    }

    pub(super) fn fields(&self) -> &Set {
        &self.fields
    }

    pub(super) fn set_fields(&mut self, fields: Set) {
        self.fields = fields;
        self.written = None;
    }

    /// Removes the fields that others changed or removed.
    pub(super) fn remove_changed(&mut self, change: &Change) {
        for gone in [&change.changed, &change.removed] {
            if self.fields.intersects(gone) {
                self.set_fields(self.fields.difference(gone));
            }
        }
    }

    pub(super) fn time(&self) -> Option<&Cow<'a, str>> {
        self.time.as_ref()
    }

    pub(super) fn set_time(&mut self, time: Option<Cow<'a, str>>) {
        self.time = time;
        self.has_new_time = true;
    }

    /// Gives the fields to another manager, which is none of a subresource.
    pub(super) fn set_manager(&mut self, manager: &'static str) {
        self.manager = manager.into();
        self.subresource = "".into();
        self.written = None;
    }

    /// Returns the time in seconds since 1970, which is also the default.
    pub(super) fn seconds(&self) -> i64 {
        let time = self
            .time
            .as_deref()
            .map(|time| time::parse(time, Precision::Seconds));
        time.and_then(Result::ok).map_or(0, |time| time.seconds)
    }

    fn place(&self) -> (Operation, i64, &str, &str, &str) {
        let (manager, operation, _, subresource) = self.owner();
        (
            operation,
            self.seconds(),
            manager,
            &self.api_version,
            subresource,
        )
    }

    fn write(self, copy: &mut [Value]) -> Value {
        let text = |text: Cow<'_, str>| Value::String(text.into_owned());
        if let Some((index, written)) = self.written {
            let taken = copy.get_mut(index).map(Value::take);
            let mut entry = taken.unwrap_or_else(|| written.clone());
            if let (true, Value::Object(entry)) = (self.has_new_time, &mut entry) {
                entry.remove("time");
                entry.extend(self.time.map(|time| ("time".to_owned(), text(time))));
            }
            return entry;
        }
        let mut entry = Object::new();
        let members = [
            ("apiVersion", Some(self.api_version)),
            (
                "manager",
                Some(self.manager).filter(|manager| !manager.is_empty()),
            ),
            (
                "subresource",
                Some(self.subresource).filter(|name| !name.is_empty()),
            ),
            ("time", self.time),
        ];
        for (name, value) in members {
            entry.extend(value.map(|value| (name.to_owned(), text(value))));
        }
        entry.insert("operation".to_owned(), self.operation.name().into());
        entry.insert("fieldsType".to_owned(), "FieldsV1".into());
        entry.insert("fieldsV1".to_owned(), self.fields.write());
        Value::Object(entry)
    }
}

impl Operation {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// Returns the list of an object, if it has one.
pub(super) fn list(object: &Object) -> Option<&Vec<Value>> {
    object.get("metadata")?.get("managedFields")?.as_array()
}

/// Returns whether the list of a client removes all entries: it is empty, or has one empty entry.
pub(super) fn is_reset(list: &[Value]) -> bool {
    let says_nothing = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        _ => false,
    };
    match list {
        [] | [Value::Null] => true,
        [Value::Object(entry)] => entry.values().all(says_nothing),
        _ => false,
    }
}

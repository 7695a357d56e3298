//! Field paths and the collection of errors.

use std::fmt;

use insula_kinds::{FieldError, Value};

/// A field path in the definition. It is built on the stack, and only formatted for errors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    parent: Option<&'a Place<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Step<'a> {
    Field(&'a str),
    Index(usize),
    Key(&'a str),
}

impl<'a> Place<'a> {
    /// `name`
    pub fn root(name: &'a str) -> Self {
        Self {
            parent: None,
            step: Step::Field(name),
        }
    }

    /// `place.name`
    pub fn field(&'a self, name: &'a str) -> Self {
        self.below(Step::Field(name))
    }

    /// `place[index]`
    pub fn index(&'a self, index: usize) -> Self {
        self.below(Step::Index(index))
    }

    /// `place[key]`
    pub fn key(&'a self, key: &'a str) -> Self {
        self.below(Step::Key(key))
    }

    fn below(&'a self, step: Step<'a>) -> Self {
        Self {
            parent: Some(self),
            step,
        }
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.step {
            Step::Field(name) if self.parent.is_none() => f.write_str(name),
            Step::Field(name) => write!(f, ".{name}"),
            Step::Index(index) => write!(f, "[{index}]"),
            Step::Key(key) => write!(f, "[{key}]"),
        }
    }
}

/// Maximum size of collected errors in bytes. Every node of a schema can be invalid, and each
/// error repeats the path: a request of 3 MiB could otherwise cause gigabytes of errors.
const MAX_ERRORS_BYTES: usize = 1 << 20;

/// The errors found so far.
#[derive(Debug)]
pub(super) struct Report {
    errors: Vec<FieldError>,
    found: usize,
    room: usize,
}

impl Default for Report {
    fn default() -> Self {
        Self {
            errors: Vec::new(),
            found: 0,
            room: MAX_ERRORS_BYTES,
        }
    }
}

impl Report {
    /// The errors, up to the size limit.
    pub fn into_errors(self) -> Vec<FieldError> {
        self.errors
    }

    /// Sorts the errors by their text.
    pub fn into_sorted(mut self) -> Self {
        self.errors.sort_by_cached_key(ToString::to_string);
        self
    }

    /// The number of errors, including those beyond the size limit.
    pub fn found(&self) -> usize {
        self.found
    }

    /// Reports whether there are no errors.
    pub fn is_empty(&self) -> bool {
        self.found == 0
    }

    /// Adds the errors of another report.
    pub fn append(&mut self, other: Self) {
        self.found += other.found - other.errors.len();
        other.errors.into_iter().for_each(|error| self.push(error));
    }

    /// Reports a missing value.
    pub fn required(&mut self, place: Place<'_>, detail: &str) {
        self.add(place, |field| FieldError::required(field, detail));
    }

    /// Reports a forbidden field.
    pub fn forbidden(&mut self, place: Place<'_>, detail: &str) {
        self.add(place, |field| FieldError::forbidden(field, detail));
    }

    /// Reports an invalid value.
    pub fn invalid(&mut self, place: Place<'_>, value: &Value, detail: &str) {
        self.add(place, |field| FieldError::invalid(field, value, detail));
    }

    /// Reports an invalid string.
    pub fn invalid_text(&mut self, place: Place<'_>, value: &str, detail: &str) {
        self.add(place, |field| {
            FieldError::invalid_text(field, value, detail)
        });
    }

    /// Reports an invalid value, formatted by `print`.
    pub fn invalid_as(&mut self, place: Place<'_>, print: impl FnOnce() -> String, detail: &str) {
        self.add(place, |field| {
            FieldError::invalid_printed(field, &print(), detail)
        });
    }

    /// Reports a string that is none of `known`.
    pub fn not_supported(&mut self, place: Place<'_>, value: &str, known: &[&str]) {
        self.add(place, |field| {
            FieldError::not_supported(field, &value.into(), known)
        });
    }

    /// Adds an error at `place`, unless the size limit is reached.
    pub fn add(&mut self, place: Place<'_>, build: impl FnOnce(String) -> FieldError) {
        if self.room == 0 {
            self.found += 1;
        } else {
            self.push(build(place.to_string()));
        }
    }

    /// Adds an error, unless the size limit is reached.
    pub fn push(&mut self, error: FieldError) {
        self.found += 1;
        if self.room > 0 {
            let size = error.field.len() + error.body.len();
            self.room = self.room.saturating_sub(size);
            self.errors.push(error);
        }
    }
}

//! Where something is wrong, and what.

use std::fmt;

use insula_kinds::{FieldError, Value};

/// The way from the root of the definition. It lives on the stack of whoever walks, and
/// becomes text only if something is wrong there.
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

/// How many bytes of errors are kept. Every node of a schema can be wrong, and each error
/// repeats the names of all nodes above: a request of 3 MiB could ask for gigabytes.
const ROOM: usize = 1 << 20;

/// What is wrong so far.
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
            room: ROOM,
        }
    }
}

impl Report {
    /// What was found, as far as there was room for it.
    pub fn into_errors(self) -> Vec<FieldError> {
        self.errors
    }

    /// What was found, in the order of its text.
    pub fn into_sorted(mut self) -> Self {
        self.errors.sort_by_cached_key(ToString::to_string);
        self
    }

    /// How much was found, told or not.
    pub fn found(&self) -> usize {
        self.found
    }

    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.found == 0
    }

    /// Takes over what another found.
    pub fn append(&mut self, other: Self) {
        self.found += other.found - other.errors.len();
        other.errors.into_iter().for_each(|error| self.push(error));
    }

    /// It must be there.
    pub fn required(&mut self, place: Place<'_>, detail: &str) {
        self.add(place, |field| FieldError::required(field, detail));
    }

    /// It must not be there.
    pub fn forbidden(&mut self, place: Place<'_>, detail: &str) {
        self.add(place, |field| FieldError::forbidden(field, detail));
    }

    /// Its value is not allowed.
    pub fn invalid(&mut self, place: Place<'_>, value: &Value, detail: &str) {
        self.add(place, |field| FieldError::invalid(field, value, detail));
    }

    /// Its text is not allowed.
    pub fn invalid_text(&mut self, place: Place<'_>, value: &str, detail: &str) {
        self.add(place, |field| {
            FieldError::invalid_text(field, value, detail)
        });
    }

    /// Its value is not allowed, and prints as `print` says.
    pub fn invalid_as(&mut self, place: Place<'_>, print: impl FnOnce() -> String, detail: &str) {
        self.add(place, |field| {
            FieldError::invalid_printed(field, &print(), detail)
        });
    }

    /// Its text is none of `known`.
    pub fn not_supported(&mut self, place: Place<'_>, value: &str, known: &[&str]) {
        self.add(place, |field| {
            FieldError::not_supported(field, &value.into(), known)
        });
    }

    /// Adds what is wrong at `place`, if there is room for it.
    pub fn add(&mut self, place: Place<'_>, make: impl FnOnce(String) -> FieldError) {
        if self.room == 0 {
            self.found += 1;
        } else {
            self.push(make(place.to_string()));
        }
    }

    /// Adds what is wrong, if there is room for it.
    pub fn push(&mut self, error: FieldError) {
        self.found += 1;
        if self.room > 0 {
            let size = error.field.len() + error.body.len();
            self.room = self.room.saturating_sub(size);
            self.errors.push(error);
        }
    }
}

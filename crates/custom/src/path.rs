//! JSONPaths of printer columns and selectable fields: `.spec.replicas`,
//! `.status.conditions[?(@.type=="Ready")].status`.
//!
//! The syntax is that of client-go, including its quirks: a quoted key with dots is a path
//! unless the dots are escaped, `[]` is the first element, and a comparison of different types
//! fails the whole path. A path that fails has no result.

use std::borrow::Cow;

use insula_kinds::{Object, Value};

mod find;
mod parse;

pub use parse::PathError;

/// A parsed path.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    text: String,
    steps: Vec<Step>,
}

/// A step that is applied to all values found so far.
#[derive(Clone, Debug, PartialEq)]
enum Step {
    /// `.name`: the field of each value.
    Member(String),
    /// `.*`: all elements or fields of each value.
    Each,
    /// `..`: each value and everything inside it.
    Descend,
    /// `[1:3]`: a range of elements of each value.
    Slice(Slice),
    /// `[0,2]`: the results of several paths, concatenated.
    Union(Vec<Vec<Step>>),
    /// `[?(@.type=="Ready")]`: the elements of each value that satisfy the condition.
    Filter(Filter),
    /// A number or boolean constant, once per value.
    Scalar(Value),
    /// A string constant, which replaces all values.
    Text(Value),
    /// An unknown word, which only fails at evaluation.
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slice {
    from: Option<i64>,
    to: End,
    by: Option<i64>,
}

/// The end of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The end of the list.
    Open,
    /// Before this element.
    At(i64),
    /// After the first element of the slice, which may be counted from the list's end.
    Next(i64),
}

#[derive(Clone, Debug, PartialEq)]
struct Filter {
    left: Vec<Step>,
    /// `None` if it only tests for existence.
    right: Option<(Operator, Vec<Step>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    /// An unknown operator, which only fails at evaluation.
    Unknown,
}

impl Path {
    /// Parses a path.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        Ok(Self {
            text: text.to_owned(),
            steps: parse::parse(text)?,
        })
    }

    /// The path as written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The path without its leading dot, as field selectors name the field.
    pub fn field(&self) -> &str {
        self.text.strip_prefix('.').unwrap_or(&self.text)
    }

    /// The names of the first member and of the member inside it, if there is one. `None` if the
    /// path does not begin with a member, or has steps that may look elsewhere.
    pub fn beginning(&self) -> Option<(&str, Option<&str>)> {
        let is_plain = |step: &Step| matches!(step, Step::Member(_) | Step::Slice(_));
        match self.steps.as_slice() {
            steps if !steps.iter().all(is_plain) => None,
            [Step::Member(first), Step::Member(second), ..] => Some((first, Some(second))),
            [Step::Member(first), ..] => Some((first, None)),
            _ => None,
        }
    }

    /// The first value found; `None` also if the path does not fit the object.
    pub fn first<'a>(&'a self, object: &'a Object) -> Option<Cow<'a, Value>> {
        find::first(&self.steps, object)
    }

    /// The value as field selectors compare it; empty if missing.
    pub fn selected(&self, object: &Object) -> String {
        match self.first(object).as_deref() {
            None | Some(Value::Null) => String::new(),
            Some(value) => insula_kinds::go::Printed(value).to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn field_selector_compares_text() {
        let Value::Object(object) = json!({"spec": {
            "color": "red", "on": true, "many": 3, "nothing": null, "part": {"a": [1, "b"]},
        }}) else {
            unreachable!()
        };
        let cases = [
            (".spec.color", "spec.color", "red"),
            (".spec.on", "spec.on", "true"),
            (".spec.many", "spec.many", "3"),
            (".spec.nothing", "spec.nothing", ""),
            (".spec.missing", "spec.missing", ""),
            (".spec.part", "spec.part", "map[a:[1 b]]"),
        ];
        for (text, field, wanted) in cases {
            let path = Path::parse(text).unwrap();
            assert_eq!(path.field(), field);
            assert_eq!(path.selected(&object), wanted, "{text}");
        }
    }
}

//! Paths into an object, in the dialect of JSONPath that columns and selectable fields
//! are written in: `.spec.replicas`, `.status.conditions[?(@.type=="Ready")].status`.
//!
//! The dialect is that of client-go, its oddities included: a quoted key with dots in it
//! is a path unless the dots are escaped, `[]` is the first element, and a comparison of
//! different types fails as a whole. What fails has no result.

use std::borrow::Cow;

use insula_kinds::{Object, Value};

mod find;
mod parse;

pub use parse::PathError;

/// A path that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    text: String,
    steps: Vec<Step>,
}

/// What is done to all values that were found so far.
#[derive(Clone, Debug, PartialEq)]
enum Step {
    /// `.name`: the member of each.
    Member(String),
    /// `.*`: all elements or members of each.
    Each,
    /// `..`: each, and everything in it.
    Descend,
    /// `[1:3]`: some elements of each.
    Slice(Slice),
    /// `[0,2]`: what each of the paths finds, one after the other.
    Union(Vec<Vec<Step>>),
    /// `[?(@.type=="Ready")]`: the elements of each for which it holds.
    Filter(Filter),
    /// A number or a truth value, once for each.
    Scalar(Value),
    /// A text, which replaces all of them.
    Text(Value),
    /// A word that means nothing here, which is found out late.
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slice {
    from: Option<i64>,
    to: End,
    by: Option<i64>,
}

/// Where a slice ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Where the list ends.
    Open,
    /// Before that element.
    At(i64),
    /// After the first element of the slice, which may be counted from the list's end.
    Next(i64),
}

#[derive(Clone, Debug, PartialEq)]
struct Filter {
    left: Vec<Step>,
    /// None if it is enough that something is there.
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
    /// Any other sequence of the same characters, which is found out late.
    Unknown,
}

impl Path {
    /// The path that the text says.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        Ok(Self {
            text: text.to_owned(),
            steps: parse::parse(text)?,
        })
    }

    /// The path as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The path without the dot that it begins with, as field selectors name the field.
    pub fn field(&self) -> &str {
        self.text.strip_prefix('.').unwrap_or(&self.text)
    }

    /// The first value that is there; nothing also if the path does not fit the object.
    pub fn first<'a>(&'a self, object: &'a Object) -> Option<Cow<'a, Value>> {
        find::first(&self.steps, object)
    }

    /// The value as field selectors compare it: empty if there is none.
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
    fn a_field_selector_compares_text() {
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

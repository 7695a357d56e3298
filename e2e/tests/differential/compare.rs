//! Differences between responses, and which are intentional.

use std::fmt;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::answer::Recorded;
use crate::case::folder;

/// One difference.
#[derive(Debug)]
pub struct Difference {
    case: String,
    step: usize,
    send: String,
    /// `status`, `type`, `warnings`, `retry-after`, or `body` and a JSON pointer.
    at: String,
    real: Value,
    ours: Value,
}

/// An intentional difference.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Intended {
    /// The case, a pattern in which `*` matches anything.
    cases: String,
    /// The step; 0 means all.
    #[serde(default)]
    step: usize,
    /// The location, also a pattern.
    at: String,
    /// The space: `system`, `tenant`, or both.
    #[serde(default)]
    space: String,
    /// The reason.
    why: String,
}

impl Intended {
    /// All intentional differences in this space.
    pub fn all(space: &str) -> Vec<Self> {
        let path = folder().join("differences.yaml");
        let text = std::fs::read_to_string(path).expect("it is beside the tests");
        let all: Vec<Self> = serde_saphyr::from_str(&text).expect("it is a list of these");
        let here = |one: &Self| one.space.is_empty() || one.space == space;
        all.into_iter().filter(here).collect()
    }

    fn covers(&self, difference: &Difference) -> bool {
        let step = self.step == 0 || self.step == difference.step;
        step && matches(&self.cases, &difference.case) && matches(&self.at, &difference.at)
    }
}

impl fmt::Display for Intended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cases, at, why, .. } = self;
        write!(f, "{cases} at {at} ({why})")
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            case,
            step,
            send,
            at,
            ..
        } = self;
        writeln!(f, "{case} step {step}: {send}\n  {at}")?;
        writeln!(f, "    real {}", self.real)?;
        write!(f, "    ours {}", self.ours)
    }
}

/// All differences.
pub fn differences(real: &[Recorded], ours: &[Recorded]) -> Vec<Difference> {
    let mut found = Vec::new();
    for (real, ours) in real.iter().zip(ours) {
        let key = |one: &Recorded| (one.case.clone(), one.step, one.send.clone());
        assert_eq!(key(real), key(ours), "the recording is old: make record");
        compare(real, ours, &mut found);
    }
    assert_eq!(real.len(), ours.len(), "the recording is old: make record");
    found
}

/// Returns the unintentional differences and the unused entries.
pub fn classify(found: Vec<Difference>, intended: &[Intended]) -> (Vec<Difference>, Vec<String>) {
    let unused = |one: &&Intended| !found.iter().any(|difference| one.covers(difference));
    let stale = intended.iter().filter(unused).map(Intended::to_string);
    let stale = stale.collect();
    let meant = |difference: &Difference| intended.iter().any(|one| one.covers(difference));
    let unmeant = found.into_iter().filter(|one| !meant(one));
    (unmeant.collect(), stale)
}

fn compare(real: &Recorded, ours: &Recorded, found: &mut Vec<Difference>) {
    let mut push = |at: &str, one: Value, other: Value| {
        if one != other {
            found.push(Difference {
                case: real.case.clone(),
                step: real.step,
                send: real.send.clone(),
                at: at.to_owned(),
                real: one,
                ours: other,
            });
        }
    };
    // With different status codes, further differences are not informative.
    if real.status != ours.status {
        return push("status", summary(real), summary(ours));
    }
    push(
        "type",
        real.content_type.clone().into(),
        ours.content_type.clone().into(),
    );
    push(
        "warnings",
        real.warnings.clone().into(),
        ours.warnings.clone().into(),
    );
    push(
        "retry-after",
        real.retry_after.clone().into(),
        ours.retry_after.clone().into(),
    );
    walk("body", &real.body, &ours.body, &mut push);
}

fn summary(answer: &Recorded) -> Value {
    let said = answer.body.get("message").unwrap_or(&answer.body);
    json!([answer.status, said])
}

/// Descends as long as both values have the same shape.
fn walk(at: &str, real: &Value, ours: &Value, push: &mut impl FnMut(&str, Value, Value)) {
    match (real, ours) {
        (Value::Object(one), Value::Object(other)) => {
            for (name, value) in one {
                let there = other.get(name).unwrap_or(&Value::Null);
                walk(&format!("{at}/{name}"), value, there, push);
            }
            for (name, value) in other.iter().filter(|(name, _)| !one.contains_key(*name)) {
                push(&format!("{at}/{name}"), Value::Null, value.clone());
            }
        }
        (Value::Array(one), Value::Array(other))
            if one.len() == other.len() && !have_other_names(one, other) =>
        {
            for (index, (one, other)) in one.iter().zip(other).enumerate() {
                walk(&format!("{at}/{index}"), one, other, push);
            }
        }
        // Names the missing element instead of reporting shifted ones.
        (Value::Array(one), Value::Array(other)) => match (named(one), named(other)) {
            (Some(one), Some(other)) => walk(at, &one, &other, push),
            _ => push(at, real.clone(), ours.clone()),
        },
        _ => push(at, real.clone(), ours.clone()),
    }
}

/// Whether two lists have elements of different names.
fn have_other_names(one: &[Value], other: &[Value]) -> bool {
    let (Some(Value::Object(one)), Some(Value::Object(other))) = (named(one), named(other)) else {
        return false;
    };
    one.keys().ne(other.keys())
}

/// Elements keyed by name, if all names are distinct.
fn named(elements: &[Value]) -> Option<Value> {
    let mut members = serde_json::Map::new();
    for element in elements {
        let name = ["/name", "/resource", "/metadata/name"]
            .iter()
            .find_map(|pointer| element.pointer(pointer)?.as_str())?;
        members.insert(name.to_owned(), element.clone());
    }
    (members.len() == elements.len()).then_some(Value::Object(members))
}

/// Whether a text matches a pattern in which `*` is anything.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(mut text) = text.strip_prefix(start) else {
        return false;
    };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or("");
    for part in parts {
        match text.find(part) {
            Some(at) => text = &text[at + part.len()..],
            None => return false,
        }
    }
    text.ends_with(last)
}

#[test]
fn star_matches_anything() {
    for (pattern, text, like) in [
        ("a", "a", true),
        ("a", "ab", false),
        ("a*", "ab", true),
        ("*b", "ab", true),
        ("a*c*e", "abcde", true),
        ("a*c*e", "abde", false),
        ("a*a", "a", false),
    ] {
        assert_eq!(matches(pattern, text), like, "{pattern} {text}");
    }
}

//! An answer without what differs from run to run.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use insula_testkit::server::Answer;
use regex::Regex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::case::Case;

/// What a step was answered, as it is written down and compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recorded {
    /// The case.
    pub case: String,
    /// Which of its steps, from 1.
    pub step: usize,
    /// The method and the path, as the case has them.
    pub send: String,
    /// The HTTP code.
    pub status: u16,
    /// The content type.
    #[serde(rename = "type")]
    pub content_type: String,
    /// Warnings, in the order in which they came.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// When to try again.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub retry_after: String,
    /// JSON as what it says, several lines of it as an array, anything else as text.
    pub body: Value,
}

impl Recorded {
    /// What is left of an answer.
    pub fn new(
        case: &Case,
        index: usize,
        answer: &Answer,
        kept: &BTreeMap<String, String>,
    ) -> Self {
        let warnings = answer.headers.get_all("warning").iter();
        let warnings = warnings.map(|text| tidy(&String::from_utf8_lossy(text.as_bytes())));
        let mut body = read(answer);
        normalise(&mut body);
        forget(&mut body, kept);
        Self {
            case: case.name.clone(),
            step: index + 1,
            send: case.steps[index].send.clone(),
            status: answer.status,
            content_type: answer.header("content-type").to_owned(),
            warnings: warnings.collect(),
            retry_after: answer.header("retry-after").to_owned(),
            body,
        }
    }
}

/// One value, or an array of those that are on lines of their own, or text.
fn read(answer: &Answer) -> Value {
    let text = answer.text();
    if let Ok(value) = serde_json::from_str(&text) {
        return value;
    }
    let lines: Result<Vec<Value>, _> = text.lines().map(serde_json::from_str).collect();
    match lines {
        Ok(lines) if !lines.is_empty() => Value::Array(lines),
        _ => Value::String(text),
    }
}

fn normalise(value: &mut Value) {
    match value {
        Value::String(text) => *text = tidy(text),
        Value::Array(values) => values.iter_mut().for_each(normalise),
        Value::Object(members) => {
            for (name, value) in members.iter_mut() {
                member(name, value);
            }
            generated(value);
        }
        _ => {}
    }
}

/// What a member's name says about its value.
fn member(name: &str, value: &mut Value) {
    match (name, &mut *value) {
        ("resourceVersion", Value::String(text)) if !text.is_empty() => *text = "<rv>".to_owned(),
        ("continue", Value::String(text)) if !text.is_empty() => *text = "<continue>".to_owned(),
        ("clusterIP", Value::String(text)) if text.contains('.') => *text = "<ip>".to_owned(),
        ("clusterIPs", Value::Array(values)) if values != &[json!("None")] => {
            *value = json!(["<ip>"]);
        }
        ("nodePort", Value::Number(_)) => *value = json!("<port>"),
        ("remainingItemCount", Value::Number(_)) => {}
        ("cells", Value::Array(cells)) => cells.iter_mut().for_each(cell),
        // Their order is by second, and a second may end between two steps.
        ("managedFields", Value::Array(entries)) => {
            entries.iter_mut().for_each(normalise);
            entries.sort_by_key(|entry| {
                let part = |name: &str| entry[name].as_str().unwrap_or("").to_owned();
                [
                    part("operation"),
                    part("manager"),
                    part("subresource"),
                    part("apiVersion"),
                ]
            });
        }
        _ => normalise(value),
    }
}

/// A cell of a table may be an age.
fn cell(value: &mut Value) {
    static AGE: LazyLock<Regex> = LazyLock::new(|| pattern(r"^\d+[smhd](\d+[smh])?$"));
    match value {
        Value::String(text) if AGE.is_match(text) => *text = "<age>".to_owned(),
        _ => normalise(value),
    }
}

/// The name of an object whose name the server made.
fn generated(object: &mut Value) {
    let Some(prefix) = object["generateName"].as_str().map(str::to_owned) else {
        return;
    };
    if let Some(Value::String(name)) = object.get_mut("name")
        && name.strip_prefix(&prefix).is_some_and(|end| end.len() == 5)
    {
        *name = format!("{prefix}<5>");
    }
}

/// A text without UIDs and times of today. Times that cases write are of long ago.
fn tidy(text: &str) -> String {
    static UID: LazyLock<Regex> =
        LazyLock::new(|| pattern("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"));
    static TIME: LazyLock<Regex> =
        LazyLock::new(|| pattern(r"20(2[6-9]|[3-9]\d)-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"));
    static VERSION: LazyLock<Regex> = LazyLock::new(|| pattern(r#"resourceVersion: "\d+""#));
    let text = UID.replace_all(text, "<uid>");
    let text = TIME.replace_all(&text, "<time>");
    let text = VERSION.replace_all(&text, "resourceVersion: <rv>");
    text.into_owned()
}

/// Messages without what was kept, such as resource versions.
fn forget(body: &mut Value, kept: &BTreeMap<String, String>) {
    let words = kept.iter().filter(|(name, _)| *name != "ns");
    for (name, value) in words {
        let word = pattern(&format!(r"\b{}\b", regex::escape(value)));
        let mut replace = |pointer: &str| {
            if let Some(Value::String(text)) = body.pointer_mut(pointer) {
                *text = word.replace_all(text, format!("<{name}>")).into_owned();
            }
        };
        replace("/message");
    }
}

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("it is a pattern")
}

//! Responses without the values that differ from run to run.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use insula_testkit::server::Answer;
use regex::Regex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::case::Case;

/// The normalized response to a step, as recorded and compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recorded {
    /// The case's name.
    pub case: String,
    /// The number of the step, from 1.
    pub step: usize,
    /// The method and the path as written in the case.
    pub send: String,
    /// The HTTP status code.
    pub status: u16,
    /// The content type.
    #[serde(rename = "type")]
    pub content_type: String,
    /// Warnings in the order received.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The Retry-After header.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub retry_after: String,
    /// JSON as a value, several JSON lines as an array, anything else as text.
    pub body: Value,
}

impl Recorded {
    /// Normalizes a response.
    pub fn new(
        case: &Case,
        index: usize,
        answer: &Answer,
        kept: &BTreeMap<String, String>,
    ) -> Self {
        let warnings = answer.headers.get_all("warning").iter();
        let warnings = warnings.map(|text| mask_text(&String::from_utf8_lossy(text.as_bytes())));
        let mut body = read(answer);
        normalise(&mut body);
        mask_kept(&mut body, kept);
        mask(&mut body, &case.steps[index].mask);
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

/// One JSON value, an array of values on separate lines, or text. YAML is parsed.
fn read(answer: &Answer) -> Value {
    let text = answer.text();
    if answer.header("content-type") == "application/yaml"
        && let Ok(value) = serde_saphyr::from_str(&text)
    {
        return value;
    }
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
        Value::String(text) => *text = mask_text(text),
        Value::Array(values) => values.iter_mut().for_each(normalise),
        Value::Object(members) => {
            for (name, value) in members.iter_mut() {
                normalize_field(name, value);
            }
            mask_generated_name(value);
        }
        _ => {}
    }
}

/// Normalizes a field according to its name.
fn normalize_field(name: &str, value: &mut Value) {
    match (name, &mut *value) {
        ("resourceVersion", Value::String(text)) if !text.is_empty() => *text = "<rv>".to_owned(),
        ("continue", Value::String(text)) if !text.is_empty() => *text = "<continue>".to_owned(),
        ("clusterIP", Value::String(text)) if text.contains('.') => *text = "<ip>".to_owned(),
        ("clusterIPs", Value::Array(values)) if values != &[json!("None")] => {
            *value = json!(["<ip>"]);
        }
        ("nodePort", Value::Number(_)) => *value = json!("<port>"),
        // Descriptions are prose and not part of the interface.
        ("columnDefinitions", Value::Array(columns)) => {
            columns
                .iter_mut()
                .for_each(|column| column["description"] = Value::Null);
        }
        ("serverAddress", Value::String(text)) => *text = "<address>".to_owned(),
        ("cells", Value::Array(cells)) => cells.iter_mut().for_each(mask_cell),
        // Sorted by seconds, and a second may end between two steps.
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
        // Go iterates managers in random order.
        ("causes", Value::Array(causes)) => {
            causes.iter_mut().for_each(normalise);
            if causes
                .iter()
                .all(|cause| cause["reason"] == "FieldManagerConflict")
            {
                causes.sort_by_key(ToString::to_string);
            }
        }
        _ => normalise(value),
    }
}

/// Masks ages and allocated addresses and ports in table cells.
fn mask_cell(value: &mut Value) {
    static AGE: LazyLock<Regex> = LazyLock::new(|| pattern(r"^\d+[smhd](\d+[smh])?$"));
    static IP: LazyLock<Regex> = LazyLock::new(|| pattern(r"^10\.(9[6-9]|1\d\d)\.\d+\.\d+$"));
    static PORT: LazyLock<Regex> = LazyLock::new(|| pattern(r":3\d{4}/"));
    match value {
        Value::String(text) if AGE.is_match(text) => *text = "<age>".to_owned(),
        Value::String(text) if IP.is_match(text) => *text = "<ip>".to_owned(),
        Value::String(text) => *text = mask_text(&PORT.replace_all(text, ":<port>/")),
        _ => normalise(value),
    }
}

/// Masks a server-generated name.
fn mask_generated_name(object: &mut Value) {
    let Some(prefix) = object["generateName"].as_str().map(str::to_owned) else {
        return;
    };
    if let Some(Value::String(name)) = object.get_mut("name")
        && name.strip_prefix(&prefix).is_some_and(|end| end.len() == 5)
    {
        *name = format!("{prefix}<5>");
    }
}

/// A text without UIDs, current timestamps and other values of this run. Timestamps in cases are in
/// the distant past.
fn mask_text(text: &str) -> String {
    static RULES: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
        let rules = [
            (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "<uid>"),
            (
                r"20(2[6-9]|[3-9]\d)-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z",
                "<time>",
            ),
            ("hash=[0-9A-F]+", "hash=<hash>"),
            // A whole object quoted in a message.
            (r#""\{\\"(\\.|[^"\\])*""#, r#""<object>""#),
            // A Go source location, which depends on the build.
            (r#"in scheme "[^"]*""#, r#"in scheme "<scheme>""#),
        ];
        rules.map(|(text, by)| (pattern(text), by)).into()
    });
    let mut text = text.to_owned();
    for (rule, by) in RULES.iter() {
        text = rule.replace_all(&text, *by).into_owned();
    }
    text
}

/// Replaces kept values, such as resource versions, in messages.
fn mask_kept(body: &mut Value, kept: &BTreeMap<String, String>) {
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

/// Masks what the case marks as varying.
fn mask(value: &mut Value, hidden: &str) {
    match value {
        _ if hidden.is_empty() => {}
        Value::String(text) => *text = pattern(hidden).replace_all(text, "<masked>").into_owned(),
        Value::Array(values) => values.iter_mut().for_each(|value| mask(value, hidden)),
        Value::Object(members) => members.values_mut().for_each(|value| mask(value, hidden)),
        _ => {}
    }
}

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("it is a pattern")
}

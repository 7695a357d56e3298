//! A written event, taken apart without parsing its bodies.
//!
//! Bodies are what clients send: one that a parser does not take must not make the rest of the
//! event unreadable.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

/// The members of an event that contain what a client sent or received.
pub const BODIES: [&str; 2] = ["requestObject", "responseObject"];

/// The annotation of an event that has lost its bodies.
pub const TRUNCATED: &str = "audit.k8s.io/truncated";

/// The annotation with the keys of the system's annotations.
pub const SYSTEM_KEYS: &str = "insula.dev/system-annotations";

/// The members of an event that it never loses, besides the user's name and the code.
const MINIMAL: [&str; 9] = [
    "kind",
    "apiVersion",
    "level",
    "auditID",
    "stage",
    "verb",
    "objectRef",
    "requestReceivedTimestamp",
    "stageTimestamp",
];

/// The members of an event in their order, as text.
pub struct Line<'a>(Vec<(String, &'a RawValue)>);

impl<'a> Line<'a> {
    /// Parses a line. `None` if it is not an event.
    pub fn parse(line: &'a [u8]) -> Option<Self> {
        serde_json::from_slice(line).ok()
    }

    /// Returns the event. A body that cannot be parsed becomes a text. `None` if another member
    /// cannot be parsed.
    pub fn event(&self) -> Option<Value> {
        let mut event = Map::new();
        for (name, text) in &self.0 {
            let value = match serde_json::from_str(text.get()) {
                Ok(value) => value,
                Err(_) if BODIES.contains(&name.as_str()) => text.get().into(),
                Err(_) => return None,
            };
            event.insert(name.clone(), value);
        }
        Some(Value::Object(event))
    }

    /// Returns the event as a line without bodies, marked as truncated. `None` if it has none.
    pub fn without_bodies(&self) -> Option<Vec<u8>> {
        let is_body = |name: &str| BODIES.contains(&name);
        if !self.0.iter().any(|(name, _)| is_body(name)) {
            return None;
        }
        let kept = self.0.iter().filter(|(name, _)| !is_body(name));
        let mut line = b"{".to_vec();
        for (name, text) in kept.filter(|(name, _)| name != "annotations") {
            serde_json::to_writer(&mut line, name).ok()?;
            line.push(b':');
            line.extend_from_slice(text.get().as_bytes());
            line.push(b',');
        }
        line.extend_from_slice(b"\"annotations\":");
        serde_json::to_writer(&mut line, &self.truncated_annotations()).ok()?;
        line.extend_from_slice(b"}\n");
        Some(line)
    }

    /// Returns the event with no more than who did what to which object, when, and with which
    /// result.
    pub fn minimal(&self) -> Option<Vec<u8>> {
        let event = self.event()?;
        let mut kept = Map::new();
        for name in MINIMAL {
            if let Some(value) = event.get(name) {
                kept.insert(name.to_owned(), value.clone());
            }
        }
        kept.insert(
            "user".to_owned(),
            json!({"username": event["user"]["username"]}),
        );
        let code = &event["responseStatus"]["code"];
        if !code.is_null() {
            kept.insert("responseStatus".to_owned(), json!({"code": code}));
        }
        let annotations = event["annotations"].as_object().into_iter().flatten();
        let is_ours = |key: &str| key.starts_with("insula.dev/") && key != SYSTEM_KEYS;
        let mut annotations: Map<String, Value> = annotations
            .filter(|(key, _)| is_ours(key) || *key == "authorization.k8s.io/decision")
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        annotations.insert(TRUNCATED.to_owned(), "true".into());
        kept.insert("annotations".to_owned(), Value::Object(annotations));
        let mut line = serde_json::to_vec(&kept).ok()?;
        line.push(b'\n');
        Some(line)
    }

    fn truncated_annotations(&self) -> Value {
        let annotations = self.0.iter().find(|(name, _)| name == "annotations");
        let parsed = annotations.and_then(|(_, text)| serde_json::from_str(text.get()).ok());
        let mut annotations: Map<String, Value> = parsed.unwrap_or_default();
        annotations.insert(TRUNCATED.to_owned(), "true".into());
        Value::Object(annotations)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Line<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(Members)
    }
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Line<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Line<'de>, A::Error> {
        let mut members = Vec::new();
        while let Some(name) = map.next_key()? {
            members.push((name, map.next_value()?));
        }
        Ok(Line(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_removed_and_the_rest_stays_as_it_was() {
        for (line, expected) in [
            (r#"{"a":1}"#, None),
            (
                r#"{"kind":"Event","requestObject":{"b":1e999},"c":"\n","annotations":{"d":"e"}}"#,
                Some(
                    r#"{"kind":"Event","c":"\n","annotations":{"d":"e","audit.k8s.io/truncated":"true"}}"#,
                ),
            ),
            (
                r#"{"responseObject":1}"#,
                Some(r#"{"annotations":{"audit.k8s.io/truncated":"true"}}"#),
            ),
        ] {
            let bare = Line::parse(line.as_bytes()).unwrap().without_bodies();
            let bare = bare.map(|bare| String::from_utf8(bare).unwrap());
            let parse = |text: &str| -> Value { serde_json::from_str(text).unwrap() };
            assert_eq!(bare.as_deref().map(parse), expected.map(parse), "{line}");
        }
        let large = concat!(
            r#"{"kind":"Event","user":{"username":"a","groups":["g"]},"requestObject":{},"#,
            r#""responseStatus":{"message":"m","code":422},"annotations":{"d":"e","insula.dev/space":"s"}}"#,
        );
        let minimal = Line::parse(large.as_bytes()).unwrap().minimal().unwrap();
        let minimal: Value = serde_json::from_slice(&minimal).unwrap();
        let expected = json!({
            "kind": "Event", "user": {"username": "a"}, "responseStatus": {"code": 422},
            "annotations": {"audit.k8s.io/truncated": "true", "insula.dev/space": "s"},
        });
        assert_eq!(minimal, expected);
        assert!(Line::parse(b"{\"a\":").is_none());
        assert!(Line::parse(b"[]").is_none());
    }
}

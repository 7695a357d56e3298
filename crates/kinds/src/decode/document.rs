//! Decoding of documents without a type, such as patches, from JSON with warnings.

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::error::Category;

use crate::Object;

/// Go stops collecting warnings at this number.
const MAX_PROBLEMS: usize = 100;

/// A document and its warnings: `duplicate field "a.b"`, `unknown field "[0].c"`, in
/// document order, each once.
#[derive(Debug)]
pub(crate) struct Document {
    pub value: Value,
    pub problems: Vec<String>,
}

/// Reads any document.
pub(crate) fn read(text: &[u8]) -> Result<Document, String> {
    read_with(text, None)
}

/// Reads a list of objects that have no members other than these.
pub(crate) fn read_list_of(text: &[u8], members: &[&str]) -> Result<Document, String> {
    read_with(text, Some(members))
}

fn read_with(text: &[u8], members: Option<&[&str]>) -> Result<Document, String> {
    let problems = RefCell::new(Vec::new());
    let root = Node {
        step: Step::Root,
        outer: None,
        members,
        problems: &problems,
    };
    let mut from = serde_json::Deserializer::from_slice(text);
    let value = (&root).deserialize(&mut from).and_then(|value| {
        from.end()?;
        Ok(value)
    });
    match value {
        Ok(value) => Ok(Document {
            value,
            problems: problems.into_inner(),
        }),
        Err(error) => Err(describe(&error)),
    }
}

fn describe(error: &serde_json::Error) -> String {
    if error.classify() == Category::Eof {
        return "unexpected end of JSON input".to_owned();
    }
    let text = error.to_string();
    match text.rsplit_once(" at line ") {
        Some((text, _)) => text.to_owned(),
        None => text,
    }
}

/// A value to decode and its position in the document.
struct Node<'a> {
    step: Step<'a>,
    outer: Option<&'a Node<'a>>,
    /// The known members of objects in the list at the root, if restricted.
    members: Option<&'a [&'a str]>,
    problems: &'a RefCell<Vec<String>>,
}

enum Step<'a> {
    Root,
    Index(usize),
    Member(&'a str),
}

impl Node<'_> {
    fn child<'b>(&'b self, step: Step<'b>) -> Node<'b> {
        Node {
            step,
            outer: Some(self),
            members: self.members,
            problems: self.problems,
        }
    }

    fn report(&self, problem: &str, member: &str) {
        let mut problems = self.problems.borrow_mut();
        if problems.len() == MAX_PROBLEMS {
            return;
        }
        let path = self.child(Step::Member(member)).path();
        let problem = format!("{problem} field \"{path}\"");
        if !problems.contains(&problem) {
            problems.push(problem);
        }
    }

    fn path(&self) -> String {
        let mut path = self.outer.map(Node::path).unwrap_or_default();
        match self.step {
            Step::Root => {}
            Step::Index(index) => path.push_str(&format!("[{index}]")),
            Step::Member(name) if path.is_empty() => path.push_str(name),
            Step::Member(name) => {
                path.push('.');
                path.push_str(name);
            }
        }
        path
    }

    /// Whether objects at this position may have the member.
    fn is_known(&self, name: &str) -> bool {
        let in_root = self
            .outer
            .is_some_and(|outer| matches!(outer.step, Step::Root));
        match (self.members, &self.step) {
            (Some(members), Step::Index(_)) if in_root => members.contains(&name),
            _ => true,
        }
    }
}

impl<'de> DeserializeSeed<'de> for &Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(value) = from.next_element_seed(&self.child(Step::Index(list.len())))? {
            list.push(value);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut object = Object::new();
        while let Some(name) = from.next_key::<String>()? {
            if !self.is_known(&name) {
                self.report("unknown", &name);
                from.next_value::<IgnoredAny>()?;
                continue;
            }
            if object.contains_key(&name) {
                self.report("duplicate", &name);
            }
            let value = from.next_value_seed(&self.child(Step::Member(&name)))?;
            object.insert(name, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicates_are_reported_with_their_path() {
        let text = br#"{"a":1,"a":2,"b":{"c":1,"c":2,"d":[{"e":1,"e":2},[{"f":1,"f":3}]]}}"#;
        let document = read(text).unwrap();
        let wanted = ["a", "b.c", "b.d[0].e", "b.d[1][0].f"];
        let wanted: Vec<_> = wanted
            .iter()
            .map(|path| format!("duplicate field \"{path}\""))
            .collect();
        assert_eq!(document.problems, wanted);
        assert_eq!(document.value["a"], 2);
    }

    #[test]
    fn unknown_members_are_reported_once() {
        let text = br#"[{"value":{"x":1,"a":1,"a":2},"Op":"x","foo":1,"foo":2}]"#;
        let document = read_list_of(text, &["op", "value"]).unwrap();
        let wanted = [
            "duplicate field \"[0].value.a\"",
            "unknown field \"[0].Op\"",
            "unknown field \"[0].foo\"",
        ];
        assert_eq!(document.problems, wanted);
    }

    #[test]
    fn truncated_patch_is_rejected_in_gos_words() {
        for text in ["", "{", "[1,", "{\"a\":", "\"x"] {
            let error = read(text.as_bytes()).unwrap_err();
            assert_eq!(error, "unexpected end of JSON input", "{text}");
        }
        assert!(read(&[b'['; 500]).is_err());
    }
}

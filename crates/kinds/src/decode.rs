//! Decoding of objects from JSON and YAML, by their type.
//!
//! Documents are read in one pass without an intermediate tree: known fields are kept in
//! canonical form, unknown fields are dropped and reported, and errors are worded as Go
//! words them, which clients and upstream tests rely on.

mod bytes;
mod canonical;
mod custom;
pub(crate) mod document;
mod location;
mod node;
mod scan;
mod type_meta;
mod yaml;

use serde::de::DeserializeSeed;
use serde_json::Value;

pub use custom::{custom_json, custom_value, custom_yaml};
pub(crate) use scan::syntax_error;
pub use type_meta::{TypeMeta, type_meta_json};
pub use yaml::{any_yaml, type_meta_yaml, yaml};

use crate::Object;
use crate::types::{Shape, TypeId, types};
use location::{DecodeState, Location};
use node::Node;

/// Maximum nesting of objects and lists. Go allows 10000, which no object needs and which
/// would exhaust the stack: the deepest schemas of real CRDs stay below 70.
pub const MAX_DEPTH: usize = 127;

/// A decoded object and the warnings about its text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decoded {
    /// The object: known fields only, null members left out.
    pub object: Object,
    /// `unknown field "spec.foo"`, `duplicate field "data.a"`: in the order of the
    /// document, each once, a hundred at most.
    pub problems: Vec<String>,
}

/// Why a text cannot be decoded, in the wording of Go.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The text is not a document with a recognizable kind.
    #[error("{0}")]
    Syntax(String),
    /// A value does not have the type of its field.
    #[error("{0}")]
    Type(String),
}

impl DecodeError {
    fn not_json(text: &str) -> Self {
        Self::Syntax(format!(
            "couldn't get version/kind; json parse error: {text}"
        ))
    }

    fn too_deep() -> Self {
        Self::not_json("exceeded max depth")
    }
}

/// Reads an object from JSON.
pub fn json(of: TypeId, text: &[u8]) -> Result<Decoded, DecodeError> {
    let text = utf8(text)?;
    let state = DecodeState::default();
    let mut from = serde_json::Deserializer::from_str(text);
    let location = &Location::root(&state);
    let shape = root(of);
    let read = Node { shape, location }
        .deserialize(&mut from)
        .and_then(|value| from.end().map(|()| value));
    match read {
        Ok(value) => Ok(state.decoded(value)),
        Err(error) => Err(decode_error(text, &state, &error)),
    }
}

/// Reads an object from a tree, as if the tree had been read from JSON.
pub fn value(of: TypeId, value: Value) -> Result<Decoded, DecodeError> {
    match value {
        Value::Object(object) if canonical::is_canonical(of, &object) => Ok(Decoded {
            object,
            problems: Vec::new(),
        }),
        value => rebuilt(of, value),
    }
}

/// The same, member by member.
fn rebuilt(of: TypeId, value: Value) -> Result<Decoded, DecodeError> {
    let state = DecodeState::default();
    let location = &Location::root(&state);
    let shape = root(of);
    let read = Node { shape, location }.deserialize(value);
    match read {
        Ok(value) => Ok(state.decoded(value)),
        Err(error) => Err(state.take_error(&error)),
    }
}

/// Reads any JSON document. The error is worded as in Go.
pub fn any(text: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(text).map_err(|_| {
        let message = scan::syntax_error(text);
        message.unwrap_or_else(|| "exceeded max depth".to_owned())
    })
}

/// Returns the beginning of a body for errors that cannot name the kind, in parentheses:
/// verbatim if it looks like JSON, otherwise in hexadecimal.
pub fn excerpt(text: &[u8]) -> String {
    const LENGTH: usize = 30;
    let shown = &text[..text.len().min(LENGTH)];
    let more = if text.len() > LENGTH { " ..." } else { "" };
    match shown.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(shown)),
        Some(_) => {
            let digits: String = shown.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{digits}{more}")
        }
    }
}

impl DecodeState {
    fn decoded(&self, value: Option<Value>) -> Decoded {
        let object = match value {
            Some(Value::Object(object)) => object,
            // Only null gets here, which Go decodes to an empty object.
            _ => Object::new(),
        };
        Decoded {
            object,
            problems: self.problems.take(),
        }
    }

    fn take_error(&self, error: &dyn std::fmt::Display) -> DecodeError {
        let first = self.error.take();
        first.unwrap_or_else(|| DecodeError::Type(error.to_string()))
    }
}

/// Returns the type as the shape of a whole document.
fn root(of: TypeId) -> &'static Shape {
    use std::collections::HashMap;
    use std::sync::LazyLock;
    static ROOTS: LazyLock<HashMap<TypeId, Shape>> = LazyLock::new(|| {
        let ids = types().iter().map(|(id, _)| id);
        ids.map(|id| (id, Shape::Struct(id))).collect()
    });
    &ROOTS[&of]
}

fn utf8(text: &[u8]) -> Result<&str, DecodeError> {
    std::str::from_utf8(text).map_err(|error| {
        // Go would replace invalid bytes by question marks and store the result.
        scan::syntax_error(text).map_or_else(
            || {
                let at = error.valid_up_to();
                DecodeError::not_json(&format!("invalid UTF-8 at input byte {at}"))
            },
            |message| DecodeError::not_json(&message),
        )
    })
}

/// Picks the error to report. Go checks the syntax of the whole text before any type.
fn decode_error(text: &str, state: &DecodeState, error: &serde_json::Error) -> DecodeError {
    if let Some(message) = scan::syntax_error(text.as_bytes()) {
        return DecodeError::not_json(&message);
    }
    match state.error.take() {
        Some(DecodeError::Type(message)) => {
            let message = match state.number.take() {
                Some(number) => with_original(&message, number, token(text, error)),
                None => message,
            };
            DecodeError::Type(message)
        }
        Some(error) => error,
        // serde rejects nothing else that Go accepts.
        None if error.to_string().starts_with("recursion limit") => DecodeError::too_deep(),
        None => DecodeError::not_json(&without_location(error)),
    }
}

/// Restores a number in an error to the way the client wrote it, which serde does not
/// report.
fn with_original(message: &str, number: f64, written: &str) -> String {
    if written.parse() != Ok(number) {
        return message.to_owned();
    }
    let Some((before, rest)) = message.split_once("number ") else {
        return message.to_owned();
    };
    let after = rest.split_once(' ').map_or("", |(_, after)| after);
    format!("{before}number {written} {after}")
}

/// Returns the number in the text that ends where serde stopped.
fn token<'a>(text: &'a str, error: &serde_json::Error) -> &'a str {
    let line = text.split('\n').nth(error.line().saturating_sub(1));
    let read = line.and_then(|line| line.get(..error.column().min(line.len())));
    let read = read.unwrap_or_default();
    let part = |byte: u8| byte.is_ascii_digit() || b"+-.eE".contains(&byte);
    let length = read.bytes().rev().take_while(|&byte| part(byte)).count();
    &read[read.len() - length..]
}

/// Returns serde's message without the position.
fn without_location(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at line ") {
        Some((text, _)) => text.to_owned(),
        None => text,
    }
}

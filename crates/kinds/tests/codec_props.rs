//! Laws of the codec that hold for any input.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use insula_kinds::{
    Form, Kind, Object, Shape, TypeId, Value, cbor, decode, encode, kinds, protobuf, types,
};
use proptest::prelude::*;

/// Objects as written by a real API server, one per line.
const OBJECTS: &str = include_str!("data/codec/objects.jsonl");

fn written(kind: &Kind, object: &Object) -> Vec<u8> {
    let mut out = Vec::new();
    let of = kind.type_id();
    encode::json(kind.api_version(), &kind.kind, of, object, &mut out);
    out
}

fn normal(kind: &Kind, object: &Object) -> Object {
    let mut object = object.clone();
    encode::normalize(kind.type_id(), &mut object);
    object
}

/// Checks that decoding and encoding again change nothing.
fn is_stable(kind: &Kind, object: &Object) -> Result<(), TestCaseError> {
    let once = written(kind, object);
    prop_assert!(serde_json::from_slice::<Value>(&once).is_ok());
    let again = decode::json(kind.type_id(), &once).unwrap();
    prop_assert_eq!(&again.problems, &Vec::<String>::new());
    let twice = written(kind, &again.object);
    prop_assert_eq!(
        String::from_utf8_lossy(&once),
        String::from_utf8_lossy(&twice)
    );
    let mut left = normal(kind, object);
    let mut right = normal(kind, &again.object);
    for object in [&mut left, &mut right] {
        object.remove("kind");
        object.remove("apiVersion");
    }
    prop_assert_eq!(&left, &right);
    prop_assert_eq!(written(kind, &left), once);
    Ok(())
}

/// Checks that the message of the text is that of its tree.
fn has_one_message(kind: &Kind, object: &Object) -> Result<(), TestCaseError> {
    let text = written(kind, object);
    let tree: Object = serde_json::from_slice(&text).unwrap();
    let (mut from_text, mut from_tree) = (Vec::new(), Vec::new());
    protobuf::encode_text(kind.type_id(), &text, &mut from_text);
    protobuf::encode(kind.type_id(), &tree, &mut from_tree);
    prop_assert_eq!(from_text, from_tree);
    Ok(())
}

/// Checks that CBOR changes nothing, with the type known and without, and that decoding it yields
/// the object.
fn survives_cbor(kind: &Kind, object: &Object) -> Result<(), TestCaseError> {
    let text = written(kind, object);
    let tree: Value = serde_json::from_slice(&text).unwrap();
    for of in [Some(kind.type_id()), None] {
        let document = cbor::self_described(of, &text);
        let json = cbor::to_json(&document).unwrap();
        let again: Value = serde_json::from_slice(&json).unwrap();
        prop_assert_eq!(&again, &tree);
        let decoded = decode::json(kind.type_id(), &json).unwrap();
        prop_assert_eq!(decoded.problems, Vec::<String>::new());
        let again = written(kind, &decoded.object);
        prop_assert_eq!(
            String::from_utf8_lossy(&again),
            String::from_utf8_lossy(&text)
        );
        let size = cbor::measure(&document).unwrap();
        prop_assert_eq!(size.maps, text.iter().filter(|byte| **byte == b'{').count());
    }
    Ok(())
}

/// Choices driven by bytes; when they run out, the first option is chosen.
struct Choices<'a>(std::slice::Iter<'a, u8>);

impl Choices<'_> {
    fn of(&mut self, count: usize) -> usize {
        usize::from(self.0.next().copied().unwrap_or(0)) % count
    }

    fn value(&mut self, shape: &Shape, depth: usize) -> Value {
        let pick = |choices: &mut Self, from: &[&str]| Value::from(from[choices.of(from.len())]);
        match shape {
            Shape::String => pick(self, &["", "a", "<&>", "é\u{2028}\"\\\n", "0"]),
            Shape::Bool => Value::from(self.of(2) == 1),
            Shape::Int32 => Value::from([0, 1, i32::MIN, i32::MAX][self.of(4)]),
            Shape::Int64 => Value::from([0, 1, i64::MIN, i64::MAX][self.of(4)]),
            Shape::Float64 => Value::from([0.0, 1.0, -1.5, 1e300, 1e-9, 1e17][self.of(6)]),
            Shape::Bytes => pick(self, &["", "YQ==", "YWI=", "YWJj", "YR=="]),
            Shape::Time => pick(
                self,
                &[
                    "2026-11-16T00:00:00Z",
                    "0001-01-01T00:00:00Z",
                    "2026-01-01T00:00:00.5+01:00",
                ],
            ),
            Shape::MicroTime => pick(
                self,
                &[
                    "2026-11-16T00:00:00.000000Z",
                    "2026-11-16T00:00:00.123456-01:00",
                ],
            ),
            Shape::Quantity => pick(self, &["0", "1.5Gi", "1000m", "1e3", "0.1Ki", "-3n"]),
            Shape::IntOrString => {
                [Value::from(0), Value::from(5), Value::from("25%")][self.of(3)].clone()
            }
            Shape::Raw => {
                let raw = serde_json::json!([null, {"b": null, "a": [1.5, "<"]}, [], false, "x"]);
                raw[self.of(5)].clone()
            }
            Shape::List(of) | Shape::WrappedList(of) => {
                let length = if depth > 8 { 0 } else { self.of(3) };
                (0..length).map(|_| self.element(of, depth + 1)).collect()
            }
            Shape::Map(of) => {
                let length = if depth > 8 { 0 } else { self.of(3) };
                let entries = (0..length).map(|n| {
                    let key = ["a", "b<c", "é"][n].to_owned();
                    (key, self.element(of, depth + 1))
                });
                Value::Object(entries.collect())
            }
            Shape::Struct(id) if types().get(*id).form == Form::Either => {
                let field = &types().get(*id).fields[self.of(2)];
                self.value(&field.shape, depth + 1)
            }
            Shape::Struct(id) => Value::Object(self.object(*id, depth)),
        }
    }

    fn element(&mut self, shape: &Shape, depth: usize) -> Value {
        match self.of(8) {
            7 => Value::Null,
            _ => self.value(shape, depth),
        }
    }

    fn object(&mut self, of: TypeId, depth: usize) -> Object {
        let mut object = Object::new();
        if depth > 8 {
            return object;
        }
        for field in types().members(of) {
            match self.of(3) {
                0 => {}
                1 if self.of(8) == 7 => {
                    object.insert(field.json.to_owned(), Value::Null);
                }
                _ => {
                    let value = self.value(&field.shape, depth + 1);
                    object.insert(field.json.to_owned(), value);
                }
            }
        }
        object
    }
}

#[test]
fn random_objects_of_every_kind_roundtrip() {
    let mut runner = proptest::test_runner::TestRunner::default();
    let bytes = proptest::collection::vec(any::<u8>(), 0..400);
    let test = |bytes: Vec<u8>| {
        for (_, kind) in kinds().iter() {
            let object = Choices(bytes.iter()).object(kind.type_id(), 0);
            let decoded = decode::value(kind.type_id(), Value::Object(object.clone())).unwrap();
            prop_assert_eq!(&decoded.problems, &Vec::<String>::new());
            let text = serde_json::to_vec(&object).unwrap();
            let from_text = decode::json(kind.type_id(), &text).unwrap();
            prop_assert_eq!(&from_text, &decoded);
            is_stable(kind, &decoded.object)?;
            has_one_message(kind, &decoded.object)?;
            survives_cbor(kind, &decoded.object)?;
        }
        Ok(())
    };
    runner.run(&bytes, test).unwrap();
}

/// A real object with a few bytes replaced, removed or inserted.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let lines: Vec<_> = OBJECTS.lines().collect();
    let tokens = [
        "",
        "\"",
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "null",
        "1",
        "1.5",
        "-",
        "\\",
        "\"a\":",
        "\u{2028}",
        "true",
        "1e999",
        "\"\\ud800\"",
        "99999999999999999999",
    ];
    let edit = (
        any::<prop::sample::Index>(),
        0usize..4,
        prop::sample::select(tokens.to_vec()),
    );
    let edits = proptest::collection::vec(edit, 0..4);
    (prop::sample::select(lines), edits).prop_map(|(line, edits)| {
        let mut text = line.as_bytes().to_vec();
        for (at, cut, token) in edits {
            let at = at.index(text.len());
            let end = (at + cut).min(text.len());
            text.splice(at..end, token.bytes());
        }
        text
    })
}

proptest! {
    #[test]
    fn damaged_objects_are_rejected_or_roundtrip(text in damaged(), which in any::<prop::sample::Index>()) {
        let of_its_own = decode::type_meta_json(&text).ok().and_then(|type_meta| {
            let version = type_meta.api_version?;
            let (group, version) = version.split_once('/').unwrap_or(("", &version));
            kinds().find_by_kind(group, version, &type_meta.kind?)
        });
        let any = kinds().iter().nth(which.index(kinds().iter().count())).unwrap().0;
        for id in of_its_own.into_iter().chain([any]) {
            let kind = kinds().get(id);
            match decode::json(kind.type_id(), &text) {
                Ok(decoded) => is_stable(kind, &decoded.object)?,
                Err(error) => prop_assert!(!error.to_string().is_empty()),
            }
            if let Ok(decoded) = decode::yaml(kind.type_id(), &text) {
                is_stable(kind, &decoded.object)?;
            }
        }
    }

    #[test]
    fn decoding_any_bytes_never_panics(text in proptest::collection::vec(any::<u8>(), 0..200)) {
        let of = types().find("api.core.v1.Pod").unwrap();
        let _ = decode::type_meta_json(&text);
        let _ = decode::type_meta_yaml(&text);
        let _ = decode::json(of, &text);
        let _ = decode::yaml(of, &text);
        prop_assert!(!decode::excerpt(&text).is_empty());
    }

    #[test]
    fn decoding_any_cbor_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let well_formed = cbor::measure(&bytes);
        match (well_formed, cbor::to_json(&bytes)) {
            (Ok(size), Ok(json)) => {
                prop_assert!(json.len() <= size.json, "{} > {}", json.len(), size.json);
                let value: Value = serde_json::from_slice(&json).unwrap();
                let document = cbor::self_described(None, value.to_string().as_bytes());
                let again = cbor::to_json(&document).unwrap();
                prop_assert_eq!(serde_json::from_slice::<Value>(&again).unwrap(), value);
            }
            (Err(error), again) => prop_assert_eq!(again, Err(error)),
            (Ok(_), Err(_)) => {}
        }
    }

    #[test]
    fn scanner_accepts_the_json_serde_accepts(text in damaged()) {
        let of = types().find("api.core.v1.Pod").unwrap();
        let is_json = serde_json::from_slice::<serde::de::IgnoredAny>(&text).is_ok();
        let refused = matches!(decode::json(of, &text), Err(decode::DecodeError::Syntax(_)));
        // Strings with unpaired surrogates and numbers out of range are JSON, but not
        // values.
        let odd = text.windows(3).any(|bytes| bytes == b"\\ud" || bytes == b"999")
            // A skipped string is not checked for UTF-8.
            || std::str::from_utf8(&text).is_err();
        prop_assert!(is_json != refused || odd);
    }

    #[test]
    fn quantity_parsing_never_panics(text in "[-+]?[0-9.]{0,40}[eEinumkKMGTP]{0,2}[-+]?[0-9]{0,20}") {
        if let Ok(canonical) = insula_kinds::quantity::canonical(&text) {
            let again = insula_kinds::quantity::canonical(&canonical);
            prop_assert_eq!(again, Ok(canonical));
        }
    }

    #[test]
    fn time_parsing_never_panics(text in "[0-9]{4}-[0-1][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9]([.,][0-9]{1,12})?(Z|[-+][0-2][0-9]:[0-5][0-9]|é)") {
        use insula_kinds::time::{Precision, canonical};
        for precision in [Precision::Seconds, Precision::Micros] {
            if let Ok(Some(once)) = canonical(&text, precision) && !once.starts_with('-') {
                prop_assert_eq!(canonical(&once, precision).unwrap().unwrap(), once.clone());
            }
        }
    }
}

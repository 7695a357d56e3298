//! What a real server made of objects that it was sent, and what we make of them.

use std::fs;
use std::path::PathBuf;

use insula_kinds::{
    Field, Form, Kind, Object, Omit, Shape, TypeId, Value, defaults, kinds, prepare, quantity,
    types,
};
use proptest::prelude::*;
use serde_json::json;

/// The server's answers to reviews come from its authorizer, not from what was sent.
const ANSWERED: [(&str, &[&str]); 3] = [
    ("TokenReview", &["status"]),
    ("SelfSubjectAccessReview", &["status"]),
    ("SelfSubjectRulesReview", &["status", "spec"]),
];

#[test]
fn every_object_becomes_what_a_real_server_makes_of_it() {
    let mut seen = 0;
    let mut different = Vec::new();
    for input in recorded() {
        let name = input.file_name().unwrap().to_string_lossy().into_owned();
        let output = input.with_file_name(name.replace(".in.json", ".out.json"));
        let (kind, made) = made_of(read(&input));
        let mut wanted = read(&output);
        let mut made = completed(kind.type_id(), &made);
        for object in [&mut wanted, &mut made] {
            forget_what_the_server_adds(kind, object);
        }
        seen += 1;
        if made != wanted {
            let (made, wanted) = (json!(made), json!(wanted));
            different.push(format!("{name}\n  made   {made}\n  wanted {wanted}"));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
    assert_eq!(seen, 48);
}

#[test]
fn defaulting_what_a_server_answered_changes_nothing() {
    for input in recorded() {
        let output = input.to_string_lossy().replace(".in.json", ".out.json");
        let object = read(&PathBuf::from(output));
        let kind = kind_of(&object);
        let mut again = object.clone();
        defaults::apply(kind, &mut again);
        let (before, after) = (
            completed(kind.type_id(), &object),
            completed(kind.type_id(), &again),
        );
        assert_eq!(json!(before), json!(after), "{}", kind.kind);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Objects of any kind, filled at random by their types.
    #[test]
    fn defaulting_twice_is_defaulting_once(seed in prop::collection::vec(any::<u8>(), 512)) {
        for (_, kind) in kinds().iter() {
            let mut object = grown(kind.type_id(), &mut seed.iter().copied().cycle(), 0);
            defaults::apply(kind, &mut object);
            let once = object.clone();
            defaults::apply(kind, &mut object);
            prop_assert_eq!(&once, &object, "{}", kind.kind);
        }
    }
}

fn recorded() -> Vec<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/defaults");
    let files = fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path());
    let mut inputs: Vec<_> = files
        .filter(|path| path.to_string_lossy().ends_with(".in.json"))
        .collect();
    inputs.sort();
    inputs
}

fn read(path: &PathBuf) -> Object {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn kind_of(object: &Object) -> &'static Kind {
    let version = object["apiVersion"].as_str().unwrap();
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let kind = object["kind"].as_str().unwrap();
    kinds().get(kinds().of_kind(group, version, kind).unwrap())
}

/// The object as it would be stored, with the values that the recorded server chose.
fn made_of(mut object: Object) -> (&'static Kind, Object) {
    let kind = kind_of(&object);
    let reviewed = ANSWERED.iter().any(|(name, _)| *name == kind.kind);
    defaults::apply(kind, &mut object);
    if reviewed {
        return (kind, object);
    }
    if kind.namespaced() {
        object["metadata"]["namespace"] = "default".into();
    }
    let mut creation = prepare::Creation {
        uid: "<uid>",
        now: "2026-11-15T20:43:38Z",
        cluster_ip: &mut || "10.96.0.0".to_owned(),
        node_port: &mut || 32769,
    };
    prepare::create(kind, &mut object, &mut creation);
    if kind.kind == "CertificateSigningRequest" {
        let by = prepare::Requester {
            username: "admin",
            uid: "admin",
            groups: &[
                "system:masters".to_owned(),
                "system:authenticated".to_owned(),
            ],
            extra: &Object::new(),
        };
        prepare::request_certificate(&mut object, by);
    }
    (kind, object)
}

fn forget_what_the_server_adds(kind: &Kind, object: &mut Object) {
    let metadata = object["metadata"].as_object_mut().unwrap();
    for field in [
        "uid",
        "creationTimestamp",
        "resourceVersion",
        "managedFields",
    ] {
        metadata.remove(field);
    }
    for (_, answered) in ANSWERED.iter().filter(|(name, _)| *name == kind.kind) {
        for field in *answered {
            object.remove(*field);
        }
    }
}

/// The object with what Go prints although it is zero, and without what it does not.
fn completed(of: TypeId, object: &Object) -> Object {
    let mut complete = Object::new();
    for name in ["apiVersion", "kind"] {
        complete.extend(
            object
                .get(name)
                .map(|value| (name.to_owned(), value.clone())),
        );
    }
    for field in types().members(of) {
        let value = object.get(field.json).filter(|value| !value.is_null());
        if let Some(value) = printed(field, value) {
            complete.insert(field.json.to_owned(), value);
        }
    }
    complete
}

fn printed(field: &Field, value: Option<&Value>) -> Option<Value> {
    let structure = matches!(
        field.shape,
        Shape::Struct(_) | Shape::Time | Shape::MicroTime
    );
    let zero = value.is_none_or(|value| zero(value) && !field.pointer);
    match field.omit {
        Omit::Zero if zero => None,
        Omit::Empty if zero && (field.pointer || !structure) => None,
        _ => Some(value_of(&field.shape, value)),
    }
}

fn value_of(shape: &Shape, value: Option<&Value>) -> Value {
    let empty = Object::new();
    match shape {
        Shape::Struct(of) if types().get(*of).form == Form::Object => {
            let inner = value.and_then(Value::as_object).unwrap_or(&empty);
            Value::Object(completed(*of, inner))
        }
        Shape::List(of) => match value.and_then(Value::as_array) {
            Some(items) if !items.is_empty() => {
                Value::from_iter(items.iter().map(|item| value_of(of, Some(item))))
            }
            _ => Value::Null,
        },
        Shape::Map(of) => match value.and_then(Value::as_object) {
            Some(entries) if !entries.is_empty() => Value::from_iter(
                entries
                    .iter()
                    .map(|(key, entry)| (key.clone(), value_of(of, Some(entry)))),
            ),
            _ => Value::Null,
        },
        Shape::Quantity => {
            let text = value.and_then(Value::as_str).unwrap_or("0");
            quantity::canonical(text)
                .unwrap_or_else(|_| text.to_owned())
                .into()
        }
        Shape::String | Shape::Bytes => value.cloned().unwrap_or_else(|| "".into()),
        Shape::Bool => value.cloned().unwrap_or(Value::Bool(false)),
        Shape::Int32 | Shape::Int64 | Shape::Float64 | Shape::IntOrString => {
            value.cloned().unwrap_or_else(|| 0.into())
        }
        _ => value.cloned().unwrap_or(Value::Null),
    }
}

fn zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

/// A random object of the type: each field is absent, zero or something.
fn grown(of: TypeId, seed: &mut impl Iterator<Item = u8>, depth: usize) -> Object {
    let mut object = Object::new();
    for field in types().members(of) {
        let choice = seed.next().unwrap_or_default();
        // Deep objects are sparse, or schemas would never end.
        if usize::from(choice % 16) < 4 + 3 * depth {
            continue;
        }
        let value = grown_value(&field.shape, choice, seed, depth + 1);
        object.insert(field.json.to_owned(), value);
    }
    object
}

fn grown_value(
    shape: &Shape,
    choice: u8,
    seed: &mut impl Iterator<Item = u8>,
    depth: usize,
) -> Value {
    let words = [
        "",
        "Container",
        "ClientIP",
        "LoadBalancer",
        "RollingUpdate",
        "User",
        "a:latest",
    ];
    match shape {
        _ if choice % 7 == 0 => Value::Null,
        Shape::Struct(of) if types().get(*of).form == Form::Object => {
            Value::Object(grown(*of, seed, depth))
        }
        Shape::List(of) => {
            let count = choice % 3;
            Value::from_iter((0..count).map(|_| grown_value(of, 1, seed, depth)))
        }
        Shape::Map(of) => match choice % 3 {
            0 => json!({}),
            _ => json!({"cpu": grown_value(of, 1, seed, depth)}),
        },
        Shape::Bool => Value::Bool(choice % 2 == 0),
        Shape::Int32 | Shape::Int64 | Shape::Float64 => (choice % 3).into(),
        Shape::IntOrString => (choice % 2).into(),
        Shape::Quantity => ["1", "1500u", "3n", "1Gi", "100m"][usize::from(choice) % 5].into(),
        Shape::Time | Shape::MicroTime => "2026-01-01T00:00:00Z".into(),
        Shape::String => words[usize::from(choice) % words.len()].into(),
        Shape::Bytes => "YQ==".into(),
        _ => json!({}),
    }
}

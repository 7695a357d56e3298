//! Validation of definitions as large and as unusual as a request can be: on a small stack, in
//! bounded time and memory.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::time::{Duration, Instant};

use insula_custom::definition;
use insula_kinds::Object;
use serde_json::{Value, json};

/// The minimum stack of a server thread.
const STACK: usize = 2 << 20;
/// A third of the request limit, because debug builds are slow.
const REQUEST: usize = 1 << 20;
/// For a debug build on a busy machine. Without bounds, most cases take minutes or exhaust the
/// memory.
const DEADLINE: Duration = Duration::from_secs(60);

fn definition(schema: Value) -> Value {
    let mut definition = json!({
        "metadata": {"name": "foos.ex.io"},
        "spec": {
            "group": "ex.io",
            "scope": "Namespaced",
            "names": {"plural": "foos", "singular": "foo", "kind": "Foo", "listKind": "FooList"},
            "conversion": {"strategy": "None"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {}}],
        },
    });
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema;
    definition
}

/// As many fields as fit into a request, each created by `each`.
fn fill(each: impl Fn(usize) -> (String, Value)) -> Value {
    let (mut members, mut size, mut length) = (Object::new(), 0, 0);
    for index in 0.. {
        let (name, value) = each(index);
        // Values are alike, so the first determines the size of all.
        if index == 0 {
            length = value.to_string().len();
        }
        size += name.len() + length + 4;
        if size > REQUEST {
            break;
        }
        members.insert(name, value);
    }
    Value::Object(members)
}

/// A chain of objects as deep as a request can be, ending with `bottom`.
fn chain(name: &str, bottom: Value, around: impl Fn(Value) -> Value) -> Value {
    (0..55).fold(bottom, |inner, _| around(holding(name, inner)))
}

/// An object with one property, which is moved because copying would dominate the time.
fn holding(name: &str, property: Value) -> Value {
    let mut schema = json!({"type": "object", "properties": {}});
    schema["properties"][name] = property;
    schema
}

fn with(mut schema: Value, name: &str, value: Value) -> Value {
    schema[name] = value;
    schema
}

/// Validates a definition as a creation and as an update, and returns the numbers of errors.
fn validate(what: &str, body: Value) -> (usize, usize) {
    let what = what.to_owned();
    let thread = std::thread::Builder::new()
        .stack_size(STACK)
        .spawn(move || {
            let began = Instant::now();
            let mut object = body.as_object().cloned().unwrap_or_default();
            definition::prepare_create(&mut object);
            let created = definition::create(&object);
            let mut changed = object.clone();
            definition::prepare_update(&object, &mut changed);
            let updated = definition::update(&object, &changed);
            let size: usize = [&created, &updated]
                .iter()
                .flat_map(|verdict| &verdict.errors)
                .map(|error| error.field.len() + error.body.len())
                .sum();
            assert!(size < 12 << 20, "{what}: {size} bytes of errors");
            assert!(began.elapsed() < DEADLINE, "{what}: {:?}", began.elapsed());
            (created.errors.len(), updated.errors.len())
        });
    thread.unwrap().join().unwrap()
}

#[test]
fn wide_schemas_are_validated() {
    let text = |_| json!({"type": "string"});
    let wide = |each: &dyn Fn(usize) -> Value| {
        let properties = fill(|index| (format!("p{index}"), each(index)));
        with(json!({"type": "object"}), "properties", properties)
    };
    assert_eq!(validate("right", definition(wide(&text))), (0, 0));
    let (errors, _) = validate("wrong", definition(wide(&|_| json!({}))));
    assert!(errors > 1000, "{errors}");
    let ruled = |_| json!({"type": "string", "maxLength": 1, "x-kubernetes-validations": [{"rule": "self == 'a'"}]});
    assert_eq!(validate("rules", definition(wide(&ruled))), (0, 0));
    let default = |_| json!({"type": "string", "default": "a"});
    assert_eq!(validate("defaults", definition(wide(&default))), (0, 0));
    let (errors, _) = validate(
        "wrong defaults",
        definition(wide(&|_| json!({"type": "string", "default": 1}))),
    );
    assert!(errors > 1000, "{errors}");
}

#[test]
fn deep_schemas_are_validated() {
    let wide = fill(|index| (format!("p{index}"), json!({"type": "string"})));
    let wide = || with(json!({"type": "object"}), "properties", wide.clone());
    let rules = json!([{"rule": "true"}]);
    let ruled = |schema| with(schema, "x-kubernetes-validations", rules.clone());
    for name in ["a", "a b"] {
        let schema = chain(name, wide(), ruled);
        validate(&format!("rules at every level, {name}"), definition(schema));
    }
    let defaulted = |schema| with(schema, "default", json!({}));
    let schema = chain("a", wide(), defaulted);
    validate("defaults at every level", definition(schema));
    let broken = |schema| with(schema, "type", json!(""));
    validate("nothing typed", definition(chain("a", wide(), broken)));
    let junctors = |schema| {
        with(
            json!({"type": "object"}),
            "allOf",
            Value::Array(vec![schema]),
        )
    };
    validate("junctors", definition(chain("a", wide(), junctors)));
}

#[test]
fn long_names_are_not_repeated_without_bound() {
    let long = "a".repeat(1 << 20);
    let wide = fill(|index| (format!("p{index}"), json!({})));
    let mut members = wide.as_object().cloned().unwrap_or_default();
    let half = members.len() / 2;
    members = members.into_iter().take(half).collect();
    let inner = json!({"type": "object", "properties": members});
    let schema = json!({"type": "object", "properties": {long.clone(): inner}});
    validate("wrong below a long name", definition(schema));
    let wide: Object = members
        .into_iter()
        .map(|(name, _)| (name, json!({"type": "object"})))
        .collect();
    let inner = json!({"type": "object", "properties": wide});
    let rules = json!([{"rule": "true"}]);
    let schema =
        json!({"type": "object", "properties": {long: inner}, "x-kubernetes-validations": rules});
    validate("types below a long name", definition(schema));
}

#[test]
fn long_lists_are_validated() {
    let list =
        |count: usize, each: &dyn Fn(usize) -> Value| -> Value { (0..count).map(each).collect() };
    let schema = || json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let mut many = definition(schema());
    many["spec"]["versions"] = list(7_000, &|index| {
        json!({"name": format!("v{index}"), "served": true, "storage": index == 0,
               "schema": {"openAPIV3Schema": {"type": "object"}}})
    });
    assert_eq!(validate("versions", many.clone()), (0, 0));
    many["spec"]["versions"] = list(7_000, &|index| {
        json!({"name": "v1", "storage": true,
               "schema": {"openAPIV3Schema": {"type": "object", "description": format!("{index}")}}})
    });
    validate("versions of one name", many);
    let mut many = definition(schema());
    many["spec"]["names"]["shortNames"] = list(100_000, &|_| json!("-"));
    validate("short names", many);
    let mut many = definition(schema());
    many["spec"]["versions"][0]["selectableFields"] = list(30_000, &|_| json!({"jsonPath": ".a"}));
    validate("selectable fields", many);
    let keys = json!({"type": "object", "properties": {"a": {
        "type": "array", "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": list(100_000, &|_| json!("z")),
        "items": {"type": "object", "properties": {"k": {"type": "string"}}},
    }}});
    validate("keys", definition(keys));
    let rules = with(
        schema(),
        "x-kubernetes-validations",
        list(
            30_000,
            &|_| json!({"rule": "has(self.a)", "fieldPath": ".a", "messageExpression": "'a'"}),
        ),
    );
    validate("rules", definition(rules));
    let branches = json!({"type": "object", "properties": {"a": {
        "type": "array", "default": list(1000, &|_| json!("a")),
        "items": {"type": "string", "allOf": list(100_000, &|_| json!({"minLength": 1}))},
    }}});
    validate("branches", definition(branches));
}

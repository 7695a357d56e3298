//! Pruning, defaulting and validation of objects, case by case.

use insula_custom::{Change, Schema};
use insula_kinds::Object;
use serde_json::{Value, json};

fn schema(spec: Value) -> Schema {
    let json = json!({"type": "object", "properties": {"spec": spec}});
    Schema::compile(&json).expect("the schema compiles")
}

fn object(spec: Value) -> Object {
    let json =
        json!({"apiVersion": "ex.io/v1", "kind": "Foo", "metadata": {"name": "x"}, "spec": spec});
    json.as_object().expect("an object").clone()
}

fn errors(schema: &Schema, new: Value, old: Option<Value>) -> Vec<String> {
    let (new, old) = (object(new), old.map(object));
    let change = Change {
        old: old.as_ref(),
        ..Change::create(&new)
    };
    let errors = schema.validate(change).errors;
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn unknown_fields_are_pruned_and_reported_in_order() {
    let inner = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true,
        "properties": {"known": inner}});
    let schema = schema(json!({"type": "object", "properties": {
        "o": inner,
        "l": {"type": "array", "items": inner},
        "m": {"type": "object", "additionalProperties": inner},
        "free": free,
        "frees": {"type": "array", "x-kubernetes-preserve-unknown-fields": true, "items": inner},
        "e": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {}},
    }}));
    for (given, kept, unknown) in [
        (json!({"zz": 1}), json!({}), vec!["spec.zz"]),
        (
            json!({"o": {"a": "x", "b": 1, "c": 1}}),
            json!({"o": {"a": "x"}}),
            vec!["spec.o.b", "spec.o.c"],
        ),
        (
            json!({"l": [{"q": 1}, {"a": "x"}]}),
            json!({"l": [{}, {"a": "x"}]}),
            vec!["spec.l[0].q"],
        ),
        (
            json!({"m": {"k": {"q": 1}}}),
            json!({"m": {"k": {}}}),
            vec!["spec.m.k.q"],
        ),
        (
            json!({"free": {"u": {"v": 1}, "known": {"w": 1}}}),
            json!({"free": {"u": {"v": 1}, "known": {}}}),
            vec!["spec.free.known.w"],
        ),
        (
            json!({"frees": [{"u": 1}]}),
            json!({"frees": [{"u": 1}]}),
            vec![],
        ),
        (
            json!({"e": {"apiVersion": "v1", "kind": "Pod", "metadata": {"zz": 1}, "spec": {}}}),
            json!({"e": {"apiVersion": "v1", "kind": "Pod", "metadata": {"zz": 1}}}),
            vec!["spec.e.spec"],
        ),
    ] {
        let (mut given, mut found) = (object(given), Vec::new());
        schema.prune(&mut given, &mut found);
        assert_eq!(
            (&given["spec"], found),
            (&kept, unknown.iter().map(ToString::to_string).collect())
        );
    }
}

#[test]
fn nulls_are_removed_or_replaced_unless_nullable() {
    let schema = schema(json!({"type": "object", "properties": {
        "s": {"type": "string"},
        "d": {"type": "string", "default": "x"},
        "n": {"type": "string", "nullable": true, "default": "x"},
        "m": {"type": "object", "additionalProperties": {"type": "string"}},
        "l": {"type": "array", "items": {"type": "string"}},
        "o": {"type": "object", "properties": {"i": {"type": "integer", "default": 5}}},
    }}));
    for (given, filled) in [
        (json!({}), json!({"d": "x", "n": "x"})),
        (
            json!({"s": null, "d": null, "n": null}),
            json!({"d": "x", "n": null}),
        ),
        (
            json!({"m": {"a": null, "b": "x"}}),
            json!({"d": "x", "n": "x", "m": {"b": "x"}}),
        ),
        (
            json!({"l": [null]}),
            json!({"d": "x", "n": "x", "l": [null]}),
        ),
        (json!({"o": {}}), json!({"d": "x", "n": "x", "o": {"i": 5}})),
        (json!({"u": null}), json!({"d": "x", "n": "x", "u": null})),
    ] {
        let mut given = object(given);
        schema.fill(&mut given);
        assert_eq!(given["spec"], filled);
    }
}

#[test]
fn metadata_of_embedded_resources_is_normalized() {
    let schema = schema(
        json!({"type": "object", "properties": {"m": {"type": "object",
        "additionalProperties": {"type": "object", "x-kubernetes-embedded-resource": true,
            "x-kubernetes-preserve-unknown-fields": true}}}}),
    );
    let given =
        json!({"m": {"a": {"metadata": {"name": "x", "foo": 1, "creationTimestamp": null}}}});
    let (mut given, mut unknown) = (object(given), Vec::new());
    assert_eq!(schema.coerce_embedded(&mut given, &mut unknown), Ok(()));
    assert_eq!(
        given["spec"],
        json!({"m": {"a": {"metadata": {"name": "x"}}}})
    );
    assert_eq!(unknown, ["spec.m[a].metadata.foo"]);

    let wrong = json!({"m": {"a": {"kind": 5, "metadata": {"name": "x", "labels": {"a": 1}}}}});
    let mut given = object(wrong.clone());
    let refused = schema
        .coerce_embedded(&mut given, &mut unknown)
        .expect_err("kind is not a string");
    assert_eq!(
        refused.to_string(),
        "spec.m[a].kind: Invalid value: 5: must be a string"
    );
    let mut given = object(wrong);
    schema.repair_embedded(&mut given);
    assert_eq!(
        given["spec"],
        json!({"m": {"a": {"metadata": {"name": "x"}}}})
    );
}

#[test]
fn existing_violations_are_tolerated_on_update() {
    let schema = schema(
        json!({"type": "object", "required": ["newreq"], "properties": {
            "a": {"type": "string", "maxLength": 2},
            "b": {"type": "string"},
            "l": {"type": "array", "items": {"type": "string", "maxLength": 1}},
            "m": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "properties": {"k": {"type": "string"},
                    "v": {"type": "string", "maxLength": 1}}}},
            "s": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        }}),
    );
    let missing = "spec.newreq: Required value";
    let long = |field: &str, limit: u8| {
        let unit = if limit == 1 { "byte" } else { "bytes" };
        format!("{field}: Too long: may not be more than {limit} {unit}")
    };
    for (new, old, told) in [
        (json!({"a": "abc"}), json!({"a": "abc"}), vec![]),
        (
            json!({"a": "abc", "b": "x"}),
            json!({"a": "abc"}),
            vec![missing.to_owned()],
        ),
        (
            json!({"a": "abcd"}),
            json!({"a": "abc"}),
            vec![long("spec.a", 2), missing.to_owned()],
        ),
        (
            json!({"newreq": 1, "l": ["aa", "b"]}),
            json!({"newreq": 1, "l": ["aa"]}),
            vec![long("spec.l[0]", 1)],
        ),
        (
            json!({"newreq": 1, "m": [{"k": "y", "v": "bb"}, {"k": "x", "v": "aa"}]}),
            json!({"newreq": 1, "m": [{"k": "x", "v": "aa"}]}),
            vec![long("spec.m[0].v", 1)],
        ),
        (
            json!({"newreq": 1, "s": ["a", "a", "b", "b"]}),
            json!({"newreq": 1, "s": ["a", "a"]}),
            vec![],
        ),
        (
            json!({"newreq": 1, "s": ["a", "a", "a"]}),
            json!({"newreq": 1, "s": ["a"]}),
            vec!["spec.s[1]: Duplicate value: \"a\"".to_owned()],
        ),
    ] {
        assert_eq!(errors(&schema, new, Some(old)), told);
    }
}

#[test]
fn status_is_validated_alone_with_relative_paths() {
    let json = json!({"type": "object", "properties": {
        "spec": {"type": "object", "required": ["a"]},
        "status": {"type": "object", "required": ["p"], "properties": {"p": {"type": "string"},
            "n": {"type": "integer", "minimum": 1}}},
    }});
    let schema = Schema::compile(&json).expect("it compiles");
    let whole = json!({"spec": {}, "status": {"n": 0, "p": 5}});
    let whole = whole.as_object().expect("an object");
    let old = Object::new();
    let change = Change {
        status_only: true,
        ..Change::update(whole, &old)
    };
    let errors = schema.validate(change).errors;
    let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
    let told = [
        "status.n: Invalid value: 0: n in body should be greater than or equal to 1",
        "status.p: Invalid value: \"integer\": p in body must be of type string: \"integer\"",
    ];
    assert_eq!(errors, told);
}

#[test]
fn long_lists_identify_items_like_short_ones() {
    let schema = schema(json!({"type": "object", "properties": {
        "s": {"type": "array", "x-kubernetes-list-type": "set", "items": {"x-kubernetes-preserve-unknown-fields": true}},
        "m": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k", "p"],
            "items": {"type": "object", "properties": {"k": {"type": "integer"}, "p": {"type": "string"},
                "v": {"type": "string", "maxLength": 1}}}},
    }}));
    for length in [5, 500] {
        let mut set: Vec<Value> = (0..length).map(Value::from).collect();
        set.extend([
            json!(1.0),
            json!("1"),
            json!([1]),
            json!(1),
            json!([1]),
            json!(1),
        ]);
        let told = [
            format!("spec.s[{}]: Duplicate value: 1", length + 3),
            format!("spec.s[{}]: Duplicate value: [1]", length + 4),
        ];
        assert_eq!(errors(&schema, json!({"s": set}), None), told);
        let entry = |k: usize, p: Option<&str>, v: &str| match p {
            Some(p) => json!({"k": k, "p": p, "v": v}),
            None => json!({"k": k, "v": v}),
        };
        let mut map: Vec<Value> = (0..length).map(|k| entry(k, Some("p"), "vv")).collect();
        let old = json!({"m": map});
        map.reverse();
        map.extend([
            entry(0, None, "v"),
            entry(0, None, "v"),
            entry(length, Some("p"), "vv"),
        ]);
        let told = [
            format!(
                "spec.m[{}].v: Too long: may not be more than 1 byte",
                length + 2
            ),
            format!("spec.m[{}]: Duplicate value: {{\"k\":0}}", length + 1),
        ];
        assert_eq!(errors(&schema, json!({"m": map}), Some(old)), told);
    }
}

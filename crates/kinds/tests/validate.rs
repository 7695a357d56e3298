//! Objects are validated as in Kubernetes. The tables are in `data/validate`:
//! `stored.jsonl` has objects stored by a real server, `bases.jsonl` small valid objects,
//! and the others the errors of the bases with members set or (`null`) removed. The
//! expectations were compared with Kubernetes' own validation.

use std::collections::HashMap;

use insula_kinds::{Kind, Object, field, kinds, validate};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn kind_of(object: &Object) -> &'static Kind {
    let text = |field: &str| {
        object
            .get(field)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let version = text("apiVersion");
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let found = kinds().find_by_kind(group, version, text("kind"));
    kinds().get(found.unwrap_or_else(|| panic!("no kind {}", text("kind"))))
}

fn lines(table: &str) -> impl Iterator<Item = Value> {
    table
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
}

fn object(value: &Value) -> Object {
    value.as_object().expect("the table holds objects").clone()
}

fn bases() -> HashMap<String, Value> {
    lines(include_str!("data/validate/bases.jsonl"))
        .map(|row| {
            (
                row["name"].as_str().unwrap_or_default().to_owned(),
                row["object"].clone(),
            )
        })
        .collect()
}

/// Returns the base with members set by JSON pointer; null removes them.
fn with(base: &Value, members: &Value) -> Object {
    let mut changed = base.clone();
    for (pointer, value) in members.as_object().into_iter().flatten() {
        set(&mut changed, pointer, expanded(value));
    }
    object(&changed)
}

fn set(target: &mut Value, pointer: &str, value: Value) {
    let (parent, name) = pointer
        .rsplit_once('/')
        .expect("a pointer begins with a slash");
    let mut place = target;
    for step in parent.split('/').skip(1) {
        place = match place {
            Value::Array(list) => &mut list[step.parse::<usize>().expect("an index")],
            other => &mut other[step],
        };
        if place.is_null() {
            *place = Value::Object(Map::new());
        }
    }
    match place {
        Value::Array(list) => {
            let index: usize = name.parse().expect("an index");
            list.resize(list.len().max(index + 1), Value::Null);
            list[index] = value;
        }
        Value::Object(members) if value.is_null() => drop(members.remove(name)),
        other => other[name] = value,
    }
}

/// Expands `{"$repeat": ["a", 64]}` to a long string.
fn expanded(value: &Value) -> Value {
    match value {
        Value::Object(members) => match members.get("$repeat") {
            Some(of) => {
                let count = of[1].as_u64().and_then(|count| usize::try_from(count).ok());
                of[0]
                    .as_str()
                    .unwrap_or_default()
                    .repeat(count.unwrap_or_default())
                    .into()
            }
            None => {
                let members = members
                    .iter()
                    .map(|(key, value)| (key.clone(), expanded(value)));
                Value::Object(members.collect())
            }
        },
        Value::Array(list) => list.iter().map(expanded).collect(),
        other => other.clone(),
    }
}

fn causes(errors: &[insula_kinds::FieldError]) -> Value {
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn stored_upstream_objects_are_valid() {
    for row in lines(include_str!("data/validate/stored.jsonl")) {
        let stored = object(&row["object"]);
        let errors = validate::create(kind_of(&stored), &stored);
        assert_eq!(errors, [], "{}", row["name"]);
        let errors = validate::update(kind_of(&stored), None, &stored, &stored);
        assert_eq!(errors, [], "{}", row["name"]);
    }
}

#[test]
fn base_objects_are_valid() {
    for (name, base) in bases() {
        let base = object(&base);
        assert_eq!(validate::create(kind_of(&base), &base), [], "{name}");
        assert_eq!(
            validate::update(kind_of(&base), None, &base, &base),
            [],
            "{name}"
        );
        let subresources = kind_of(&base).subresources.iter();
        for subresource in subresources.map(|subresource| subresource.name.as_str()) {
            let errors = validate::update(kind_of(&base), Some(subresource), &base, &base);
            assert_eq!(errors, [], "{name}/{subresource}");
        }
    }
}

#[test]
fn creates_are_validated_in_kubernetes_words() {
    let bases = bases();
    for row in lines(include_str!("data/validate/create.jsonl")) {
        let base = &bases[row["of"].as_str().unwrap()];
        let created = with(base, &row["set"]);
        let errors = validate::create(kind_of(&created), &created);
        assert_eq!(causes(&errors), row["says"], "{} {}", row["of"], row["set"]);
    }
}

#[test]
fn updates_are_validated_in_kubernetes_words() {
    let bases = bases();
    for row in lines(include_str!("data/validate/update.jsonl")) {
        let base = &bases[row["of"].as_str().unwrap()];
        let (old, new) = (with(base, &row["old"]), with(base, &row["new"]));
        let subresource = row["subresource"].as_str();
        let errors = validate::update(kind_of(&new), subresource, &old, &new);
        assert_eq!(causes(&errors), row["says"], "{} {}", row["of"], row["new"]);
    }
}

#[test]
fn message_lists_each_error_once_and_causes_list_all() {
    let bases = bases();
    let says = |of: &str, members: Value| {
        let created = with(&bases[of], &members);
        field::message(&validate::create(kind_of(&created), &created))
    };
    let nothing = json!({
        "/spec/selector": null,
        "/spec/template/metadata/labels": null,
        "/spec/template/spec/containers": null,
    });
    assert_eq!(
        says("deployment", nothing),
        "[spec.selector: Required value, spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`, spec.template.spec.containers: Required value]"
    );
    assert_eq!(
        says("pod", json!({"/spec/containers": null})),
        "spec.containers: Required value"
    );
    assert_eq!(
        says("service", json!({"/spec/ports": null})),
        "spec.ports: Required value"
    );
    let base = object(&bases["configmap"]);
    let changed = with(&bases["configmap"], &json!({"/metadata/uid": "1"}));
    let errors = validate::update(kind_of(&base), None, &base, &changed);
    assert!(errors.len() > 1);
    let wanted = r#"metadata.uid: Invalid value: "1": field is immutable"#;
    assert_eq!(field::message(&errors), wanted);
}

#[test]
fn error_types_have_their_wire_reasons() {
    use insula_kinds::FieldError;
    let value = json!("x");
    let errors = [
        (
            FieldError::required("f", ""),
            "FieldValueRequired",
            "Required value",
        ),
        (
            FieldError::required("f", "d"),
            "FieldValueRequired",
            "Required value: d",
        ),
        (
            FieldError::forbidden("f", "d"),
            "FieldValueForbidden",
            "Forbidden: d",
        ),
        (
            FieldError::invalid("f", &value, "d"),
            "FieldValueInvalid",
            r#"Invalid value: "x": d"#,
        ),
        (
            FieldError::not_supported("f", &value, &["a", "b"]),
            "FieldValueNotSupported",
            r#"Unsupported value: "x": supported values: "a", "b""#,
        ),
        (
            FieldError::not_found("f", &value),
            "FieldValueNotFound",
            r#"Not found: "x""#,
        ),
        (
            FieldError::duplicate("f", &value),
            "FieldValueDuplicate",
            r#"Duplicate value: "x""#,
        ),
        (
            FieldError::too_long("f", 2),
            "FieldValueTooLong",
            "Too long: may not be more than 2 bytes",
        ),
        (
            FieldError::too_long("f", 1),
            "FieldValueTooLong",
            "Too long: may not be more than 1 byte",
        ),
        (
            FieldError::too_many("f", 3, 2),
            "FieldValueTooMany",
            "Too many: 3: must have at most 2 items",
        ),
        (
            FieldError::internal("f", "d"),
            "InternalError",
            "Internal error: d",
        ),
    ];
    for (error, reason, body) in errors {
        assert_eq!(
            (error.error_type.reason(), error.body.as_str()),
            (reason, body)
        );
    }
}

#[test]
fn negative_scale_is_rejected() {
    let scale = object(&json!({"spec": {"replicas": -1}}));
    let message = field::message(&validate::scale(&scale));
    let wanted = "spec.replicas: Invalid value: -1: must be greater than or equal to 0";
    assert_eq!(message, wanted);
    assert_eq!(validate::scale(&object(&json!({"spec": {}}))), []);
}

#[test]
fn path_traversal_names_are_not_safe() {
    for (name, safe) in [
        ("a", true),
        ("A:b_c", true),
        ("", false),
        (".", false),
        ("..", false),
        ("a/b", false),
        ("a%2fb", false),
    ] {
        assert_eq!(validate::name_is_safe(name), safe, "{name}");
    }
}

/// Any tree of the size of a part of an object.
fn trees() -> impl Strategy<Value = Value> {
    let scalars = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-zA-Z0-9./%*é -]{0,12}".prop_map(Value::from),
    ];
    scalars.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z./-]{1,8}", inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    /// Callers pass decoded objects, but validation must not panic on malformed ones.
    #[test]
    fn validation_never_panics(tree in trees(), at in 0usize..500, of in any::<prop::sample::Index>()) {
        let bases = bases();
        let names: Vec<_> = bases.keys().collect();
        let base = &bases[*of.get(&names)];
        let mut pointers = Vec::new();
        collect(base, String::new(), &mut pointers);
        let mut broken = base.clone();
        if let Some(place) = broken.pointer_mut(&pointers[at % pointers.len()]) {
            *place = tree;
        }
        let (base, broken) = (object(base), object(&broken));
        validate::create(kind_of(&base), &broken);
        validate::update(kind_of(&base), None, &base, &broken);
        validate::update(kind_of(&base), None, &broken, &base);
        for subresource in &kind_of(&base).subresources {
            validate::update(kind_of(&base), Some(&subresource.name), &base, &broken);
        }
    }
}

fn collect(value: &Value, path: String, pointers: &mut Vec<String>) {
    if !path.is_empty() {
        pointers.push(path.clone());
    }
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                let name = name.replace('~', "~0").replace('/', "~1");
                collect(value, format!("{path}/{name}"), pointers);
            }
        }
        Value::Array(list) => {
            for (index, value) in list.iter().enumerate() {
                collect(value, format!("{path}/{index}"), pointers);
            }
        }
        _ => {}
    }
}

#[test]
fn null_label_selectors_of_new_pods_are_warned_about() {
    let bases = bases();
    let term = json!({"topologyKey": "zone"});
    let set = json!({"topologyKey": "zone", "labelSelector": {}});
    let affinity = json!({
        "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [set, term]},
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "podAffinityTerm": term},
            ],
        },
    });
    for (of, path, spec) in [
        ("pod", "/spec", "spec"),
        ("deployment", "/spec/template/spec", "spec.template.spec"),
    ] {
        let created = with(
            &bases[of],
            &json!({
                (format!("{path}/affinity")): affinity,
                (format!("{path}/topologySpreadConstraints")): [term],
            }),
        );
        let why = "a null labelSelector results in matching no pod";
        let fields = [
            "affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[1].labelSelector",
            "affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.labelSelector",
            "topologySpreadConstraints[0].labelSelector",
        ];
        let wanted = fields.map(|field| format!("{spec}.{field}: {why}"));
        assert_eq!(
            validate::create_warnings(kind_of(&created), &created),
            wanted,
            "{of}"
        );
        let plain = object(&bases[of]);
        assert_eq!(validate::create_warnings(kind_of(&plain), &plain), [""; 0]);
    }
}

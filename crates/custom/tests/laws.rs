//! Properties that hold for every schema and every object.

use insula_custom::{Change, CompileError, Schema};
use insula_kinds::Object;
use proptest::collection::{btree_map, vec};
use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

/// The schemas that a property is about.
#[derive(Clone, Copy, PartialEq)]
enum Sort {
    /// All schemas.
    Any,
    /// Schemas that specify everything, and lists without keys.
    Closed,
    /// Closed schemas without constraints and lists without unique items, so that neither defaults
    /// nor pruning break anything.
    Plain,
}

/// A member of schemas with the given probability, and never of plain ones.
fn constraint(
    sort: Sort,
    probability: f64,
    member: impl Strategy<Value = (&'static str, Value)> + 'static,
) -> BoxedStrategy<Option<(&'static str, Value)>> {
    match sort {
        Sort::Plain => Just(None).boxed(),
        Sort::Any | Sort::Closed => weighted(probability, member).boxed(),
    }
}

fn name() -> impl Strategy<Value = String> {
    select(vec!["a", "b", "c", "d", "metadata", "kind"]).prop_map(str::to_owned)
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3_i64..8).prop_map(Value::from),
        select(vec![0.5, 2.0, 2.5, 1e20]).prop_map(Value::from),
        select(vec!["", "a", "ab", "abc", "2020-01-02", "é"]).prop_map(Value::from),
    ]
}

/// Any value.
fn value() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::Array),
            btree_map(name(), inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// An object with field names that occur in schemas.
fn object() -> impl Strategy<Value = Object> {
    btree_map(name(), value(), 0..5).prop_map(|map| map.into_iter().collect())
}

/// A flag that allows unspecified fields, in some of the schemas that are not closed.
fn opening(sort: Sort, flag: &'static str) -> BoxedStrategy<Option<(&'static str, Value)>> {
    match sort {
        Sort::Any => weighted(0.2, Just((flag, json!(true)))).boxed(),
        Sort::Closed | Sort::Plain => Just(None).boxed(),
    }
}

fn with(mut schema: Value, more: Vec<Option<(&'static str, Value)>>) -> Value {
    let members = schema.as_object_mut().expect("a schema is an object");
    members.extend(
        more.into_iter()
            .flatten()
            .map(|(name, value)| (name.to_owned(), value)),
    );
    schema
}

fn leaf(sort: Sort) -> impl Strategy<Value = Value> {
    let text = (
        constraint(sort, 0.3, (0..3).prop_map(|n| ("maxLength", json!(n)))),
        constraint(
            sort,
            0.3,
            select(vec!["^a+$", "b"]).prop_map(|p| ("pattern", json!(p))),
        ),
        constraint(sort, 0.3, Just(("enum", json!(["a", "ab"])))),
        weighted(0.3, Just(("default", json!("ab")))),
    )
        .prop_map(|(a, b, c, d)| with(json!({"type": "string"}), vec![a, b, c, d]));
    let number = (
        select(vec!["integer", "number"]),
        constraint(sort, 0.3, (0..5).prop_map(|n| ("minimum", json!(n)))),
        constraint(sort, 0.3, Just(("multipleOf", json!(2)))),
        weighted(0.3, Just(("default", json!(4)))),
    )
        .prop_map(|(kind, a, b, c)| with(json!({"type": kind}), vec![a, b, c]));
    let other = select(vec![
        json!({"type": "boolean", "default": true}),
        json!({"type": "boolean"}),
        json!({"x-kubernetes-int-or-string": true}),
    ]);
    (prop_oneof![text, number, other], any::<bool>())
        .prop_map(|(schema, null)| with(schema, vec![null.then_some(("nullable", json!(true)))]))
}

fn schema(sort: Sort) -> impl Strategy<Value = Value> {
    let lists = match sort {
        Sort::Plain => vec!["atomic"],
        Sort::Any | Sort::Closed => vec!["atomic", "set"],
    };
    leaf(sort).prop_recursive(3, 24, 4, move |inner| {
        let fields = btree_map(name(), inner.clone(), 0..4);
        let object = (
            fields,
            opening(sort, "x-kubernetes-preserve-unknown-fields"),
            opening(sort, "x-kubernetes-embedded-resource"),
            constraint(sort, 0.25, Just(("required", json!(["a"])))),
            constraint(sort, 0.25, Just(("maxProperties", json!(2)))),
            constraint(
                sort,
                0.25,
                Just(("oneOf", json!([{"required": ["a"]}, {"required": ["b"]}]))),
            ),
            constraint(sort, 0.25, Just(("not", json!({"required": ["c"]})))),
        )
            .prop_map(|(fields, a, b, c, d, e, f)| {
                let fields: Map<_, _> = fields.into_iter().collect();
                with(
                    json!({"type": "object", "properties": fields}),
                    vec![a, b, c, d, e, f],
                )
            });
        let map = inner
            .clone()
            .prop_map(|each| json!({"type": "object", "additionalProperties": each}));
        let list = (inner, select(lists.clone())).prop_map(
            |(each, kind)| json!({"type": "array", "items": each, "x-kubernetes-list-type": kind}),
        );
        prop_oneof![3 => object, 1 => map, 1 => list]
    })
}

fn root(sort: Sort) -> impl Strategy<Value = Value> {
    btree_map(name(), schema(sort), 1..5).prop_map(|fields| {
        let fields: Map<_, _> = fields.into_iter().collect();
        json!({"type": "object", "properties": fields})
    })
}

fn compiled(json: &Value) -> Schema {
    Schema::compile(json).expect("the schema compiles")
}

fn normalized(schema: &Schema, object: &Object) -> Object {
    let mut object = object.clone();
    schema.fill(&mut object);
    schema.prune(&mut object, &mut Vec::new());
    object
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn filling_is_idempotent(json in root(Sort::Any), object in object()) {
        let schema = compiled(&json);
        let mut once = object;
        schema.fill(&mut once);
        let mut twice = once.clone();
        schema.fill(&mut twice);
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn pruning_is_idempotent(json in root(Sort::Any), object in object()) {
        let schema = compiled(&json);
        let mut once = object;
        let (mut first, mut second) = (Vec::new(), Vec::new());
        schema.prune(&mut once, &mut first);
        let mut twice = once.clone();
        schema.prune(&mut twice, &mut second);
        prop_assert_eq!(once, twice);
        prop_assert_eq!(second, Vec::<String>::new());
        prop_assert!(first.is_sorted());
    }

    #[test]
    fn settled_objects_are_unchanged_by_filling_and_pruning(
        json in root(Sort::Any),
        object in object(),
    ) {
        let schema = compiled(&json);
        let after = normalized(&schema, &object);
        prop_assert_eq!(schema.is_normalized(&object), after == object);
        prop_assert!(schema.is_normalized(&after));
    }

    #[test]
    fn valid_objects_stay_valid_when_settled(json in root(Sort::Plain), object in object()) {
        let schema = compiled(&json);
        if schema.validate(Change::create(&object)).errors.is_empty() {
            let after = normalized(&schema, &object);
            prop_assert_eq!(schema.validate(Change::create(&after)).errors, []);
        }
    }

    #[test]
    fn unchanged_violations_are_tolerated(json in root(Sort::Closed), object in object()) {
        let schema = compiled(&json);
        let mut object = normalized(&schema, &object);
        // These are not pruned, and violations in `kind` are never tolerated.
        object.remove("kind");
        object.remove("metadata");
        prop_assert_eq!(schema.validate(Change::update(&object, &object)).errors, []);
    }

    #[test]
    fn ratcheting_removes_errors_and_adds_none(
        json in root(Sort::Any),
        new in object(),
        old in object(),
    ) {
        let schema = compiled(&json);
        let created = schema.validate(Change::create(&new)).errors;
        for error in schema.validate(Change::update(&new, &old)).errors {
            prop_assert!(created.contains(&error), "{}", error);
        }
    }

    #[test]
    fn no_schema_causes_a_panic(json in value(), inside in schema(Sort::Any), object in object()) {
        let odd = json!({"type": json, "properties": {"a": inside, "b": {"items": json}},
            "enum": json, "required": json, "pattern": "(", "default": json, "allOf": [inside]});
        for json in [&json, &odd] {
            let Ok(schema) = Schema::compile(json) else { continue };
            let mut other = object.clone();
            schema.fill(&mut other);
            schema.prune(&mut other, &mut Vec::new());
            let _ = schema.coerce_embedded(&mut other, &mut Vec::new());
            schema.repair_embedded(&mut other);
            schema.is_normalized(&other);
            schema.validate(Change::update(&object, &other));
            schema.validate(Change { status_only: true, ..Change::update(&other, &object) });
        }
    }
}

#[test]
fn too_deep_schemas_are_rejected() {
    let mut json = json!({"type": "string"});
    for _ in 0..300 {
        json = json!({"type": "object", "properties": {"a": json}});
    }
    let refused = Schema::compile(&json).expect_err("it is too deep");
    assert_eq!(refused, CompileError::TooDeep);
}

#[test]
fn invalid_schema_is_rejected_with_its_name() {
    let json = json!({"type": "object", "properties": {"spec": true}});
    let refused = Schema::compile(&json).expect_err("it is no schema");
    assert_eq!(
        refused.to_string(),
        "a schema must be a JSON object, at spec"
    );
}

#[test]
fn lists_multiply_defaults_only_up_to_a_bound() {
    let large = "x".repeat(100_000);
    let schema = compiled(
        &json!({"type": "object", "properties": {"l": {"type": "array",
        "items": {"type": "object", "properties": {"a": {"type": "string", "default": large}}}}}}),
    );
    let items = vec![json!({}); 100_000];
    let mut object = json!({"l": items}).as_object().expect("an object").clone();
    schema.fill(&mut object);
    let filled = object["l"].as_array().expect("a list").iter();
    let filled = filled.filter(|item| item.get("a").is_some()).count();
    assert!((70..90).contains(&filled), "{filled}");
}

#[test]
fn at_most_a_thousand_errors_are_reported() {
    let schema = compiled(
        &json!({"type": "object", "properties": {"l": {"type": "array",
        "items": {"type": "string"}}}}),
    );
    let items = vec![1; 300_000];
    let object = json!({"l": items}).as_object().expect("an object").clone();
    let errors = schema.validate(Change::create(&object)).errors;
    assert_eq!(errors.len(), 1_000);
}

#[test]
fn expensive_patterns_are_bounded() {
    let schema = compiled(
        &json!({"type": "object", "properties": {"l": {"type": "array",
        "items": {"type": "string", "pattern": format!("^(a|aa|aaa){{1,999}}{}$", "b?".repeat(500))}}}}),
    );
    let items = vec!["a".repeat(100_000); 1_000];
    let object = json!({"l": items}).as_object().expect("an object").clone();
    let errors = schema.validate(Change::create(&object)).errors;
    assert!(!errors.is_empty());
}

#[test]
fn schema_with_many_large_patterns_compiles_quickly() {
    let field = |index: usize| {
        (
            format!("f{index}"),
            json!({"type": "string",
        "pattern": format!("^[a-z]{{1,900}}{index}$")}),
        )
    };
    let fields: Map<_, _> = (0..20_000).map(field).collect();
    let schema = compiled(&json!({"type": "object", "properties": fields}));
    let object = json!({"f0": "a0", "f1": "a0", "f19999": "a19999", "f19998": "a"});
    let errors = schema
        .validate(Change::create(object.as_object().expect("an object")))
        .errors;
    let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
    let told = [
        "f1: Invalid value: \"a0\": f1 in body should match '^[a-z]{1,900}1$'",
        "f19998: Invalid value: \"a\": f19998 in body should match '^[a-z]{1,900}19998$'",
    ];
    assert_eq!(errors, told);
}

/// About the size of a schema of 2,000 lines: 700 fields with descriptions, bounds and enums.
fn large_schema() -> Value {
    let field = |index: usize| match index % 5 {
        0 => {
            json!({"type": "string", "description": "d".repeat(200), "maxLength": 63, "pattern": "^[a-z]+$"})
        }
        1 => json!({"type": "integer", "format": "int32", "minimum": 0}),
        2 => json!({"type": "string", "enum": ["A", "B", "C"], "default": "A"}),
        3 => json!({"type": "boolean", "description": "d".repeat(200)}),
        _ => json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}),
    };
    let group = |group: usize| {
        let fields: Map<_, _> = (0..10)
            .map(|index| (format!("field{index}"), field(index + group)))
            .collect();
        json!({"type": "object", "required": ["field1"], "properties": fields})
    };
    let groups: Map<_, _> = (0..60)
        .map(|index| (format!("group{index}"), group(index)))
        .collect();
    json!({"type": "object", "properties": {"spec": {"type": "object", "properties": groups}}})
}

#[test]
fn schema_of_two_thousand_lines_takes_little_memory() {
    let schema = compiled(&large_schema());
    assert!(schema.size() < 150_000, "{}", schema.size());
}

#[test]
fn schemas_are_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Schema>();
}

#[test]
fn length_of_errors_is_bounded() {
    let allowed: Vec<String> = (0..20_000).map(|number| format!("e{number}")).collect();
    let patterns: Vec<_> = (0..200)
        .map(|number| json!({"pattern": format!("^{number}$")}))
        .collect();
    let rules: Vec<_> = (0..200)
        .map(|number| json!({"rule": format!("size(self) == {number}")}))
        .collect();
    let schema = compiled(&json!({"type": "object", "properties": {
        "l": {"type": "array", "items": {"type": "string", "enum": allowed}},
        "p": {"type": "string", "allOf": patterns},
        "r": {"type": "string", "x-kubernetes-validations": rules},
    }}));
    for (object, found) in [
        (json!({"l": vec!["none"; 2_000]}), 1_001),
        (json!({"p": "x".repeat(1 << 20)}), 201),
        (json!({"r": "x".repeat(1 << 20)}), 200),
    ] {
        let object = object.as_object().expect("an object").clone();
        let errors = schema.validate(Change::create(&object)).errors;
        assert_eq!(errors.len(), found);
        let longest = errors.iter().map(|error| error.to_string().len()).max();
        assert!(longest < Some(9 << 10), "{longest:?}");
    }
}

#[test]
fn brief_validation_returns_the_full_result_or_none() {
    let cubes = "self.all(a, self.all(b, self.all(c, a + b + c >= 0)))";
    let schema = compiled(&json!({"type": "object", "properties": {
        "l": {"type": "array", "items": {"type": "integer"},
            "x-kubernetes-validations": [{"rule": cubes}]},
        "s": {"type": "array", "items": {"type": "string"}},
    }}));
    for (object, brief) in [
        (json!({"l": [1, 2, 3]}), true),
        (json!({"l": [1, -2, -3]}), true),
        (json!({"l": ["x"], "s": [1, 2]}), true),
        (json!({"l": vec![1; 40]}), false),
        (json!({"l": vec![1; 300]}), false),
        (json!({"s": vec!["x"; 1_000]}), true),
        (json!({"s": vec!["x"; 200_000]}), false),
    ] {
        let object = object.as_object().expect("an object").clone();
        let whole = schema.validate(Change::create(&object));
        let found = schema.validate_briefly(Change::create(&object));
        assert_eq!(found, brief.then_some(whole));
    }
}

#[test]
fn deep_rule_is_evaluated_for_many_values_on_one_stack() {
    let mut rule = "self >= 0".to_owned();
    for number in 0..60 {
        rule = format!("(self == -{number} ? false : {rule})");
    }
    let schema = compiled(
        &json!({"type": "object", "properties": {"l": {"type": "array",
        "items": {"type": "integer", "x-kubernetes-validations": [{"rule": rule}]}}}}),
    );
    let items: Vec<i64> = (1..=20_000).collect();
    let object = json!({"l": items}).as_object().expect("an object").clone();
    let begun = std::time::Instant::now();
    assert_eq!(schema.validate(Change::create(&object)).errors, []);
    // A thread for each value would take about half a minute.
    assert!(begun.elapsed().as_secs() < 15, "{:?}", begun.elapsed());
}

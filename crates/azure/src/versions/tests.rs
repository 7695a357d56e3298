use proptest::prelude::*;
use serde_json::json;

use super::*;

const GROUP: &str = "storage.azure.com";

/// Returns a definition with these schemas of specifications; those of storage versions get
/// property bags and an original version.
fn definitions(versions: &[(&str, Value)]) -> Definitions {
    definitions_of(GROUP, "Account", versions)
}

fn definitions_of(group: &str, kind: &str, versions: &[(&str, Value)]) -> Definitions {
    let versions: Vec<_> = versions
        .iter()
        .map(|(name, schema)| {
            let mut schema = json!({"type": "object", "properties": {
                "spec": schema, "status": schema,
            }});
            if name.ends_with("storage") {
                add_bags(&mut schema["properties"]["spec"]);
                add_bags(&mut schema["properties"]["status"]);
                schema["properties"]["spec"]["properties"]["originalVersion"] =
                    json!({"type": "string"});
            }
            json!({"name": name, "schema": {"openAPIV3Schema": schema}})
        })
        .collect();
    let definitions = Definitions::new();
    let definition = json!({"spec": {
        "group": group, "names": {"kind": kind}, "versions": versions,
    }});
    definitions.insert(&definition).unwrap();
    definitions
}

fn add_bags(schema: &mut Value) {
    if let Some(fields) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        fields.values_mut().for_each(add_bags);
        let bag = json!({"type": "object", "additionalProperties": {"type": "string"}});
        fields.insert("$propertyBag".to_owned(), bag);
    }
    if let Some(items) = schema.get_mut("items") {
        add_bags(items);
    }
    if let Some(values) = schema.get_mut("additionalProperties") {
        add_bags(values);
    }
}

fn object(version: &str, spec: Value) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/{version}"), "kind": "Account",
        "metadata": {"name": "a"}, "spec": spec,
    })
}

fn text() -> Value {
    json!({"type": "string"})
}

fn fields(fields: Value) -> Value {
    json!({"type": "object", "properties": fields})
}

#[test]
fn leftovers_are_where_azure_service_operator_has_them() {
    let older = fields(json!({
        "tier": text(), "count": {"type": "integer"},
        "sku": fields(json!({"name": text(), "aof-backup": {"type": "boolean"}})),
        "domain": fields(json!({"name": text()})),
    }));
    let newer = fields(json!({"tier": text(), "sku": fields(json!({"name": text()}))}));
    let definitions = definitions(&[("v1", older), ("v2storage", newer)]);
    let given = object(
        "v1",
        json!({
            "tier": "Hot", "count": 3, "sku": {"name": "x", "aof-backup": true},
            "domain": {"name": "d"},
        }),
    );
    let stored = definitions.convert(given.clone(), "storage.azure.com/v2storage");
    let stored = stored.unwrap();
    assert_eq!(
        stored,
        json!({
            "apiVersion": "storage.azure.com/v2storage", "kind": "Account",
            "metadata": {"name": "a"},
            "spec": {
                "tier": "Hot", "originalVersion": "v1",
                "sku": {"name": "x", "$propertyBag": {"AofBackup": "true"}},
                "$propertyBag": {"Count": "3", "Domain": "{\"name\":\"d\"}"},
            },
        })
    );
    let back = definitions.convert(stored, "storage.azure.com/v1");
    assert_eq!(back.unwrap(), given);
}

#[test]
fn client_of_an_older_version_keeps_fields_of_the_newer() {
    let rule = |extra: &str| {
        let mut rule = fields(json!({"name": text(), "port": {"type": "integer"}}));
        if !extra.is_empty() {
            rule["properties"][extra] = text();
        }
        json!({"type": "array", "items": rule})
    };
    let older = fields(json!({"rules": rule("")}));
    let newer = fields(json!({"rules": rule("label"), "zone": text()}));
    let definitions = definitions(&[("v1", older), ("v2storage", newer)]);
    let stored = object(
        "v2storage",
        json!({
            "originalVersion": "v1", "zone": "1",
            "rules": [
                {"name": "a", "port": 1, "label": "A"},
                {"port": 2, "label": "B"},
                {"name": "c", "port": 3, "label": "C"},
            ],
        }),
    );
    let v1 = "storage.azure.com/v1";
    let mut older = definitions.convert(stored, v1).unwrap();
    assert_eq!(
        older["spec"],
        json!({"rules": [{"name": "a", "port": 1}, {"port": 2}, {"name": "c", "port": 3}]})
    );
    // The client removes the first rule, changes the last one and adds one.
    older["spec"]["rules"] = json!([{"name": "new"}, {"port": 2}, {"name": "c", "port": 4}]);
    let stored = definitions.convert(older, "storage.azure.com/v2storage");
    assert_eq!(
        stored.unwrap(),
        object(
            "v2storage",
            json!({
                "originalVersion": "v1", "zone": "1",
                "rules": [
                    {"name": "new"},
                    {"port": 2, "label": "B"},
                    {"name": "c", "port": 4, "label": "C"},
                ],
            }),
        )
    );
}

#[test]
fn elements_with_equal_names_keep_their_own_fields() {
    let rules = |item: Value| fields(json!({"rules": {"type": "array", "items": item}}));
    let older = rules(fields(json!({"name": text()})));
    let newer = rules(fields(json!({"name": text(), "label": text()})));
    let definitions = definitions(&[("v1", older), ("v2storage", newer)]);
    let spec = json!({"originalVersion": "v1", "rules": [
        {"name": "ab", "label": "1"}, {"name": "a", "label": "2"},
        {"name": "a", "label": "3"}, {"name": "a#1", "label": "4"},
    ]});
    let stored = object("v2storage", spec);
    let older = definitions.convert(stored.clone(), "storage.azure.com/v1");
    let back = definitions.convert(older.unwrap(), "storage.azure.com/v2storage");
    assert_eq!(back.unwrap(), stored);
}

/// Returns how much more processor time one run of ten times the size needs than ten runs: as much
/// if the time is in proportion to the size, ten times as much if it is quadratic. Other tests run
/// at the same time, so that the time on the clock says little.
fn growth(size: usize, run: impl Fn(usize)) -> f64 {
    let processor_time = || -> f64 {
        let times = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
        times.split(' ').next().unwrap().parse().unwrap()
    };
    let measure = |size, runs| {
        let start = processor_time();
        (0..runs).for_each(|_| run(size));
        processor_time() - start
    };
    measure(10 * size, 1) / measure(size, 10)
}

#[test]
fn conversion_takes_time_in_proportion_to_the_elements_of_a_list() {
    let schema = fields(json!({"prefixes": {"type": "array", "items": text()}}));
    let definitions = definitions(&[("v1", schema.clone()), ("v2storage", schema)]);
    let growth = growth(20_000, |size| {
        let given = object("v1", json!({"prefixes": vec![""; size]}));
        let stored = definitions.convert(given, "storage.azure.com/v2storage");
        assert!(stored.is_ok());
    });
    assert!(growth < 4.0, "{growth}");
}

#[test]
fn conversion_takes_time_in_proportion_to_the_annotation() {
    let rules = |item: Value| fields(json!({"rules": {"type": "array", "items": item}}));
    let older = rules(fields(json!({"port": text()})));
    let newer = rules(fields(json!({"port": text(), "label": text()})));
    let definitions = definitions(&[("v1", older), ("v2storage", newer)]);
    let growth = growth(500, |size| {
        let rules: Vec<_> = (0..size).map(|_| json!({"port": "1"})).collect();
        let newer = object("v2storage", json!({"rules": rules}));
        let mut labelled = newer.clone();
        for (number, rule) in labelled["spec"]["rules"]
            .as_array_mut()
            .unwrap()
            .iter_mut()
            .enumerate()
        {
            rule["label"] = number.to_string().into();
        }
        let older = definitions.convert(labelled.clone(), "storage.azure.com/v1");
        let mut older = older.unwrap();
        let back = definitions.convert(older.clone(), "storage.azure.com/v2storage");
        assert_eq!(back.unwrap()["spec"]["rules"], labelled["spec"]["rules"]);
        // Many entries for one object.
        let entries =
            (0..size).map(|number| json!({"path": ["spec"], "bag": {format!("K{number}"): ""}}));
        let entries: Vec<_> = entries.collect();
        older["metadata"]["annotations"][ANNOTATION] = json!(entries).to_string().into();
        let back = definitions
            .convert(older, "storage.azure.com/v2storage")
            .unwrap();
        assert_eq!(
            back["spec"]["$propertyBag"].as_object().map(Map::len),
            Some(size)
        );
    });
    assert!(growth < 4.0, "{growth}");
}

#[test]
fn annotation_writes_no_field_that_admission_would_have_seen() {
    let older = fields(json!({"tier": text()}));
    let newer = fields(json!({"tier": text(), "zone": text()}));
    let definitions = definitions(&[("v1", older), ("v2storage", newer)]);
    let mut given = object("v1", json!({}));
    let forged = json!([{"path": ["spec"], "bag": {"Tier": "Cool", "Zone": "1"}}]);
    given["metadata"]["annotations"] = json!({ ANNOTATION: forged.to_string() });
    let stored = definitions.convert(given, "storage.azure.com/v2storage");
    assert_eq!(
        stored.unwrap(),
        object("v2storage", json!({"zone": "1", "originalVersion": "v1"}))
    );
}

#[test]
fn original_version_is_that_of_the_last_write_in_an_api_version() {
    let schema = fields(json!({"tier": text()}));
    let names = ["v1", "v1storage", "v2", "v2storage"];
    let definitions = definitions(&names.map(|name| (name, schema.clone())));
    let convert = |object, version: &str| {
        let desired = format!("{GROUP}/{version}");
        definitions.convert(object, &desired).unwrap()
    };
    let stored = convert(object("v1", json!({"tier": "Hot"})), "v2storage");
    assert_eq!(stored["spec"]["originalVersion"], "v1");
    let twin = convert(stored.clone(), "v1storage");
    assert_eq!(twin["spec"]["originalVersion"], "v1");
    let newer = convert(stored.clone(), "v2");
    assert_eq!(newer, object("v2", json!({"tier": "Hot"})));
    assert_eq!(convert(newer, "v2storage")["spec"]["originalVersion"], "v2");
    assert_eq!(convert(convert(stored.clone(), "v1"), "v2storage"), stored);
}

#[test]
fn ids_become_references_where_azure_service_operator_does_it() {
    let reference = fields(json!({
        "armId": text(), "group": text(), "kind": text(), "name": text(),
    }));
    let (group, kind) = ("documentdb.azure.com", "DatabaseAccount");
    let ids = json!({"type": "array", "items": text()});
    let references = json!({"type": "array", "items": reference});
    let definitions = definitions_of(
        group,
        kind,
        &[
            (
                "v1storage",
                fields(json!({"networkAclBypassResourceIds": ids})),
            ),
            (
                "v2storage",
                fields(json!({"networkAclBypassResourceReferences": references})),
            ),
        ],
    );
    let account = |version: &str, spec: Value| json!({"apiVersion": format!("{group}/{version}"), "kind": kind, "spec": spec});
    let older = account(
        "v1storage",
        json!({"networkAclBypassResourceIds": ["/a", "/b"]}),
    );
    let newer = account(
        "v2storage",
        json!({"networkAclBypassResourceReferences": [{"armId": "/a"}, {"armId": "/b"}]}),
    );
    let convert = |object: &Value, version: &str| {
        let desired = format!("{group}/{version}");
        definitions.convert(object.clone(), &desired).unwrap()
    };
    assert_eq!(convert(&older, "v2storage"), newer);
    assert_eq!(convert(&newer, "v1storage"), older);
    // A reference to a Kubernetes object has no id: it is kept.
    let by_name = json!([{"armId": "/a"}, {"group": "g", "kind": "k", "name": "n"}]);
    let newer = account(
        "v2storage",
        json!({"networkAclBypassResourceReferences": by_name}),
    );
    let older = convert(&newer, "v1storage");
    assert_eq!(
        older["spec"],
        json!({"$propertyBag": {"NetworkAclBypassResourceReferences": by_name.to_string()}})
    );
    assert_eq!(convert(&older, "v2storage"), newer);
}

#[test]
fn ids_and_references_of_single_fields_are_exchanged() {
    let reference = fields(json!({"armId": text()}));
    for (group, kind, id, name) in [
        (
            "dbformysql.azure.com",
            "FlexibleServer",
            "sourceServerResourceId",
            "sourceServerResourceReference",
        ),
        (
            "machinelearningservices.azure.com",
            "WorkspacesCompute",
            "loadBalancerSubnet",
            "loadBalancerSubnetReference",
        ),
    ] {
        let definitions = definitions_of(
            group,
            kind,
            &[
                ("v1", fields(json!({"in": fields(json!({id: text()}))}))),
                (
                    "v2",
                    fields(json!({"in": fields(json!({name: reference}))})),
                ),
            ],
        );
        let object = |version: &str, field: Value| {
            let version = format!("{group}/{version}");
            json!({"apiVersion": version, "kind": kind, "spec": {"in": field}})
        };
        let older = object("v1", json!({id: "/a"}));
        let newer = object("v2", json!({name: {"armId": "/a"}}));
        let convert = |object: &Value, version: &str| {
            let desired = format!("{group}/{version}");
            definitions.convert(object.clone(), &desired).unwrap()
        };
        assert_eq!(convert(&older, "v2"), newer);
        assert_eq!(convert(&newer, "v1"), older);
    }
}

#[test]
fn free_json_and_objects_are_exchanged() {
    let identities = |value: Value| {
        fields(json!({"identities": {"type": "object", "additionalProperties": value}}))
    };
    let free = json!({"x-kubernetes-preserve-unknown-fields": true});
    let known = fields(json!({"clientId": text()}));
    let definitions = definitions(&[("v1", identities(free)), ("v2", identities(known))]);
    let given = object(
        "v1",
        json!({"identities": {"/a": {"clientId": "c", "extra": 1}}}),
    );
    let newer = definitions.convert(given.clone(), "storage.azure.com/v2");
    let newer = newer.unwrap();
    assert_eq!(
        newer["spec"],
        json!({"identities": {"/a": {"clientId": "c"}}})
    );
    let older = definitions.convert(newer, "storage.azure.com/v1").unwrap();
    assert_eq!(older["spec"]["identities"]["/a"]["clientId"], "c");
}

#[test]
fn unknown_kinds_and_versions_are_refused_with_what_is_installed() {
    let definitions = definitions(&[("v1", fields(json!({}))), ("v2", fields(json!({})))]);
    let convert = |desired: &str| definitions.convert(object("v1", json!({})), desired);
    assert_eq!(
        convert("storage.azure.com/v3").unwrap_err(),
        "the version \"v3\" is not installed; installed are v1, v2"
    );
    assert_eq!(
        convert("network.azure.com/v1").unwrap_err(),
        "\"network.azure.com/v1\" is no version of storage.azure.com"
    );
    definitions.remove(GROUP, "Account");
    assert_eq!(
        convert("storage.azure.com/v2").unwrap_err(),
        "the kind \"Account\" of storage.azure.com is not installed"
    );
}

#[test]
fn null_stays_null() {
    let schema = fields(json!({"tier": text(), "count": {"type": "integer"}}));
    let definitions = definitions(&[("v1", schema.clone()), ("v2", schema)]);
    let given = object("v1", json!({"tier": null, "count": null}));
    let converted = definitions.convert(given, "storage.azure.com/v2").unwrap();
    assert_eq!(converted["spec"], json!({"tier": null, "count": null}));
}

#[test]
fn values_that_differ_in_case_become_legal() {
    let tier = |values: Value| fields(json!({"tier": {"type": "string", "enum": values}}));
    let definitions = definitions(&[("v1", tier(json!(["HOT"]))), ("v2", tier(json!(["Hot"])))]);
    let given = object("v1", json!({"tier": "HOT"}));
    let converted = definitions.convert(given, "storage.azure.com/v2").unwrap();
    assert_eq!(converted["spec"]["tier"], "Hot");
}

/// Returns schemas of a field. Versions may differ in its type, but none has a map where another
/// one has an object with known fields.
fn schema(name: &str, depth: u32) -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        Just(text()),
        Just(json!({"type": "integer"})),
        Just(json!({"type": "boolean"})),
    ];
    if depth == 0 {
        return leaf.boxed();
    }
    let nested = object_schema(depth - 1);
    let list = nested
        .clone()
        .prop_map(|it| json!({"type": "array", "items": it}));
    let map = nested
        .clone()
        .prop_map(|it| json!({"type": "object", "additionalProperties": it}));
    match name {
        "maxSize" => prop_oneof![leaf, nested].boxed(),
        "aof-backup" => prop_oneof![leaf, nested, list].boxed(),
        "fooReference" => prop_oneof![leaf, map].boxed(),
        _ => leaf.boxed(),
    }
}

fn object_schema(depth: u32) -> BoxedStrategy<Value> {
    let names = [
        "name",
        "tier",
        "maxSize",
        "aof-backup",
        "fooReference",
        "_etag",
    ];
    let names = prop::sample::subsequence(names.to_vec(), 0..=6);
    names
        .prop_flat_map(move |names| {
            let schemas: Vec<_> = names.iter().map(|name| schema(name, depth)).collect();
            (Just(names), schemas)
        })
        .prop_map(|(names, schemas)| {
            let names = names.into_iter().map(str::to_owned);
            fields(Value::Object(names.zip(schemas).collect()))
        })
        .boxed()
}

/// Returns objects of a schema.
fn value(schema: &Value) -> BoxedStrategy<Value> {
    match schema["type"].as_str().unwrap() {
        "string" => "[a-z0-9\"{}]{0,4}".prop_map(Value::from).boxed(),
        "integer" => (-9i64..9).prop_map(Value::from).boxed(),
        "boolean" => any::<bool>().prop_map(Value::from).boxed(),
        "array" => prop::collection::vec(value(&schema["items"]), 0..3)
            .prop_map(Value::from)
            .boxed(),
        _ => match schema["properties"].as_object() {
            Some(fields) => {
                let fields: Vec<_> = fields
                    .iter()
                    .map(|(name, it)| (Just(name.clone()), prop::option::of(value(it))))
                    .collect();
                fields
                    .prop_map(|fields| {
                        let set = fields.into_iter();
                        let set = set.filter_map(|(name, it)| Some((name, it?)));
                        Value::Object(set.collect())
                    })
                    .boxed()
            }
            None => {
                let values = value(&schema["additionalProperties"]);
                prop::collection::btree_map("[a-c/~]", values, 0..3)
                    .prop_map(|map| Value::Object(map.into_iter().collect()))
                    .boxed()
            }
        },
    }
}

/// Three random schemas, and a specification and a status of the first.
fn versions_and_object() -> impl Strategy<Value = ([Value; 3], Value, Value)> {
    let schemas = [object_schema(2), object_schema(2), object_schema(2)];
    schemas.prop_flat_map(|schemas| {
        let (spec, status) = (value(&schemas[0]), value(&schemas[0]));
        (Just(schemas), spec, status)
    })
}

proptest! {
    #[test]
    fn round_trips_are_identity(
        (schemas, spec, status) in versions_and_object(),
        first in prop::sample::select(vec!["v1", "v1storage"]),
        route in prop::collection::vec(
            prop::sample::select(vec!["v2", "v2storage", "v3", "v3storage"]), 1..4,
        ),
    ) {
        let [one, two, three] = schemas;
        let definitions = definitions(&[
            ("v1", one.clone()), ("v1storage", one),
            ("v2", two.clone()), ("v2storage", two),
            ("v3", three.clone()), ("v3storage", three),
        ]);
        let mut given = object(first, spec);
        given["status"] = status;
        let mut expected = given.clone();
        if first == "v1storage" {
            given["spec"]["originalVersion"] = "v1".into();
            // The last API version on the way is the one in which the object was written.
            let written = route.iter().rfind(|name| !name.ends_with("storage"));
            expected["spec"]["originalVersion"] = (*written.unwrap_or(&"v1")).into();
        }
        let mut converted = given;
        for version in route.iter().chain([&first]) {
            let desired = format!("{GROUP}/{version}");
            converted = definitions.convert(converted, &desired).unwrap();
        }
        prop_assert_eq!(converted, expected);
    }
}

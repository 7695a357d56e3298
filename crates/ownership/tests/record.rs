//! Managed fields with arbitrary content from clients.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::time::{Duration, Instant};

use insula_kinds::{Object, Value, kinds};
use insula_ownership::managers::scale::Parent;
use insula_ownership::managers::{ApplyError, Subject, Version, Writer, validate, zero};
use insula_ownership::{Element, Path, Schema, Set};
use serde_json::json;

/// More than any test needs on a busy machine, and less than a quadratic algorithm.
const TIME_LIMIT: Duration = Duration::from_secs(20);

const NOW: &str = "2026-01-02T03:04:05Z";

/// A config map that is written repeatedly.
struct Map {
    live: Object,
}

impl Map {
    fn new() -> Self {
        let live = zero_map();
        Self { live }
    }

    fn update(&mut self, writer: Writer<'_>, new: &Value) -> &mut Self {
        let mut new = object(new);
        with(|subject| subject.update(&self.live, &mut new, writer));
        self.live = new;
        // The object is stored now.
        self.live["metadata"]["uid"] = json!("u");
        self
    }

    fn apply(&mut self, writer: Writer<'_>, config: &Value) -> Result<&mut Self, ApplyError> {
        let config = object(config);
        self.live = with(|subject| subject.apply(&self.live, &config, writer, false))?;
        Ok(self)
    }

    fn entries(&self) -> Vec<Value> {
        let entries = self.live["metadata"].get("managedFields");
        entries
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default()
    }

    fn managers(&self) -> Vec<String> {
        let name = |entry: &Value| entry["manager"].as_str().unwrap_or_default().to_owned();
        self.entries().iter().map(name).collect()
    }

    /// Returns the object as a client would send it back, with another value.
    fn with(&self, key: &str, value: &str) -> Value {
        let mut new = Value::Object(self.live.clone());
        new["data"][key] = json!(value);
        new
    }
}

#[test]
fn invalid_entries_are_refused_in_kubernetes_words() {
    let good = json!({"manager": "m", "operation": "Apply", "apiVersion": "v1",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:a": {}}});
    let but = |name: &str, value: Value| {
        let mut entry = good.clone();
        entry[name] = value;
        json!([good, entry])
    };
    assert!(validate(&json!([good])).is_ok());
    assert!(validate(&but("manager", json!(""))).is_ok());
    assert!(validate(&but("fieldsV1", Value::Null)).is_ok());
    assert!(validate(&Value::Null).is_ok());
    for (entries, why) in [
        (
            but("operation", json!("Patch")),
            "operation must be `Apply` or `Update`",
        ),
        (
            but("operation", Value::Null),
            "operation must be `Apply` or `Update`",
        ),
        (json!([5]), "operation must be `Apply` or `Update`"),
        (but("apiVersion", json!("")), "apiVersion must not be empty"),
        (
            but("fieldsType", json!("")),
            "missing fieldsType in managed fields entry 1",
        ),
        (
            but("fieldsType", json!("F\"2")),
            "invalid fieldsType \"F\\\"2\" in managed fields entry 1",
        ),
    ] {
        assert_eq!(
            validate(&entries).unwrap_err().to_string(),
            why,
            "{entries}"
        );
    }
    let error = validate(&but("fieldsV1", json!({"fa": {}})))
        .unwrap_err()
        .to_string();
    assert!(
        error.ends_with("error decoding set: parsing key as path element: missing colon: fa"),
        "{error}"
    );
}

#[test]
fn an_empty_list_stops_tracking_until_the_next_apply() {
    for reset in [
        json!([]),
        json!([{}]),
        json!([null]),
        json!([{"manager": ""}]),
    ] {
        let mut map = Map::new();
        map.update(by("m"), &config("a", "1"));
        assert_eq!(map.managers(), ["m"]);
        let mut new = map.with("a", "2");
        new["metadata"]["managedFields"] = reset.clone();
        map.update(by("m"), &new);
        assert_eq!(map.entries(), Vec::<Value>::new(), "{reset}");
        let new = map.with("a", "3");
        map.update(by("m"), &new);
        assert_eq!(map.entries(), Vec::<Value>::new(), "{reset}");
        map.apply(by("a"), &config("b", "1")).unwrap();
        assert_eq!(map.managers(), ["a", "before-first-apply"], "{reset}");
    }
}

#[test]
fn entries_of_clients_are_used_only_if_valid_and_not_through_a_subresource() {
    let entry = json!({"manager": "sent", "operation": "Update", "apiVersion": "v1",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:a": {}}}});
    let mut bad = entry.clone();
    bad["fieldsV1"] = json!({"x": {}});
    let status = Writer {
        subresource: "status",
        ..by("m")
    };
    for (list, writer, managers) in [
        (json!([entry]), by("m"), vec!["sent"]),
        (json!([entry, bad]), by("m"), vec!["m"]),
        (json!("no list"), by("m"), vec!["m"]),
        (Value::Null, by("m"), vec!["m"]),
        (json!([entry]), status, vec!["m"]),
        (json!([]), status, vec!["m"]),
    ] {
        let mut map = Map::new();
        map.update(by("m"), &config("a", "1"));
        let mut new = map.with("a", "1");
        new["metadata"]["managedFields"] = list.clone();
        map.update(writer, &new);
        assert_eq!(map.managers(), managers, "{list}");
    }
}

#[test]
fn writing_the_same_values_changes_neither_owners_nor_times() {
    let mut map = Map::new();
    map.update(by("m"), &config("a", "1"));
    let before = map.entries();
    let later = Writer {
        now: "2026-02-02T00:00:00Z",
        ..by("n")
    };
    let new = map.with("a", "1");
    map.update(later, &new);
    assert_eq!(map.entries(), before);
    map.apply(later, &config("a", "1")).unwrap();
    let entries = map.entries();
    assert_eq!(map.managers(), ["n", "m"]);
    assert_eq!(entries[0].get("time"), None);
    assert_eq!(entries[1]["time"], NOW);
}

#[test]
fn a_writer_without_a_name_is_the_manager_unknown() {
    let mut map = Map::new();
    map.update(by(""), &config("a", "1"));
    assert_eq!(map.managers(), ["unknown"]);
}

#[test]
fn the_oldest_updates_are_merged_when_there_are_more_than_ten() {
    let mut map = Map::new();
    for second in 10..30 {
        let (now, name) = (format!("2026-01-02T03:04:{second}Z"), format!("m{second}"));
        let writer = Writer {
            now: &now,
            ..by(&name)
        };
        let new = match second {
            10 => config("k10", "1"),
            _ => map.with(&format!("k{second}"), "1"),
        };
        map.update(writer, &new);
    }
    let mut managers: Vec<_> = (21..30).map(|second| format!("m{second}")).collect();
    managers.insert(0, "ancient-changes".to_owned());
    assert_eq!(map.managers(), managers);
    let ancient = &map.entries()[0];
    assert_eq!(ancient["time"], "2026-01-02T03:04:20Z");
    let owned = ancient["fieldsV1"]["f:data"].as_object().unwrap();
    assert_eq!(owned.len(), 1 + 11, "{ancient}");
}

#[test]
fn many_managers_are_fast_and_bounded() {
    let start = Instant::now();
    let entry = |operation: &str, number: usize| {
        json!({"manager": format!("m{number}"), "operation": operation, "apiVersion": "v1",
            "time": NOW, "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {format!("f:k{number}"): {}, "f:a": {}}}})
    };
    for (operation, sent, left) in [
        ("Update", 1_000, 10),
        ("Apply", 1_000, 1_000),
        // More entries than the maximum are refused.
        ("Update", 10_000, 1),
        ("Apply", 10_000, 1),
    ] {
        let mut map = Map::new();
        map.update(by("m"), &config("a", "1"));
        let mut new = map.with("a", "1");
        let list: Vec<_> = (0..sent).map(|number| entry(operation, number)).collect();
        new["metadata"]["managedFields"] = list.into();
        map.update(by("m"), &new);
        assert_eq!(map.entries().len(), left, "{operation} {sent}");
        let size = |list: &Value| list.to_string().len();
        let made = size(&map.live["metadata"]["managedFields"]);
        assert!(made <= size(&new["metadata"]["managedFields"]));
        // All of them own the field, and are listed.
        let refused = map.apply(by("x"), &config("a", "2")).err().unwrap();
        let ApplyError::Conflict { message, causes } = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(causes.len(), left, "{operation} {sent}");
        let count = match left {
            1 => "Apply failed with 1 conflict: conflict with".to_owned(),
            _ => format!("Apply failed with {left} conflicts: conflicts with"),
        };
        assert!(message.starts_with(&count), "{message}");
    }
    assert!(start.elapsed() < TIME_LIMIT, "{:?}", start.elapsed());
}

#[test]
fn entries_of_removed_versions_are_dropped() {
    let start = Instant::now();
    let entry = |number: usize| {
        json!({"manager": "m", "operation": "Update", "apiVersion": format!("v{number}beta1"),
            "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:a": {}}}})
    };
    let mut map = Map::new();
    map.update(by("m"), &config("a", "1"));
    let mut new = map.with("a", "2");
    new["metadata"]["managedFields"] = (0..1_000).map(entry).collect();
    map.update(by("n"), &new);
    assert_eq!(map.managers(), ["n"]);
    assert!(start.elapsed() < TIME_LIMIT, "{:?}", start.elapsed());
}

#[test]
fn a_set_that_is_nested_too_deeply_is_refused() {
    let mut fields = json!({});
    for _ in 0..1_000 {
        fields = json!({"f:a": fields});
    }
    let entries = json!([{"manager": "m", "operation": "Update", "apiVersion": "v1",
        "fieldsType": "FieldsV1", "fieldsV1": fields}]);
    assert!(validate(&entries).is_err());
    let mut map = Map::new();
    map.update(by("m"), &config("a", "1"));
    let mut new = map.with("a", "1");
    new["metadata"]["managedFields"] = entries;
    let mut new = object_of(new);
    with(|subject| subject.update(&map.live, &mut new, by("n")));
    map.live = new;
    assert_eq!(map.managers(), ["m"]);
}

#[test]
fn conflict_messages_are_bounded() {
    let start = Instant::now();
    let long = "x".repeat(100_000);
    let value = |value: &str| {
        let members: Object = (0..10_000).map(|n| (n.to_string(), json!(value))).collect();
        json!({"apiVersion": "ex.io/v1", "kind": "Foo", "metadata": {"name": "x"},
            long.as_str(): members})
    };
    let schema = Schema::custom(None);
    let (reset, zero) = (
        Set::default(),
        json!({"apiVersion": "ex.io/v1", "kind": "Foo"}),
    );
    let zero = object(&zero);
    let subject = Subject {
        api_version: "ex.io/v1",
        schema: &schema,
        reset: &reset,
        zero: &zero,
        convert: &|_, _| None,
    };
    let mut live = object(&value("1"));
    subject.update(&zero, &mut live, by("m"));
    let refused = subject.apply(&live, &object(&value("2")), by("n"), false);
    let Err(ApplyError::Conflict { message, causes }) = refused else {
        panic!("{refused:?}");
    };
    assert!(message.starts_with("Apply failed with 10000 conflicts: conflicts with \"m\""));
    assert!(message.len() < 1024 * 1024, "{}", message.len());
    assert!(!causes.is_empty() && causes.len() < 10, "{}", causes.len());
    assert!(start.elapsed() < TIME_LIMIT, "{:?}", start.elapsed());
}

#[test]
fn an_apply_of_another_object_is_refused() {
    let mut other = config("a", "1");
    other["kind"] = json!("Secret");
    let mut versioned = config("a", "1");
    versioned["apiVersion"] = json!("apps/v1");
    let mut managed = config("a", "1");
    managed["metadata"]["managedFields"] = json!([]);
    let mut typed = config("a", "1");
    typed["data"]["a"] = json!(5);
    let bad = |text: &str| ApplyError::BadRequest(text.to_owned());
    for (config, why) in [
        (other, bad("invalid object type: /v1, Kind=Secret")),
        (
            versioned,
            bad("invalid object type: apps/v1, Kind=ConfigMap"),
        ),
        (json!({}), bad("invalid object type: /, Kind=")),
        (
            json!({"apiVersion": "a/b/c", "kind": "X"}),
            bad("invalid object type: /, Kind="),
        ),
        (managed, bad("metadata.managedFields must be nil")),
        (
            typed,
            ApplyError::Schema(
                "failed to create typed patch object (/x; /v1, Kind=ConfigMap): .data.a: \
                 expected string, got &value.valueUnstructured{Value:5}"
                    .to_owned(),
            ),
        ),
    ] {
        assert_eq!(Map::new().apply(by("m"), &config).err(), Some(why));
    }
}

#[test]
fn kubectl_takes_over_fields_of_its_client_side_apply() {
    let last = config("a", "1").to_string();
    let annotation = "kubectl.kubernetes.io/last-applied-configuration";
    let mut made = config("a", "1");
    made["metadata"]["annotations"] = json!({annotation: last});
    made["data"]["b"] = json!("1");
    let mut map = Map::new();
    map.update(by("kubectl-client-side-apply"), &made);
    assert!(map.apply(by("other"), &config("a", "2")).is_err());
    let refused = map.apply(by("kubectl"), &config("b", "2")).err().unwrap();
    let wanted = "Apply failed with 1 conflict: conflict with \"kubectl-client-side-apply\" \
                  using v1: .data.b";
    assert_eq!(refused.to_string(), wanted);
    map.apply(by("kubectl"), &config("a", "<2>")).unwrap();
    assert_eq!(map.live["data"], json!({"a": "<2>", "b": "1"}));
    let remembered = &map.live["metadata"]["annotations"][annotation];
    let wanted = "{\"apiVersion\":\"v1\",\"data\":{\"a\":\"\\u003c2\\u003e\"},\
                  \"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"x\"}}\n";
    assert_eq!(remembered, wanted);
}

#[test]
fn null_annotations_are_recorded_as_empty_ones() {
    let annotation = "kubectl.kubernetes.io/last-applied-configuration";
    for (annotations, remembered) in [
        (
            json!({"a": null, annotation: "x"}),
            r#"{"annotations":{"a":""},"name":"x"}"#,
        ),
        (json!({annotation: "x"}), r#"{"annotations":{},"name":"x"}"#),
        (Value::Null, r#"{"name":"x"}"#),
    ] {
        let mut made = config("a", "1");
        made["metadata"]["annotations"] = json!({annotation: "{}"});
        let mut map = Map::new();
        map.update(by("kubectl"), &made);
        let mut applied = config("a", "1");
        if !annotations.is_null() {
            applied["metadata"]["annotations"] = annotations;
        }
        let force =
            with(|subject| subject.apply(&map.live, &object(&applied), by("kubectl"), true));
        let wanted = format!(
            "{{\"apiVersion\":\"v1\",\"data\":{{\"a\":\"1\"}},\"kind\":\"ConfigMap\",\"metadata\":{remembered}}}\n"
        );
        assert_eq!(
            force.unwrap()["metadata"]["annotations"][annotation],
            wanted
        );
    }
}

#[test]
fn a_last_applied_annotation_that_is_too_long_is_removed() {
    let annotation = "kubectl.kubernetes.io/last-applied-configuration";
    let mut made = config("a", "1");
    made["metadata"]["annotations"] = json!({annotation: "{}"});
    let mut map = Map::new();
    map.update(by("m"), &made);
    map.apply(by("kubectl"), &config("b", &"x".repeat(256 * 1024)))
        .unwrap();
    assert_eq!(map.live["metadata"]["annotations"], json!({}));
}

#[test]
fn a_scale_has_the_owners_of_its_parents_replicas() {
    let path = Path(fields("spec.replicas"));
    let replicas = [("apps/v1", Some(path)), ("apps/v2", None)];
    let parent = Parent {
        api_version: "apps/v1",
        replicas: &replicas,
    };
    let entry = |manager: &str, operation: &str, version: &str, fields: Value| {
        json!({"manager": manager, "operation": operation, "apiVersion": version, "time": NOW,
            "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": fields}})
    };
    let mut deployment = object(&json!({"metadata": {"managedFields": [
        entry("a", "Apply", "apps/v1", json!({"f:paused": {}, "f:replicas": {}})),
        entry("b", "Apply", "apps/v2", json!({"f:replicas": {}})),
        entry("c", "Update", "apps/v0", json!({"f:replicas": {}})),
        entry("d", "Update", "apps/v1", json!({"f:paused": {}})),
    ]}}));
    let mut scale = Object::new();
    parent.to_scale(&deployment, &mut scale).unwrap();
    let own = entry("a", "Apply", "autoscaling/v1", json!({"f:replicas": {}}));
    assert_eq!(scale["metadata"]["managedFields"], json!([own]));
    // Another manager took them.
    let mut taken = entry("s", "Update", "autoscaling/v1", json!({"f:replicas": {}}));
    taken["subresource"] = json!("scale");
    scale["metadata"]["managedFields"] = json!([taken]);
    parent.to_parent(&scale, &mut deployment).unwrap();
    let mut added = taken.clone();
    added["apiVersion"] = json!("apps/v1");
    added.as_object_mut().unwrap().remove("time");
    let wanted = json!([
        entry("a", "Apply", "apps/v1", json!({"f:paused": {}})),
        entry("b", "Apply", "apps/v2", json!({"f:replicas": {}})),
        added,
        entry("d", "Update", "apps/v1", json!({"f:paused": {}})),
    ]);
    assert_eq!(deployment["metadata"]["managedFields"], wanted);
    let broken = object(&json!({"metadata": {"managedFields": [{"manager": "x"}]}}));
    assert!(parent.to_scale(&broken, &mut scale).is_err());
}

#[test]
fn objects_that_do_not_match_their_schema_are_no_longer_tracked() {
    let mut map = Map::new();
    map.update(by("m"), &config("a", "1"));
    map.live["data"]["a"] = json!(["1"]);
    let mut new = map.with("b", "1");
    new["data"]["a"] = json!(["2"]);
    map.update(by("n"), &new);
    assert_eq!(map.entries(), Vec::<Value>::new());
    // An object without metadata to write into is not changed.
    let mut odd = object(&json!({"metadata": 5, "data": {"a": "1"}}));
    with(|subject| subject.update(&zero_map(), &mut odd, by("m")));
    assert_eq!(odd["metadata"], 5);
}

fn by(manager: &str) -> Writer<'_> {
    Writer {
        manager,
        subresource: "",
        now: NOW,
    }
}

fn config(key: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"},
        "data": {key: value}})
}

fn with<T>(act: impl FnOnce(Subject<'_>) -> T) -> T {
    let kind = kinds().get(kinds().find_by_kind("", "v1", "ConfigMap").unwrap());
    let (schema, reset) = (Schema::built_in(kind.type_id()), Set::default());
    let convert = |_: &Object, _: &str| -> Option<Version> { None };
    act(Subject {
        api_version: "v1",
        schema: &schema,
        reset: &reset,
        zero: &zero(kind),
        convert: &convert,
    })
}

fn zero_map() -> Object {
    let kind = kinds().find_by_kind("", "v1", "ConfigMap").unwrap();
    zero(kinds().get(kind)).into_owned()
}

fn fields(path: &str) -> Vec<Element> {
    let field = |name: &str| Element::Field(name.into());
    path.split('.').map(field).collect()
}

fn object(value: &Value) -> Object {
    object_of(value.clone())
}

fn object_of(value: Value) -> Object {
    match value {
        Value::Object(object) => object,
        other => panic!("{other} is no object"),
    }
}

//! Patches: our own tables, and results of Go's strategic merge for our objects.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use insula_kinds::patch::{self, PatchError};
use insula_kinds::{Object, TypeId, Value, types};
use proptest::prelude::*;
use serde_json::json;

type Patched = Result<Vec<String>, PatchError>;

fn object(value: &Value) -> Object {
    value.as_object().unwrap().clone()
}

fn of(name: &str) -> TypeId {
    types().find(name).unwrap()
}

fn strategic_text(of: TypeId, document: &Value, patch: &str) -> Result<Value, PatchError> {
    let mut document = object(document);
    patch::strategic(of, &mut document, patch.as_bytes())?;
    Ok(Value::Object(document))
}

fn strategic(of: TypeId, document: &Value, patch: &Value) -> Result<Value, PatchError> {
    strategic_text(of, document, &patch.to_string())
}

fn pod(document: Value, patch: Value) -> Result<Value, PatchError> {
    strategic(of("api.core.v1.Pod"), &document, &patch)
}

fn internal(message: &str) -> PatchError {
    PatchError::Internal(message.to_owned())
}

fn bad_request(message: &str) -> PatchError {
    PatchError::BadRequest(message.to_owned())
}

/// Returns the names of the containers of a patched pod.
fn containers(patched: &Value) -> Vec<&str> {
    let containers = patched["spec"]["containers"].as_array().unwrap();
    let names = containers.iter().map(|one| one["name"].as_str().unwrap());
    names.collect()
}

fn pod_with(names: &[&str]) -> Value {
    let containers: Vec<_> = names.iter().map(|name| json!({"name": name})).collect();
    json!({"spec": {"containers": containers}})
}

mod json_patch {
    use super::*;

    fn apply(document: Value, patch: Value) -> Result<Value, PatchError> {
        let mut document = document;
        patch::json(&mut document, patch.to_string().as_bytes())?;
        Ok(document)
    }

    fn refused(patch: &str) -> PatchError {
        patch::json(&mut json!({}), patch.as_bytes()).unwrap_err()
    }

    #[test]
    fn operations_follow_rfc_6902() {
        let document = json!({"a": {"b": [1, 2, 3]}, "x/y": 1, "m~n": 2});
        let table = [
            (
                json!([{"op": "add", "path": "/c", "value": 1}]),
                json!({"a": {"b": [1, 2, 3]}, "x/y": 1, "m~n": 2, "c": 1}),
            ),
            (
                json!([{"op": "add", "path": "/a/b/0", "value": 0}]),
                json!({"a": {"b": [0, 1, 2, 3]}, "x/y": 1, "m~n": 2}),
            ),
            (
                json!([{"op": "add", "path": "/a/b/-", "value": 4}]),
                json!({"a": {"b": [1, 2, 3, 4]}, "x/y": 1, "m~n": 2}),
            ),
            (
                json!([{"op": "remove", "path": "/a/b/1"}]),
                json!({"a": {"b": [1, 3]}, "x/y": 1, "m~n": 2}),
            ),
            (
                json!([{"op": "remove", "path": "/x~1y"}]),
                json!({"a": {"b": [1, 2, 3]}, "m~n": 2}),
            ),
            (
                json!([{"op": "replace", "path": "/m~0n", "value": 9}]),
                json!({"a": {"b": [1, 2, 3]}, "x/y": 1, "m~n": 9}),
            ),
            (
                json!([{"op": "move", "from": "/a/b/0", "path": "/a/c"}]),
                json!({"a": {"b": [2, 3], "c": 1}, "x/y": 1, "m~n": 2}),
            ),
            (
                json!([{"op": "copy", "from": "/a/b/2", "path": "/a/b/0"}]),
                json!({"a": {"b": [3, 1, 2, 3]}, "x/y": 1, "m~n": 2}),
            ),
            (
                json!([{"op": "test", "path": "/a", "value": {"b": [1, 2, 3]}}]),
                document.clone(),
            ),
            (
                json!([{"op": "replace", "path": "", "value": {"n": 1}}]),
                json!({"n": 1}),
            ),
            (json!([]), document.clone()),
        ];
        for (patch, wanted) in table {
            assert_eq!(
                apply(document.clone(), patch.clone()),
                Ok(wanted),
                "{patch}"
            );
        }
    }

    #[test]
    fn operations_are_as_lenient_as_kubernetes() {
        let document = json!({"a": 1, "l": [1, 2]});
        let table = [
            (
                json!([{"op": "replace", "path": "/new", "value": 2}]),
                json!({"a": 1, "l": [1, 2], "new": 2}),
            ),
            (
                json!([{"op": "test", "path": "/new", "value": null}]),
                document.clone(),
            ),
            (
                json!([{"op": "copy", "from": "/new", "path": "/b"}]),
                json!({"a": 1, "l": [1, 2], "b": null}),
            ),
            (
                json!([{"op": "add", "path": "/l/-1", "value": 3}]),
                json!({"a": 1, "l": [1, 2, 3]}),
            ),
            (
                json!([{"op": "remove", "path": "/l/-2"}]),
                json!({"a": 1, "l": [2]}),
            ),
            (
                json!([{"op": "add", "path": "/b"}]),
                json!({"a": 1, "l": [1, 2], "b": null}),
            ),
            (Value::Null, document.clone()),
        ];
        for (patch, wanted) in table {
            assert_eq!(
                apply(document.clone(), patch.clone()),
                Ok(wanted),
                "{patch}"
            );
        }
    }

    #[test]
    fn inapplicable_patches_are_rejected_without_details() {
        let document = json!({"a": 1, "l": [1]});
        let table = [
            json!([{"op": "test", "path": "/a", "value": 2}]),
            json!([{"op": "test", "path": "/a", "value": 1.0}]),
            json!([{"op": "remove", "path": "/b"}]),
            json!([{"op": "remove", "path": "/l/1"}]),
            json!([{"op": "add", "path": "/b/c", "value": 1}]),
            json!([{"op": "add", "path": "/a/c", "value": 1}]),
            json!([{"op": "add", "path": "/l/2", "value": 1}]),
            json!([{"op": "add", "path": "/l/x", "value": 1}]),
            json!([{"op": "add", "path": "", "value": {}}]),
            json!([{"op": "add", "path": "a", "value": 1}]),
            json!([{"op": "replace", "path": "/l/1", "value": 1}]),
            json!([{"op": "move", "from": "/b", "path": "/c"}]),
            json!([{"op": "frobnicate", "path": "/a"}]),
            json!([{"path": "/a"}]),
            json!([{"op": "remove"}]),
            json!([null]),
        ];
        for patch in table {
            let refused = apply(document.clone(), patch.clone());
            assert_eq!(refused, Err(PatchError::Unprocessable), "{patch}");
        }
        let message = PatchError::Unprocessable.message();
        let wanted = "the server rejected our request due to an error in our request";
        assert_eq!(message, wanted);
    }

    #[test]
    fn malformed_patches_are_rejected_in_gos_words() {
        let table = [
            (
                "{}",
                "json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
            ),
            ("[", "unexpected end of JSON input"),
            ("", "unexpected end of JSON input"),
            (
                "[1]",
                "json: cannot unmarshal number into Go value of type handlers.jsonPatchOp",
            ),
            (
                r#"[{"op":5}]"#,
                "json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string",
            ),
        ];
        for (patch, why) in table {
            let wanted = bad_request(&format!("error decoding patch: {why}"));
            assert_eq!(refused(patch), wanted, "{patch}");
        }
    }

    #[test]
    fn problems_of_the_patch_are_reported() {
        let patch = br#"[{"op":"add","path":"/a","value":1,"value":2,"foo":3}]"#;
        let problems = patch::json(&mut json!({}), patch).unwrap();
        let wanted = [
            r#"json patch duplicate field "[0].value""#,
            r#"json patch unknown field "[0].foo""#,
        ];
        assert_eq!(problems, wanted);
    }

    #[test]
    fn operation_count_is_bounded() {
        let operations = |count| vec![json!({"op": "test", "path": "/a", "value": 1}); count];
        assert!(apply(json!({"a": 1}), operations(10_000).into()).is_ok());
        let refused = apply(json!({"a": 1}), operations(10_001).into()).unwrap_err();
        let wanted = "Request entity too large: \
                      The allowed maximum operations in a JSON patch is 10000, got 10001";
        assert_eq!(refused.message(), wanted);
        assert!(matches!(refused, PatchError::TooLarge(_)));
    }

    #[test]
    fn copied_size_is_bounded() {
        let document = json!({"a": "x".repeat(1024 * 1024), "b": {}});
        let copy = |to: &str| json!({"op": "copy", "from": "/a", "path": to});
        assert!(apply(document.clone(), json!([copy("/b/1"), copy("/b/2")])).is_ok());
        let thrice = json!([copy("/b/1"), copy("/b/2"), copy("/b/3")]);
        assert_eq!(apply(document, thrice), Err(PatchError::Unprocessable));
    }

    #[test]
    fn patched_document_depth_is_bounded() {
        let deeper = vec![json!({"op": "copy", "from": "/a", "path": "/a/b"}); 12];
        let refused = apply(json!({"a": {}}), deeper.clone().into());
        assert!(refused.is_ok());
        let move_down = (0..200).flat_map(|_| {
            [
                json!({"op": "move", "from": "/a", "path": "/b"}),
                json!({"op": "add", "path": "/a", "value": {}}),
                json!({"op": "move", "from": "/b", "path": "/a/a"}),
            ]
        });
        let refused = apply(json!({"a": {}}), move_down.collect());
        assert_eq!(refused, Err(PatchError::Unprocessable));
    }

    #[test]
    fn work_on_long_lists_is_bounded() {
        let document = json!({"l": vec![0; 500_000]});
        let insert = vec![json!({"op": "add", "path": "/l/0", "value": 1}); 10_000];
        let refused = apply(document, insert.into());
        assert_eq!(refused, Err(PatchError::Unprocessable));
    }
}

mod merge_patch {
    use super::*;

    fn apply(document: Value, patch: &str) -> Result<(Value, Vec<String>), PatchError> {
        let mut document = document;
        let problems = patch::merge(&mut document, patch.as_bytes())?;
        Ok((document, problems))
    }

    #[test]
    fn examples_of_rfc_7386_hold() {
        let table = [
            (json!({"a": "b"}), r#"{"a":"c"}"#, json!({"a": "c"})),
            (
                json!({"a": "b"}),
                r#"{"b":"c"}"#,
                json!({"a": "b", "b": "c"}),
            ),
            (json!({"a": "b"}), r#"{"a":null}"#, json!({})),
            (
                json!({"a": "b", "b": "c"}),
                r#"{"a":null}"#,
                json!({"b": "c"}),
            ),
            (json!({"a": ["b"]}), r#"{"a":"c"}"#, json!({"a": "c"})),
            (json!({"a": "c"}), r#"{"a":["b"]}"#, json!({"a": ["b"]})),
            (
                json!({"a": {"b": "c"}}),
                r#"{"a":{"b":"d","c":null}}"#,
                json!({"a": {"b": "d"}}),
            ),
            (
                json!({"a": [{"b": "c"}]}),
                r#"{"a":[1]}"#,
                json!({"a": [1]}),
            ),
            (json!({"e": null}), r#"{"a":1}"#, json!({"e": null, "a": 1})),
            (
                json!({}),
                r#"{"a":{"bb":{"ccc":null}}}"#,
                json!({"a": {"bb": {}}}),
            ),
            (json!({"a": 1}), "{}", json!({"a": 1})),
        ];
        for (document, patch, wanted) in table {
            assert_eq!(apply(document, patch), Ok((wanted, Vec::new())), "{patch}");
        }
    }

    #[test]
    fn non_object_patches_are_rejected_in_gos_words() {
        let table = [
            (
                "[]",
                "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}",
            ),
            (
                "5",
                "error decoding patch: json: cannot unmarshal number into Go value of type map[string]interface {}",
            ),
            ("{", "error decoding patch: unexpected end of JSON input"),
            ("null", "Invalid JSON Patch"),
        ];
        for (patch, why) in table {
            assert_eq!(apply(json!({}), patch), Err(bad_request(why)), "{patch}");
        }
    }

    #[test]
    fn duplicates_are_reported_and_the_last_one_wins() {
        let (patched, problems) = apply(json!({}), r#"{"d":{"a":"1","a":"2"}}"#).unwrap();
        assert_eq!(patched, json!({"d": {"a": "2"}}));
        assert_eq!(problems, [r#"duplicate field "d.a""#]);
    }
}

mod strategic_patch {
    use super::*;

    #[test]
    fn lists_are_merged_by_key_with_the_elements_of_the_patch_first() {
        let document = json!({"spec": {"containers": [
            {"name": "a", "image": "1", "args": ["x"]}, {"name": "b", "image": "2"}]}});
        let patch = json!({"spec": {"containers": [
            {"name": "new", "image": "3"}, {"name": "b", "image": "4"}]}});
        let patched = pod(document, patch).unwrap();
        assert_eq!(containers(&patched), ["new", "a", "b"]);
        assert_eq!(patched["spec"]["containers"][2]["image"], "4");
        assert_eq!(patched["spec"]["containers"][1]["args"], json!(["x"]));
    }

    #[test]
    fn elements_are_deleted_and_lists_replaced_by_directive() {
        let patch = json!({"spec": {"containers": [{"name": "a", "$patch": "delete"}]}});
        let patched = pod(pod_with(&["a", "b"]), patch).unwrap();
        assert_eq!(containers(&patched), ["b"]);
        let patch = json!({"spec": {"containers": [{"$patch": "replace"}, {"name": "c"}]}});
        let patched = pod(pod_with(&["a", "b"]), patch).unwrap();
        assert_eq!(containers(&patched), ["c"]);
    }

    #[test]
    fn maps_are_replaced_and_emptied_by_directive() {
        let document = json!({"metadata": {"labels": {"a": "1", "b": "2"}}});
        let with = |labels: Value| pod(document.clone(), json!({"metadata": {"labels": labels}}));
        let labels = |patched: Value| patched["metadata"]["labels"].clone();
        let replaced = with(json!({"$patch": "replace", "c": "3"})).unwrap();
        assert_eq!(labels(replaced), json!({"c": "3"}));
        let emptied = with(json!({"$patch": "delete", "c": "3"})).unwrap();
        assert_eq!(labels(emptied), json!({}));
        let merged = with(json!({"a": null, "c": "3"})).unwrap();
        assert_eq!(labels(merged), json!({"b": "2", "c": "3"}));
        let refused = with(json!({"$patch": "merge", "q": 1})).unwrap_err();
        let wanted = "unknown patch type: merge in map: map[$patch:merge q:1]";
        assert_eq!(refused, internal(wanted));
    }

    #[test]
    fn set_element_order_is_applied() {
        let order =
            |names: &[&str]| -> Value { names.iter().map(|name| json!({"name": name})).collect() };
        let patch = json!({"spec": {
            "$setElementOrder/containers": order(&["c", "new", "a"]),
            "containers": [{"name": "new"}]}});
        let patched = pod(pod_with(&["a", "b", "c"]), patch).unwrap();
        assert_eq!(containers(&patched), ["b", "c", "new", "a"]);
        let patch = json!({"spec": {"$setElementOrder/containers": order(&["c", "b", "a"])}});
        let patched = pod(pod_with(&["a", "b", "c"]), patch).unwrap();
        assert_eq!(containers(&patched), ["c", "b", "a"]);
        let patch = json!({"spec": {
            "$setElementOrder/containers": order(&["a"]),
            "containers": [{"name": "z"}]}});
        let refused = pod(pod_with(&["a"]), patch).unwrap_err();
        let wanted = "The order in patch list:\n[map[name:z]]\n \
                      doesn't match $setElementOrder list:\n[map[name:a]]\n";
        assert_eq!(refused, internal(wanted));
    }

    #[test]
    fn primitive_lists_are_merged_and_deleted_from() {
        let document = json!({"metadata": {"finalizers": ["a", "b"]}});
        let with = |patch: Value| {
            let patched = pod(document.clone(), json!({"metadata": patch})).unwrap();
            patched["metadata"]["finalizers"].clone()
        };
        assert_eq!(with(json!({"finalizers": ["c"]})), json!(["c", "a", "b"]));
        assert_eq!(
            with(json!({"finalizers": ["b", "c"]})),
            json!(["a", "b", "c"])
        );
        assert_eq!(
            with(json!({"$deleteFromPrimitiveList/finalizers": ["a"]})),
            json!(["b"])
        );
        let both = json!({
            "$deleteFromPrimitiveList/finalizers": ["a"],
            "$setElementOrder/finalizers": ["c", "b"],
            "finalizers": ["c"]});
        assert_eq!(with(both), json!(["c", "b"]));
    }

    #[test]
    fn keys_not_retained_are_removed() {
        let deployment = of("api.apps.v1.Deployment");
        let document = json!({"spec": {"strategy": {
            "type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}});
        let strategy = |patch: Value| {
            let patched = strategic(deployment, &document, &json!({"spec": {"strategy": patch}}));
            patched.map(|patched| patched["spec"]["strategy"].clone())
        };
        let retained = strategy(json!({"$retainKeys": ["type"], "type": "Recreate"}));
        assert_eq!(retained, Ok(json!({"type": "Recreate"})));
        let refused = bad_request("invalid patch format of retainKeys");
        let not_listed = strategy(json!({"$retainKeys": ["type"], "rollingUpdate": {}}));
        assert_eq!(not_listed, Err(refused.clone()));
        assert_eq!(strategy(json!({"$retainKeys": "type"})), Err(refused));
    }

    #[test]
    fn lists_without_a_strategy_are_replaced() {
        let document = json!({"spec": {"tolerations": [{"key": "a"}], "containers": []}});
        let patch = json!({"spec": {"tolerations": [{"key": "b"}]}});
        let patched = pod(document, patch).unwrap();
        assert_eq!(patched["spec"]["tolerations"], json!([{"key": "b"}]));
    }

    #[test]
    fn ports_are_merged_by_container_port_only() {
        let service = of("api.core.v1.Service");
        let document = json!({"spec": {"ports": [{"port": 53, "protocol": "UDP"}, {"port": 80}]}});
        let patch = json!({"spec": {"ports": [{"port": 53, "nodePort": 30053}]}});
        let patched = strategic(service, &document, &patch).unwrap();
        let wanted = json!([{"port": 53, "protocol": "UDP", "nodePort": 30053}, {"port": 80}]);
        assert_eq!(patched["spec"]["ports"], wanted);
    }

    #[test]
    fn maps_and_raw_json_are_merge_patched() {
        let crd = "apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";
        let document = json!({"properties": {"a": {"type": "string", "enum": ["x"]}}});
        let patch = json!({"properties": {"a": {"type": null, "enum": ["y"]}}});
        let patched = strategic(of(crd), &document, &patch).unwrap();
        assert_eq!(patched, json!({"properties": {"a": {"enum": ["y"]}}}));
        let revision = of("api.apps.v1.ControllerRevision");
        let document = json!({"data": {"spec": {"x": 1, "y": [1]}}});
        let patch = json!({"data": {"spec": {"x": null, "y": [2]}}});
        let patched = strategic(revision, &document, &patch).unwrap();
        assert_eq!(patched, json!({"data": {"spec": {"y": [2]}}}));
    }

    #[test]
    fn mismatched_patches_are_rejected_in_kubernetes_words() {
        let pods = of("api.core.v1.Pod");
        let document = json!({
            "metadata": {"finalizers": ["a"]},
            "spec": {"containers": [{"name": "a"}]}});
        let table = [
            (
                json!({"spec": {"containers": [{"image": "new"}]}}),
                internal("map: map[image:new] does not contain declared merge key: name"),
            ),
            (
                json!({"spec": {"containers": [{"$patch": "delete"}]}}),
                internal("map: map[$patch:delete] does not contain declared merge key: name"),
            ),
            (
                json!({"spec": {"containers": [{"name": "a", "$patch": "merge"}]}}),
                internal("merging lists cannot yet be specified in the patch"),
            ),
            (
                json!({"spec": {"containers": [{"name": "a", "$patch": "x"}]}}),
                internal("unknown patch type: x in map: map[$patch:x name:a]"),
            ),
            (
                json!({"spec": {"containers": ["a"]}}),
                internal("list element types are not identical: [[map[name:a]] [a]]"),
            ),
            (
                json!({"metadata": {"$deleteFromPrimitiveListfinalizers": ["a"]}}),
                bad_request("invalid patch format of primitive list"),
            ),
            (
                json!({"metadata": {"$setElementOrderfinalizers": ["a"]}}),
                bad_request("invalid patch format of setElementOrder list"),
            ),
            (
                json!({"metadata": {"$setElementOrder/finalizers": "a"}}),
                internal("expected a []interface {}, but received a string"),
            ),
            (
                json!({"spec": {"$setElementOrder/bogus": [{"name": "a"}]}}),
                internal("unable to find api field in struct PodSpec for the json field \"bogus\""),
            ),
        ];
        for (patch, wanted) in table {
            assert_eq!(strategic(pods, &document, &patch), Err(wanted), "{patch}");
        }
        let lists = json!({"metadata": {"finalizers": [["a"]]}});
        let empty = json!({"metadata": {"finalizers": []}});
        let refused = strategic(pods, &empty, &lists);
        assert_eq!(refused, Err(PatchError::Unprocessable));
        let refused = strategic_text(pods, &document, "[]").unwrap_err();
        let wanted = "json: cannot unmarshal array into Go value of type map[string]interface {}";
        assert_eq!(refused, bad_request(wanted));
    }

    #[test]
    fn duplicates_are_reported() {
        let mut document = Object::new();
        let patch = br#"{"metadata":{"labels":{"a":"1","a":"2"}}}"#;
        let told: Patched = patch::strategic(of("api.core.v1.Pod"), &mut document, patch);
        let wanted = r#"duplicate field "metadata.labels.a""#;
        assert_eq!(told, Ok(vec![wanted.to_owned()]));
    }

    #[test]
    fn kubectl_apply_patches_are_applied() {
        // The live object has additions of a controller (a sidecar, an injected variable,
        // a volume); the user dropped LOG, changed MODE, added a port and swapped
        // volumes.
        let live = json!({"spec": {"template": {"spec": {
            "containers": [
                {"name": "web", "image": "web:1",
                 "env": [{"name": "LOG", "value": "1"}, {"name": "MODE", "value": "a"},
                         {"name": "INJECTED", "value": "x"}],
                 "ports": [{"containerPort": 80, "protocol": "TCP"}],
                 "volumeMounts": [{"name": "cfg", "mountPath": "/cfg"}]},
                {"name": "sidecar", "image": "proxy:1"}],
            "volumes": [{"name": "cfg", "configMap": {"name": "old"}}, {"name": "token", "emptyDir": {}}]}}}});
        let patch = json!({"spec": {"template": {"spec": {
            "$setElementOrder/containers": [{"name": "web"}],
            "$setElementOrder/volumes": [{"name": "cfg"}],
            "containers": [
                {"name": "web", "image": "web:2",
                 "$setElementOrder/env": [{"name": "MODE"}],
                 "$setElementOrder/ports": [{"containerPort": 8080}, {"containerPort": 80}],
                 "env": [{"name": "MODE", "value": "b"}, {"name": "LOG", "$patch": "delete"}],
                 "ports": [{"containerPort": 8080}]}],
            "volumes": [{"name": "cfg", "$retainKeys": ["name", "secret"], "configMap": null,
                         "secret": {"secretName": "s"}}]}}}});
        let wanted = json!({"spec": {"template": {"spec": {
            "containers": [
                {"name": "web", "image": "web:2",
                 "env": [{"name": "MODE", "value": "b"}, {"name": "INJECTED", "value": "x"}],
                 "ports": [{"containerPort": 8080}, {"containerPort": 80, "protocol": "TCP"}],
                 "volumeMounts": [{"name": "cfg", "mountPath": "/cfg"}]},
                {"name": "sidecar", "image": "proxy:1"}],
            "volumes": [{"name": "cfg", "secret": {"secretName": "s"}}, {"name": "token", "emptyDir": {}}]}}}});
        let patched = strategic(of("api.apps.v1.Deployment"), &live, &patch);
        assert_eq!(patched, Ok(wanted));
    }

    #[test]
    fn strategic_patch_matches_go() {
        let cases = include_str!("data/patch/strategic.jsonl").lines();
        let mut count = 0;
        for (at, case) in cases.enumerate() {
            let case: Value = serde_json::from_str(case).unwrap();
            let of = of(case["type"].as_str().unwrap());
            let patched = strategic(of, &case["document"], &case["patch"]);
            let wanted = match case.get("error").and_then(Value::as_str) {
                None => Ok(case["result"].clone()),
                Some(error) => Err(error.to_owned()),
            };
            let patched = patched.map_err(|error| error.message());
            assert_eq!(patched, wanted, "line {}", at + 1);
            count += 1;
        }
        assert!(count > 80, "{count} cases");
    }

    #[test]
    fn long_lists_are_merged_quickly() {
        let finalizers: Vec<_> = (0..100_000).map(|number| number.to_string()).collect();
        let reversed: Vec<_> = finalizers.iter().rev().collect();
        let document = json!({"metadata": {"finalizers": finalizers}});
        let patch = json!({"metadata": {"finalizers": reversed}});
        let patched = pod(document, patch).unwrap();
        assert_eq!(patched["metadata"]["finalizers"][0], "99999");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn patching_never_panics(document in tree(), patch in tree(), text in any::<Vec<u8>>()) {
        for patch in [patch.to_string().as_bytes(), &text] {
            let _ = patch::json(&mut document.clone(), patch);
            let _ = patch::merge(&mut document.clone(), patch);
            let mut document = document.as_object().cloned().unwrap_or_default();
            let _ = patch::strategic(of("api.core.v1.Pod"), &mut document, patch);
        }
    }

    #[test]
    fn merge_patch_is_idempotent(document in tree(), patch in tree()) {
        let patch = patch.to_string();
        let mut once = document;
        if patch::merge(&mut once, patch.as_bytes()).is_ok() {
            let mut twice = once.clone();
            patch::merge(&mut twice, patch.as_bytes()).unwrap();
            // A list that replaces an object keeps its nulls, one that replaces a list
            // does not.
            drop_nulls(&mut once);
            drop_nulls(&mut twice);
            prop_assert_eq!(once, twice);
        }
    }
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(object) => {
            object.retain(|_, value| !value.is_null());
            object.values_mut().for_each(drop_nulls);
        }
        Value::Array(list) => list.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// Trees that resemble pods and patches.
fn tree() -> impl Strategy<Value = Value> {
    let names = prop::sample::select(vec![
        "metadata",
        "spec",
        "labels",
        "finalizers",
        "containers",
        "name",
        "env",
        "volumes",
        "$patch",
        "$retainKeys",
        "$setElementOrder/containers",
        "$setElementOrder/finalizers",
        "$deleteFromPrimitiveList/finalizers",
        "op",
        "path",
        "value",
    ]);
    let texts = prop::sample::select(vec!["a", "b", "replace", "delete", "add", "/spec", "name"]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        texts.prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 4, move |inner| {
        let member = (names.clone().prop_map(str::to_owned), inner.clone());
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(Value::from),
            prop::collection::vec(member, 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

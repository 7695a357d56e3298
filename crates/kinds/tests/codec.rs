//! Objects are decoded and encoded exactly as by a real API server.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use insula_kinds::decode::{self, DecodeError, Decoded, TypeMeta};
use insula_kinds::{Kind, Object, TypeId, Value, encode, kinds};

/// Objects as written by a real API server, one per line.
const OBJECTS: &str = include_str!("data/codec/objects.jsonl");

/// Objects without set fields as written by a real API server, by kind.
const ZERO: &str = include_str!("data/codec/zero-objects.json");

fn kind(api_version: &str, kind: &str) -> &'static Kind {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let id = kinds().find_by_kind(group, version, kind);
    kinds().get(id.unwrap_or_else(|| panic!("{api_version} {kind}")))
}

fn type_of(text: &[u8]) -> (&'static Kind, TypeId) {
    let type_meta = decode::type_meta_json(text).unwrap();
    let kind = kind(&type_meta.api_version.unwrap(), &type_meta.kind.unwrap());
    (kind, kind.type_id())
}

fn written(kind: &Kind, object: &Object) -> String {
    let mut out = Vec::new();
    let of = kind.type_id();
    encode::json(kind.api_version(), &kind.kind, of, object, &mut out);
    String::from_utf8(out).unwrap()
}

fn config_map(text: &str) -> Result<Decoded, DecodeError> {
    decode::json(kind("v1", "ConfigMap").type_id(), text.as_bytes())
}

fn read(kind_name: &str, text: &str) -> Result<Decoded, DecodeError> {
    let (_, kind) = kinds()
        .iter()
        .find(|(_, kind)| kind.kind == kind_name)
        .unwrap();
    decode::json(kind.type_id(), text.as_bytes())
}

#[test]
fn managed_fields_in_text_are_written_as_they_are_if_they_are_a_list() {
    let kind = kind("v1", "ConfigMap");
    let with = |text: &str| {
        let object = serde_json::json!({"metadata": {"name": "a", "managedFields": text}});
        written(kind, object.as_object().unwrap())
    };
    let list = r#"[{"manager":"m","fieldsV1":{"f:b":{},"f:a":{}}}]"#;
    assert!(with(list).contains(&format!(r#""managedFields":{list}"#)));
    for text in [
        "{}",
        r#"[]},"data":{"#,
        r#"[]}},{"kind":"Secret"#,
        "[",
        "[] []",
    ] {
        let written: Value = serde_json::from_str(&with(text)).unwrap();
        assert_eq!(written["metadata"]["managedFields"], text);
        assert_eq!(written.as_object().unwrap().len(), 3);
    }
}

#[test]
fn server_json_roundtrips_byte_by_byte() {
    assert_eq!(OBJECTS.lines().count(), 16);
    for line in OBJECTS.lines() {
        let (kind, of) = type_of(line.as_bytes());
        let decoded = decode::json(of, line.as_bytes()).unwrap();
        assert_eq!(decoded.problems, Vec::<String>::new(), "{line}");
        assert_eq!(written(kind, &decoded.object), line);

        let tree: Value = serde_json::from_str(line).unwrap();
        assert_eq!(decode::value(of, tree).unwrap(), decoded);

        let mut normal = decoded.object.clone();
        encode::normalize(of, &mut normal);
        assert_eq!(written(kind, &normal), line);
        let mut twice = normal.clone();
        encode::normalize(of, &mut twice);
        assert_eq!(twice, normal);
    }
}

#[test]
fn empty_objects_have_the_members_go_never_omits() {
    let zero: Object = serde_json::from_str(ZERO).unwrap();
    assert_eq!(zero.len(), 60);
    for (name, wanted) in &zero {
        let (api_version, kind_name) = name.rsplit_once('/').unwrap();
        let kind = kind(api_version, kind_name);
        let text = written(kind, &Object::new());
        let mut found: Object = serde_json::from_str(&text).unwrap();
        assert_eq!(found.remove("kind"), Some(Value::from(kind_name)), "{name}");
        assert_eq!(
            found.remove("apiVersion"),
            Some(Value::from(api_version)),
            "{name}"
        );
        // The server's internal types have no pointer here, so its nil becomes a zero.
        if ["Deployment", "ReplicaSet", "StatefulSet"].contains(&kind_name) {
            found["spec"]["replicas"] = Value::from(0);
        }
        assert_eq!(&Value::Object(found), wanted, "{name}");
    }
}

#[test]
fn decode_errors_are_worded_as_in_go() {
    let cases = [
        (
            "ConfigMap",
            r#"{"data":{"a":1}}"#,
            "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
        ),
        (
            "Deployment",
            r#"{"spec":{"replicas":1.5}}"#,
            "json: cannot unmarshal number 1.5 into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            "Deployment",
            r#"{"spec":{"replicas":1e3}}"#,
            "json: cannot unmarshal number 1e3 into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            "Deployment",
            "{\"spec\":{\n\"replicas\" : 1.0\n}}",
            "json: cannot unmarshal number 1.0 into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            "Deployment",
            r#"{"spec":{"replicas":3000000000}}"#,
            "json: cannot unmarshal number 3000000000 into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            "Deployment",
            r#"{"metadata":{"generation":99999999999999999999}}"#,
            "json: cannot unmarshal number 99999999999999999999 into Go struct field ObjectMeta.metadata.generation of type int64",
        ),
        (
            "Deployment",
            r#"{"spec":{"replicas":"1"}}"#,
            "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            "Deployment",
            r#"{"spec":"x"}"#,
            "json: cannot unmarshal string into Go struct field Deployment.spec of type v1.DeploymentSpec",
        ),
        (
            "Deployment",
            r#"{"spec":{"template":{"spec":{"containers":{}}}}}"#,
            "json: cannot unmarshal object into Go struct field PodSpec.spec.template.spec.containers of type []v1.Container",
        ),
        (
            "Deployment",
            r#"{"spec":{"template":{"spec":{"containers":[{"env":[{"value":true}]}]}}}}"#,
            "json: cannot unmarshal bool into Go struct field EnvVar.spec.template.spec.containers.env.value of type string",
        ),
        (
            "Deployment",
            r#"{"spec":{"strategy":{"rollingUpdate":{"maxSurge":1.5}}}}"#,
            "json: cannot unmarshal number 1.5 into Go struct field RollingUpdateDeployment.spec.strategy.rollingUpdate.maxSurge of type int32",
        ),
        (
            "ConfigMap",
            r#"{"data":[]}"#,
            "json: cannot unmarshal array into Go struct field ConfigMap.data of type map[string]string",
        ),
        (
            "ConfigMap",
            r#"{"kind":1}"#,
            "json: cannot unmarshal number into Go struct field ConfigMap.kind of type string",
        ),
        (
            "ConfigMap",
            r#"["a"]"#,
            "json: cannot unmarshal array into Go value of type v1.ConfigMap",
        ),
        (
            "Secret",
            r#"{"data":{"a":1}}"#,
            "json: cannot unmarshal number into Go struct field Secret.data of type []uint8",
        ),
        (
            "Secret",
            r#"{"data":{"a":"!!!"}}"#,
            "illegal base64 data at input byte 0",
        ),
        (
            "Pod",
            r#"{"spec":{"containers":[{"resources":{"limits":{"cpu":"abc"}}}]}}"#,
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (
            "Pod",
            r#"{"spec":{"overhead":{"cpu":{}}}}"#,
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (
            "Pod",
            r#"{"spec":{"overhead":{"cpu":"1mm"}}}"#,
            "unable to parse quantity's suffix",
        ),
        (
            "ConfigMap",
            r#"{"metadata":{"creationTimestamp":"yesterday"}}"#,
            r#"parsing time "yesterday" as "2006-01-02T15:04:05Z07:00": cannot parse "yesterday" as "2006""#,
        ),
        (
            "ConfigMap",
            r#"{"metadata":{"creationTimestamp":5}}"#,
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.creationTimestamp of type string",
        ),
        (
            "CustomResourceDefinition",
            r#"{"spec":{"versions":[{"schema":{"openAPIV3Schema":{"additionalProperties":"x"}}}]}}"#,
            "boolean or JSON schema expected",
        ),
        (
            "CustomResourceDefinition",
            r#"{"spec":{"versions":[{"schema":{"openAPIV3Schema":{"items":{"type":1}}}}]}}"#,
            "json: cannot unmarshal number into Go struct field JSONSchemaProps.type of type string",
        ),
    ];
    for (kind, text, wanted) in cases {
        let wanted = DecodeError::Type(wanted.to_owned());
        assert_eq!(read(kind, text), Err(wanted.clone()), "{text}");
        assert_eq!(
            read(kind, text).unwrap_err().to_string(),
            wanted.to_string()
        );
    }
}

#[test]
fn syntax_errors_precede_type_errors() {
    let cases = [
        ("", "unexpected end of JSON input"),
        (r#"{"a":"#, "unexpected end of JSON input"),
        (r#"{"data":{"a":1},"#, "unexpected end of JSON input"),
        (
            r#"{"data":1} x"#,
            "invalid character 'x' after top-level value",
        ),
        (
            "{'a':1}",
            r"invalid character '\'' looking for beginning of object key string",
        ),
    ];
    for (text, wanted) in cases {
        let wanted = format!("couldn't get version/kind; json parse error: {wanted}");
        let wanted = DecodeError::Syntax(wanted);
        assert_eq!(config_map(text), Err(wanted.clone()), "{text}");
        assert_eq!(
            decode::type_meta_json(text.as_bytes()),
            Err(wanted),
            "{text}"
        );
    }
    // Go would store a question mark instead; here text that was never sent is rejected.
    let wanted = "couldn't get version/kind; json parse error: unexpected end of hex escape";
    let wanted = DecodeError::Syntax(wanted.to_owned());
    assert_eq!(config_map(r#"{"data":{"a":"\ud800x"}}"#), Err(wanted));
    let text = b"{\"data\":{\"a\":\"\xff\"}}";
    let wanted = "couldn't get version/kind; json parse error: invalid UTF-8 at input byte 14";
    let wanted = DecodeError::Syntax(wanted.to_owned());
    assert_eq!(decode::type_meta_json(text), Err(wanted));
}

#[test]
fn excerpt_prints_text_or_hexadecimal() {
    assert_eq!(decode::excerpt(b""), "<empty>");
    assert_eq!(decode::excerpt(b"{\"a\":"), "{\"a\":");
    assert_eq!(decode::excerpt(b"[]"), "5b5d");
    let long = format!("{{{}}}", "a".repeat(40));
    let wanted = format!("{{{} ...", "a".repeat(29));
    assert_eq!(decode::excerpt(long.as_bytes()), wanted);
}

#[test]
fn unknown_and_duplicate_fields_are_reported_in_the_order_of_the_document() {
    let text = r#"{"Metadata":{},"metadata":{"name":"a","bogus":[{"x":1}],"labels":{"l":"1","l":"2"}},
        "data":{"a":"1","a":"2"},"data":null,"immutable":null,"immutable":true,"extra":1,"extra":2}"#;
    let decoded = config_map(text).unwrap();
    let problems = [
        r#"unknown field "Metadata""#,
        r#"unknown field "metadata.bogus""#,
        r#"duplicate field "metadata.labels.l""#,
        r#"duplicate field "data.a""#,
        r#"duplicate field "data""#,
        r#"duplicate field "immutable""#,
        r#"unknown field "extra""#,
    ];
    assert_eq!(decoded.problems, problems);
    let wanted = serde_json::json!({"metadata":{"name":"a","labels":{"l":"2"}},"immutable":true});
    assert_eq!(Value::Object(decoded.object), wanted);

    let text = r#"{"spec":{"containers":[{"foo":1},{"resources":{"limits":{"cpu":1,"cpu":2}}}]}}"#;
    let decoded = read("Pod", text).unwrap();
    let problems = [
        r#"unknown field "spec.containers[0].foo""#,
        r#"duplicate field "spec.containers[1].resources.limits.cpu""#,
    ];
    assert_eq!(decoded.problems, problems);
}

#[test]
fn problems_are_bounded() {
    let members: Vec<_> = (0..1000).map(|n| format!("\"x{n}\":1")).collect();
    let decoded = config_map(&format!("{{{}}}", members.join(","))).unwrap();
    assert_eq!(decoded.problems.len(), 100);
}

#[test]
fn values_are_canonicalized() {
    let cases = [
        (
            "Pod",
            r#"{"spec":{"overhead":{"a":"1.5Gi","b":"1500m","c":"1000m","d":0.5,"e":2,"f":null}}}"#,
            r#"{"spec":{"overhead":{"a":"1536Mi","b":"1500m","c":"1","d":"500m","e":"2","f":"0"}}}"#,
        ),
        (
            "ConfigMap",
            r#"{"metadata":{"creationTimestamp":"2026-11-16T01:00:00.5+01:00"},"data":{"a":null}}"#,
            r#"{"metadata":{"creationTimestamp":"2026-11-16T00:00:00Z"},"data":{"a":""}}"#,
        ),
        (
            "ConfigMap",
            r#"{"metadata":{"creationTimestamp":"0001-01-01T00:00:00Z","finalizers":["a",null]}}"#,
            r#"{"metadata":{"finalizers":["a",""]}}"#,
        ),
        (
            "Lease",
            r#"{"spec":{"renewTime":"2026-11-16T01:00:00.123456+01:00"}}"#,
            r#"{"spec":{"renewTime":"2026-11-16T00:00:00.123456Z"}}"#,
        ),
        (
            "Secret",
            r#"{"data":{"a":"YR==","b":"YW\nJj","c":[97,98],"d":null}}"#,
            r#"{"data":{"a":"YQ==","b":"YWJj","c":"YWI=","d":""}}"#,
        ),
        (
            "Pod",
            r#"{"spec":{"containers":[null],"tolerations":null,"hostNetwork":null}}"#,
            r#"{"spec":{"containers":[{}]}}"#,
        ),
        (
            "ControllerRevision",
            r#"{"data":{"x":null,"apiVersion":"v1","n":[1,null,{"a":1.0}]},"revision":1}"#,
            r#"{"data":{"x":null,"apiVersion":"v1","n":[1,null,{"a":1.0}]},"revision":1}"#,
        ),
        (
            "CustomResourceDefinition",
            r#"{"spec":{"versions":[{"schema":{"openAPIV3Schema":{"maximum":10.0,"default":null,"enum":[null,1],
              "items":[{"type":"a"}],"additionalProperties":false,"additionalItems":{"type":"b","zzz":1},
              "dependencies":{"a":["b"],"c":{"type":"d"}}}}}]}}"#,
            r#"{"spec":{"versions":[{"schema":{"openAPIV3Schema":{"maximum":10,"enum":[null,1],
              "items":[{"type":"a"}],"additionalProperties":false,"additionalItems":{"type":"b"},
              "dependencies":{"a":["b"],"c":{"type":"d"}}}}}]}}"#,
        ),
        ("ConfigMap", "null", "{}"),
    ];
    for (kind, text, wanted) in cases {
        let decoded = read(kind, text).unwrap();
        let wanted: Value = serde_json::from_str(wanted).unwrap();
        assert_eq!(Value::Object(decoded.object), wanted, "{text}");
        assert_eq!(decoded.problems, Vec::<String>::new(), "{text}");
    }
}

#[test]
fn embedded_type_meta_is_kept_as_in_go() {
    let text = r#"{"apiVersion":"apps/v1","kind":"StatefulSet","spec":{"template":{"kind":"x"},
        "volumeClaimTemplates":[{"kind":"PersistentVolumeClaim","apiVersion":"v1"}]}}"#;
    let decoded = read("StatefulSet", text).unwrap();
    assert_eq!(decoded.problems, [r#"unknown field "spec.template.kind""#]);
    assert_eq!(decoded.object["kind"], "StatefulSet");
    let claim = &decoded.object["spec"]["volumeClaimTemplates"][0];
    assert_eq!(claim["kind"], "PersistentVolumeClaim");
    let out = written(kind("apps/v1", "StatefulSet"), &decoded.object);
    let wanted = r#""volumeClaimTemplates":[{"kind":"PersistentVolumeClaim","apiVersion":"v1","metadata":{},"#;
    assert!(out.contains(wanted), "{out}");
}

#[test]
fn type_meta_is_read_from_the_document() {
    let type_meta = |text: &str| decode::type_meta_json(text.as_bytes());
    let claimed = TypeMeta {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
    };
    let text = r#"{"spec":{"kind":"x"},"kind":"Pod","apiVersion":"v1"}"#;
    assert_eq!(type_meta(text), Ok(claimed));
    assert_eq!(type_meta(r#"{"kind":null}"#), Ok(TypeMeta::default()));
    assert_eq!(type_meta("null"), Ok(TypeMeta::default()));
    let wrong = |text: &str| type_meta(text).unwrap_err().to_string();
    assert_eq!(
        wrong(r#"{"kind":5}"#),
        "couldn't get version/kind; json parse error: json: cannot unmarshal number into Go struct field .kind of type string"
    );
    assert_eq!(
        wrong("[]"),
        r#"couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#
    );
}

#[test]
fn zero_values_are_omitted_as_in_go() {
    let cases = [
        // A pointer to zero counts as set, a plain zero does not.
        (
            "Deployment",
            r#"{"spec":{"replicas":0,"paused":false,"minReadySeconds":0,"revisionHistoryLimit":0}}"#,
            r#""spec":{"replicas":0,"selector":null,"template":{"metadata":{},"spec":{"containers":null}},"strategy":{},"revisionHistoryLimit":0},"status":{}}"#,
        ),
        (
            "Pod",
            r#"{"metadata":{"labels":{}},"spec":{"containers":[],"tolerations":[]},"status":{"conditions":[{"type":"a","status":"b"}]}}"#,
            r#""metadata":{},"spec":{"containers":[]},"status":{"conditions":[{"type":"a","status":"b","lastProbeTime":null,"lastTransitionTime":null}]}}"#,
        ),
        (
            "Pod",
            r#"{"spec":{"containers":[{"env":[{"valueFrom":{"resourceFieldRef":{"resource":"x"}}}]}]}}"#,
            r#""spec":{"containers":[{"name":"","env":[{"name":"","valueFrom":{"resourceFieldRef":{"resource":"x","divisor":"0"}}}],"resources":{}}]},"status":{}}"#,
        ),
        (
            "Service",
            r#"{"spec":{"ports":[{"port":80}]}}"#,
            r#""spec":{"ports":[{"port":80,"targetPort":0}]},"status":{"loadBalancer":{}}}"#,
        ),
        (
            "ConfigMap",
            r#"{"data":{"b":"<&>","a":"é\u2028"},"immutable":false}"#,
            r#""metadata":{},"immutable":false,"data":{"a":"é\u2028","b":"\u003c\u0026\u003e"}}"#,
        ),
    ];
    for (name, text, wanted) in cases {
        let decoded = read(name, text).unwrap();
        let (_, kind) = kinds().iter().find(|(_, kind)| kind.kind == name).unwrap();
        let out = written(kind, &decoded.object);
        assert!(out.ends_with(wanted), "{out}");
        let mut normal = decoded.object.clone();
        encode::normalize(kind.type_id(), &mut normal);
        assert_eq!(written(kind, &normal), out);
    }
}

#[test]
fn normalized_objects_are_equal_if_their_json_is() {
    let normal = |text: &str| {
        let mut object = read("Deployment", text).unwrap().object;
        encode::normalize(kind("apps/v1", "Deployment").type_id(), &mut object);
        object
    };
    assert_eq!(
        normal(
            r#"{"metadata":{"labels":{}},"spec":{"paused":false,"template":{"metadata":{}}},"status":{}}"#
        ),
        Object::new()
    );
    let kept =
        r#"{"spec":{"replicas":0,"template":{"spec":{"containers":[],"securityContext":{}}}}}"#;
    let wanted: Object = serde_json::from_str(kept).unwrap();
    assert_eq!(normal(kept), wanted);
}

#[test]
fn nesting_is_bounded_and_needs_little_stack() {
    let deep = |depth: usize| {
        let open = "{\"data\":".to_owned() + &"[".repeat(depth);
        open + &"]".repeat(depth) + "}"
    };
    let too_deep = "couldn't get version/kind; json parse error: exceeded max depth";
    let too_deep = DecodeError::Syntax(too_deep.to_owned());
    // A server thread has a stack of two megabytes.
    let thread = std::thread::Builder::new().stack_size(2 << 20);
    let test = move || {
        let decoded = read("ControllerRevision", &deep(126)).unwrap();
        let out = written(kind("apps/v1", "ControllerRevision"), &decoded.object);
        assert!(out.contains(&"[".repeat(126)));
        for depth in [127, 9_999, 100_000] {
            let refused = read("ControllerRevision", &deep(depth));
            assert_eq!(refused, Err(too_deep.clone()), "{depth}");
        }
        // Unknown fields are skipped without recursion.
        let text = deep(100_000).replace("data", "bogus");
        let decoded = read("ControllerRevision", &text).unwrap();
        assert_eq!(decoded.problems, [r#"unknown field "bogus""#]);
        let mut schema = r#"{"type":"a"}"#.to_owned();
        for _ in 0..61 {
            schema = format!(r#"{{"items":{schema}}}"#);
        }
        let text = |schema: &str| {
            format!(r#"{{"spec":{{"versions":[{{"schema":{{"openAPIV3Schema":{schema}}}}}]}}}}"#)
        };
        let crd = "CustomResourceDefinition";
        assert_eq!(read(crd, &text(&schema)).unwrap().problems.len(), 0);
        for _ in 0..80 {
            schema = format!(r#"{{"items":{schema}}}"#);
        }
        assert_eq!(read(crd, &text(&schema)), Err(too_deep.clone()));
        let mut value = Value::Null;
        for _ in 0..200 {
            value = Value::Array(vec![value]);
        }
        let tree = serde_json::json!({ "data": value });
        let of = kind("apps/v1", "ControllerRevision").type_id();
        assert_eq!(decode::value(of, tree), Err(too_deep));
    };
    thread.spawn(test).unwrap().join().unwrap();
}

//! YAML decodes to the same objects as the JSON that Kubernetes converts it to.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::time::{Duration, Instant};

use insula_kinds::decode::{self, DecodeError, Decoded};
use insula_kinds::{Value, kinds};
use serde_json::json;

fn read(kind_name: &str, text: &str) -> Result<Decoded, DecodeError> {
    let (_, kind) = kinds()
        .iter()
        .find(|(_, kind)| kind.kind == kind_name)
        .unwrap();
    decode::yaml(kind.type_id(), text.as_bytes())
}

fn refused(text: &str) -> String {
    read("ConfigMap", text).unwrap_err().to_string()
}

#[test]
fn scalars_follow_yaml_1_1() {
    let text = "
apiVersion: v1
kind: Pod
metadata:
  name: a
  labels: {\"1\": x, 2: w, true: z}
  creationTimestamp: 2026-11-16T01:00:00+01:00
spec:
  hostNetwork: yes
  priority: 1.0
  tolerations: ~
  volumes:
  - name: 'no'
    configMap: {defaultMode: 0644}
  overhead:
    cpu: .5
    memory: 1.5Gi
";
    let decoded = read("Pod", text).unwrap();
    let wanted = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "a",
            "labels": {"1": "x", "2": "w", "true": "z"},
            "creationTimestamp": "2026-11-16T00:00:00Z",
        },
        "spec": {
            "hostNetwork": true,
            "priority": 1,
            "volumes": [{"name": "no", "configMap": {"defaultMode": 420}}],
            "overhead": {"cpu": "500m", "memory": "1536Mi"},
        },
    });
    assert_eq!(Value::Object(decoded.object), wanted);
    assert_eq!(decoded.problems, Vec::<String>::new());
    let type_meta = decode::type_meta_yaml(text.as_bytes()).unwrap();
    assert_eq!(type_meta.kind.as_deref(), Some("Pod"));
    assert_eq!(type_meta.api_version.as_deref(), Some("v1"));
}

#[test]
fn yaml_numbers_are_rejected_for_string_fields() {
    assert_eq!(
        refused("data:\n  a: 1\n"),
        "json: cannot unmarshal number into Go struct field ConfigMap.data of type string"
    );
}

#[test]
fn duplicate_keys_are_reported_with_their_lines() {
    let text =
        "apiVersion: v1\nkind: ConfigMap\nbogus: 1\ndata:\n  a: '1'\n  b: x\n  a: '2'\n  b: z\n";
    let decoded = read("ConfigMap", text).unwrap();
    let duplicates = "yaml: unmarshal errors:\n  line 7: key \"a\" already set in map\n  line 8: key \"b\" already set in map";
    assert_eq!(decoded.problems, [duplicates, r#"unknown field "bogus""#]);
    assert_eq!(decoded.object["data"], json!({"a": "2", "b": "z"}));

    let decoded = read("ConfigMap", r#"{"data":{"a":"1","a":"2"}}"#).unwrap();
    let duplicates = "yaml: unmarshal errors:\n  line 1: key \"a\" already set in map";
    assert_eq!(decoded.problems, [duplicates]);
}

#[test]
fn json_is_accepted_as_yaml() {
    let decoded = read("ConfigMap", r#" {"data":{"a":"<1>"},"x":1}"#).unwrap();
    assert_eq!(decoded.object["data"], json!({"a": "<1>"}));
    assert_eq!(decoded.problems, [r#"unknown field "x""#]);
    let decoded = read("Deployment", r#"{"spec":{"replicas":1.0}}"#).unwrap();
    assert_eq!(decoded.object["spec"], json!({"replicas": 1}));
}

#[test]
fn anchors_and_merge_keys_are_expanded() {
    let text = "
metadata:
  labels: &labels {a: x, b: w}
  annotations:
    <<: *labels
    b: z
data: *labels
";
    let decoded = read("ConfigMap", text).unwrap();
    let wanted = json!({
        "metadata": {"labels": {"a": "x", "b": "w"}, "annotations": {"a": "x", "b": "z"}},
        "data": {"a": "x", "b": "w"},
    });
    assert_eq!(Value::Object(decoded.object), wanted);
    assert_eq!(decoded.problems, Vec::<String>::new());
}

#[test]
fn yaml_errors_name_the_line_unless_it_is_the_first() {
    let cases = [
        "data:\n  a: [1\n",
        "data:\n a: b\n  c: d\n",
        "a: b: c\n",
        "data: {}\n---\ndata: {}\n",
        "data: *nowhere\n",
        "data: {a: .inf}\n",
    ];
    for text in cases {
        let error = read("ConfigMap", text).unwrap_err();
        let DecodeError::Syntax(sentence) = &error else {
            panic!("{text}: {error}");
        };
        let lines = text.lines().count() > 1;
        let said = sentence.starts_with("yaml: line ");
        assert_eq!(said, lines, "{text}: {sentence}");
        assert!(sentence.starts_with("yaml: "), "{text}: {sentence}");
        assert!(!sentence.contains('\n'), "{text}: {sentence}");
    }
    assert_eq!(
        refused("data: {}\n---\ndata: {}\n"),
        "yaml: line 3: more than one document"
    );
    assert_eq!(
        decode::type_meta_yaml(b"\xff").unwrap_err().to_string(),
        "yaml: invalid leading UTF-8 octet"
    );
    assert_eq!(
        decode::type_meta_yaml(b"- a\n").unwrap_err().to_string(),
        r#"couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#
    );
    assert_eq!(read("ConfigMap", "").unwrap(), Decoded::default());
}

#[test]
fn alias_expansion_is_bounded() {
    let mut text = "a0: &a0 [ha, ha, ha, ha, ha, ha, ha, ha, ha, ha]\n".to_owned();
    for level in 1..10 {
        let of = format!("*a{}", level - 1);
        let list = vec![of; 10].join(", ");
        text += &format!("a{level}: &a{level} [{list}]\n");
    }
    let begun = Instant::now();
    let error = read("ConfigMap", &text).unwrap_err();
    assert!(matches!(error, DecodeError::Syntax(_)), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(2));
}

#[test]
fn nesting_is_bounded_and_needs_little_stack() {
    let thread = std::thread::Builder::new().stack_size(2 << 20);
    let test = || {
        let flow = |depth: usize| "data: ".to_owned() + &"[".repeat(depth) + &"]".repeat(depth);
        let block = |depth: usize| "data:\n".to_owned() + &"- ".repeat(depth) + "a";
        let decoded = read("ControllerRevision", &block(62)).unwrap();
        assert!(decoded.object["data"].is_array());
        for text in [
            flow(64),
            block(64),
            flow(200),
            flow(100_000),
            block(200),
            block(100_000),
        ] {
            let error = read("ControllerRevision", &text).unwrap_err();
            assert!(matches!(error, DecodeError::Syntax(_)), "{error}");
        }
    };
    thread.spawn(test).unwrap().join().unwrap();
}

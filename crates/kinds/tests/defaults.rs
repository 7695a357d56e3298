//! Defaulted objects match those of a real server.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::fs;
use std::path::{Path, PathBuf};

use insula_kinds::{
    Form, Kind, Object, Shape, TypeId, Value, decode, defaults, encode, kinds, prepare, types,
};
use proptest::prelude::*;
use serde_json::json;

/// The status of reviews comes from the server's authorizer, not from the request.
const SERVER_DECIDED: [(&str, &[&str]); 3] = [
    ("TokenReview", &["status"]),
    ("SelfSubjectAccessReview", &["status"]),
    ("SelfSubjectRulesReview", &["status", "spec"]),
];

#[test]
fn objects_are_stored_as_by_a_real_server() {
    let mut seen = 0;
    let mut different = Vec::new();
    for input in recorded() {
        let (kind, sent) = read(&input);
        let made = written(kind, stored(kind, sent));
        let wanted = recorded_response(&input);
        seen += 1;
        if made != wanted {
            let name = input.display();
            different.push(format!("{name}\n  made   {made}\n  wanted {wanted}"));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
    assert_eq!(seen, 48);
}

#[test]
fn defaulting_a_server_response_changes_nothing() {
    for input in recorded() {
        let (kind, mut object) = read(&output_of(&input));
        defaults::apply(kind, &mut object);
        assert_eq!(written(kind, object), recorded_response(&input));
    }
}

/// Cases that are in none of the recorded responses.
#[test]
fn defaults_depend_on_other_fields() {
    let cases = [
        (
            ("apps", "v1", "daemonsets"),
            json!({}),
            "/spec/updateStrategy",
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}),
        ),
        (
            ("apps", "v1", "deployments"),
            json!({"spec": {"strategy": {"type": "Recreate"}}}),
            "/spec/strategy",
            json!({"type": "Recreate"}),
        ),
        (
            ("apps", "v1", "statefulsets"),
            json!({"spec": {"updateStrategy": {"type": "RollingUpdate"}}}),
            "/spec/updateStrategy",
            json!({"type": "RollingUpdate"}),
        ),
        (
            ("batch", "v1", "jobs"),
            json!({"spec": {"backoffLimitPerIndex": 1}}),
            "/spec/backoffLimit",
            json!(i32::MAX),
        ),
        (
            ("batch", "v1", "jobs"),
            json!({"spec": {"podFailurePolicy": {}}}),
            "/spec/podReplacementPolicy",
            json!("Failed"),
        ),
        (
            ("", "v1", "services"),
            json!({"spec": {"sessionAffinity": "ClientIP"}}),
            "/spec/sessionAffinityConfig",
            json!({"clientIP": {"timeoutSeconds": 10800}}),
        ),
        (
            ("", "v1", "services"),
            json!({"spec": {"externalIPs": ["1.2.3.4"]}}),
            "/spec/externalTrafficPolicy",
            json!("Cluster"),
        ),
        (
            ("", "v1", "pods"),
            json!({"spec": {"serviceAccount": "old"}}),
            "/spec/serviceAccountName",
            json!("old"),
        ),
        (
            ("", "v1", "pods"),
            json!({"spec": {"terminationGracePeriodSeconds": -5}}),
            "/spec/terminationGracePeriodSeconds",
            json!(1),
        ),
        (
            ("", "v1", "pods"),
            json!({"status": {"podIP": "1.1.1.1", "podIPs": [{"ip": "2.2.2.2"}]}}),
            "/status/podIPs",
            json!([{"ip": "1.1.1.1"}]),
        ),
        (
            ("", "v1", "nodes"),
            json!({"spec": {"podCIDRs": ["10.0.0.0/24"]}}),
            "/spec/podCIDR",
            json!("10.0.0.0/24"),
        ),
        (
            ("", "v1", "pods"),
            json!({"spec": {"ephemeralContainers": [{"name": "e", "image": "i"}]}}),
            "/spec/ephemeralContainers/0/imagePullPolicy",
            json!("Always"),
        ),
        (
            ("", "v1", "pods"),
            json!({"spec": {"containers": [{"livenessProbe": {"grpc": {"port": 1}}}]}}),
            "/spec/containers/0/livenessProbe/grpc/service",
            json!(""),
        ),
        (
            ("", "v1", "limitranges"),
            json!({"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "1"}}]}}),
            "/spec/limits/0/defaultRequest",
            json!({"cpu": "2"}),
        ),
        (
            ("", "v1", "resourcequotas"),
            json!({"spec": {"hard": {"cpu": "1500u"}}}),
            "/spec/hard/cpu",
            json!("2m"),
        ),
        (
            ("discovery.k8s.io", "v1", "endpointslices"),
            json!({"ports": [{"port": 1}]}),
            "/ports/0",
            json!({"port": 1, "name": "", "protocol": "TCP"}),
        ),
        (
            (
                "admissionregistration.k8s.io",
                "v1",
                "validatingwebhookconfigurations",
            ),
            json!({"webhooks": [{"clientConfig": {"service": {"name": "s"}}, "rules": [{}]}]}),
            "/webhooks/0",
            json!({
                "clientConfig": {"service": {"name": "s", "port": 443}}, "rules": [{"scope": "*"}],
                "failurePolicy": "Fail", "matchPolicy": "Equivalent", "namespaceSelector": {},
                "objectSelector": {}, "timeoutSeconds": 10,
            }),
        ),
        (
            ("autoscaling", "v2", "horizontalpodautoscalers"),
            json!({"spec": {"behavior": {"scaleUp": {"selectPolicy": "Min"}}}}),
            "/spec/behavior",
            json!({
                "scaleUp": {
                    "stabilizationWindowSeconds": 0, "selectPolicy": "Min",
                    "policies": [
                        {"type": "Pods", "value": 4, "periodSeconds": 15},
                        {"type": "Percent", "value": 100, "periodSeconds": 15},
                    ],
                },
                "scaleDown": {
                    "selectPolicy": "Max",
                    "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
                },
            }),
        ),
        (
            ("storage.k8s.io", "v1", "volumeattachments"),
            json!({"spec": {"source": {"inlineVolumeSpec": {"hostPath": {"path": "/"}}}}}),
            "/spec/source/inlineVolumeSpec",
            json!({"hostPath": {"path": "/", "type": ""}}),
        ),
    ];
    for ((group, version, resource), mut sent, path, wanted) in cases {
        let kind = kinds().get(kinds().find(group, version, resource).unwrap());
        defaults::apply(kind, sent.as_object_mut().unwrap());
        assert_eq!(sent.pointer(path), Some(&wanted), "{resource}{path} {sent}");
    }
}

#[test]
fn subresource_bodies_are_defaulted() {
    let of = types().find("api.authentication.v1.TokenRequest").unwrap();
    let mut request = Object::new();
    defaults::apply_type(of, &mut request);
    assert_eq!(request["spec"], json!({"expirationSeconds": 3600}));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Objects of any kind, filled at random by their types.
    #[test]
    fn defaulting_is_idempotent(seed in prop::collection::vec(any::<u8>(), 512)) {
        for (_, kind) in kinds().iter() {
            let mut object = random_object(kind.type_id(), &mut seed.iter().copied().cycle(), 0);
            defaults::apply(kind, &mut object);
            let once = object.clone();
            defaults::apply(kind, &mut object);
            prop_assert_eq!(&once, &object, "{}", kind.kind);
        }
    }
}

fn recorded() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/defaults");
    let files = fs::read_dir(folder).unwrap();
    let mut inputs: Vec<_> = files
        .map(|file| file.unwrap().path())
        .filter(|path| path.to_string_lossy().ends_with(".in.json"))
        .collect();
    inputs.sort();
    inputs
}

fn output_of(input: &Path) -> PathBuf {
    input
        .to_string_lossy()
        .replace(".in.json", ".out.json")
        .into()
}

fn read(path: &Path) -> (&'static Kind, Object) {
    let text = fs::read(path).unwrap();
    let type_meta = decode::type_meta_json(&text).unwrap();
    let (version, name) = (type_meta.api_version.unwrap(), type_meta.kind.unwrap());
    let (group, version) = version.split_once('/').unwrap_or(("", &version));
    let kind = kinds().get(kinds().find_by_kind(group, version, &name).unwrap());
    (kind, decode::json(kind.type_id(), &text).unwrap().object)
}

/// Returns the recorded response verbatim, except for parts that only its server can
/// know.
fn recorded_response(input: &Path) -> String {
    let output = output_of(input);
    let (kind, object) = read(&output);
    match SERVER_DECIDED.iter().any(|(name, _)| *name == kind.kind) {
        true => written(kind, object),
        false => fs::read_to_string(output).unwrap().trim_end().to_owned(),
    }
}

/// Encodes the object without the fields that differ between objects.
fn written(kind: &Kind, mut object: Object) -> String {
    let metadata = object["metadata"].as_object_mut().unwrap();
    metadata.remove("uid");
    metadata.remove("creationTimestamp");
    for (_, answered) in SERVER_DECIDED.iter().filter(|(name, _)| *name == kind.kind) {
        object.retain(|field, _| !answered.contains(&field.as_str()));
    }
    let mut out = Vec::new();
    let of = kind.type_id();
    encode::json(kind.api_version(), &kind.kind, of, &object, &mut out);
    // The recorder inserted `<uid>`, which a server would escape.
    let text = String::from_utf8(out).unwrap();
    text.replace("\\u003cuid\\u003e", "<uid>")
}

/// Returns the object as stored, with the values that the recorded server chose.
fn stored(kind: &Kind, mut object: Object) -> Object {
    defaults::apply(kind, &mut object);
    if SERVER_DECIDED.iter().any(|(name, _)| *name == kind.kind) {
        return object;
    }
    if kind.namespaced() {
        object["metadata"]["namespace"] = "default".into();
    }
    let mut creation = prepare::CreateContext {
        uid: "<uid>",
        now: "2026-11-15T20:43:38Z",
        ip_family: "IPv4",
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
        prepare::set_requester(&mut object, by);
    }
    object
}

/// Returns a random object of the type: each field is absent, zero or non-zero.
fn random_object(of: TypeId, seed: &mut impl Iterator<Item = u8>, depth: usize) -> Object {
    let mut object = Object::new();
    for field in types().members(of) {
        let choice = seed.next().unwrap_or_default();
        // Deep objects are sparse, otherwise schemas would grow without bound.
        if usize::from(choice % 16) < 4 + 3 * depth {
            continue;
        }
        let value = random_value(&field.shape, choice, seed, depth + 1);
        object.insert(field.json.to_owned(), value);
    }
    object
}

fn random_value(
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
        _ if choice.is_multiple_of(7) => Value::Null,
        Shape::Struct(of) if types().get(*of).form == Form::Object => {
            Value::Object(random_object(*of, seed, depth))
        }
        Shape::List(of) => {
            let count = choice % 3;
            Value::from_iter((0..count).map(|_| random_value(of, 1, seed, depth)))
        }
        Shape::Map(of) => match choice % 3 {
            0 => json!({}),
            _ => json!({"cpu": random_value(of, 1, seed, depth)}),
        },
        Shape::Bool => Value::Bool(choice.is_multiple_of(2)),
        Shape::Int32 | Shape::Int64 | Shape::Float64 => (choice % 3).into(),
        Shape::IntOrString => (choice % 2).into(),
        Shape::Quantity => ["1", "1500u", "3n", "1Gi", "100m"][usize::from(choice) % 5].into(),
        Shape::Time | Shape::MicroTime => "2026-01-01T00:00:00Z".into(),
        Shape::String => words[usize::from(choice) % words.len()].into(),
        Shape::Bytes => "YQ==".into(),
        _ => json!({}),
    }
}

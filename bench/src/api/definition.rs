//! A large definition like those of operators: nested, with most features of schemas.
//!
//! It is fictional: a service of several components, each with containers, ports, volumes and
//! placement rules. Every call returns the same.

use bytes::Bytes;
use serde_json::{Map, Value, json};

pub const GROUP: &str = "bench.example.com";
pub const PLURAL: &str = "workloads";

/// The components of a workload.
const COMPONENTS: [&str; 5] = ["frontend", "backend", "worker", "scheduler", "gateway"];

/// Returns the definition as `kubectl apply` sends it: with the last-applied annotation.
pub fn applied(plural: &str, group: &str) -> Bytes {
    let mut definition = definition(plural, group);
    let copy = format!("{definition}\n");
    definition["metadata"]["annotations"] =
        json!({"kubectl.kubernetes.io/last-applied-configuration": copy});
    Bytes::from(definition.to_string())
}

fn definition(plural: &str, group: &str) -> Value {
    let singular = plural.trim_end_matches('s');
    let kind = format!("{}{}", singular[..1].to_uppercase(), &singular[1..]);
    let column = |name: &str, path: &str| json!({"name": name, "type": "string", "jsonPath": path});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": singular, "kind": kind,
                "listKind": format!("{kind}List")},
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "subresources": {"status": {}},
                "additionalPrinterColumns": [
                    column("Phase", ".status.phase"),
                    column("Version", ".spec.version"),
                ],
                "schema": {"openAPIV3Schema": schema()},
            }],
        },
    })
}

/// Returns the schema of a workload.
pub fn schema() -> Value {
    let mut spec = vec![
        ("version", pattern("^v?[0-9]+(\\.[0-9]+){0,2}$")),
        ("paused", json!({"type": "boolean", "default": false})),
        ("channel", choice(&["stable", "beta", "nightly"], "stable")),
        ("settings", preserved()),
        ("updates", updates()),
    ];
    spec.extend(COMPONENTS.map(|name| (name, component(name))));
    let mut spec = object(&spec, &["version"]);
    spec["x-kubernetes-validations"] = json!([{
        "rule": "!self.paused || self.channel != 'nightly'",
        "message": "a nightly build cannot be paused",
    }]);
    object(
        &[
            ("apiVersion", text("the version of the schema")),
            ("kind", text("the kind of the object")),
            ("metadata", json!({"type": "object"})),
            ("spec", spec),
            ("status", status()),
        ],
        &["spec"],
    )
}

fn component(name: &str) -> Value {
    let mut component = object(
        &[
            ("replicas", number(0, 1000, 1)),
            ("minReplicas", number(0, 1000, 0)),
            ("maxReplicas", number(1, 1000, 1000)),
            ("containers", listed(container(), &["name"], 16)),
            ("volumes", listed(volume(), &["name"], 32)),
            ("affinity", affinity()),
            ("tolerations", items(toleration(), 32)),
            ("labels", labels()),
            ("annotations", labels()),
        ],
        &[],
    );
    component["description"] = format!("how the {name} is run, and how much of it").into();
    component["x-kubernetes-validations"] = json!([{
        "rule": "self.minReplicas <= self.maxReplicas",
        "message": "there cannot be fewer at most than at least",
    }]);
    component
}

fn container() -> Value {
    let probe = || {
        object(
            &[
                ("path", pattern("^/[A-Za-z0-9/_.-]*$")),
                ("port", int_or_string()),
                ("periodSeconds", number(1, 3600, 10)),
                ("failureThreshold", number(1, 100, 3)),
            ],
            &["port"],
        )
    };
    let quantities = || object(&[("cpu", quantity()), ("memory", quantity())], &[]);
    object(
        &[
            ("name", pattern("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")),
            ("image", text("where the image is, with its tag or digest")),
            (
                "pullPolicy",
                choice(&["Always", "IfNotPresent", "Never"], "IfNotPresent"),
            ),
            ("args", items(text("one word of the command line"), 64)),
            ("env", listed(variable(), &["name"], 128)),
            ("ports", listed(port(), &["containerPort", "protocol"], 32)),
            ("readiness", probe()),
            ("liveness", probe()),
            (
                "resources",
                object(&[("requests", quantities()), ("limits", quantities())], &[]),
            ),
        ],
        &["name", "image"],
    )
}

fn variable() -> Value {
    let key = || {
        object(
            &[("name", text("whose")), ("key", text("which of its keys"))],
            &["key"],
        )
    };
    object(
        &[
            ("name", pattern("^[A-Za-z_][A-Za-z0-9_]*$")),
            ("value", text("what it is set to")),
            ("configMapKey", key()),
            ("secretKey", key()),
        ],
        &["name"],
    )
}

fn port() -> Value {
    object(
        &[
            ("name", pattern("^[a-z][a-z0-9-]{0,14}$")),
            ("containerPort", number(1, 65535, 8080)),
            ("protocol", choice(&["TCP", "UDP", "SCTP"], "TCP")),
        ],
        &["containerPort"],
    )
}

fn volume() -> Value {
    object(
        &[
            ("name", text("as containers call it")),
            ("size", quantity()),
            (
                "className",
                text("the class of storage that it is taken from"),
            ),
            (
                "mode",
                choice(
                    &["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany"],
                    "ReadWriteOnce",
                ),
            ),
            ("source", preserved()),
        ],
        &["name"],
    )
}

fn affinity() -> Value {
    let term = || {
        object(
            &[
                ("key", text("the label that is looked at")),
                (
                    "operator",
                    choice(&["In", "NotIn", "Exists", "DoesNotExist"], "In"),
                ),
                ("values", items(text("one that it may have"), 32)),
            ],
            &["key"],
        )
    };
    let weighted = object(
        &[("weight", number(1, 100, 1)), ("term", term())],
        &["weight", "term"],
    );
    object(
        &[
            ("required", items(term(), 16)),
            ("preferred", items(weighted, 16)),
            ("topologyKey", text("what counts as one place")),
        ],
        &[],
    )
}

fn toleration() -> Value {
    object(
        &[
            ("key", text("the taint that is borne")),
            ("operator", choice(&["Equal", "Exists"], "Equal")),
            ("value", text("the value that it must have")),
            (
                "effect",
                choice(
                    &["NoSchedule", "PreferNoSchedule", "NoExecute"],
                    "NoSchedule",
                ),
            ),
            (
                "tolerationSeconds",
                json!({"type": "integer", "format": "int64"}),
            ),
        ],
        &[],
    )
}

fn updates() -> Value {
    object(
        &[
            ("strategy", choice(&["Rolling", "Recreate"], "Rolling")),
            ("maxSurge", int_or_string()),
            ("maxUnavailable", int_or_string()),
            ("window", json!({"type": "string", "format": "duration"})),
        ],
        &[],
    )
}

fn status() -> Value {
    let condition = object(
        &[
            ("type", text("what is said of it")),
            ("status", choice(&["True", "False", "Unknown"], "Unknown")),
            ("reason", text("why, in one word")),
            ("message", text("why, for people")),
            (
                "lastTransitionTime",
                json!({"type": "string", "format": "date-time"}),
            ),
        ],
        &["type", "status"],
    );
    object(
        &[
            (
                "phase",
                choice(&["Pending", "Running", "Failed"], "Pending"),
            ),
            (
                "observedGeneration",
                json!({"type": "integer", "format": "int64"}),
            ),
            ("conditions", listed(condition, &["type"], 32)),
        ],
        &[],
    )
}

fn object(properties: &[(&str, Value)], required: &[&str]) -> Value {
    let properties = properties
        .iter()
        .map(|(name, of)| ((*name).to_owned(), of.clone()));
    let mut object = json!({"type": "object", "properties": Map::from_iter(properties)});
    if !required.is_empty() {
        object["required"] = json!(required);
    }
    object
}

fn text(description: &str) -> Value {
    json!({"type": "string", "description": description, "maxLength": 4096})
}

fn pattern(pattern: &str) -> Value {
    json!({"type": "string", "pattern": pattern, "minLength": 1, "maxLength": 253})
}

fn choice(of: &[&str], default: &str) -> Value {
    json!({"type": "string", "enum": of, "default": default})
}

fn number(least: i64, most: i64, default: i64) -> Value {
    json!({"type": "integer", "format": "int32", "minimum": least, "maximum": most,
        "default": default})
}

fn quantity() -> Value {
    json!({
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "x-kubernetes-int-or-string": true,
        "pattern": "^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))(([KMGTPE]i)|[numkMGTPE])?$",
    })
}

fn int_or_string() -> Value {
    json!({"x-kubernetes-int-or-string": true, "maxLength": 64})
}

fn preserved() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

fn labels() -> Value {
    json!({"type": "object", "maxProperties": 64,
        "additionalProperties": {"type": "string", "maxLength": 63}})
}

fn items(of: Value, most: usize) -> Value {
    json!({"type": "array", "maxItems": most, "items": of})
}

fn listed(of: Value, keys: &[&str], most: usize) -> Value {
    json!({"type": "array", "maxItems": most, "items": of, "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": keys})
}

/// Returns a workload of 4 KB.
pub fn workload(n: usize, version: Option<u64>, stamp: &str) -> Value {
    let mut object = json!({
        "apiVersion": format!("{GROUP}/v1"),
        "kind": "Workload",
        "metadata": {"name": super::objects::name(n), "labels": {"app.kubernetes.io/name": "bench"}},
        "spec": {
            "version": "v1.2.3",
            "channel": "beta",
            "settings": {"stamp": stamp, "flags": {"trace": true, "shards": 12}},
            "updates": {"strategy": "Rolling", "maxSurge": "25%", "maxUnavailable": 1,
                "window": "2h"},
        },
    });
    for name in &COMPONENTS[..3] {
        object["spec"][name] = part(name);
    }
    if let Some(version) = version {
        object["metadata"]["resourceVersion"] = version.to_string().into();
    }
    object
}

fn part(name: &str) -> Value {
    let env =
        (0..8).map(|n| json!({"name": format!("SETTING_{n}"), "value": format!("{name}-{n}")}));
    json!({
        "replicas": 3,
        "minReplicas": 1,
        "maxReplicas": 10,
        "containers": [{
            "name": name,
            "image": format!("images.example.com/workloads/{name}:1.2.3"),
            "args": ["--listen", ":8080", "--verbose"],
            "env": env.collect::<Vec<_>>(),
            "ports": [
                {"name": "http", "containerPort": 8080, "protocol": "TCP"},
                {"name": "metrics", "containerPort": 9090, "protocol": "TCP"},
            ],
            "readiness": {"path": "/ready", "port": 8080},
            "liveness": {"path": "/live", "port": "http", "periodSeconds": 30},
            "resources": {"requests": {"cpu": "250m", "memory": "256Mi"},
                "limits": {"cpu": 2, "memory": "1Gi"}},
        }],
        "volumes": [{"name": "data", "size": "10Gi", "className": "fast",
            "source": {"snapshot": {"of": name, "at": "2026-01-01T00:00:00Z"}}}],
        "affinity": {"required": [{"key": "zone", "operator": "In", "values": ["a", "b", "c"]}],
            "topologyKey": "kubernetes.io/hostname"},
        "tolerations": [{"key": "dedicated", "operator": "Equal", "value": name,
            "effect": "NoSchedule"}],
        "labels": {"component": name, "tier": "one"},
    })
}

/// Returns the number of lines of a schema in YAML.
pub fn lines(value: &Value) -> usize {
    match value {
        Value::Object(members) => members.values().map(|of| 1 + below(of)).sum(),
        Value::Array(items) => items.iter().map(|item| lines(item).max(1)).sum(),
        _ => 1,
    }
}

fn below(value: &Value) -> usize {
    match value {
        Value::Object(_) | Value::Array(_) => lines(value),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use insula_custom::{Change, Schema};

    #[test]
    fn a_schema_has_two_thousand_lines_and_its_definition_seventy_kilobytes() {
        let lines = lines(&schema());
        assert!((1_900..2_300).contains(&lines), "{lines} lines");
        let length = applied(PLURAL, GROUP).len();
        assert!((70_000..110_000).contains(&length), "{length} bytes");
        assert_eq!(applied(PLURAL, GROUP), applied(PLURAL, GROUP));
    }

    #[test]
    fn a_workload_has_four_kilobytes_and_nothing_is_wrong_with_it() {
        let Value::Object(mut object) = workload(1, None, "-") else {
            panic!("an object")
        };
        let length = Value::Object(object.clone()).to_string().len();
        assert!((3_800..4_300).contains(&length), "{length} bytes");
        let schema = Schema::compile(&schema()).unwrap();
        let mut unknown = vec![];
        schema.prune(&mut object, &mut unknown);
        schema.fill(&mut object);
        assert_eq!(unknown, Vec::<String>::new());
        let verdict = schema.validate(Change::create(&object));
        assert_eq!((verdict.errors, verdict.warnings), (vec![], vec![]));
        // The schema is enforced.
        object["spec"]["worker"]["containers"][0]["ports"][1]["protocol"] = "ICMP".into();
        let verdict = schema.validate(Change::create(&object));
        let field = "spec.worker.containers[0].ports[1].protocol";
        assert_eq!(verdict.errors[0].field, field);
    }
}

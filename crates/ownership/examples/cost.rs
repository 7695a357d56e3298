//! Measures the engine: `cargo run --release -p insula-ownership --example cost`.

#![expect(clippy::print_stdout, reason = "figures are what it is for")]

use std::hint::black_box;

use insula_kinds::{Object, Value, types};
use insula_ownership::{Schema, Set, typed};
use serde_json::json;

const ROUNDS: u32 = 20_000;

fn main() {
    let of = types().find("api.apps.v1.Deployment");
    let schema = Schema::built_in(of.expect("the table has deployments"));
    let live = deployment("app:1", 3);
    let config = deployment("app:2", 3);
    let size = Value::Object(live.clone()).to_string().len();
    println!("a Deployment of {size} bytes");
    let fields = typed::fields(&schema, &live).expect("it is right");
    let written = fields.write();
    let none = Object::new();
    println!("{} fields", fields.len());
    time("clone the object", || live.clone());
    time("check", || typed::check(&schema, &live, true));
    time("fields", || typed::fields(&schema, &live));
    time("compare: nothing changed", || {
        typed::compare(&schema, &live, &live)
    });
    time("compare: one field changed", || {
        typed::compare(&schema, &live, &config)
    });
    time("compare: all is new", || {
        typed::compare(&schema, &none, &live)
    });
    time("merge", || typed::merge(&schema, &live, &config));
    time("remove nothing", || {
        typed::remove(&schema, &live, &Set::default())
    });
    time("named", || typed::ensure_named(&schema, &fields));
    time("reconcile", || typed::reconcile(&schema, &fields));
    time("union", || fields.union(&fields));
    time("difference", || fields.difference(&fields));
    time("intersection", || fields.intersection(&fields));
    time("read", || Set::read(&written));
    time("write", || fields.write());
    time("text", || fields.text());
    let text = fields.text();
    time("parse", || Set::parse(&text));
}

fn time<T>(what: &str, mut work: impl FnMut() -> T) {
    for _ in 0..ROUNDS / 10 {
        black_box(work());
    }
    let start = used();
    for _ in 0..ROUNDS {
        black_box(work());
    }
    let each = (used() - start) as f64 / f64::from(ROUNDS);
    println!("{each:>9.0} ns  {what}");
}

/// CPU time of this thread in nanoseconds, because the machine is shared.
fn used() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let first = text.split(' ').next().unwrap_or_default();
    first.parse().unwrap_or_default()
}

fn deployment(image: &str, replicas: i64) -> Object {
    let value = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": "app", "namespace": "default", "uid": "6a7b1f0e-0d3f-4b7c-9a53-0d7b8f2f7c11",
            "resourceVersion": "12", "generation": 1, "creationTimestamp": "2026-01-02T15:04:05Z",
            "labels": {"app": "app", "tier": "front"},
            "annotations": {"example.io/owner": "somebody"}
        },
        "spec": {
            "replicas": replicas,
            "progressDeadlineSeconds": 600,
            "revisionHistoryLimit": 10,
            "selector": {"matchLabels": {"app": "app"}},
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}
            },
            "template": {
                "metadata": {"labels": {"app": "app"}},
                "spec": {
                    "containers": [{
                        "name": "app",
                        "image": image,
                        "imagePullPolicy": "IfNotPresent",
                        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                        "ports": [{"containerPort": 80, "protocol": "TCP"}],
                        "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "100m"}},
                        "terminationMessagePath": "/dev/termination-log",
                        "terminationMessagePolicy": "File"
                    }],
                    "dnsPolicy": "ClusterFirst",
                    "restartPolicy": "Always",
                    "schedulerName": "default-scheduler",
                    "securityContext": {},
                    "terminationGracePeriodSeconds": 30
                }
            }
        }
    });
    match value {
        Value::Object(object) => object,
        _ => Object::new(),
    }
}

//! Measures the tracking of managed fields: `cargo run --release --example managers`.

#![expect(clippy::print_stdout, reason = "it is what it is for")]

use std::hint::black_box;

use insula_kinds::{Object, kinds};
use insula_ownership::managers::{Subject, Writer, zero};
use insula_ownership::{Element, Schema, Set};
use serde_json::json;

const ROUNDS: u32 = 20_000;

fn main() {
    let kind = kinds()
        .find_by_kind("apps", "v1", "Deployment")
        .expect("a kind");
    let kind = kinds().get(kind);
    let (schema, zero) = (Schema::built_in(kind.type_id()), zero(kind));
    let reset = Set::of([&[Element::Field("status".into())][..]]);
    let subject = Subject {
        api_version: "apps/v1",
        schema: &schema,
        reset: &reset,
        zero: &zero,
        convert: &|_, _| None,
    };
    let writer = Writer {
        manager: "m",
        subresource: "",
        now: "2026-01-02T03:04:05Z",
    };
    let sent = deployment();
    time("clone of what is created", || {
        black_box(sent.clone());
    });
    time("create", || {
        let mut new = sent.clone();
        subject.update(&zero, &mut new, writer);
        black_box(new);
    });
    let mut live = sent.clone();
    subject.update(&zero, &mut live, writer);
    live["metadata"]["uid"] = json!("u");
    let mut status = live.clone();
    status["status"] = json!({"replicas": 3, "readyReplicas": 3, "conditions":
        [{"type": "Available", "status": "True", "reason": "r", "message": "m"}]});
    let controller = Writer {
        manager: "kube-controller-manager",
        subresource: "status",
        ..writer
    };
    let none = Set::default();
    let below = Subject {
        reset: &none,
        ..subject
    };
    below.update(&live, &mut status, controller);
    let live = status;
    let mut scaled = live.clone();
    scaled["spec"]["replicas"] = json!(7);
    time("clone of what is updated", || {
        black_box(scaled.clone());
    });
    time("update of one field", || {
        let mut new = scaled.clone();
        subject.update(&live, &mut new, writer);
        black_box(new);
    });
    time("update of nothing", || {
        let mut new = live.clone();
        subject.update(&live, &mut new, writer);
        black_box(new);
    });
    let mut bare = scaled.clone();
    insula_ownership::managers::forget(&mut bare);
    time("update that does not send the record", || {
        let mut new = bare.clone();
        subject.update(&live, &mut new, writer);
        black_box(new);
    });
    let applier = Writer {
        manager: "a",
        ..writer
    };
    let mut config = deployment();
    config.remove("status");
    time("apply that creates", || {
        black_box(subject.apply(&zero, &config, applier, false)).ok();
    });
    let applied = subject
        .apply(&live, &config, applier, true)
        .expect("it is forced");
    config["spec"]["replicas"] = json!(9);
    time("apply of one field", || {
        black_box(subject.apply(&applied, &config, applier, true)).ok();
    });
    config["spec"]["template"]["spec"]["containers"][0]
        .as_object_mut()
        .expect("one")
        .remove("env");
    time("apply that prunes", || {
        black_box(subject.apply(&applied, &config, applier, true)).ok();
    });
}

fn time(what: &str, mut act: impl FnMut()) {
    for _ in 0..ROUNDS / 10 {
        act();
    }
    let start = worked();
    for _ in 0..ROUNDS {
        act();
    }
    let each = (worked() - start) / u64::from(ROUNDS);
    println!("{what:40} {:8.1} us", each as f64 / 1000.0);
}

/// CPU time of this thread in nanoseconds.
fn worked() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    let first = text.split_whitespace().next().expect("three numbers");
    first.parse().expect("a number")
}

/// A deployment of about 1 KiB, as it is written.
fn deployment() -> Object {
    let value = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default", "labels": {"app": "web", "tier": "front"}},
        "spec": {
            "replicas": 3, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
            "selector": {"matchLabels": {"app": "web"}},
            "strategy": {"type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
            "template": {
                "metadata": {"labels": {"app": "web", "tier": "front"}},
                "spec": {
                    "restartPolicy": "Always", "terminationGracePeriodSeconds": 30,
                    "dnsPolicy": "ClusterFirst", "securityContext": {},
                    "schedulerName": "default-scheduler",
                    "containers": [{
                        "name": "web", "image": "registry/web:1.2.3", "imagePullPolicy": "IfNotPresent",
                        "ports": [{"containerPort": 8080, "name": "http", "protocol": "TCP"}],
                        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                        "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
                        "terminationMessagePath": "/dev/termination-log",
                        "terminationMessagePolicy": "File",
                    }],
                },
            },
        },
        "status": {},
    });
    value.as_object().expect("an object").clone()
}

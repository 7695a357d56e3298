//! Pods from creation to binding, and scaling of workloads.

use insula_kinds::{Value, prepare};
use serde_json::json;

use crate::{NOW, at, created, kind, object, updated};

#[test]
fn qos_class_follows_from_pod_resources() {
    let both = json!({"cpu": "1", "memory": "1Gi"});
    let cases = [
        (json!([{"name": "c"}]), "BestEffort"),
        (
            json!([{"name": "c", "resources": {"limits": both}}]),
            "Guaranteed",
        ),
        (
            json!([{"name": "c", "resources": {"requests": both}}]),
            "Burstable",
        ),
        (
            json!([{"name": "c", "resources": {"limits": {"cpu": "1"}}}]),
            "Burstable",
        ),
        (
            json!([{"name": "c", "resources": {"limits": both}}, {"name": "d"}]),
            "Burstable",
        ),
        (
            json!([{"name": "c", "resources": {
                "limits": {"cpu": "1000m", "memory": "1Gi"}, "requests": {"cpu": "1"},
            }}]),
            "Guaranteed",
        ),
    ];
    for (containers, wanted) in cases {
        let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": containers}});
        let pod = created(kind("", "pods"), pod.clone());
        assert_eq!(
            pod["status"],
            json!({"phase": "Pending", "qosClass": wanted}),
            "{pod}"
        );
    }
}

#[test]
fn pod_keeps_its_own_tolerations_and_scheduling_gates() {
    let pod = json!({"metadata": {"name": "p"}, "spec": {
        "containers": [{"name": "c"}],
        "tolerations": [{"operator": "Exists"}],
        "schedulingGates": [{"name": "g"}],
    }});
    let pod = created(kind("", "pods"), pod);
    assert_eq!(pod["spec"]["tolerations"], json!([{"operator": "Exists"}]));
    let gated = &pod["status"]["conditions"][0];
    assert_eq!(gated["reason"], "SchedulingGated");
    assert_eq!(gated["lastTransitionTime"], NOW);
}

#[test]
fn priority_comes_from_the_class_or_is_zero() {
    let pods = kind("", "pods");
    let mut pod = object(json!({"spec": {"containers": []}}));
    let high = prepare::Priority {
        class: "high",
        value: 1000,
        preemption: "Never",
    };
    prepare::admit_priority(&mut pod, high);
    let pod = created(pods, Value::Object(pod));
    assert_eq!(pod["spec"]["priority"], 1000);
    assert_eq!(pod["spec"]["priorityClassName"], "high");
    assert_eq!(pod["spec"]["preemptionPolicy"], "Never");
    let plain = created(pods, json!({"spec": {}}));
    assert_eq!(plain["spec"]["priority"], 0);
    assert_eq!(plain["spec"]["preemptionPolicy"], "PreemptLowerPriority");
    let named = created(pods, json!({"spec": {"priorityClassName": "later"}}));
    assert_eq!(at(&named, "spec.priority"), Value::Null);
}

#[test]
fn pod_without_service_account_gets_default() {
    let mut pod = object(json!({"spec": {}}));
    prepare::admit_service_account(&mut pod);
    let wanted = json!({"serviceAccountName": "default", "serviceAccount": "default"});
    assert_eq!(pod["spec"], wanted);
    let mut mirror = object(json!({
        "metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}, "spec": {},
    }));
    prepare::admit_service_account(&mut mirror);
    assert_eq!(mirror["spec"], json!({}));
}

#[test]
fn scale_has_replicas_and_selector_text() {
    let deployments = kind("apps", "deployments");
    let deployment = object(json!({
        "metadata": {"name": "d", "namespace": "n", "uid": "u", "resourceVersion": "7",
            "creationTimestamp": NOW, "labels": {"a": "b"}, "generation": 3},
        "spec": {"replicas": 2, "selector": {
            "matchLabels": {"app": "x"},
            "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["b", "a"]},
                {"key": "env", "operator": "Exists"},
                {"key": "old", "operator": "DoesNotExist"},
                {"key": "zone", "operator": "NotIn", "values": ["z"]},
            ],
        }},
        "status": {"replicas": 1},
    }));
    let scale = prepare::scale_of(deployments, &deployment).unwrap();
    let wanted = json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1",
        "metadata": {"name": "d", "namespace": "n", "uid": "u", "resourceVersion": "7",
            "creationTimestamp": NOW},
        "spec": {"replicas": 2},
        "status": {"replicas": 1, "selector": "app=x,env,!old,tier in (a,b),zone notin (z)"},
    });
    assert_eq!(Value::Object(scale), wanted);
    let mut scaled = deployment.clone();
    prepare::apply_scale(deployments, &mut scaled, 0);
    assert_eq!(scaled["spec"]["replicas"], 0);
    assert_eq!(scaled["metadata"]["generation"], 4);
    let none = prepare::scale_of(deployments, &scaled).unwrap();
    assert_eq!(none["spec"], json!({}));
    let controller = object(json!({"spec": {"replicas": 1, "selector": {"a": "b", "c": "d"}}}));
    let scale = prepare::scale_of(kind("", "replicationcontrollers"), &controller).unwrap();
    assert_eq!(
        scale["status"],
        json!({"replicas": 0, "selector": "a=b,c=d"})
    );
    assert_eq!(prepare::scale_of(kind("", "pods"), &controller), None);
}

#[test]
fn binding_sets_node_labels_and_condition() {
    let mut pod = object(json!({
        "metadata": {"name": "p", "generation": 1, "labels": {"a": "1", "b": "1"}},
        "spec": {}, "status": {"phase": "Pending", "nominatedNodeName": "n0", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": "t0"},
        ]},
    }));
    let binding = object(json!({
        "metadata": {"name": "p", "labels": {"b": "2"}, "annotations": {"c": "3"}},
        "target": {"kind": "Node", "name": "n1"},
    }));
    prepare::bind(&mut pod, &binding, NOW);
    let wanted = json!({
        "metadata": {"name": "p", "generation": 1, "labels": {"a": "1", "b": "2"},
            "annotations": {"c": "3"}},
        "spec": {"nodeName": "n1"},
        "status": {"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": NOW},
        ]},
    });
    assert_eq!(Value::Object(pod), wanted);
}

#[test]
fn pod_subresources_change_only_their_fields() {
    let pods = kind("", "pods");
    let old = created(
        pods,
        json!({"metadata": {"name": "p", "labels": {"a": "old"}}, "spec": {
            "containers": [{"name": "c", "image": "i:1"}],
        }}),
    );
    let mut new = old.clone();
    new["metadata"]["labels"]["a"] = "new".into();
    new["spec"]["containers"][0]["image"] = "i:2".into();
    new["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": "1"}});
    new["spec"]["ephemeralContainers"] = json!([{"name": "e", "image": "e:1"}]);
    let extended = updated(pods, Some("ephemeralcontainers"), &old, new.clone());
    assert_eq!(at(&extended, "spec.ephemeralContainers.0.name"), "e");
    assert_eq!(at(&extended, "spec.containers.0.image"), "i:1");
    assert_eq!(at(&extended, "metadata.labels.a"), "old");
    assert_eq!(at(&extended, "metadata.generation"), 2);
    let resized = updated(pods, Some("resize"), &old, new.clone());
    assert_eq!(at(&resized, "spec.containers.0.resources.limits.cpu"), "1");
    assert_eq!(at(&resized, "spec.containers.0.image"), "i:1");
    assert_eq!(at(&resized, "spec.ephemeralContainers"), Value::Null);
    new["spec"]["containers"] = json!([]);
    let refused = updated(pods, Some("resize"), &old, new);
    assert_eq!(at(&refused, "metadata.labels.a"), "new");
}

#[test]
fn pod_status_update_keeps_qos_class_and_generations() {
    let pods = kind("", "pods");
    let old = json!({"status": {
        "qosClass": "Burstable", "observedGeneration": 3,
        "conditions": [{"type": "Ready", "observedGeneration": 3}],
    }});
    let new =
        json!({"status": {"phase": "Running", "conditions": [{"type": "Ready"}, {"type": "New"}]}});
    let made = updated(pods, Some("status"), &old, new);
    let wanted = json!({
        "phase": "Running", "qosClass": "Burstable", "observedGeneration": 3,
        "conditions": [{"type": "Ready", "observedGeneration": 3}, {"type": "New"}],
    });
    assert_eq!(made["status"], wanted);
}

//! Conversion of the two kinds that are served twice is lossless.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use insula_kinds::{Kind, Object, Value, convert, defaults, kinds};
use serde_json::json;

fn kind(group: &str, version: &str, resource: &str) -> &'static Kind {
    kinds().get(kinds().find(group, version, resource).unwrap())
}

fn autoscaler(version: &str) -> &'static Kind {
    kind("autoscaling", version, "horizontalpodautoscalers")
}

fn converted(from: &Kind, to: &Kind, value: &Value) -> Value {
    let mut object: Object = value.as_object().unwrap().clone();
    convert::convert(from, to, &mut object);
    Value::Object(object)
}

#[test]
fn conversion_to_the_same_kind_changes_nothing() {
    let pods = kind("", "v1", "pods");
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "spec": {"nodeName": "n"}});
    assert_eq!(converted(pods, pods, &pod), pod);
}

#[test]
fn event_fields_are_renamed_between_groups() {
    let (core, events) = (
        kind("", "v1", "events"),
        kind("events.k8s.io", "v1", "events"),
    );
    let old = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod"}, "message": "m", "source": {"component": "c"},
        "firstTimestamp": "t1", "lastTimestamp": "t2", "count": 3,
        "reportingComponent": "rc", "reportingInstance": "ri", "reason": "R", "type": "Normal",
        "series": {"count": 2}, "related": {"kind": "Node"}, "action": "a", "eventTime": null,
    });
    let new = json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"},
        "regarding": {"kind": "Pod"}, "note": "m", "deprecatedSource": {"component": "c"},
        "deprecatedFirstTimestamp": "t1", "deprecatedLastTimestamp": "t2", "deprecatedCount": 3,
        "reportingController": "rc", "reportingInstance": "ri", "reason": "R", "type": "Normal",
        "series": {"count": 2}, "related": {"kind": "Node"}, "action": "a", "eventTime": null,
    });
    assert_eq!(converted(core, events, &old), new);
    assert_eq!(converted(events, core, &new), old);
}

#[test]
fn autoscaler_v1_keeps_other_metrics_in_annotations() {
    let (v1, v2) = (autoscaler("v1"), autoscaler("v2"));
    let new = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "h", "annotations": {"mine": "x"}},
        "spec": {
            "scaleTargetRef": {"kind": "Deployment", "name": "d"},
            "minReplicas": 1, "maxReplicas": 3,
            "metrics": [
                {"type": "Pods", "pods": {
                    "metric": {"name": "p", "selector": {"matchLabels": {"a": "b"}}},
                    "target": {"type": "AverageValue", "averageValue": "2"},
                }},
                {"type": "Resource", "resource": {
                    "name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"},
                }},
                {"type": "Resource", "resource": {
                    "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70},
                }},
            ],
            "behavior": {
                "scaleDown": {
                    "selectPolicy": "Max",
                    "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
                },
            },
        },
        "status": {
            "currentReplicas": 1, "desiredReplicas": 2,
            "conditions": [{"type": "AbleToScale", "status": "True", "lastTransitionTime": "t",
                "reason": "R", "message": "a < b"}],
            "currentMetrics": [{"type": "Resource", "resource": {
                "name": "cpu", "current": {"averageUtilization": 50, "averageValue": "100m"},
            }}],
        },
    });
    let old = converted(v2, v1, &new);
    assert_eq!(old["apiVersion"], "autoscaling/v1");
    assert_eq!(old["spec"]["targetCPUUtilizationPercentage"], 70);
    assert_eq!(old["status"]["currentCPUUtilizationPercentage"], 50);
    assert_eq!(old["status"].get("conditions"), None);
    let wanted = json!({
        "mine": "x",
        "autoscaling.alpha.kubernetes.io/metrics": concat!(
            r#"[{"type":"Pods","pods":{"metricName":"p","targetAverageValue":"2","#,
            r#""selector":{"matchLabels":{"a":"b"}}}},"#,
            r#"{"type":"Resource","resource":{"name":"memory","targetAverageValue":"1Gi"}}]"#,
        ),
        "autoscaling.alpha.kubernetes.io/behavior": concat!(
            r#"{"ScaleUp":null,"ScaleDown":{"StabilizationWindowSeconds":null,"#,
            r#""SelectPolicy":"Max","Policies":[{"Type":"Percent","Value":100,"#,
            r#""PeriodSeconds":15}],"Tolerance":null}}"#,
        ),
        "autoscaling.alpha.kubernetes.io/conditions": concat!(
            r#"[{"type":"AbleToScale","status":"True","lastTransitionTime":"t","#,
            r#""reason":"R","message":"a \u003c b"}]"#,
        ),
        "autoscaling.alpha.kubernetes.io/current-metrics": concat!(
            r#"[{"type":"Resource","resource":{"name":"cpu","#,
            r#""currentAverageUtilization":50,"currentAverageValue":"100m"}}]"#,
        ),
    });
    assert_eq!(old["metadata"]["annotations"], wanted);
    assert_eq!(converted(v1, v2, &old), new);
}

#[test]
fn every_metric_roundtrips_between_versions() {
    let (v1, v2) = (autoscaler("v1"), autoscaler("v2"));
    let object = json!({"kind": "Ingress", "name": "i", "apiVersion": "networking.k8s.io/v1"});
    let targets = [
        json!({"type": "Object", "object": {"describedObject": object, "metric": {"name": "m"},
            "target": {"type": "Value", "value": "10"}}}),
        json!({"type": "Object", "object": {"describedObject": object, "metric": {"name": "m"},
            "target": {"type": "AverageValue", "averageValue": "10"}}}),
        json!({"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "c",
            "target": {"type": "Utilization", "averageUtilization": 60}}}),
        json!({"type": "External", "external": {
            "metric": {"name": "q", "selector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}},
            "target": {"type": "Value", "value": "5"}}}),
        json!({"type": "External", "external": {"metric": {"name": "q"},
            "target": {"type": "AverageValue", "averageValue": "5"}}}),
    ];
    let currents = [
        json!({"type": "Object", "object": {"describedObject": object, "metric": {"name": "m"},
            "current": {"value": "10", "averageValue": "3"}}}),
        json!({"type": "Pods", "pods": {"metric": {"name": "m"}, "current": {"averageValue": "3"}}}),
        json!({"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "c",
            "current": {"averageValue": "3", "averageUtilization": 7}}}),
        json!({"type": "External", "external": {"metric": {"name": "q"}, "current": {"value": "5"}}}),
    ];
    let new = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "h"},
        "spec": {"maxReplicas": 3, "metrics": targets},
        "status": {"desiredReplicas": 1, "currentMetrics": currents},
    });
    let old = converted(v2, v1, &new);
    assert_eq!(old["spec"].get("targetCPUUtilizationPercentage"), None);
    assert_eq!(converted(v1, v2, &old), new);
}

#[test]
fn autoscaler_v1_without_metrics_gets_the_default_metric() {
    let (v1, v2) = (autoscaler("v1"), autoscaler("v2"));
    let metric = |percentage: i32| {
        json!([{"type": "Resource", "resource": {"name": "cpu",
            "target": {"type": "Utilization", "averageUtilization": percentage}}}])
    };
    let bare = json!({"metadata": {"name": "h"}, "spec": {"maxReplicas": 3}});
    assert_eq!(converted(v1, v2, &bare)["spec"]["metrics"], metric(80));
    let told = json!({"spec": {"maxReplicas": 3, "targetCPUUtilizationPercentage": 5}});
    assert_eq!(converted(v1, v2, &told)["spec"]["metrics"], metric(5));
    let broken = json!({"metadata": {"annotations": {
        "autoscaling.alpha.kubernetes.io/metrics": "{", "autoscaling.alpha.kubernetes.io/behavior": "{}",
    }}, "spec": {}});
    let made = converted(v1, v2, &broken);
    assert_eq!(made["spec"]["metrics"], metric(80));
    assert_eq!(made["spec"].get("behavior"), None);
    assert_eq!(made["metadata"], json!({}));
}

#[test]
fn annotated_metrics_suppress_the_default_cpu_metric() {
    let v1 = autoscaler("v1");
    let mut object = json!({"metadata": {"annotations": {
        "autoscaling.alpha.kubernetes.io/metrics":
            r#"[{"type":"Pods","pods":{"metricName":"p","targetAverageValue":"2"}}]"#,
    }}, "spec": {"maxReplicas": 1}});
    defaults::apply(v1, object.as_object_mut().unwrap());
    assert_eq!(object["spec"], json!({"maxReplicas": 1, "minReplicas": 1}));
    let made = converted(v1, autoscaler("v2"), &object);
    assert_eq!(made["spec"]["metrics"].as_array().unwrap().len(), 1);
    assert_eq!(made["spec"]["metrics"][0]["pods"]["metric"]["name"], "p");
}

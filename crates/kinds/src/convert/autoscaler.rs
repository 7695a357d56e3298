//! HorizontalPodAutoscalers: version 1 has one metric, CPU utilization. Everything else
//! that version 2 has is kept in annotations of version 1.

mod annotated;

use serde_json::{Value, json};

use crate::Object;
use crate::defaults::tree;

const PREFIX: &str = "autoscaling.alpha.kubernetes.io/";

/// Annotations of version 1 that hold fields of version 2.
const ANNOTATIONS: [&str; 6] = [
    "metrics",
    "behavior",
    "current-metrics",
    "conditions",
    "scale-down-tolerance",
    "scale-up-tolerance",
];

pub(super) fn to_v2(autoscaler: &mut Object) {
    let annotations = take_annotations(autoscaler);
    let annotated = |name: &str| annotations.get(&format!("{PREFIX}{name}"));
    let text = |name: &str| annotated(name).and_then(Value::as_str);
    v2_spec(autoscaler, text("metrics"), text("behavior"));
    v2_status(autoscaler, text("current-metrics"), text("conditions"));
}

fn v2_spec(autoscaler: &mut Object, metrics: Option<&str>, behavior: Option<&str>) {
    let spec = tree::child_mut(autoscaler, "spec");
    let cpu = spec.remove("targetCPUUtilizationPercentage");
    let mut all = metrics
        .and_then(annotated::read_metrics)
        .unwrap_or_default();
    match cpu.filter(|percentage| !percentage.is_null()) {
        Some(percentage) => all.push(cpu_metric(percentage)),
        None if all.is_empty() => all.push(cpu_metric(80.into())),
        None => {}
    }
    spec.insert("metrics".to_owned(), all.into());
    if let Some(behavior) = behavior.and_then(annotated::read_behavior) {
        spec.insert("behavior".to_owned(), behavior);
    }
}

fn v2_status(autoscaler: &mut Object, metrics: Option<&str>, conditions: Option<&str>) {
    let Some(status) = tree::existing_mut(autoscaler, "status") else {
        return;
    };
    let cpu = status.remove("currentCPUUtilizationPercentage");
    let metrics = metrics.and_then(annotated::read_current_metrics);
    // Annotated metrics carry more detail than the single CPU percentage.
    let metrics = metrics.or_else(|| {
        let percentage = cpu.filter(|percentage| !percentage.is_null())?;
        Some(vec![json!({
            "type": "Resource",
            "resource": {"name": "cpu", "current": {"averageUtilization": percentage}},
        })])
    });
    if let Some(metrics) = metrics {
        status.insert("currentMetrics".to_owned(), metrics.into());
    }
    if let Some(conditions) = conditions.and_then(annotated::read_conditions) {
        status.insert("conditions".to_owned(), conditions.into());
    }
}

pub(super) fn to_v1(autoscaler: &mut Object) {
    take_annotations(autoscaler);
    let mut annotations = Vec::new();
    let spec = tree::child_mut(autoscaler, "spec");
    let (cpu, others): (Vec<Value>, Vec<Value>) = list(spec.remove("metrics"))
        .into_iter()
        .partition(|metric| target_utilization(metric).is_some());
    if let Some(percentage) = cpu.first().and_then(target_utilization) {
        spec.insert("targetCPUUtilizationPercentage".to_owned(), percentage);
    }
    if !others.is_empty() {
        annotations.push(("metrics", annotated::write_metrics(&others)));
    }
    if let Some(behavior) = spec.remove("behavior").filter(|value| !value.is_null()) {
        annotations.push(("behavior", annotated::write_behavior(&behavior)));
    }
    if let Some(status) = tree::existing_mut(autoscaler, "status") {
        v1_status(status, &mut annotations);
    }
    for (name, text) in annotations {
        let metadata = tree::child_mut(autoscaler, "metadata");
        let all = tree::child_mut(metadata, "annotations");
        all.insert(format!("{PREFIX}{name}"), text.into());
    }
}

fn v1_status(status: &mut Object, annotations: &mut Vec<(&str, String)>) {
    let metrics = list(status.remove("currentMetrics"));
    if let Some(percentage) = metrics.iter().rev().find_map(current_utilization) {
        status.insert("currentCPUUtilizationPercentage".to_owned(), percentage);
    }
    if !metrics.is_empty() {
        let text = annotated::write_current_metrics(&metrics);
        annotations.push(("current-metrics", text));
    }
    let conditions = list(status.remove("conditions"));
    if !conditions.is_empty() {
        annotations.push(("conditions", annotated::write_conditions(&conditions)));
    }
}

fn take_annotations(autoscaler: &mut Object) -> Object {
    let mut taken = Object::new();
    let metadata = tree::child_mut(autoscaler, "metadata");
    if let Some(annotations) = tree::existing_mut(metadata, "annotations") {
        for name in ANNOTATIONS {
            let key = format!("{PREFIX}{name}");
            taken.extend(annotations.remove_entry(&key));
        }
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
    taken
}

fn cpu_metric(percentage: Value) -> Value {
    json!({
        "type": "Resource",
        "resource": {
            "name": "cpu",
            "target": {"type": "Utilization", "averageUtilization": percentage},
        },
    })
}

/// Returns the target percentage if the metric is the one that version 1 has.
fn target_utilization(metric: &Value) -> Option<Value> {
    cpu_utilization(metric, "target")
}

fn current_utilization(metric: &Value) -> Option<Value> {
    cpu_utilization(metric, "current")
}

fn cpu_utilization(metric: &Value, side: &str) -> Option<Value> {
    let resource = metric.get("resource")?;
    let cpu = metric.get("type")? == "Resource" && resource.get("name")? == "cpu";
    let percentage = resource.get(side)?.get("averageUtilization")?;
    (cpu && !percentage.is_null()).then(|| percentage.clone())
}

fn list(value: Option<Value>) -> Vec<Value> {
    match value {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}

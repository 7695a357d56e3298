//! Autoscalers: current and target metrics.

use super::row::{At, Row, with_more};
use crate::Value;

const UNKNOWN: &str = "<unknown>";

pub(super) fn horizontal_pod_autoscaler(row: &Row<'_>) -> Vec<Value> {
    let target = row.at("spec.scaleTargetRef");
    let (kind, name) = (target.get("kind").text(), target.get("name").text());
    let min = row.at("spec.minReplicas");
    let min = match min.exists() {
        true => min.number().to_string(),
        false => "<unset>".to_owned(),
    };
    vec![
        row.name(),
        Value::from(format!("{kind}/{name}")),
        Value::from(targets(row)),
        Value::from(min),
        row.number("spec.maxReplicas"),
        row.number("status.currentReplicas"),
        row.age(),
    ]
}

fn targets(row: &Row<'_>) -> String {
    let current = row.at("status.currentMetrics");
    let metrics = row.at("spec.metrics").items().enumerate();
    let mut targets: Vec<_> = metrics
        .map(|(index, metric)| metric_target(metric, current.items().nth(index)))
        .collect();
    // autoscaling/v1 has one metric in fields of its own.
    let cpu = row.at("spec.targetCPUUtilizationPercentage");
    if cpu.exists() {
        let current = percent(row.at("status.currentCPUUtilizationPercentage"), UNKNOWN);
        targets.push(format!("cpu: {current}/{}", percent(cpu, "<auto>")));
    }
    match targets.is_empty() {
        true => "<none>".to_owned(),
        false => with_more(targets, 2, ", "),
    }
}

fn metric_target(metric: At<'_>, current: Option<At<'_>>) -> String {
    let member = match metric.get("type").text() {
        "External" => "external",
        "Object" => "object",
        "Pods" => "pods",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_owned(),
    };
    let source = metric.get(member);
    let target = source.get("target");
    let current = current.and_then(|status| status.get(member).if_exists());
    let current = current.map(|status| status.get("current"));
    match member {
        "resource" | "containerResource" => {
            let name = source.get("name").text();
            format!("{name}: {}", of_resource(target, current))
        }
        "pods" => {
            let now = current.map_or(UNKNOWN.to_owned(), |now| value(now.get("averageValue")));
            format!("{now}/{}", value(target.get("averageValue")))
        }
        _ => of_value(target, current),
    }
}

/// Formats a metric that is not per pod: as an average or as a value.
fn of_value(target: At<'_>, current: Option<At<'_>>) -> String {
    let average = target.get("averageValue");
    if average.exists() {
        let now = current.and_then(|now| now.get("averageValue").if_exists());
        let now = now.map_or(UNKNOWN.to_owned(), value);
        return format!("{now}/{} (avg)", value(average));
    }
    let now = current.map_or(UNKNOWN.to_owned(), |now| value(now.get("value")));
    format!("{now}/{}", value(target.get("value")))
}

/// Formats a container resource: as an amount or as utilization.
fn of_resource(target: At<'_>, current: Option<At<'_>>) -> String {
    let average = target.get("averageValue");
    if average.exists() {
        let now = current.map_or(UNKNOWN.to_owned(), |now| value(now.get("averageValue")));
        return format!("{now}/{}", value(average));
    }
    let share = |of: At<'_>, missing| percent(of.get("averageUtilization"), missing);
    let now = current.map_or(UNKNOWN.to_owned(), |now| share(now, UNKNOWN));
    format!("{now}/{}", share(target, "<auto>"))
}

fn value(quantity: At<'_>) -> String {
    match quantity.exists() {
        true => quantity.int_or_string(),
        false => "<nil>".to_owned(),
    }
}

fn percent(number: At<'_>, missing: &str) -> String {
    match number.exists() {
        true => format!("{}%", number.number()),
        false => missing.to_owned(),
    }
}

//! Metrics, behavior and conditions in the annotations of autoscaling/v1.
//!
//! Metrics have a shape of their own there, with the parts of the target beside the name.
//! Behavior has capitalized member names. Both are encoded in the member order of
//! Kubernetes, so the text of an annotation does not depend on its writer.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::quantity::Quantity;

type Amount = Option<String>;

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Metric {
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    object: Option<ObjectMetric>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pods: Option<PodsMetric>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    resource: Option<ResourceMetric>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    container_resource: Option<ResourceMetric>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    external: Option<ExternalMetric>,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
struct ObjectMetric {
    target: Reference,
    metric_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_value: Amount,
    #[serde(skip_serializing_if = "Option::is_none")]
    current_value: Amount,
    #[serde(skip_serializing_if = "Option::is_none")]
    selector: Option<Selector>,
    #[serde(skip_serializing_if = "Option::is_none")]
    average_value: Amount,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
struct Selector {
    #[serde(skip_serializing_if = "Option::is_none")]
    match_labels: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    match_expressions: Option<Value>,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
struct Reference {
    kind: String,
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    api_version: String,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
struct PodsMetric {
    metric_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_average_value: Amount,
    #[serde(skip_serializing_if = "Option::is_none")]
    current_average_value: Amount,
    #[serde(skip_serializing_if = "Option::is_none")]
    selector: Option<Selector>,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
struct ResourceMetric {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_average_utilization: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_average_value: Amount,
    #[serde(skip_serializing_if = "Option::is_none")]
    current_average_utilization: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    current_average_value: Amount,
    #[serde(skip_serializing_if = "Option::is_none")]
    container: Option<String>,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
struct ExternalMetric {
    metric_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    metric_selector: Option<Selector>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_value: Amount,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_average_value: Amount,
    #[serde(skip_serializing_if = "Option::is_none")]
    current_value: Amount,
    #[serde(skip_serializing_if = "Option::is_none")]
    current_average_value: Amount,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default, rename_all = "PascalCase")]
struct Behavior {
    #[serde(alias = "scaleUp")]
    scale_up: Option<Rules>,
    #[serde(alias = "scaleDown")]
    scale_down: Option<Rules>,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default, rename_all = "PascalCase")]
struct Rules {
    #[serde(alias = "stabilizationWindowSeconds")]
    stabilization_window_seconds: Option<i32>,
    #[serde(alias = "selectPolicy")]
    select_policy: Option<String>,
    #[serde(alias = "policies")]
    policies: Option<Vec<Policy>>,
    #[serde(alias = "tolerance")]
    tolerance: Amount,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default, rename_all = "PascalCase")]
struct Policy {
    #[serde(alias = "type", rename = "Type")]
    kind: String,
    #[serde(alias = "value")]
    value: i32,
    #[serde(alias = "periodSeconds")]
    period_seconds: i32,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    last_transition_time: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    message: String,
}

pub(super) fn read_metrics(text: &str) -> Option<Vec<Value>> {
    let metrics: Vec<Metric> = serde_json::from_str(text).ok()?;
    Some(metrics.into_iter().map(Metric::into_target).collect())
}

pub(super) fn read_current_metrics(text: &str) -> Option<Vec<Value>> {
    let metrics: Vec<Metric> = serde_json::from_str(text).ok()?;
    Some(metrics.into_iter().map(Metric::into_current).collect())
}

pub(super) fn read_conditions(text: &str) -> Option<Vec<Value>> {
    let conditions: Vec<Condition> = serde_json::from_str(text).ok()?;
    let conditions = conditions.iter().map(serde_json::to_value);
    conditions
        .map(|value| value.ok().map(without_nulls))
        .collect()
}

pub(super) fn read_behavior(text: &str) -> Option<Value> {
    let behavior: Behavior = serde_json::from_str(text).ok()?;
    let rules = |rules: Rules| {
        let policies = rules.policies.map(|policies| {
            let policy = |policy: Policy| {
                json!({
                    "type": policy.kind,
                    "value": policy.value,
                    "periodSeconds": policy.period_seconds,
                })
            };
            Value::from_iter(policies.into_iter().map(policy))
        });
        without_nulls(json!({
            "stabilizationWindowSeconds": rules.stabilization_window_seconds,
            "selectPolicy": rules.select_policy,
            "policies": policies,
            "tolerance": rules.tolerance,
        }))
    };
    let behavior = without_nulls(json!({
        "scaleUp": behavior.scale_up.map(rules),
        "scaleDown": behavior.scale_down.map(rules),
    }));
    Some(behavior).filter(|behavior| behavior.as_object().is_some_and(|all| !all.is_empty()))
}

pub(super) fn write_metrics(metrics: &[Value]) -> String {
    let metrics: Vec<Metric> = metrics.iter().map(Metric::from_target).collect();
    to_json(&metrics)
}

pub(super) fn write_current_metrics(metrics: &[Value]) -> String {
    let metrics: Vec<Metric> = metrics.iter().map(Metric::from_current).collect();
    to_json(&metrics)
}

pub(super) fn write_conditions(conditions: &[Value]) -> String {
    let condition = |value: &Value| Condition {
        kind: text(value, "type"),
        status: text(value, "status"),
        last_transition_time: amount(value, "lastTransitionTime"),
        reason: text(value, "reason"),
        message: text(value, "message"),
    };
    let conditions: Vec<Condition> = conditions.iter().map(condition).collect();
    to_json(&conditions)
}

pub(super) fn write_behavior(behavior: &Value) -> String {
    let policy = |value: &Value| Policy {
        kind: text(value, "type"),
        value: percent(value, "value").unwrap_or_default(),
        period_seconds: percent(value, "periodSeconds").unwrap_or_default(),
    };
    let rules = |value: &Value| Rules {
        stabilization_window_seconds: percent(value, "stabilizationWindowSeconds"),
        select_policy: amount(value, "selectPolicy"),
        policies: value
            .get("policies")
            .and_then(Value::as_array)
            .map(|policies| policies.iter().map(policy).collect()),
        tolerance: amount(value, "tolerance"),
    };
    to_json(&Behavior {
        scale_up: part(behavior, "scaleUp").map(rules),
        scale_down: part(behavior, "scaleDown").map(rules),
    })
}

impl Metric {
    fn from_target(metric: &Value) -> Self {
        Self::from(metric, "target")
    }

    fn from_current(metric: &Value) -> Self {
        Self::from(metric, "current")
    }

    /// Flattens the `target` or `current` of a version 2 metric.
    fn from(metric: &Value, side: &str) -> Self {
        let target = side == "target";
        let only = |value: Amount, on: bool| if on { value } else { None };
        let needed = |value: Amount| Some(value.unwrap_or_else(|| "0".to_owned()));
        let resource = |of: &Value| {
            let values = part(of, side).unwrap_or(&Value::Null);
            let used = percent(values, "averageUtilization");
            let value = amount(values, "averageValue");
            ResourceMetric {
                name: text(of, "name"),
                target_average_utilization: used.filter(|_| target),
                target_average_value: only(value.clone(), target),
                current_average_utilization: used.filter(|_| !target),
                current_average_value: only(needed(value), !target),
                container: None,
            }
        };
        Self {
            kind: text(metric, "type"),
            object: part(metric, "object").map(|of| {
                let values = part(of, side).unwrap_or(&Value::Null);
                let (name, selector) = identifier(of);
                let object = part(of, "describedObject").unwrap_or(&Value::Null);
                ObjectMetric {
                    target: Reference {
                        kind: text(object, "kind"),
                        name: text(object, "name"),
                        api_version: text(object, "apiVersion"),
                    },
                    metric_name: name,
                    target_value: only(needed(amount(values, "value")), target),
                    current_value: only(needed(amount(values, "value")), !target),
                    selector,
                    average_value: amount(values, "averageValue"),
                }
            }),
            pods: part(metric, "pods").map(|of| {
                let values = part(of, side).unwrap_or(&Value::Null);
                let (name, selector) = identifier(of);
                let value = needed(amount(values, "averageValue"));
                PodsMetric {
                    metric_name: name,
                    target_average_value: only(value.clone(), target),
                    current_average_value: only(value, !target),
                    selector,
                }
            }),
            resource: part(metric, "resource").map(resource),
            container_resource: part(metric, "containerResource").map(|of| ResourceMetric {
                container: Some(text(of, "container")),
                ..resource(of)
            }),
            external: part(metric, "external").map(|of| {
                let values = part(of, side).unwrap_or(&Value::Null);
                let (name, selector) = identifier(of);
                let value = amount(values, "value");
                let average = amount(values, "averageValue");
                ExternalMetric {
                    metric_name: name,
                    metric_selector: selector,
                    target_value: only(value.clone(), target),
                    target_average_value: only(average.clone(), target),
                    current_value: only(needed(value), !target),
                    current_average_value: only(average, !target),
                }
            }),
        }
    }

    fn into_target(self) -> Value {
        let resource = |of: ResourceMetric| {
            let kind = match of.target_average_utilization {
                Some(_) => "Utilization",
                None => "AverageValue",
            };
            json!({
                "name": of.name,
                "container": of.container,
                "target": {
                    "type": kind,
                    "averageValue": of.target_average_value,
                    "averageUtilization": of.target_average_utilization,
                },
            })
        };
        without_nulls(json!({
            "type": self.kind,
            "object": self.object.map(ObjectMetric::into_target),
            "pods": self.pods.map(|of| json!({
                "metric": {"name": of.metric_name, "selector": of.selector},
                "target": {
                    "type": "AverageValue",
                    "averageValue": of.target_average_value.unwrap_or_else(|| "0".to_owned()),
                },
            })),
            "resource": self.resource.map(resource),
            "containerResource": self.container_resource.map(resource),
            "external": self.external.map(|of| {
                let kind = if of.target_value.is_some() { "Value" } else { "AverageValue" };
                json!({
                    "metric": {"name": of.metric_name, "selector": of.metric_selector},
                    "target": {
                        "type": kind,
                        "value": of.target_value,
                        "averageValue": of.target_average_value,
                    },
                })
            }),
        }))
    }

    fn into_current(self) -> Value {
        let needed = |value: Amount| value.unwrap_or_else(|| "0".to_owned());
        let resource = |of: ResourceMetric| {
            json!({
                "name": of.name,
                "container": of.container,
                "current": {
                    "averageValue": needed(of.current_average_value),
                    "averageUtilization": of.current_average_utilization,
                },
            })
        };
        without_nulls(json!({
            "type": self.kind,
            "object": self.object.map(|of| json!({
                "describedObject": of.target.into_value(),
                "metric": {"name": of.metric_name, "selector": of.selector},
                "current": {
                    "value": needed(of.current_value),
                    "averageValue": of.average_value,
                },
            })),
            "pods": self.pods.map(|of| json!({
                "metric": {"name": of.metric_name, "selector": of.selector},
                "current": {"averageValue": needed(of.current_average_value)},
            })),
            "resource": self.resource.map(resource),
            "containerResource": self.container_resource.map(resource),
            "external": self.external.map(|of| json!({
                "metric": {"name": of.metric_name, "selector": of.metric_selector},
                "current": {
                    "value": needed(of.current_value),
                    "averageValue": of.current_average_value,
                },
            })),
        }))
    }
}

impl ObjectMetric {
    /// The flat shape always holds a value; an empty one beside an average counts as
    /// absent.
    fn into_target(self) -> Value {
        let value = self.target_value.unwrap_or_else(|| "0".to_owned());
        let zero = value.parse::<Quantity>().is_ok_and(Quantity::is_zero);
        let (kind, value) = match &self.average_value {
            None => ("Value", Some(value)),
            Some(_) => ("AverageValue", Some(value).filter(|_| !zero)),
        };
        json!({
            "describedObject": self.target.into_value(),
            "metric": {"name": self.metric_name, "selector": self.selector},
            "target": {"type": kind, "value": value, "averageValue": self.average_value},
        })
    }
}

impl Reference {
    fn into_value(self) -> Value {
        let version = Some(self.api_version).filter(|version| !version.is_empty());
        json!({"kind": self.kind, "name": self.name, "apiVersion": version})
    }
}

fn identifier(of: &Value) -> (String, Option<Selector>) {
    let metric = part(of, "metric").unwrap_or(&Value::Null);
    let selector = part(metric, "selector").map(|selector| Selector {
        match_labels: part(selector, "matchLabels").cloned(),
        match_expressions: part(selector, "matchExpressions").cloned(),
    });
    (text(metric, "name"), selector)
}

fn part<'a>(value: &'a Value, field: &str) -> Option<&'a Value> {
    value.get(field).filter(|value| !value.is_null())
}

fn text(value: &Value, field: &str) -> String {
    amount(value, field).unwrap_or_default()
}

fn amount(value: &Value, field: &str) -> Amount {
    value.get(field)?.as_str().map(str::to_owned)
}

fn percent(value: &Value, field: &str) -> Option<i32> {
    value.get(field)?.as_i64()?.try_into().ok()
}

/// Removes null members at any depth.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().filter(|(_, value)| !value.is_null());
            Value::from_iter(fields.map(|(field, value)| (field, without_nulls(value))))
        }
        Value::Array(items) => Value::from_iter(items.into_iter().map(without_nulls)),
        other => other,
    }
}

/// Writes JSON with the HTML-safe escapes of Go.
fn to_json<T: Serialize>(value: &T) -> String {
    // Structs of strings and numbers always serialize.
    let plain = serde_json::to_string(value).unwrap_or_default();
    let mut escaped = String::with_capacity(plain.len());
    for letter in plain.chars() {
        match letter {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                escaped.push_str(&format!("\\u{:04x}", u32::from(letter)));
            }
            other => escaped.push(other),
        }
    }
    escaped
}

//! Defaults of workloads and autoscalers.

use serde_json::{Value, json};

use super::{Rule, tree};
use crate::Object;

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";

pub(super) const RULES: &[Rule] = &[
    Rule::set(
        "api.apps.v1.DeploymentSpec",
        &[
            ("replicas", "1"),
            ("revisionHistoryLimit", "10"),
            ("progressDeadlineSeconds", "600"),
        ],
    ),
    Rule::run("api.apps.v1.DeploymentSpec", |spec| {
        let quarter = || Value::from("25%");
        default_rolling_update(
            spec,
            "strategy",
            [("maxUnavailable", quarter()), ("maxSurge", quarter())],
        );
    }),
    Rule::set("api.apps.v1.ReplicaSetSpec", &[("replicas", "1")]),
    Rule::set(
        "api.apps.v1.DaemonSetSpec",
        &[("revisionHistoryLimit", "10")],
    ),
    Rule::run("api.apps.v1.DaemonSetSpec", |spec| {
        default_rolling_update(
            spec,
            "updateStrategy",
            [("maxUnavailable", 1.into()), ("maxSurge", 0.into())],
        );
    }),
    Rule::set(
        "api.apps.v1.StatefulSetSpec",
        &[
            ("podManagementPolicy", r#""OrderedReady""#),
            ("replicas", "1"),
            ("revisionHistoryLimit", "10"),
            ("persistentVolumeClaimRetentionPolicy", "{}"),
        ],
    ),
    Rule::run("api.apps.v1.StatefulSetSpec", stateful_set),
    Rule::set(
        "api.apps.v1.StatefulSetPersistentVolumeClaimRetentionPolicy",
        &[
            ("whenDeleted", r#""Retain""#),
            ("whenScaled", r#""Retain""#),
        ],
    ),
    Rule::run("api.core.v1.ReplicationController", replication_controller),
    Rule::run("api.batch.v1.Job", job),
    Rule::set(
        "api.batch.v1.CronJobSpec",
        &[
            ("concurrencyPolicy", r#""Allow""#),
            ("suspend", "false"),
            ("successfulJobsHistoryLimit", "3"),
            ("failedJobsHistoryLimit", "1"),
        ],
    ),
    Rule::set(
        "api.batch.v1.PodFailurePolicyOnPodConditionsPattern",
        &[("status", r#""True""#)],
    ),
    Rule::set(
        "api.autoscaling.v1.HorizontalPodAutoscalerSpec",
        &[("minReplicas", "1")],
    ),
    Rule::run("api.autoscaling.v1.HorizontalPodAutoscaler", autoscaler_v1),
    Rule::set(
        "api.autoscaling.v2.HorizontalPodAutoscalerSpec",
        &[("minReplicas", "1")],
    ),
    Rule::run("api.autoscaling.v2.HorizontalPodAutoscalerSpec", autoscaler),
];

/// Sets the default parameters of a rolling update.
fn default_rolling_update(spec: &mut Object, strategy: &str, numbers: [(&str, Value); 2]) {
    let strategy = tree::child_mut(spec, strategy);
    tree::fill_empty(strategy, "type", "RollingUpdate");
    if tree::text(strategy, "type") == "RollingUpdate" {
        let update = tree::child_mut(strategy, "rollingUpdate");
        for (json, number) in numbers {
            tree::fill(update, json, number);
        }
    }
}

fn stateful_set(spec: &mut Object) {
    let strategy = tree::child_mut(spec, "updateStrategy");
    // Only a StatefulSet without a strategy gets rolling update parameters.
    if tree::is_empty(strategy, "type") {
        strategy.insert("type".to_owned(), "RollingUpdate".into());
        tree::child_mut(strategy, "rollingUpdate");
    }
    if tree::text(strategy, "type") == "RollingUpdate"
        && let Some(update) = tree::existing_mut(strategy, "rollingUpdate")
    {
        tree::fill(update, "partition", 0);
    }
    // Claim templates are whole objects and carry their type metadata.
    for claim in tree::items_mut(spec, "volumeClaimTemplates") {
        claim.insert("apiVersion".to_owned(), "v1".into());
        claim.insert("kind".to_owned(), "PersistentVolumeClaim".into());
    }
}

fn replication_controller(controller: &mut Object) {
    let spec = tree::child_mut(controller, "spec");
    let Some(labels) = template_labels(spec) else {
        return;
    };
    tree::fill_empty(spec, "selector", labels.clone());
    tree::fill_empty(tree::child_mut(controller, "metadata"), "labels", labels);
}

fn job(job: &mut Object) {
    let spec = tree::child_mut(job, "spec");
    // A Job with neither completions nor parallelism runs one pod.
    if !tree::is_present(spec, "completions") && !tree::is_present(spec, "parallelism") {
        spec.insert("completions".to_owned(), 1.into());
    }
    tree::fill(spec, "parallelism", 1);
    let per_index = tree::is_present(spec, "backoffLimitPerIndex");
    tree::fill(spec, "backoffLimit", if per_index { i32::MAX } else { 6 });
    tree::fill(spec, "completionMode", "NonIndexed");
    tree::fill(spec, "suspend", false);
    let replacement = match tree::is_present(spec, "podFailurePolicy") {
        true => "Failed",
        false => "TerminatingOrFailed",
    };
    tree::fill(spec, "podReplacementPolicy", replacement);
    tree::fill(spec, "manualSelector", false);
    default_job_labels(job);
}

/// A Job without labels gets those of its template.
pub(crate) fn default_job_labels(job: &mut Object) {
    let labels = tree::child(job, "spec").and_then(template_labels);
    if let Some(labels) = labels {
        tree::fill_empty(tree::child_mut(job, "metadata"), "labels", labels);
    }
}

fn template_labels(spec: &Object) -> Option<Value> {
    let metadata = tree::child(tree::child(spec, "template")?, "metadata")?;
    let labels = metadata.get("labels")?;
    (!tree::is_zero(labels)).then(|| labels.clone())
}

fn autoscaler(spec: &mut Object) {
    let cpu = || {
        json!([{
            "type": "Resource",
            "resource": {
                "name": "cpu",
                "target": {"type": "Utilization", "averageUtilization": 80},
            },
        }])
    };
    if tree::is_empty(spec, "metrics") {
        spec.insert("metrics".to_owned(), cpu());
    }
    if let Some(behavior) = tree::existing_mut(spec, "behavior") {
        let percent = || json!({"type": "Percent", "value": 100, "periodSeconds": 15});
        let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
        let up = tree::child_mut(behavior, "scaleUp");
        tree::fill(up, "stabilizationWindowSeconds", 0);
        tree::fill(up, "selectPolicy", "Max");
        tree::fill(up, "policies", vec![pods, percent()]);
        let down = tree::child_mut(behavior, "scaleDown");
        tree::fill(down, "selectPolicy", "Max");
        tree::fill(down, "policies", vec![percent()]);
    }
}

/// autoscaling/v1 has one metric; others are in an annotation, and suppress its default.
fn autoscaler_v1(autoscaler: &mut Object) {
    let annotated = tree::child(autoscaler, "metadata")
        .and_then(|metadata| tree::child(metadata, "annotations"))
        .map(|annotations| tree::text(annotations, METRICS))
        .and_then(|metrics| serde_json::from_str::<Vec<Value>>(metrics).ok());
    if annotated.is_none_or(|metrics| metrics.is_empty()) {
        let spec = tree::child_mut(autoscaler, "spec");
        tree::fill(spec, "targetCPUUtilizationPercentage", 80);
    }
}

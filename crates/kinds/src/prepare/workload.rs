//! Workloads: pod selectors, template generations and scaling.

use serde_json::{Value, json};

use super::equal;
use crate::Object;
use crate::defaults::{self, tree};
use crate::kind::Kind;

const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// DaemonSets once counted template changes in their spec; an annotation remains.
pub(super) fn create_daemon_set(set: &mut Object) {
    let given = template_generation(set).unwrap_or_default();
    write_template_generation(set, given.max(1));
}

pub(super) fn update_daemon_set(
    kind: &Kind,
    subresource: Option<&str>,
    old: &Object,
    set: &mut Object,
) {
    let before = template_generation(old).unwrap_or_default();
    let changed = !equal::fields(kind, ["spec", "template"], old, set);
    let counted = changed && subresource.is_none();
    write_template_generation(set, before + i64::from(counted));
}

fn template_generation(set: &Object) -> Option<i64> {
    let annotations = tree::child(tree::child(set, "metadata")?, "annotations")?;
    tree::text(annotations, TEMPLATE_GENERATION).parse().ok()
}

fn write_template_generation(set: &mut Object, generation: i64) {
    let metadata = tree::child_mut(set, "metadata");
    let annotations = tree::child_mut(metadata, "annotations");
    annotations.insert(
        TEMPLATE_GENERATION.to_owned(),
        generation.to_string().into(),
    );
}

/// Sets a selector by the Job's UID, unless the selector is manual.
pub(super) fn create_job(job: &mut Object, uid: &str) {
    let name = tree::child(job, "metadata").map(|metadata| tree::text(metadata, "name"));
    let name = name.unwrap_or_default().to_owned();
    let spec = tree::child_mut(job, "spec");
    if !tree::boolean(spec, "manualSelector") {
        let template = tree::child_mut(spec, "template");
        let labels = tree::child_mut(tree::child_mut(template, "metadata"), "labels");
        for (label, value) in [
            ("job-name", name.as_str()),
            ("batch.kubernetes.io/job-name", name.as_str()),
            ("controller-uid", uid),
            ("batch.kubernetes.io/controller-uid", uid),
        ] {
            tree::fill(labels, label, value);
        }
        let selector = tree::child_mut(tree::child_mut(spec, "selector"), "matchLabels");
        tree::fill(selector, "batch.kubernetes.io/controller-uid", uid);
    }
    // A Job without labels gets those of its template, which now has some.
    defaults::default_job_labels(job);
}

/// Returns the Scale of an object; none for kinds that cannot be scaled.
pub fn scale_of(kind: &Kind, object: &Object) -> Option<Object> {
    if !scaled(kind) {
        return None;
    }
    let empty = Object::new();
    let metadata = tree::child(object, "metadata").unwrap_or(&empty);
    let spec = tree::child(object, "spec").unwrap_or(&empty);
    let status = tree::child(object, "status").unwrap_or(&empty);
    let mut scale = Object::new();
    scale.insert("kind".to_owned(), "Scale".into());
    scale.insert("apiVersion".to_owned(), "autoscaling/v1".into());
    let named = scale_metadata(metadata);
    scale.insert("metadata".to_owned(), Value::Object(named));
    let wanted = tree::number(spec, "replicas");
    let wanted = if wanted == 0 {
        json!({})
    } else {
        json!({"replicas": wanted})
    };
    scale.insert("spec".to_owned(), wanted);
    let mut having = Object::new();
    having.insert(
        "replicas".to_owned(),
        tree::number(status, "replicas").into(),
    );
    let selector = selector_text(kind, spec);
    if !selector.is_empty() {
        having.insert("selector".to_owned(), selector.into());
    }
    scale.insert("status".to_owned(), Value::Object(having));
    Some(scale)
}

/// Sets the desired replicas. The generation counts it like any change.
pub fn apply_scale(kind: &Kind, object: &mut Object, replicas: i64) {
    if scaled(kind) {
        let spec = tree::child_mut(object, "spec");
        let before = spec.insert("replicas".to_owned(), replicas.into());
        if before.and_then(|before| before.as_i64()) != Some(replicas) {
            let metadata = tree::child_mut(object, "metadata");
            let generation = tree::number(metadata, "generation") + 1;
            metadata.insert("generation".to_owned(), generation.into());
        }
    }
}

fn scaled(kind: &Kind) -> bool {
    matches!(
        (kind.group.as_str(), kind.kind.as_str()),
        ("apps", "Deployment" | "ReplicaSet" | "StatefulSet") | ("", "ReplicationController")
    )
}

fn scale_metadata(metadata: &Object) -> Object {
    let mut named = Object::new();
    for field in [
        "name",
        "namespace",
        "tenant",
        "uid",
        "resourceVersion",
        "creationTimestamp",
    ] {
        tree::copy(metadata, &mut named, field);
    }
    named
}

fn selector_text(kind: &Kind, spec: &Object) -> String {
    let Some(selector) = tree::child(spec, "selector") else {
        return String::new();
    };
    let mut terms = Vec::new();
    let labels = match kind.group.is_empty() {
        true => Some(selector),
        false => tree::child(selector, "matchLabels"),
    };
    for (key, value) in labels.into_iter().flatten() {
        let value = value.as_str().unwrap_or_default();
        terms.push((key.clone(), format!("{key}={value}")));
    }
    if !kind.group.is_empty() {
        terms.extend(tree::items(selector, "matchExpressions").map(expression));
    }
    terms.sort_by(|(left, _), (right, _)| left.cmp(right));
    let terms: Vec<String> = terms.into_iter().map(|(_, term)| term).collect();
    terms.join(",")
}

fn expression(expression: &Object) -> (String, String) {
    let key = tree::text(expression, "key");
    let mut values: Vec<&str> = tree::list(expression, "values")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    values.sort_unstable();
    let values = values.join(",");
    let term = match tree::text(expression, "operator") {
        "In" => format!("{key} in ({values})"),
        "NotIn" => format!("{key} notin ({values})"),
        "DoesNotExist" => format!("!{key}"),
        _ => key.to_owned(),
    };
    (key.to_owned(), term)
}

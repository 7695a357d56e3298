//! Pods: fields that the server sets on create, binding, ephemeral containers and resize.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{push, reset};
use crate::Object;
use crate::defaults::tree;
use crate::kind::Kind;
use crate::quantity::Quantity;

pub(super) fn create(pod: &mut Object, now: &str) {
    let spec = tree::child_mut(pod, "spec");
    add_default_tolerations(spec);
    if tree::is_empty(spec, "priorityClassName") {
        set_priority(spec, Priority::default());
    }
    convert_app_armor_annotations(pod);
    expand_match_label_keys(pod);
    let spec = tree::child_mut(pod, "spec");
    let mut status = Object::new();
    status.insert("phase".to_owned(), "Pending".into());
    status.insert("qosClass".to_owned(), qos_class(spec).into());
    if !tree::is_empty(spec, "schedulingGates") {
        let gated = json!({
            "type": "PodScheduled",
            "status": "False",
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        });
        set_condition(&mut status, gated, now);
    }
    pod.insert("status".to_owned(), Value::Object(status));
}

/// The priority that a PriorityClass gives to its pods.
#[derive(Clone, Copy, Debug)]
pub struct Priority<'a> {
    /// The name of the class; empty for none.
    pub class: &'a str,
    /// The priority value.
    pub value: i64,
    /// The preemption policy.
    pub preemption: &'a str,
}

impl Default for Priority<'_> {
    fn default() -> Self {
        Self {
            class: "",
            value: 0,
            preemption: "PreemptLowerPriority",
        }
    }
}

/// Sets the priority of the pod's class or of the default class. It runs before
/// [`super::create`], which cannot look classes up and sets 0 if there is none.
pub fn admit_priority(pod: &mut Object, priority: Priority<'_>) {
    set_priority(tree::child_mut(pod, "spec"), priority);
}

fn set_priority(spec: &mut Object, priority: Priority<'_>) {
    if !priority.class.is_empty() {
        spec.insert("priorityClassName".to_owned(), priority.class.into());
    }
    tree::fill(spec, "priority", priority.value);
    tree::fill(spec, "preemptionPolicy", priority.preemption);
}

/// Sets the service account of a pod without one to `default`. Mirror pods have no
/// service account.
pub fn admit_service_account(pod: &mut Object) {
    let mirror = tree::child(pod, "metadata")
        .and_then(|metadata| tree::child(metadata, "annotations"))
        .is_some_and(|annotations| annotations.contains_key("kubernetes.io/config.mirror"));
    if !mirror {
        let spec = tree::child_mut(pod, "spec");
        tree::fill_empty(spec, "serviceAccountName", "default");
        tree::copy_if_set(spec, "serviceAccountName", "serviceAccount");
    }
}

/// Tolerates lost nodes for a while, unless the pod states otherwise.
fn add_default_tolerations(spec: &mut Object) {
    for trouble in ["not-ready", "unreachable"] {
        let key = format!("node.kubernetes.io/{trouble}");
        let tolerated = tree::items(spec, "tolerations").any(|toleration| {
            let of = tree::text(toleration, "key");
            let effect = tree::text(toleration, "effect");
            (of.is_empty() || of == key) && matches!(effect, "" | "NoExecute")
        });
        if !tolerated {
            let toleration = json!({
                "key": key,
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            });
            push(spec, "tolerations", toleration);
        }
    }
}

/// Returns the QoS class: guaranteed if all resources are limited and requested alike,
/// burstable if some are, best effort if none is.
pub(crate) fn qos_class(spec: &Object) -> &'static str {
    let empty = Object::new();
    let own = tree::child(spec, "resources");
    let containers: Vec<&Object> = match own {
        Some(own) => vec![own],
        None => tree::items(spec, "containers")
            .chain(tree::items(spec, "initContainers"))
            .map(|container| tree::child(container, "resources").unwrap_or(&empty))
            .collect(),
    };
    let mut requests = BTreeMap::new();
    let mut limits = BTreeMap::new();
    let mut guaranteed = true;
    for resources in containers {
        sum(&mut requests, resources, "requests");
        let limited = sum(&mut limits, resources, "limits");
        // A pod with pod-level resources and no limits is classified by its requests.
        let counts = own.is_none() || !tree::is_empty(resources, "limits");
        guaranteed &= limited == 2 || !counts;
    }
    if requests.is_empty() && limits.is_empty() {
        "BestEffort"
    } else if guaranteed && requests == limits {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

/// Adds the CPU and memory of a resource list and returns how many of the two it has.
fn sum(total: &mut BTreeMap<&'static str, Quantity>, resources: &Object, list: &str) -> usize {
    let mut found = 0;
    for resource in ["cpu", "memory"] {
        let amount = tree::child(resources, list)
            .and_then(|list| list.get(resource))
            .and_then(Value::as_str)
            .and_then(|amount| amount.parse::<Quantity>().ok())
            .filter(|amount| *amount > Quantity::ZERO);
        if let Some(amount) = amount {
            let total = total.entry(resource).or_insert(Quantity::ZERO);
            *total = total.plus(amount);
            found += 1;
        }
    }
    found
}

/// Sets AppArmor profiles from the annotations that preceded the fields.
fn convert_app_armor_annotations(pod: &mut Object) {
    let annotations = tree::child(pod, "metadata")
        .and_then(|metadata| tree::child(metadata, "annotations"))
        .cloned();
    let Some(annotations) = annotations else {
        return;
    };
    let spec = tree::child_mut(pod, "spec");
    let windows = tree::child(spec, "os").is_some_and(|os| tree::text(os, "name") == "windows");
    if windows {
        return;
    }
    let of_pod = tree::child(spec, "securityContext")
        .and_then(|context| context.get("appArmorProfile"))
        .cloned();
    for containers in ["containers", "initContainers", "ephemeralContainers"] {
        for container in tree::items_mut(spec, containers) {
            let name = tree::text(container, "name");
            let key = format!("container.apparmor.security.beta.kubernetes.io/{name}");
            let profile = app_armor_profile(tree::text(&annotations, &key));
            let set = tree::child(container, "securityContext")
                .is_some_and(|context| tree::is_present(context, "appArmorProfile"));
            if let (Some(profile), false) = (profile, set)
                && of_pod.as_ref() != Some(&profile)
            {
                let context = tree::child_mut(container, "securityContext");
                context.insert("appArmorProfile".to_owned(), profile);
            }
        }
    }
}

fn app_armor_profile(annotation: &str) -> Option<Value> {
    match annotation {
        "unconfined" => Some(json!({"type": "Unconfined"})),
        "runtime/default" => Some(json!({"type": "RuntimeDefault"})),
        other => {
            let profile = other.strip_prefix("localhost/")?;
            let valid = !profile.is_empty() && profile.len() < 4096 && profile.trim() == profile;
            valid.then(|| json!({"type": "Localhost", "localhostProfile": profile}))
        }
    }
}

/// Expands `matchLabelKeys` into requirements with the current label values, since labels
/// may change later.
fn expand_match_label_keys(pod: &mut Object) {
    let labels = tree::child(pod, "metadata")
        .and_then(|metadata| tree::child(metadata, "labels"))
        .cloned()
        .unwrap_or_default();
    let spec = tree::child_mut(pod, "spec");
    for constraint in tree::items_mut(spec, "topologySpreadConstraints") {
        expand_term(constraint, &labels, &[("matchLabelKeys", "In")]);
    }
    let Some(affinity) = tree::existing_mut(spec, "affinity") else {
        return;
    };
    let keys = [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")];
    for side in ["podAffinity", "podAntiAffinity"] {
        let Some(side) = tree::existing_mut(affinity, side) else {
            continue;
        };
        for term in tree::items_mut(side, "requiredDuringSchedulingIgnoredDuringExecution") {
            expand_term(term, &labels, &keys);
        }
        for weighted in tree::items_mut(side, "preferredDuringSchedulingIgnoredDuringExecution") {
            if let Some(term) = tree::existing_mut(weighted, "podAffinityTerm") {
                expand_term(term, &labels, &keys);
            }
        }
    }
}

fn expand_term(term: &mut Object, labels: &Object, keys: &[(&str, &str)]) {
    let mut expressions = Vec::new();
    for (field, operator) in keys {
        for key in tree::list(term, field).iter().filter_map(Value::as_str) {
            if let Some(value) = labels.get(key) {
                expressions.push(json!({"key": key, "operator": operator, "values": [value]}));
            }
        }
    }
    // A term without a selector matches nothing and stays that way.
    if let Some(selector) = tree::existing_mut(term, "labelSelector") {
        for expression in expressions {
            push(selector, "matchExpressions", expression);
        }
    }
}

pub(super) fn update(kind: &Kind, subresource: Option<&str>, old: &Object, pod: &mut Object) {
    match subresource {
        Some("ephemeralcontainers") => take_ephemeral_containers(old, pod),
        Some("resize") => take_resources(old, pod),
        Some("status") => {
            reset::apply(kind, subresource, old, pod);
            keep_status(old, pod);
        }
        _ => {
            reset::apply(kind, subresource, old, pod);
            keep_server_set_fields(old, pod);
        }
    }
}

/// Restores fields that the server set on create and the client left out.
fn keep_server_set_fields(old: &Object, pod: &mut Object) {
    let empty = Object::new();
    let before = tree::child(old, "spec").unwrap_or(&empty);
    let spec = tree::child_mut(pod, "spec");
    for field in ["priority", "preemptionPolicy"] {
        if !tree::is_present(spec, field) {
            tree::copy(before, spec, field);
        }
    }
    add_default_tolerations(spec);
}

/// Keeps the QoS class and the observed generations.
fn keep_status(old: &Object, pod: &mut Object) {
    let empty = Object::new();
    let before = tree::child(old, "status").unwrap_or(&empty);
    let status = tree::child_mut(pod, "status");
    for field in ["qosClass", "observedGeneration"] {
        if tree::is_empty(status, field) {
            tree::copy(before, status, field);
        }
    }
    let mut seen: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
    for condition in tree::items(before, "conditions") {
        let generation = tree::number(condition, "observedGeneration");
        seen.entry(tree::text(condition, "type"))
            .or_default()
            .insert(0, generation);
    }
    for condition in tree::items_mut(status, "conditions") {
        let generation = seen
            .get_mut(tree::text(condition, "type"))
            .and_then(Vec::pop)
            .filter(|generation| *generation != 0);
        if let Some(generation) = generation {
            tree::fill_empty(condition, "observedGeneration", generation);
        }
    }
}

fn take_ephemeral_containers(old: &Object, pod: &mut Object) {
    let written =
        tree::existing_mut(pod, "spec").and_then(|spec| spec.remove("ephemeralContainers"));
    restore(old, pod);
    let spec = tree::child_mut(pod, "spec");
    spec.remove("ephemeralContainers");
    spec.extend(written.map(|written| ("ephemeralContainers".to_owned(), written)));
}

/// Applies the resources of containers only. Added, removed or reordered containers are
/// kept for validation to reject.
fn take_resources(old: &Object, pod: &mut Object) {
    let empty = Object::new();
    let before = tree::child(old, "spec").unwrap_or(&empty);
    let spec = tree::child_mut(pod, "spec").clone();
    let count = |spec: &Object, list: &str| tree::list(spec, list).len();
    let lists = ["containers", "initContainers"];
    if lists
        .iter()
        .any(|list| count(before, list) != count(&spec, list))
    {
        return;
    }
    restore(old, pod);
    let restored = tree::child_mut(pod, "spec");
    tree::copy(&spec, restored, "resources");
    for list in lists {
        let names = |spec: &Object| -> Vec<String> {
            let names = tree::items(spec, list).map(|container| tree::text(container, "name"));
            names.map(str::to_owned).collect()
        };
        if names(&spec) != names(before) {
            tree::copy(&spec, restored, list);
            continue;
        }
        let written = tree::items(&spec, list);
        for (container, written) in tree::items_mut(restored, list).zip(written) {
            tree::copy(written, container, "resources");
            tree::copy(written, container, "resizePolicy");
        }
    }
}

fn restore(old: &Object, pod: &mut Object) {
    tree::copy(old, pod, "spec");
    tree::copy(old, pod, "status");
    reset::restore_user_metadata(old, pod);
}

/// Binds a pod to the node that a Binding names, and adopts its labels and annotations.
/// The caller checks whether the pod may be bound.
pub fn bind(pod: &mut Object, binding: &Object, now: &str) {
    let target = tree::child(binding, "target");
    let node = target.map(|target| tree::text(target, "name"));
    let node = node.unwrap_or_default();
    tree::child_mut(pod, "spec").insert("nodeName".to_owned(), node.into());
    let written = tree::child(binding, "metadata");
    for map in ["annotations", "labels"] {
        if let Some(written) = written.and_then(|metadata| tree::child(metadata, map)) {
            let metadata = tree::child_mut(pod, "metadata");
            tree::child_mut(metadata, map).extend(written.clone());
        }
    }
    let status = tree::child_mut(pod, "status");
    status.remove("nominatedNodeName");
    let scheduled = json!({"type": "PodScheduled", "status": "True"});
    set_condition(status, scheduled, now);
}

/// Sets a condition; the transition time is kept if the status does not change.
fn set_condition(status: &mut Object, condition: Value, now: &str) {
    let Value::Object(mut condition) = condition else {
        return;
    };
    let of = tree::text(&condition, "type").to_owned();
    condition.insert("lastTransitionTime".to_owned(), now.into());
    let is = |existing: &&mut Object| tree::text(existing, "type") == of;
    if let Some(existing) = tree::items_mut(status, "conditions").find(is) {
        if tree::text(existing, "status") == tree::text(&condition, "status") {
            tree::copy(existing, &mut condition, "lastTransitionTime");
        }
        *existing = condition;
        return;
    }
    push(status, "conditions", Value::Object(condition));
}

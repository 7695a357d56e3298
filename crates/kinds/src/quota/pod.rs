//! Quota usage of pods: their count and the resources of their containers, until they
//! finish.

use std::collections::{BTreeMap, BTreeSet};

use super::{Amounts, ONE, add, amounts};
use crate::Object;
use crate::defaults::tree;
use crate::prepare;
use crate::time::{self, Precision};

/// Compute resources, which quotas also name with the prefixes `requests.` and `limits.`.
const COMPUTE: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// Resources that every container must state if a quota limits them.
const REQUIRED: [&str; 6] = [
    "cpu",
    "memory",
    "requests.cpu",
    "requests.memory",
    "limits.cpu",
    "limits.memory",
];

const HUGE_PAGES: &str = "hugepages-";
const DEVICE_CLASS: &str = "deviceclass.resource.kubernetes.io/";

pub(super) fn is_used(name: &str) -> bool {
    let asked = name.strip_prefix("requests.");
    let plain = asked.or_else(|| name.strip_prefix("limits."));
    name == "pods"
        || COMPUTE.contains(&plain.unwrap_or(name))
        || asked.unwrap_or(name).starts_with(HUGE_PAGES)
        || asked.is_some_and(is_extended)
}

/// Whether this is an extended resource such as `example.com/gpu`.
fn is_extended(name: &str) -> bool {
    let native = !name.contains('/') || name.contains("kubernetes.io/");
    name.starts_with(DEVICE_CLASS) || !native
}

pub(super) fn usage(pod: &Object, now: i64) -> Amounts {
    if is_finished(pod, now) {
        return Amounts::new();
    }
    compute(&charged_requests(pod), &charged_limits(pod))
}

/// Returns requests and limits by quota resource name.
fn compute(requests: &Amounts, limits: &Amounts) -> Amounts {
    let mut usage = Amounts::from([("pods".to_owned(), ONE)]);
    for name in COMPUTE {
        if let Some(asked) = requests.get(name) {
            usage.insert(name.to_owned(), *asked);
            usage.insert(format!("requests.{name}"), *asked);
        }
        if let Some(limit) = limits.get(name) {
            usage.insert(format!("limits.{name}"), *limit);
        }
    }
    for (name, asked) in requests {
        let huge = name.starts_with(HUGE_PAGES);
        if huge {
            usage.insert(name.clone(), *asked);
        }
        if huge || (is_extended(name) && !name.starts_with("requests.")) {
            usage.insert(format!("requests.{name}"), *asked);
        }
    }
    usage
}

/// Returns the limited resources that containers do not state.
pub(super) fn missing(hard: &Amounts, pod: &Object) -> Option<String> {
    let spec = spec(pod)?;
    if has_own_resources(spec) {
        return None;
    }
    let required: Vec<&str> = REQUIRED
        .into_iter()
        .filter(|name| hard.contains_key(*name))
        .collect();
    let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for container in containers(spec) {
        let resources = tree::child(container, "resources");
        let present = compute(
            &amounts(resources, "requests"),
            &amounts(resources, "limits"),
        );
        for name in required.iter().filter(|name| !present.contains_key(**name)) {
            let name_of = tree::text(container, "name");
            missing.entry(name).or_default().insert(name_of);
        }
    }
    let each = missing.into_iter().map(|(name, containers)| {
        let containers = containers.into_iter().collect::<Vec<_>>().join(",");
        format!("{name} for: {containers}")
    });
    let each: Vec<String> = each.collect();
    (!each.is_empty()).then(|| format!("must specify {}", each.join("; ")))
}

/// Returns the requests in the spec of a pod.
pub fn requests(pod: &Object) -> Amounts {
    total(pod, "requests", false)
}

/// Returns the limits in the spec of a pod.
pub fn limits(pod: &Object) -> Amounts {
    total(pod, "limits", false)
}

/// Returns the requests, or what the containers have allocated if that is more, plus the
/// pod overhead.
fn charged_requests(pod: &Object) -> Amounts {
    let mut total = total(pod, "requests", true);
    add(&mut total, &amounts(spec(pod), "overhead"));
    total
}

/// Returns the limits, or what the containers have allocated if that is more, plus the
/// pod overhead where there is a limit.
fn charged_limits(pod: &Object) -> Amounts {
    let mut total = total(pod, "limits", true);
    for (name, more) in amounts(spec(pod), "overhead") {
        if let Some(limit) = total.get_mut(&name).filter(|limit| !limit.is_zero()) {
            *limit = limit.plus(more);
        }
    }
    total
}

/// Sums over the containers. Init containers need no more than the largest of them plus
/// the sidecars started before it; pod-level resources take precedence.
fn total(pod: &Object, list: &str, by_status: bool) -> Amounts {
    let Some(spec) = spec(pod) else {
        return Amounts::new();
    };
    let of = |container: &Object, stays: bool| match by_status && stays {
        true => effective(pod, container, list),
        false => amounts(tree::child(container, "resources"), list),
    };
    let mut total = Amounts::new();
    for container in tree::items(spec, "containers") {
        add(&mut total, &of(container, true));
    }
    let (mut staying, mut first) = (Amounts::new(), Amounts::new());
    for container in tree::items(spec, "initContainers") {
        let stays = tree::text(container, "restartPolicy") == "Always";
        let mut own = of(container, stays);
        if stays {
            add(&mut total, &own);
            add(&mut staying, &own);
            own = staying.clone();
        } else {
            add(&mut own, &staying);
        }
        take_max(&mut first, &own);
    }
    take_max(&mut total, &first);
    let whole = amounts(tree::child(spec, "resources"), list);
    let whole = whole.into_iter();
    total.extend(whole.filter(|(name, _)| is_pod_level_resource(name)));
    total
}

/// Returns the resources of a container; during a resize, the larger of desired and
/// allocated ones.
fn effective(pod: &Object, container: &Object, list: &str) -> Amounts {
    let spec = amounts(tree::child(container, "resources"), list);
    let Some(status) = tree::child(pod, "status") else {
        return spec;
    };
    let name = tree::text(container, "name");
    let statuses = tree::items(status, "containerStatuses");
    let mut statuses = statuses.chain(tree::items(status, "initContainerStatuses"));
    let own = statuses.find(|own| tree::text(own, "name") == name);
    let Some((own, resources)) = own.and_then(|own| Some((own, tree::child(own, "resources")?)))
    else {
        return spec;
    };
    let mut effective = amounts(Some(resources), list);
    if list == "requests" {
        take_max(&mut effective, &amounts(Some(own), "allocatedResources"));
    }
    if !is_infeasible(status) {
        take_max(&mut effective, &spec);
    }
    effective
}

/// Whether a pending resize is infeasible.
fn is_infeasible(status: &Object) -> bool {
    let mut conditions = tree::items(status, "conditions");
    let pending = conditions.find(|of| tree::text(of, "type") == "PodResizePending");
    pending.is_some_and(|pending| tree::text(pending, "reason") == "Infeasible")
}

/// Raises each quantity to the larger of the two.
fn take_max(total: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        let max = total.entry(name.clone()).or_insert(*amount);
        if *amount > *max {
            *max = *amount;
        }
    }
}

/// Whether the resource can be stated at pod level.
fn is_pod_level_resource(name: &str) -> bool {
    ["cpu", "memory"].contains(&name) || name.starts_with(HUGE_PAGES)
}

fn has_own_resources(spec: &Object) -> bool {
    let own = tree::child(spec, "resources");
    ["requests", "limits"].into_iter().any(|list| {
        amounts(own, list)
            .keys()
            .any(|name| is_pod_level_resource(name))
    })
}

fn containers(spec: &Object) -> impl Iterator<Item = &Object> {
    tree::items(spec, "containers").chain(tree::items(spec, "initContainers"))
}

pub(super) fn spec(pod: &Object) -> Option<&Object> {
    tree::child(pod, "spec")
}

/// Whether the pod has finished, or its deletion grace period has passed: a tenant is not
/// charged for a pod that its node fails to remove.
fn is_finished(pod: &Object, now: i64) -> bool {
    let phase = tree::child(pod, "status").map_or("", |status| tree::text(status, "phase"));
    if ["Succeeded", "Failed"].contains(&phase) {
        return true;
    }
    let Some(metadata) = tree::child(pod, "metadata") else {
        return false;
    };
    let deleted = time::parse(
        tree::text(metadata, "deletionTimestamp"),
        Precision::Seconds,
    );
    let grace = metadata.get("deletionGracePeriodSeconds");
    match (deleted, grace.and_then(crate::Value::as_i64)) {
        (Ok(deleted), Some(grace)) => now > deleted.seconds.saturating_add(grace),
        _ => false,
    }
}

pub(super) fn has_deadline(pod: &Object) -> bool {
    let deadline = spec(pod).and_then(|spec| spec.get("activeDeadlineSeconds")?.as_i64());
    deadline.is_some_and(|seconds| seconds >= 0)
}

pub(super) fn is_best_effort(pod: &Object) -> bool {
    let qos_class = tree::child(pod, "status").map_or("", |status| tree::text(status, "qosClass"));
    match (qos_class, spec(pod)) {
        ("", Some(spec)) => prepare::pod::qos_class(spec) == "BestEffort",
        (qos_class, _) => qos_class == "BestEffort",
    }
}

/// Whether the pod has affinity terms that select pods of other namespaces.
pub(super) fn has_cross_namespace_affinity(pod: &Object) -> bool {
    let affinity = spec(pod).and_then(|spec| tree::child(spec, "affinity"));
    let Some(affinity) = affinity else {
        return false;
    };
    let elsewhere = |term: &Object| {
        !tree::is_empty(term, "namespaces") || tree::is_present(term, "namespaceSelector")
    };
    ["podAffinity", "podAntiAffinity"].into_iter().any(|side| {
        let Some(side) = tree::child(affinity, side) else {
            return false;
        };
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
        let mut weighted =
            tree::items(side, preferred).filter_map(|of| tree::child(of, "podAffinityTerm"));
        tree::items(side, required).any(elsewhere) || weighted.any(elsewhere)
    })
}

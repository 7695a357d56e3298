//! Resource lists: quantities finer than a thousandth are rounded up, and resources of a
//! pod are derived from those of its containers.

use std::collections::BTreeMap;

use serde_json::Value;

use super::tree;
use crate::Object;
use crate::quantity::Quantity;
use crate::types::Shape;

/// Whether Kubernetes rounds the quantities in a field of this shape and owner type.
pub(super) fn rounded(of: &str, shape: &Shape) -> bool {
    // Device allocations have a different Go type, which is not rounded.
    let kept = of == "api.core.v1.NodeAllocatableResourceClaimStatus";
    let quantities = matches!(shape, Shape::Map(of) if **of == Shape::Quantity);
    quantities && !kept && of.starts_with("api.core.v1.")
}

/// Rounds the quantities in a field up to thousandths, away from zero.
pub(super) fn round(object: &mut Object, json: &str) {
    let Some(amounts) = tree::existing_mut(object, json) else {
        return;
    };
    for amount in amounts.values_mut() {
        if let Some(rounded) = amount.as_str().and_then(canonical_milli) {
            *amount = Value::from(rounded);
        }
    }
}

/// Returns the canonical text in thousandths of a quantity that is written finer than
/// that, with suffix `u` or `n`.
fn canonical_milli(text: &str) -> Option<String> {
    let (digits, scale) = match text.strip_suffix('u') {
        Some(digits) => (digits, 1_000),
        None => (text.strip_suffix('n')?, 1_000_000),
    };
    let finer: i64 = digits.parse().ok()?;
    let magnitude = finer.unsigned_abs().div_ceil(scale);
    let sign = if finer < 0 { "-" } else { "" };
    Some(match magnitude % 1_000 {
        0 => format!("{sign}{}", magnitude / 1_000),
        _ => format!("{sign}{magnitude}m"),
    })
}

/// Completes the pod-level resources of a pod that has some: requests default to those of
/// its containers, or else to the pod's limit.
pub(super) fn default_pod_resources(spec: &mut Object) {
    let Some(own) = tree::child(spec, "resources") else {
        return;
    };
    let has = |list: &str| !tree::is_empty(own, list);
    if has("limits") || has("requests") {
        default_huge_pages(spec);
    }
    let limited = tree::child(spec, "resources").is_some_and(|own| !tree::is_empty(own, "limits"));
    if limited {
        default_requests(spec);
    }
}

/// Huge pages cannot be overcommitted, so the pod's limit is that of its containers.
fn default_huge_pages(spec: &mut Object) {
    let totals = total(spec, "limits");
    let own = tree::child_mut(spec, "resources");
    let requests = tree::child(own, "requests").cloned().unwrap_or_default();
    for (resource, amount) in totals {
        if huge_pages(&resource) && !requests.contains_key(&resource) {
            let limits = tree::child_mut(own, "limits");
            limits.entry(resource).or_insert(amount.to_string().into());
        }
    }
}

fn default_requests(spec: &mut Object) {
    let totals = total(spec, "requests");
    let own = tree::child_mut(spec, "resources");
    let limits = tree::child(own, "limits").cloned().unwrap_or_default();
    let mut requests = tree::child(own, "requests").cloned().unwrap_or_default();
    for (resource, amount) in totals {
        if matches!(resource.as_str(), "cpu" | "memory") {
            requests
                .entry(resource)
                .or_insert(amount.to_string().into());
        }
    }
    for (resource, limit) in limits {
        if matches!(resource.as_str(), "cpu" | "memory") || huge_pages(&resource) {
            requests.entry(resource).or_insert(limit);
        }
    }
    if !requests.is_empty() {
        own.insert("requests".to_owned(), Value::Object(requests));
    }
}

fn huge_pages(resource: &str) -> bool {
    resource.starts_with("hugepages-")
}

/// Returns what the containers need together: the sum of those that run at once, or the
/// largest init container with the sidecars started before it, whichever is more.
fn total(spec: &Object, list: &str) -> BTreeMap<String, Quantity> {
    let mut running = BTreeMap::new();
    for container in tree::items(spec, "containers") {
        add(&mut running, &amounts(container, list));
    }
    let mut sidecars = BTreeMap::new();
    let mut peak = BTreeMap::new();
    for container in tree::items(spec, "initContainers") {
        let mut needs = amounts(container, list);
        if tree::text(container, "restartPolicy") == "Always" {
            add(&mut running, &needs);
            add(&mut sidecars, &needs);
            needs.clone_from(&sidecars);
        } else {
            add(&mut needs, &sidecars);
        }
        take_max(&mut peak, needs);
    }
    take_max(&mut running, peak);
    running
}

fn amounts(container: &Object, list: &str) -> BTreeMap<String, Quantity> {
    let amounts =
        tree::child(container, "resources").and_then(|resources| tree::child(resources, list));
    let amounts = amounts.into_iter().flatten();
    amounts
        .filter_map(|(resource, amount)| Some((resource.clone(), amount.as_str()?.parse().ok()?)))
        .collect()
}

fn add(sum: &mut BTreeMap<String, Quantity>, more: &BTreeMap<String, Quantity>) {
    for (resource, amount) in more {
        let sum = sum.entry(resource.clone()).or_insert(Quantity::ZERO);
        *sum = sum.plus(*amount);
    }
}

fn take_max(peak: &mut BTreeMap<String, Quantity>, other: BTreeMap<String, Quantity>) {
    for (resource, amount) in other {
        let peak = peak.entry(resource).or_insert(amount);
        *peak = (*peak).max(amount);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sub_milli_quantities_are_rounded_away_from_zero() {
        let cases = [
            ("1u", Some("1m")),
            ("1500u", Some("2m")),
            ("999999999n", Some("1")),
            ("-1u", Some("-1m")),
            ("100m", None),
            ("1Gi", None),
        ];
        for (text, wanted) in cases {
            assert_eq!(canonical_milli(text).as_deref(), wanted, "{text}");
        }
    }

    #[test]
    fn pod_requests_default_to_container_requests_then_to_limits() {
        let mut spec = serde_json::json!({
            "resources": {"limits": {"cpu": "4", "memory": "1Gi"}},
            "containers": [
                {"resources": {"requests": {"cpu": "1"}, "limits": {"hugepages-2Mi": "4Mi"}}},
                {"resources": {"requests": {"cpu": "500m"}}},
            ],
            "initContainers": [
                {"restartPolicy": "Always", "resources": {"requests": {"cpu": "250m"}}},
                {"resources": {"requests": {"cpu": "2"}}},
            ],
        });
        default_pod_resources(spec.as_object_mut().unwrap());
        let wanted = serde_json::json!({
            "limits": {"cpu": "4", "memory": "1Gi", "hugepages-2Mi": "4Mi"},
            "requests": {"cpu": "2250m", "memory": "1Gi", "hugepages-2Mi": "4Mi"},
        });
        assert_eq!(spec["resources"], wanted);
    }
}

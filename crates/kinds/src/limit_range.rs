//! LimitRange: defaults and bounds for the resources of single objects in a namespace.

use crate::defaults::tree;
use crate::quantity::Quantity;
use crate::quota::{Amounts, amounts, pod_limits, pod_requests};
use crate::{Object, Value};

/// The annotation that records which defaults a pod got.
pub const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// The largest quantity that is compared in thousandths; larger ones are compared in
/// whole units.
const MAX_MILLI_VALUE: i64 = i64::MAX / 1000;

/// Sets the default requests and limits of a new pod's containers.
pub fn apply_defaults(range: &Object, pod: &mut Object) {
    let (mut requests, mut limits) = (Amounts::new(), Amounts::new());
    for limit in limits_of(range, "Container") {
        requests.extend(amounts(Some(limit), "defaultRequest"));
        limits.extend(amounts(Some(limit), "default"));
    }
    let mut given = Vec::new();
    if let Some(spec) = tree::existing_mut(pod, "spec") {
        for (list, called) in [
            ("containers", "container"),
            ("initContainers", "init container"),
        ] {
            for container in tree::items_mut(spec, list) {
                let name = tree::text(container, "name").to_owned();
                let limited = add_defaults(container, "limits", &limits);
                let requested = add_defaults(container, "requests", &requests);
                for (names, what) in [(requested, "request"), (limited, "limit")] {
                    if !names.is_empty() {
                        given.push(format!("{} {what} for {called} {name}", names.join(", ")));
                    }
                }
            }
        }
    }
    if !given.is_empty() {
        let message = format!("LimitRanger plugin set: {}", given.join("; "));
        let annotations = tree::child_mut(tree::child_mut(pod, "metadata"), "annotations");
        annotations.insert(ANNOTATION.to_owned(), message.into());
    }
}

/// Returns the error if the resources of a pod violate the range.
pub fn validate_pod(range: &Object, pod: &Object) -> Option<String> {
    let mut messages = Vec::new();
    let spec = tree::child(pod, "spec");
    for limit in tree::child(range, "spec")
        .into_iter()
        .flat_map(|spec| tree::items(spec, "limits"))
    {
        match tree::text(limit, "type") {
            "Container" => {
                for list in ["containers", "initContainers"] {
                    for container in spec.into_iter().flat_map(|spec| tree::items(spec, list)) {
                        let resources = tree::child(container, "resources");
                        let usage = Usage {
                            of: "Container",
                            requests: amounts(resources, "requests"),
                            limits: amounts(resources, "limits"),
                        };
                        usage.check(limit, &mut messages);
                    }
                }
            }
            "Pod" => {
                let usage = Usage {
                    of: "Pod",
                    requests: pod_requests(pod),
                    limits: pod_limits(pod),
                };
                usage.check(limit, &mut messages);
            }
            _ => {}
        }
    }
    aggregate(messages)
}

/// Returns the error if the storage request of a claim violates the range.
pub fn validate_claim(range: &Object, claim: &Object) -> Option<String> {
    let resources = tree::child(claim, "spec").and_then(|spec| tree::child(spec, "resources"));
    let usage = Usage {
        of: "PersistentVolumeClaim",
        requests: amounts(resources, "requests"),
        limits: Amounts::new(),
    };
    let mut messages = Vec::new();
    for limit in limits_of(range, "PersistentVolumeClaim") {
        for (name, min) in amounts(Some(limit), "min") {
            messages.extend(usage.check_min(&name, min));
        }
        for (name, max) in amounts(Some(limit), "max") {
            let request = usage.requests.get(&name).copied();
            messages.extend(usage.check_max(&name, max, "request", request));
        }
    }
    aggregate(messages)
}

/// The resources of an object that are checked against a limit.
struct Usage {
    of: &'static str,
    requests: Amounts,
    limits: Amounts,
}

impl Usage {
    fn check(&self, limit: &Object, messages: &mut Vec<String>) {
        for (name, min) in amounts(Some(limit), "min") {
            messages.extend(self.check_min(&name, min));
        }
        for (name, max) in amounts(Some(limit), "max") {
            let (request, limit) = self.request_and_limit(&name);
            let message = self.check_max(&name, max, "limit", limit);
            let request = request.and_then(|is| self.check_max(&name, max, "request", Some(is)));
            messages.extend(message.or(request));
        }
        for (name, max) in amounts(Some(limit), "maxLimitRequestRatio") {
            messages.extend(self.check_ratio(&name, max));
        }
    }

    fn request_and_limit(&self, name: &str) -> (Option<Quantity>, Option<Quantity>) {
        let of = |list: &Amounts| list.get(name).copied();
        (of(&self.requests), of(&self.limits))
    }

    fn check_min(&self, name: &str, min: Quantity) -> Option<String> {
        let head = format!("minimum {name} usage per {} is {min}", self.of);
        match self.request_and_limit(name) {
            (None, _) => Some(format!("{head}.  No request is specified")),
            (Some(is), _) if is < min => Some(format!("{head}, but request is {is}")),
            (_, Some(is)) if is < min => Some(format!("{head}, but limit is {is}")),
            _ => None,
        }
    }

    fn check_max(
        &self,
        name: &str,
        max: Quantity,
        what: &str,
        is: Option<Quantity>,
    ) -> Option<String> {
        let head = format!("maximum {name} usage per {} is {max}", self.of);
        match is {
            None => Some(format!("{head}.  No {what} is specified")),
            Some(is) if is > max => Some(format!("{head}, but {what} is {is}")),
            Some(_) => None,
        }
    }

    /// Checks the ratio of limit to request.
    fn check_ratio(&self, name: &str, max: Quantity) -> Option<String> {
        let head = format!("{name} max limit to request ratio per {} is {max}", self.of);
        let (request, limit) = self.request_and_limit(name);
        let given = |of: Option<Quantity>| of.filter(|is| !is.is_zero());
        let Some(request) = given(request) else {
            return Some(format!(
                "{head}, but no request is specified or request is 0"
            ));
        };
        let Some(limit) = given(limit) else {
            return Some(format!("{head}, but no limit is specified or limit is 0"));
        };
        let fine = [request, limit, max]
            .iter()
            .all(|of| of.value() <= MAX_MILLI_VALUE);
        let number = |of: Quantity| match fine {
            true => of.milli_value() as f64,
            false => of.value() as f64,
        };
        let ratio = number(limit) / number(request);
        let (is, may) = match max.value() <= MAX_MILLI_VALUE {
            true => (ratio * 1000.0, max.milli_value() as f64),
            false => (ratio, max.value() as f64),
        };
        (is > may).then(|| format!("{head}, but provided ratio is {ratio:.6}"))
    }
}

fn limits_of<'a>(range: &'a Object, of: &str) -> impl Iterator<Item = &'a Object> {
    let spec = tree::child(range, "spec").into_iter();
    let all = spec.flat_map(|spec| tree::items(spec, "limits"));
    all.filter(move |limit| tree::text(limit, "type") == of)
}

/// Adds missing resources and returns their names.
fn add_defaults(container: &mut Object, list: &str, defaults: &Amounts) -> Vec<String> {
    let has = tree::child(container, "resources").and_then(|of| tree::child(of, list));
    let new = defaults
        .iter()
        .filter(|(name, _)| !has.is_some_and(|has| has.contains_key(*name)));
    let new: Vec<(String, Value)> = new
        .map(|(name, amount)| (name.clone(), amount.to_string().into()))
        .collect();
    let names = new.iter().map(|(name, _)| name.clone()).collect();
    if !new.is_empty() {
        tree::child_mut(tree::child_mut(container, "resources"), list).extend(new);
    }
    names
}

/// Joins distinct messages as upstream does.
fn aggregate(messages: Vec<String>) -> Option<String> {
    let mut unique: Vec<String> = Vec::new();
    for message in messages {
        if !unique.contains(&message) {
            unique.push(message);
        }
    }
    match unique.len() {
        0 => None,
        1 => unique.pop(),
        _ => Some(format!("[{}]", unique.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Object {
        value.as_object().cloned().unwrap_or_default()
    }

    fn range(limit: Value) -> Object {
        object(json!({"spec": {"limits": [limit]}}))
    }

    #[test]
    fn pod_violations_of_a_limit_range_are_all_reported() {
        let cases = [
            (
                json!({"type": "Container", "max": {"cpu": "2"}}),
                json!({"limits": {"cpu": "3"}, "requests": {"cpu": "1"}}),
                Some("maximum cpu usage per Container is 2, but limit is 3"),
            ),
            (
                json!({"type": "Container", "max": {"cpu": "2"}}),
                json!({}),
                Some("maximum cpu usage per Container is 2.  No limit is specified"),
            ),
            (
                json!({"type": "Container", "min": {"cpu": "100m"}}),
                json!({"requests": {"cpu": "50m"}}),
                Some("minimum cpu usage per Container is 100m, but request is 50m"),
            ),
            (
                json!({"type": "Container", "min": {"cpu": "100m"}}),
                json!({"requests": {"cpu": "100m"}, "limits": {"cpu": "10m"}}),
                Some("minimum cpu usage per Container is 100m, but limit is 10m"),
            ),
            (
                json!({"type": "Container", "maxLimitRequestRatio": {"cpu": "4"}}),
                json!({"requests": {"cpu": "100m"}, "limits": {"cpu": "1"}}),
                Some(
                    "cpu max limit to request ratio per Container is 4, but provided ratio is \
                     10.000000",
                ),
            ),
            (
                json!({"type": "Container", "maxLimitRequestRatio": {"cpu": "4"}}),
                json!({"limits": {"cpu": "1"}}),
                Some(
                    "cpu max limit to request ratio per Container is 4, but no request is \
                     specified or request is 0",
                ),
            ),
            (
                json!({"type": "Pod", "max": {"cpu": "2", "memory": "1Gi"}}),
                json!({"limits": {"cpu": "3", "memory": "2Gi"}}),
                Some(
                    "[maximum cpu usage per Pod is 2, but limit is 3, maximum memory usage per \
                     Pod is 1Gi, but limit is 2Gi]",
                ),
            ),
            (
                json!({"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "1"}}),
                json!({"requests": {"cpu": "1"}, "limits": {"cpu": "2000m"}}),
                None,
            ),
        ];
        for (limit, resources, wanted) in cases {
            let pod = object(json!({"spec": {"containers": [
                {"name": "c", "resources": resources}, {"name": "d", "resources": resources},
            ]}}));
            // The message is the same for both containers and so reported once.
            let pod = match limit["type"] == "Pod" {
                true => {
                    let one = json!({"name": "c", "resources": resources});
                    object(json!({"spec": {"containers": [one]}}))
                }
                false => pod,
            };
            let message = validate_pod(&range(limit.clone()), &pod);
            assert_eq!(message.as_deref(), wanted, "{limit} {resources}");
        }
    }

    #[test]
    fn claims_are_checked_against_min_and_max_storage() {
        let limit = range(json!({"type": "PersistentVolumeClaim",
            "min": {"storage": "1Mi"}, "max": {"storage": "1Gi"}}));
        for (usage, wanted) in [
            (
                "2Gi",
                Some("maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 2Gi"),
            ),
            (
                "1Ki",
                Some("minimum storage usage per PersistentVolumeClaim is 1Mi, but request is 1Ki"),
            ),
            ("1Gi", None),
        ] {
            let claim = object(json!({"spec": {"resources": {"requests": {"storage": usage}}}}));
            assert_eq!(validate_claim(&limit, &claim).as_deref(), wanted, "{usage}");
        }
    }

    #[test]
    fn limit_range_defaults_are_applied_and_annotated() {
        let range = range(json!({"type": "Container",
            "default": {"cpu": "2", "memory": "1Gi"}, "defaultRequest": {"cpu": "1"}}));
        let mut pod = object(json!({"metadata": {"name": "p"}, "spec": {
            "containers": [{"name": "a"}, {"name": "b", "resources": {"limits": {"cpu": "3"}}}],
            "initContainers": [{"name": "i", "resources": {
                "limits": {"cpu": "1", "memory": "1"}, "requests": {"cpu": "1"}}}],
        }}));
        apply_defaults(&range, &mut pod);
        assert_eq!(
            Value::Object(pod.clone())["metadata"]["annotations"][ANNOTATION],
            "LimitRanger plugin set: cpu request for container a; cpu, memory limit for \
             container a; cpu request for container b; memory limit for container b"
        );
        let resources = &Value::Object(pod)["spec"]["containers"][1]["resources"];
        let wanted = json!({"limits": {"cpu": "3", "memory": "1Gi"}, "requests": {"cpu": "1"}});
        assert_eq!(*resources, wanted);
    }

    #[test]
    fn pod_with_all_resources_set_is_unchanged() {
        let range = range(json!({"type": "Container", "max": {"cpu": "2"}}));
        let mut pod = object(json!({"spec": {"containers": [{"name": "a"}]}}));
        let before = pod.clone();
        apply_defaults(&range, &mut pod);
        assert_eq!(pod, before);
    }
}

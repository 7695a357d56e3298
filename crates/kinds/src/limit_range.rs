//! How much one object of a namespace may ask for, and what it gets that asks for nothing:
//! LimitRange.

use crate::defaults::tree;
use crate::quantity::Quantity;
use crate::quota::{Amounts, amounts, pod_limits, pod_requests};
use crate::{Object, Value};

/// Where it is said what a pod was given.
pub const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// The largest number whose thousandths are compared; larger ones are compared whole.
const MOST: i64 = i64::MAX / 1000;

/// Gives the containers of a new pod what they do not say themselves.
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
                let limited = give(container, "limits", &limits);
                let requested = give(container, "requests", &requests);
                for (names, what) in [(requested, "request"), (limited, "limit")] {
                    if !names.is_empty() {
                        given.push(format!("{} {what} for {called} {name}", names.join(", ")));
                    }
                }
            }
        }
    }
    if !given.is_empty() {
        let said = format!("LimitRanger plugin set: {}", given.join("; "));
        let annotations = tree::child_mut(tree::child_mut(pod, "metadata"), "annotations");
        annotations.insert(ANNOTATION.to_owned(), said.into());
    }
}

/// What a pod asks for and may not; nothing if it may.
pub fn validate_pod(range: &Object, pod: &Object) -> Option<String> {
    let mut faults = Vec::new();
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
                        let asked = Asked {
                            of: "Container",
                            requests: amounts(resources, "requests"),
                            limits: amounts(resources, "limits"),
                        };
                        asked.check(limit, &mut faults);
                    }
                }
            }
            "Pod" => {
                let asked = Asked {
                    of: "Pod",
                    requests: pod_requests(pod),
                    limits: pod_limits(pod),
                };
                asked.check(limit, &mut faults);
            }
            _ => {}
        }
    }
    aggregate(faults)
}

/// What a volume claim asks for and may not.
pub fn validate_claim(range: &Object, claim: &Object) -> Option<String> {
    let resources = tree::child(claim, "spec").and_then(|spec| tree::child(spec, "resources"));
    let asked = Asked {
        of: "PersistentVolumeClaim",
        requests: amounts(resources, "requests"),
        limits: Amounts::new(),
    };
    let mut faults = Vec::new();
    for limit in limits_of(range, "PersistentVolumeClaim") {
        for (name, least) in amounts(Some(limit), "min") {
            faults.extend(asked.below(&name, least));
        }
        for (name, most) in amounts(Some(limit), "max") {
            let request = asked.requests.get(&name).copied();
            faults.extend(asked.above(&name, most, "request", request));
        }
    }
    aggregate(faults)
}

/// What is asked for by something.
struct Asked {
    of: &'static str,
    requests: Amounts,
    limits: Amounts,
}

impl Asked {
    fn check(&self, limit: &Object, faults: &mut Vec<String>) {
        for (name, least) in amounts(Some(limit), "min") {
            faults.extend(self.below(&name, least));
        }
        for (name, most) in amounts(Some(limit), "max") {
            let (request, limit) = self.both(&name);
            let fault = self.above(&name, most, "limit", limit);
            let request = request.and_then(|is| self.above(&name, most, "request", Some(is)));
            faults.extend(fault.or(request));
        }
        for (name, most) in amounts(Some(limit), "maxLimitRequestRatio") {
            faults.extend(self.stretched(&name, most));
        }
    }

    fn both(&self, name: &str) -> (Option<Quantity>, Option<Quantity>) {
        let of = |list: &Amounts| list.get(name).copied();
        (of(&self.requests), of(&self.limits))
    }

    fn below(&self, name: &str, least: Quantity) -> Option<String> {
        let head = format!("minimum {name} usage per {} is {least}", self.of);
        match self.both(name) {
            (None, _) => Some(format!("{head}.  No request is specified")),
            (Some(is), _) if is < least => Some(format!("{head}, but request is {is}")),
            (_, Some(is)) if is < least => Some(format!("{head}, but limit is {is}")),
            _ => None,
        }
    }

    fn above(
        &self,
        name: &str,
        most: Quantity,
        what: &str,
        is: Option<Quantity>,
    ) -> Option<String> {
        let head = format!("maximum {name} usage per {} is {most}", self.of);
        match is {
            None => Some(format!("{head}.  No {what} is specified")),
            Some(is) if is > most => Some(format!("{head}, but {what} is {is}")),
            Some(_) => None,
        }
    }

    /// Whether the limit is too many times the request.
    fn stretched(&self, name: &str, most: Quantity) -> Option<String> {
        let head = format!(
            "{name} max limit to request ratio per {} is {most}",
            self.of
        );
        let (request, limit) = self.both(name);
        let given = |of: Option<Quantity>| of.filter(|is| !is.is_zero());
        let Some(request) = given(request) else {
            return Some(format!(
                "{head}, but no request is specified or request is 0"
            ));
        };
        let Some(limit) = given(limit) else {
            return Some(format!("{head}, but no limit is specified or limit is 0"));
        };
        let fine = [request, limit, most].iter().all(|of| of.value() <= MOST);
        let number = |of: Quantity| match fine {
            true => of.milli_value() as f64,
            false => of.value() as f64,
        };
        let ratio = number(limit) / number(request);
        let (is, may) = match most.value() <= MOST {
            true => (ratio * 1000.0, most.milli_value() as f64),
            false => (ratio, most.value() as f64),
        };
        (is > may).then(|| format!("{head}, but provided ratio is {ratio:.6}"))
    }
}

fn limits_of<'a>(range: &'a Object, of: &str) -> impl Iterator<Item = &'a Object> {
    let spec = tree::child(range, "spec").into_iter();
    let all = spec.flat_map(|spec| tree::items(spec, "limits"));
    all.filter(move |limit| tree::text(limit, "type") == of)
}

/// Puts in what is not there, and says what that was.
fn give(container: &mut Object, list: &str, defaults: &Amounts) -> Vec<String> {
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

/// Several faults in one text, each once.
fn aggregate(faults: Vec<String>) -> Option<String> {
    let mut said: Vec<String> = Vec::new();
    for fault in faults {
        if !said.contains(&fault) {
            said.push(fault);
        }
    }
    match said.len() {
        0 => None,
        1 => said.pop(),
        _ => Some(format!("[{}]", said.join(", "))),
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
    fn a_pod_is_told_everything_that_it_may_not_ask_for() {
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
            // Alike in both containers, so said once.
            let pod = match limit["type"] == "Pod" {
                true => {
                    let one = json!({"name": "c", "resources": resources});
                    object(json!({"spec": {"containers": [one]}}))
                }
                false => pod,
            };
            let said = validate_pod(&range(limit.clone()), &pod);
            assert_eq!(said.as_deref(), wanted, "{limit} {resources}");
        }
    }

    #[test]
    fn a_claim_is_held_to_what_one_may_ask_for() {
        let limit = range(json!({"type": "PersistentVolumeClaim",
            "min": {"storage": "1Mi"}, "max": {"storage": "1Gi"}}));
        for (asked, wanted) in [
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
            let claim = object(json!({"spec": {"resources": {"requests": {"storage": asked}}}}));
            assert_eq!(validate_claim(&limit, &claim).as_deref(), wanted, "{asked}");
        }
    }

    #[test]
    fn containers_get_what_they_do_not_ask_for_and_the_pod_says_so() {
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
    fn a_pod_that_says_everything_is_left_alone() {
        let range = range(json!({"type": "Container", "max": {"cpu": "2"}}));
        let mut pod = object(json!({"spec": {"containers": [{"name": "a"}]}}));
        let before = pod.clone();
        apply_defaults(&range, &mut pod);
        assert_eq!(pod, before);
    }
}

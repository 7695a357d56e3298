//! Comparison of quantities, and names of resources.

use std::cmp::Ordering;

use super::check::Errors;
use super::tree::Node;
use crate::text;

/// A quantity in billionths; finer ones are rounded up before they are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Amount(i128);

impl Amount {
    /// Reads the quantity of a node; zero if there is none.
    pub fn of(node: &Node<'_>) -> Self {
        match node.int() {
            Some(number) => Self(i128::from(number).saturating_mul(BILLION)),
            None => Self::parse(node.text()).unwrap_or_default(),
        }
    }

    /// Parses a quantity such as `1536Mi`.
    pub fn parse(text: &str) -> Option<Self> {
        let end = text
            .find(|letter: char| !letter.is_ascii_digit() && !matches!(letter, '.' | '+' | '-'))
            .unwrap_or(text.len());
        let (number, suffix) = text.split_at(end);
        let (negative, number) = match number.as_bytes().first() {
            Some(b'-') => (true, &number[1..]),
            Some(b'+') => (false, &number[1..]),
            _ => (false, number),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let digits = format!("{whole}{fraction}");
        let digits: i128 = digits.get(..30.min(digits.len()))?.parse().ok()?;
        let scale = 9 - i32::try_from(fraction.len()).ok()?;
        let billionths = match suffix {
            "" => shift(digits, scale),
            "n" => shift(digits, scale - 9),
            "u" => shift(digits, scale - 6),
            "m" => shift(digits, scale - 3),
            "k" => shift(digits, scale + 3),
            "M" => shift(digits, scale + 6),
            "G" => shift(digits, scale + 9),
            "T" => shift(digits, scale + 12),
            "P" => shift(digits, scale + 15),
            "E" => shift(digits, scale + 18),
            "Ki" => shift(digits.saturating_mul(1 << 10), scale),
            "Mi" => shift(digits.saturating_mul(1 << 20), scale),
            "Gi" => shift(digits.saturating_mul(1 << 30), scale),
            "Ti" => shift(digits.saturating_mul(1 << 40), scale),
            "Pi" => shift(digits.saturating_mul(1 << 50), scale),
            "Ei" => shift(digits.saturating_mul(1 << 60), scale),
            exponent => {
                let power: i32 = exponent.get(1..)?.parse().ok()?;
                shift(digits, scale.saturating_add(power))
            }
        };
        Some(Self(if negative { -billionths } else { billionths }))
    }

    /// Whether the quantity is a whole number.
    pub fn is_whole(self) -> bool {
        self.0 % BILLION == 0
    }

    /// Compares the quantity with zero.
    pub fn sign(self) -> Ordering {
        self.0.cmp(&0)
    }

    /// Whether the quantity is a multiple of the other.
    fn divides(self, other: Self) -> bool {
        self.0 > 0 && other.0 % self.0 == 0
    }

    /// Returns the ratio to the other quantity.
    pub fn ratio(self, other: Self) -> f64 {
        self.0 as f64 / other.0 as f64
    }
}

const BILLION: i128 = 1_000_000_000;

fn shift(digits: i128, power: i32) -> i128 {
    let factor = 10i128
        .checked_pow(power.unsigned_abs())
        .unwrap_or(i128::MAX);
    if power >= 0 {
        digits.saturating_mul(factor)
    } else {
        digits / factor
    }
}

const CONTAINER: &[&str] = &["cpu", "memory", "ephemeral-storage"];
const QUOTA: &[&str] = &[
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "persistentvolumeclaims",
    "configmaps",
    "services.nodeports",
    "services.loadbalancers",
];
const COUNTED: &[&str] = &[
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

/// Whether the resource is native to Kubernetes.
pub(super) fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Whether requests may be below limits.
pub(super) fn may_overcommit(name: &str) -> bool {
    is_native(name) && !name.starts_with("hugepages-")
}

/// Whether the name is a standard quota resource.
pub(super) fn is_quota_resource(name: &str) -> bool {
    QUOTA.contains(&name)
        || name.starts_with("hugepages-")
        || name.starts_with("requests.hugepages-")
}

fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && text::qualified_name(&format!("requests.{name}")).is_empty()
}

/// Validates the key of `node` as a resource name.
pub(super) fn resource_name(node: &Node<'_>, name: &str, errors: &mut Errors) {
    let messages = text::qualified_name(name);
    let standard = is_quota_resource(name) || name == "storage";
    if messages.is_empty() && !name.contains('/') && !standard {
        let detail = "must be a standard resource type or fully qualified";
        errors.push(node.invalid_as(&name.into(), detail));
    }
    for message in messages {
        errors.push(node.invalid_as(&name.into(), &message));
    }
}

/// Validates the key of `node` as a container resource name.
pub(super) fn container_resource_name(node: &Node<'_>, name: &str, errors: &mut Errors) {
    resource_name(node, name, errors);
    let detail = if !name.contains('/') {
        if CONTAINER.contains(&name) || name.starts_with("hugepages-") {
            return;
        }
        "must be a standard resource for containers"
    } else if is_native(name) || is_extended(name) {
        return;
    } else {
        "doesn't follow extended resource name standard"
    };
    errors.push(node.invalid_as(&name.into(), detail));
}

/// Validates the key of `node` as a quota resource name.
pub(super) fn quota_resource_name(node: &Node<'_>, name: &str, errors: &mut Errors) {
    resource_name(node, name, errors);
    if !name.contains('/') && !is_quota_resource(name) {
        errors.push(node.invalid_as(&name.into(), "must be a standard resource for quota"));
    }
}

/// Validates a quantity: not negative, and whole for countable resources.
pub(super) fn resource_value(node: &Node<'_>, name: &str, errors: &mut Errors) {
    let amount = Amount::of(node);
    if amount.sign().is_lt() {
        errors.push(node.invalid("must be greater than or equal to 0"));
    }
    if (COUNTED.contains(&name) || is_extended(name)) && !amount.is_whole() {
        errors.push(node.invalid("must be an integer"));
    }
}

/// Validates the limits and requests of a container or a pod.
pub(super) fn requirements(
    node: &Node<'_>,
    name: fn(&Node<'_>, &str, &mut Errors),
    errors: &mut Errors,
) {
    let (limits, requests) = (node.get("limits"), node.get("requests"));
    for (resource, limit) in limits.entries() {
        name(&limit, resource, errors);
        resource_value(&limit, resource, errors);
        huge_pages(&limit, resource, errors);
    }
    for (resource, request) in requests.entries() {
        name(&request, resource, errors);
        resource_value(&request, resource, errors);
        within_limit(&requests, &limits, resource, &request, errors);
        huge_pages(&request, resource, errors);
    }
    let has = |test: fn(&str) -> bool| {
        let mut all = limits.entries().chain(requests.entries());
        all.any(|(resource, _)| test(resource))
    };
    if has(|name| name.starts_with("hugepages-")) && !has(|name| matches!(name, "cpu" | "memory")) {
        errors.push(node.forbidden("HugePages require cpu or memory"));
    }
}

fn within_limit<'a>(
    requests: &Node<'a>,
    limits: &Node<'a>,
    resource: &'a str,
    request: &Node<'a>,
    errors: &mut Errors,
) {
    let limit = limits.entry(resource);
    let equal = may_overcommit(resource);
    if !limit.is_set() {
        if !equal {
            let detail = "Limit must be set for non overcommitable resources";
            errors.push(limits.required(detail));
        }
        return;
    }
    let max = limit
        .value()
        .as_str()
        .map_or_else(|| limit.value().to_string(), str::to_owned);
    match Amount::of(request).cmp(&Amount::of(&limit)) {
        Ordering::Equal => {}
        _ if !equal => {
            let detail = format!("must be equal to {resource} limit of {max}");
            errors.push(requests.invalid_as(request.value(), &detail));
        }
        Ordering::Greater => {
            let detail = format!("must be less than or equal to {resource} limit of {max}");
            errors.push(requests.invalid_as(request.value(), &detail));
        }
        Ordering::Less => {}
    }
}

fn huge_pages(node: &Node<'_>, resource: &str, errors: &mut Errors) {
    let Some(page) = resource.strip_prefix("hugepages-") else {
        return;
    };
    let page = Amount::parse(page).unwrap_or_default();
    if !page.divides(Amount::of(node)) {
        let value = node.text();
        let detail = format!("{value} is not positive integer multiple of {resource}");
        errors.push(node.invalid(&detail));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_compare_across_their_suffixes() {
        let amount = |text| Amount::parse(text).unwrap();
        assert_eq!(amount("1000m"), amount("1"));
        assert_eq!(amount("1.5Gi"), amount("1536Mi"));
        assert_eq!(amount("1e3"), amount("1k"));
        assert_eq!(amount("0.1"), amount("100m"));
        assert!(amount("1Gi") > amount("1G"));
        assert!(amount("-1") < amount("0"));
        assert!(!amount("500m").is_whole());
        assert_eq!(Amount::parse("x"), None);
    }
}

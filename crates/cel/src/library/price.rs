//! The prices of calls, as Kubernetes has them. They are part of its API: a rule that fits the
//! budget there fits here.

use crate::value::{Opaque, Value};

/// The price per character of a string.
const TEXT_FACTOR: f64 = 0.1;
/// The price per character of a regular expression.
const PATTERN_FACTOR: f64 = 0.25;
const LIST: u64 = 10;

/// How the cost of a call is computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Price {
    Fixed(u64),
    /// By the characters of the argument.
    Text(usize),
    /// By twice the characters of the first argument.
    TwiceText,
    /// By twice the characters of the result.
    ResultText,
    /// By the elements of the argument.
    Size(usize),
    /// By the characters of the shorter of two strings.
    Shorter,
    /// By the characters of both strings.
    Both,
    /// By the search of one string in another.
    Search,
    /// By the search of a regular expression.
    Match,
    /// By the check of a format.
    Form,
    /// By a selector: its characters, and a requirement for every other one.
    Selector,
    /// By everything in the first argument.
    Traverse,
    /// By the comparison of an address with a CIDR; true if the address must be parsed first.
    Contains(bool),
    /// By the comparison of two CIDRs; true if one must be parsed first.
    Within(bool),
    /// By a new list as long as the result.
    ListMade,
    /// By a new list, flattened.
    Flatten,
    /// By the comparison of all elements of the argument with each other.
    SelfCompare(usize),
    /// By the comparison of all elements of one list with those of another, times a factor.
    Sets(f64),
}

/// Returns the price of a function, by its name or else by its overload.
pub(crate) fn price(function: &str, overload: Option<&str>) -> Price {
    let overload = overload.unwrap_or_default();
    by_tracker(overload)
        .or_else(|| by_function(function, overload))
        .or_else(|| by_overload(overload))
        .unwrap_or(Price::Fixed(1))
}

fn by_tracker(overload: &str) -> Option<Price> {
    Some(match overload {
        "list_slice" | "lists_range" | "list_reverse" => Price::ListMade,
        "list_flatten" | "list_flatten_int" => Price::Flatten,
        "list_distinct" => Price::SelfCompare(0),
        "list_sets_contains_list" | "list_sets_intersects_list" => Price::Sets(1.0),
        "list_sets_equivalent_list" => Price::Sets(2.0),
        _ if !overload.starts_with("list_") => return None,
        _ if overload.ends_with("_sort") => Price::SelfCompare(0),
        _ if overload.ends_with("_sortByAssociatedKeys") => Price::SelfCompare(1),
        _ => return None,
    })
}

fn by_function(function: &str, overload: &str) -> Option<Price> {
    Some(match function {
        // An expression can afford two.
        "check" => Price::Fixed(350_000),
        "fieldSelector" | "labelSelector" => Price::Selector,
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => Price::Traverse,
        "url"
        | "lowerAscii"
        | "upperAscii"
        | "substring"
        | "trim"
        | "jsonpatch.escapeKey"
        | "cidr"
        | "isIP"
        | "isCIDR"
        | "quantity"
        | "isQuantity"
        | "semver"
        | "isSemver" => Price::Text(0),
        "ip" if overload == "cidr_ip" => Price::Fixed(1),
        "ip" => Price::Text(0),
        "replace" | "split" | "ip.isCanonical" => Price::TwiceText,
        "join" => Price::ResultText,
        "find" | "findAll" => Price::Match,
        "containsIP" => Price::Contains(overload == "cidr_contains_ip_string"),
        "containsCIDR" => Price::Within(overload == "cidr_contains_cidr_string"),
        "validate" => Price::Form,
        _ => return None,
    })
}

fn by_overload(overload: &str) -> Option<Price> {
    Some(match overload {
        "starts_with_string" | "ends_with_string" | "string_to_bytes" | "bytes_to_string"
        | "strings_quote" | "string_format" => Price::Text(0),
        "in_list" => Price::Size(1),
        "less_string"
        | "greater_string"
        | "less_equals_string"
        | "greater_equals_string"
        | "less_bytes"
        | "greater_bytes"
        | "less_equals_bytes"
        | "greater_equals_bytes" => Price::Shorter,
        "add_string" | "add_bytes" => Price::Both,
        "matches_string" => Price::Match,
        "contains_string" => Price::Search,
        _ => return None,
    })
}

impl Price {
    /// Returns the cost, if it depends on the arguments.
    pub(crate) fn before(self, arguments: &[&Value<'_>]) -> Option<u64> {
        let size = |at: usize| arguments.get(at).map_or(1, |value| measure(value));
        let text = |at: usize| text_cost(size(at), TEXT_FACTOR);
        Some(match self {
            Self::Fixed(cost) => cost,
            Self::Text(at) => text(at),
            Self::TwiceText => text_cost(size(0).saturating_mul(2), TEXT_FACTOR),
            Self::Size(at) => size(at),
            Self::Shorter => text_cost(size(0).min(size(1)), TEXT_FACTOR),
            Self::Both => text_cost(size(0).saturating_add(size(1)), TEXT_FACTOR),
            Self::Search => text(0).saturating_mul(text(1)),
            Self::Match => match_cost(size(0), size(1)),
            Self::Form => match arguments.first() {
                Some(Value::Opaque(Opaque::Format(format))) => match_cost(size(1), format.size),
                _ => 1,
            },
            Self::Selector => {
                let requirements = text_cost(size(1), 0.5).saturating_mul(50);
                LIST.saturating_add(text(1)).saturating_add(requirements)
            }
            Self::Traverse => arguments.first().map_or(0, |value| traverse(value)),
            Self::Contains(parsed) => {
                text_cost(size(0) * 2, TEXT_FACTOR) + if parsed { text(1) } else { 0 }
            }
            Self::Within(parsed) => {
                let other = if parsed { text(1) } else { 0 };
                text_cost(size(0) * 2, TEXT_FACTOR) + text(0) + 1 + other
            }
            Self::Flatten => {
                let depth = match arguments.get(1) {
                    Some(Value::Int(depth)) => *depth as f64,
                    _ => 1.0,
                };
                listed(size(0), depth)
            }
            Self::SelfCompare(at) => self_compare(arguments.get(at).copied()),
            Self::Sets(times) => 1 + (size(0).saturating_mul(size(1)) as f64 * times) as u64,
            Self::ResultText | Self::ListMade => return None,
        })
    }

    /// Returns the cost, if it depends on the size of the result.
    pub(crate) fn after(self, size: impl FnOnce() -> usize) -> Option<u64> {
        match self {
            Self::ResultText => Some(text_cost((size() as u64).saturating_mul(2), TEXT_FACTOR)),
            Self::ListMade => Some(listed(size() as u64, 1.0)),
            _ => None,
        }
    }
}

/// The cost of `==` and `!=`.
pub(crate) fn equality_cost(one: &Value<'_>, two: &Value<'_>, differ: bool) -> u64 {
    if !differ && matches!(one, Value::Opaque(_)) {
        return 1;
    }
    text_cost(held(one).min(held(two)), TEXT_FACTOR)
}

/// The size of the value in an optional.
fn held(value: &Value<'_>) -> u64 {
    match value {
        Value::Optional(Some(value)) => held(value),
        other => measure(other),
    }
}

fn measure(value: &Value<'_>) -> u64 {
    match value {
        Value::Opaque(Opaque::Ip(ip)) => {
            if ip.is_ipv4() {
                4
            } else {
                16
            }
        }
        Value::Opaque(Opaque::Cidr(cidr)) => u64::from(cidr.prefix_len()).div_ceil(8),
        other => other.size().unwrap_or(1) as u64,
    }
}

fn text_cost(size: u64, factor: f64) -> u64 {
    (size as f64 * factor).ceil() as u64
}

/// The cost of a match. An empty text still costs the expression.
fn match_cost(text: u64, pattern: u64) -> u64 {
    let text = ((1.0 + text as f64) * TEXT_FACTOR).ceil() as u64;
    text.saturating_mul(text_cost(pattern, PATTERN_FACTOR))
}

fn listed(size: u64, factor: f64) -> u64 {
    ((size as f64 * factor) as u64).saturating_add(1 + LIST)
}

fn self_compare(list: Option<&Value<'_>>) -> u64 {
    let Some(Value::List(list)) = list else {
        return listed(0, 2.0);
    };
    let text = matches!(list.get(0), Some(Ok(Value::String(_) | Value::Bytes(_))));
    let size = list.len() as u64;
    listed(
        size.saturating_mul(size),
        if text { 2.0 + TEXT_FACTOR } else { 2.0 },
    )
}

fn traverse(value: &Value<'_>) -> u64 {
    match value {
        Value::String(text) => (text.len() as f64 * TEXT_FACTOR) as u64,
        Value::Bytes(bytes) => (bytes.len() as f64 * TEXT_FACTOR) as u64,
        Value::List(list) => {
            let elements = list.iter().map(|value| value.as_ref().map_or(1, traverse));
            elements.fold(0, u64::saturating_add)
        }
        Value::Map(map) => {
            let members = map.keys().into_iter().map(|key| {
                let value = map.find(&key);
                let value = value.map_or(1, |value| value.as_ref().map_or(1, traverse));
                traverse(&key).saturating_add(value)
            });
            members.fold(0, u64::saturating_add)
        }
        _ => 1,
    }
}

//! The parts that messages about violations have in common.

use std::collections::BTreeSet;

/// Returns `one` or `many`, by the number.
pub const fn plural<'a>(one: &'a str, many: &'a str, count: usize) -> &'a str {
    match count {
        1 => one,
        _ => many,
    }
}

/// Quotes the items and separates them by commas, without escaping: `"a", "b"`.
pub fn join_quoted<'a>(items: impl IntoIterator<Item = &'a str>) -> String {
    let quoted: Vec<_> = items
        .into_iter()
        .map(|item| format!("\"{item}\""))
        .collect();
    quoted.join(", ")
}

/// Names of containers: `container "a"`, `containers "a", "b"`.
pub fn containers(names: &[&str]) -> String {
    let noun = plural("container", "containers", names.len());
    format!("{noun} {}", join_quoted(names.iter().copied()))
}

/// The pod, containers, or both: `pod and container "a"`. `None` if neither is at fault.
pub fn setters(pod: bool, names: &[&str]) -> Option<String> {
    match (pod, names.is_empty()) {
        (false, true) => None,
        (true, true) => Some("pod".to_owned()),
        (false, false) => Some(containers(names)),
        (true, false) => Some(format!("pod and {}", containers(names))),
    }
}

/// Quotes the values in their order: `"a", "b"`.
pub fn join_set(values: &BTreeSet<&str>) -> String {
    join_quoted(values.iter().copied())
}

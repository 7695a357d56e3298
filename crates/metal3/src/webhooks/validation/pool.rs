//! Validation of the ranges of a pool.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::ipam::kinds::PoolEntry;
use crate::ipam::range::{Address, Range};

use super::Change;

/// Returns the problems of a pool: ranges without an address, and addresses that are reserved or
/// in use and in no range.
pub(super) fn problems(change: &Change<'_>) -> Vec<String> {
    let is_changed = |pointer: &str| change.new.pointer(pointer) != change.old.pointer(pointer);
    let are_ranges_changed = is_changed("/spec/pools");
    if !are_ranges_changed && !is_changed("/spec/preAllocations") {
        return Vec::new();
    }
    let entries = change.new.pointer("/spec/pools").and_then(Value::as_array);
    let entries = entries.into_iter().flatten();
    let ranges: Vec<_> = entries
        .map(|entry| {
            // The schema refuses what cannot be read.
            let entry: PoolEntry = serde_json::from_value(entry.clone()).ok()?;
            Range::of(&entry)
        })
        .collect();
    let empty = ranges.iter().enumerate().filter(|(_, it)| it.is_none());
    let mut problems: Vec<_> = empty
        .map(|(index, _)| format!("spec.pools[{index}]: must have an address"))
        .collect();
    let is_outside = |text: &str| {
        let address = Address::parse(text);
        let mut ranges = ranges.iter().flatten();
        address.is_some_and(|address| !ranges.any(|range| range.contains(address)))
    };
    let mut claims: BTreeMap<Address, &str> = BTreeMap::new();
    for (claim, text) in texts(change.new, "/spec/preAllocations") {
        let path = format!("spec.preAllocations[{claim}]");
        if is_outside(text) {
            problems.push(format!("{path}: {text} is in none of the pools"));
        }
        let other = Address::parse(text).and_then(|address| claims.insert(address, claim));
        problems.extend(other.map(|other| format!("{path}: {text} is also that of {other}")));
    }
    if are_ranges_changed {
        let used = texts(change.old, "/status/indexes").filter(|(_, text)| is_outside(text));
        problems.extend(used.map(|(claim, text)| {
            format!("spec.pools: {text} is used by {claim} and would be in none of them")
        }));
    }
    problems
}

/// Returns the texts of a map.
fn texts<'a>(object: &'a Value, pointer: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let map = object.pointer(pointer).and_then(Value::as_object);
    let entries = map.into_iter().flatten();
    entries.filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pool(pools: Value, reserved: Value, used: Value) -> Value {
        json!({
            "spec": {"pools": pools, "preAllocations": reserved},
            "status": {"indexes": used},
        })
    }

    #[test]
    fn addresses_of_claims_are_in_the_ranges() {
        let range = json!([{"start": "192.0.2.10", "end": "192.0.2.20"}]);
        let other =
            json!([{"start": "192.0.2.10", "end": "192.0.2.9"}, {"subnet": "2001:db8::/64"}]);
        let none = || json!({});
        let used = || json!({"u": "192.0.2.15"});
        for (new, old, expected) in [
            (
                pool(range.clone(), json!({"a": "192.0.2.10"}), none()),
                Value::Null,
                vec![],
            ),
            (
                pool(range.clone(), json!({"a": "192.0.2.21"}), none()),
                Value::Null,
                vec!["spec.preAllocations[a]: 192.0.2.21 is in none of the pools"],
            ),
            (
                pool(
                    range.clone(),
                    json!({"a": "192.0.2.10", "b": "::ffff:192.0.2.10"}),
                    none(),
                ),
                Value::Null,
                vec!["spec.preAllocations[b]: ::ffff:192.0.2.10 is also that of a"],
            ),
            (
                pool(other.clone(), none(), used()),
                pool(range.clone(), none(), used()),
                vec![
                    "spec.pools[0]: must have an address",
                    "spec.pools: 192.0.2.15 is used by u and would be in none of them",
                ],
            ),
            // What an update does not change is not validated.
            (
                pool(other.clone(), none(), used()),
                pool(other, none(), used()),
                vec![],
            ),
        ] {
            let change = Change {
                new: &new,
                old: &old,
            };
            assert_eq!(problems(&change), expected, "{new}");
        }
    }
}

//! The order of API versions.

use std::cmp::Ordering;

/// Orders versions by preference: stable ones, then beta, then alpha, each from high to
/// low, then all others.
pub fn version_order(a: &str, b: &str) -> Ordering {
    match (rank(a), rank(b)) {
        (Some(a), Some(b)) => b.cmp(&a),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

/// Splits `v2beta1` into its stage, its number and the number within the stage.
fn rank(version: &str) -> Option<(u8, u64, u64)> {
    let number = |text: &str| match text.bytes().all(|byte| byte.is_ascii_digit()) {
        // Numbers that overflow a Go integer do not count as version numbers.
        true => text.parse::<i64>().ok().map(i64::unsigned_abs),
        false => None,
    };
    let rest = version.strip_prefix('v')?;
    for (stage, name) in [(0, "alpha"), (1, "beta")] {
        if let Some((major, minor)) = rest.split_once(name) {
            return Some((stage, number(major)?, number(minor)?));
        }
    }
    Some((2, number(rest)?, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_preferred_by_stage_then_by_number() {
        let mut versions = [
            "v1alpha1",
            "foo1",
            "v10",
            "v1beta2",
            "v2",
            "v11alpha2",
            "v3beta1",
            "bar",
            "v12alpha1",
            "v1",
            "v11beta2",
            "v99999999999999999999",
            "v1beta",
        ];
        versions.sort_by(|a, b| version_order(a, b));
        let wanted = [
            "v10",
            "v2",
            "v1",
            "v11beta2",
            "v3beta1",
            "v1beta2",
            "v12alpha1",
            "v11alpha2",
            "v1alpha1",
            "bar",
            "foo1",
            "v1beta",
            "v99999999999999999999",
        ];
        assert_eq!(versions, wanted);
    }
}

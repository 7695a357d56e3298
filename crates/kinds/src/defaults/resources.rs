//! Lists of resources: amounts finer than a thousandth are rounded up.

use serde_json::Value;

use super::tree;
use crate::Object;
use crate::types::Shape;

/// Whether Kubernetes rounds what a field of this shape in this type holds.
pub(super) fn rounded(of: &str, shape: &Shape) -> bool {
    // The amounts that devices take are of another type in Go, and are kept.
    let kept = of == "api.core.v1.NodeAllocatableResourceClaimStatus";
    let quantities = matches!(shape, Shape::Map(of) if **of == Shape::Quantity);
    quantities && !kept && of.starts_with("api.core.v1.")
}

/// Rounds the amounts in a field up to thousandths, away from zero.
pub(super) fn round(object: &mut Object, json: &str) {
    let Some(amounts) = tree::existing_mut(object, json) else {
        return;
    };
    for amount in amounts.values_mut() {
        if let Some(rounded) = amount.as_str().and_then(thousandths) {
            *amount = Value::from(rounded);
        }
    }
}

/// The canonical text of an amount in thousandths, if it was written finer than that:
/// only the suffixes `u` and `n` are.
fn thousandths(text: &str) -> Option<String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_finer_than_a_thousandth_is_rounded_away_from_zero() {
        let cases = [
            ("1u", Some("1m")),
            ("1500u", Some("2m")),
            ("999999999n", Some("1")),
            ("-1u", Some("-1m")),
            ("100m", None),
            ("1Gi", None),
        ];
        for (text, wanted) in cases {
            assert_eq!(thousandths(text).as_deref(), wanted, "{text}");
        }
    }
}

//! Rules that many fields share; each appends an error for a violation.

use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::Value;

use super::tree::Node;
use crate::FieldError;
use crate::selector::LabelSelector;
use crate::text::{self, Messages};

/// The errors found so far.
pub type Errors = Vec<FieldError>;

/// The error of a change to an immutable field.
pub(super) const IMMUTABLE: &str = "field is immutable";

const NOT_NEGATIVE: &str = "must be greater than or equal to 0";

/// Checks that the string has the format.
pub fn format(node: &Node<'_>, rule: fn(&str) -> Messages, errors: &mut Errors) {
    for message in rule(node.text()) {
        errors.push(node.invalid_text(&message));
    }
}

/// Checks that the string has the format, if it is set.
pub(super) fn format_if_set(node: &Node<'_>, rule: fn(&str) -> Messages, errors: &mut Errors) {
    if !node.is_empty() {
        format(node, rule, errors);
    }
}

/// Checks that the string is set and has the format.
pub fn required_format(node: &Node<'_>, rule: fn(&str) -> Messages, errors: &mut Errors) {
    if required(node, errors) {
        format(node, rule, errors);
    }
}

/// Checks that the field is set and not empty.
pub fn required(node: &Node<'_>, errors: &mut Errors) -> bool {
    if node.is_empty() {
        errors.push(node.required(""));
    }
    !node.is_empty()
}

/// Checks that the string is set and one of `known`, which errors list in this order.
pub fn one_of(node: &Node<'_>, known: &[&str], errors: &mut Errors) {
    if required(node, errors) {
        one_of_if_set(node, known, errors);
    }
}

/// Checks that the string, if set, is one of `known`.
pub fn one_of_if_set(node: &Node<'_>, known: &[&str], errors: &mut Errors) {
    if node.is_set() && !known.contains(&node.text()) {
        errors.push(node.not_supported(known));
    }
}

/// Checks that the integer is not negative.
pub(super) fn nonnegative(node: &Node<'_>, errors: &mut Errors) {
    if node.int().is_some_and(|number| number < 0) {
        errors.push(node.invalid(NOT_NEGATIVE));
    }
}

/// Checks that the members are not negative.
pub(super) fn all_nonnegative<'a>(node: &Node<'a>, names: &[&'a str], errors: &mut Errors) {
    for name in names {
        nonnegative(&node.get(name), errors);
    }
}

/// Checks that the integer is positive.
pub fn positive(node: &Node<'_>, errors: &mut Errors) {
    if node.int().unwrap_or_default() <= 0 {
        errors.push(node.invalid_int("must be greater than zero"));
    }
}

/// Checks that the field has not changed.
pub fn immutable(old: &Node<'_>, new: &Node<'_>, errors: &mut Errors) {
    if !new.same(old) {
        errors.push(new.invalid(IMMUTABLE));
    }
}

/// Validates a port number.
pub fn port(node: &Node<'_>, errors: &mut Errors) {
    for message in text::port_number(node.int().unwrap_or_default()) {
        errors.push(node.invalid_int(&message));
    }
}

/// Validates a port number or name.
pub(super) fn port_or_name(node: &Node<'_>, errors: &mut Errors) {
    match node.value() {
        Value::String(_) => format(node, text::port_name, errors),
        _ => port(node, errors),
    }
}

/// Validates a user or group ID.
pub(super) fn posix_id(node: &Node<'_>, errors: &mut Errors) {
    if let Some(id) = node.int() {
        for message in text::posix_id(id) {
            errors.push(node.invalid(&message));
        }
    }
}

/// Validates a number that is not negative, or a percentage.
pub(super) fn int_or_percent(node: &Node<'_>, errors: &mut Errors) {
    match node.value() {
        Value::String(percent) => {
            for message in text::percent(percent) {
                errors.push(node.invalid(&message));
            }
        }
        _ => nonnegative(node, errors),
    }
}

/// Validates a percentage of at most 100 %.
pub(super) fn not_above_100_percent(node: &Node<'_>, errors: &mut Errors) {
    let percent = node.text().strip_suffix('%');
    let percent = percent.and_then(|digits| digits.parse::<u64>().ok());
    if percent.is_some_and(|percent| percent > 100) {
        errors.push(node.invalid("must not be greater than 100%"));
    }
}

/// Returns the integer, or the number of the percentage.
pub fn number_of(node: &Node<'_>) -> i64 {
    let percent = || {
        node.text()
            .trim_end_matches('%')
            .parse()
            .unwrap_or_default()
    };
    node.int().unwrap_or_else(percent)
}

/// Validates an IP address.
pub fn ip(node: &Node<'_>, errors: &mut Errors) {
    format(node, ip_messages, errors);
}

/// Returns the errors of an IP address.
pub(super) fn ip_messages(text: &str) -> Messages {
    let message = match text.parse::<IpAddr>() {
        Ok(IpAddr::V6(address)) if address.to_ipv4_mapped().is_some() => {
            "must not be an IPv4-mapped IPv6 address"
        }
        Ok(_) => return Vec::new(),
        Err(_) if has_leading_zeros(text) => "must not have leading 0s",
        Err(_) => "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
    };
    vec![message.to_owned()]
}

/// Whether octets have leading zeros, which were once read as decimal.
fn has_leading_zeros(address: &str) -> bool {
    let octets: Vec<_> = address.split('.').collect();
    octets.len() == 4
        && octets.iter().all(|octet| {
            octet.len() <= 3
                && octet.bytes().all(|byte| byte.is_ascii_digit())
                && octet.parse::<u8>().is_ok()
        })
}

/// Validates a block of addresses such as `10.0.0.0/8`.
pub fn cidr(node: &Node<'_>, errors: &mut Errors) {
    let Some(block) = parse_cidr(node.text()) else {
        let detail = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
        errors.push(node.invalid_text(detail));
        return;
    };
    if block.trunc() != block {
        let detail = "must not have bits set beyond the prefix length";
        errors.push(node.invalid_text(detail));
    }
}

/// Parses an address and the length of its prefix. The address may have bits set beyond the
/// prefix; [`IpNet::trunc`] clears them.
pub fn parse_cidr(text: &str) -> Option<IpNet> {
    let (address, bits) = text.split_once('/')?;
    IpNet::new(address.parse().ok()?, bits.parse().ok()?).ok()
}

/// Validates a relative path without `..`.
pub(super) fn relative_path(node: &Node<'_>, errors: &mut Errors) {
    if node.text().starts_with('/') {
        errors.push(node.invalid_text("must be a relative path"));
    }
    no_backsteps(node, errors);
}

/// Validates a relative path that is not reserved for the volume implementation.
pub(super) fn non_reserved_path(node: &Node<'_>, errors: &mut Errors) {
    relative_path(node, errors);
    if node.text().starts_with("..") && !node.text().starts_with("../") {
        errors.push(node.invalid_text("must not start with '..'"));
    }
}

/// Validates a path without `..`.
pub(super) fn no_backsteps(node: &Node<'_>, errors: &mut Errors) {
    if node.text().split('/').any(|part| part == "..") {
        errors.push(node.invalid_text("must not contain '..'"));
    }
}

/// Validates a selector that matches the labels of the template.
pub(super) fn selects_template(selector: &Node<'_>, labels: &Node<'_>, errors: &mut Errors) {
    let Some(selector) = selector.object() else {
        // A missing selector matches nothing.
        errors.push(labels.invalid(UNSELECTED));
        return;
    };
    let Ok(selector) = LabelSelector::from_object(selector) else {
        return;
    };
    if !selector.matches_labels(labels.object()) {
        errors.push(labels.invalid(UNSELECTED));
    }
}

const UNSELECTED: &str = "`selector` does not match template `labels`";

/// Formats a selector as Go does, with `matchLabels` first.
pub(super) fn printed_selector(selector: &Node<'_>) -> String {
    let members = ["matchLabels", "matchExpressions"].into_iter();
    let printed: Vec<_> = members
        .filter(|name| !selector.get(name).is_empty())
        .map(|name| format!("\"{name}\":{}", selector.get(name).value()))
        .collect();
    if selector.is_set() {
        format!("{{{}}}", printed.join(","))
    } else {
        "null".to_owned()
    }
}

/// Checks that the selector has not changed.
pub(super) fn immutable_selector(old: &Node<'_>, new: &Node<'_>, errors: &mut Errors) {
    if !new.same(old) {
        errors.push(invalid_selector(new, IMMUTABLE));
    }
}

/// Returns the error of an invalid selector.
pub(super) fn invalid_selector(selector: &Node<'_>, detail: &str) -> FieldError {
    let printed = printed_selector(selector);
    FieldError::invalid_printed(selector.path.to_string(), &printed, detail)
}

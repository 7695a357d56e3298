//! The named formats of strings.

use insula_kinds::text;

use super::{Body, no_overload, url};
use crate::value::{Format, Opaque, Outcome, Text, Value};

const UUID: &str = r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$";
const DATE_TIME: &str = r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$";

static FORMATS: [Format; 13] = [
    format("dns1123Label", 30, text::dns_label),
    format("dns1123Subdomain", 60, text::dns_subdomain),
    format("dns1035Label", 30, text::dns1035_label),
    format("qualifiedName", 60, text::qualified_name),
    format("dns1123LabelPrefix", 30, |text| {
        text::dns_label(&masked(text))
    }),
    format("dns1123SubdomainPrefix", 60, |text| {
        text::dns_subdomain(&masked(text))
    }),
    format("dns1035LabelPrefix", 30, |text| {
        text::dns1035_label(&masked(text))
    }),
    format("labelValue", 40, text::label_value),
    format("uri", 1103, |text| url::fault(text).into_iter().collect()),
    format("uuid", UUID.len() as u64, |text| {
        unless(is_uuid(text), "does not match the UUID format")
    }),
    format("byte", 84, |text| unless(is_base64(text), "invalid base64")),
    format("date", DATE_TIME.len() as u64, |text| {
        unless(is_date(text), "invalid date")
    }),
    format("datetime", DATE_TIME.len() as u64, |text| {
        unless(is_date_time(text), "invalid datetime")
    }),
];

const fn format(name: &'static str, size: u64, faults: fn(&str) -> Vec<String>) -> Format {
    Format { name, size, faults }
}

pub(super) fn body(function: &str, arguments: usize) -> Option<Body> {
    macro_rules! constant {
        ($at:literal) => {
            Body::None(|| Value::Opaque(Opaque::Format(&FORMATS[$at])))
        };
    }
    Some(match (function, arguments) {
        ("format.dns1123Label", 0) => constant!(0),
        ("format.dns1123Subdomain", 0) => constant!(1),
        ("format.dns1035Label", 0) => constant!(2),
        ("format.qualifiedName", 0) => constant!(3),
        ("format.dns1123LabelPrefix", 0) => constant!(4),
        ("format.dns1123SubdomainPrefix", 0) => constant!(5),
        ("format.dns1035LabelPrefix", 0) => constant!(6),
        ("format.labelValue", 0) => constant!(7),
        ("format.uri", 0) => constant!(8),
        ("format.uuid", 0) => constant!(9),
        ("format.byte", 0) => constant!(10),
        ("format.date", 0) => constant!(11),
        ("format.datetime", 0) => constant!(12),
        ("format.named", 1) => Body::One(|_, name| named(&name)),
        ("validate", 2) => Body::Two(|_, format, text| validate(&format, &text)),
        _ => return None,
    })
}

fn named<'a>(name: &Value<'_>) -> Outcome<'a> {
    let Value::String(name) = name else {
        return Err(no_overload("format.named", &[name]));
    };
    let found = FORMATS.iter().find(|format| format.name == &**name);
    let found = found.map(|format| Value::some(Value::Opaque(Opaque::Format(format))));
    Ok(found.unwrap_or(Value::NONE))
}

/// Returns an optional with the errors of a string, empty if it is valid.
fn validate<'a>(format: &Value<'_>, text: &Value<'_>) -> Outcome<'a> {
    let (Value::Opaque(Opaque::Format(known)), Value::String(text)) = (format, text) else {
        return Err(no_overload("validate", &[format, text]));
    };
    let faults = (known.faults)(text);
    if faults.is_empty() {
        return Ok(Value::NONE);
    }
    let faults = faults
        .into_iter()
        .map(|fault| Value::String(Text::from(fault)));
    Ok(Value::some(faults.collect::<Vec<_>>().into()))
}

fn unless(well: bool, fault: &str) -> Vec<String> {
    if well {
        Vec::new()
    } else {
        vec![fault.to_owned()]
    }
}

/// Allows a trailing dash, because a prefix is followed by more text.
fn masked(text: &str) -> String {
    match text.strip_suffix('-') {
        Some(rest) if !rest.is_empty() => {
            let mut rest = rest.to_owned();
            rest.pop();
            rest + "a"
        }
        _ => text.to_owned(),
    }
}

fn is_uuid(text: &str) -> bool {
    let mut rest = text;
    for (at, length) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if at > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        let Some((group, after)) = rest.split_at_checked(length) else {
            return false;
        };
        if !group.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return false;
        }
        rest = after;
    }
    rest.is_empty()
}

fn is_base64(text: &str) -> bool {
    let digits = text.trim_end_matches('=');
    let padding = text.len() - digits.len();
    let known = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/';
    !text.is_empty() && text.len().is_multiple_of(4) && padding <= 2 && digits.bytes().all(known)
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && crate::value::parse_timestamp(&format!("{text}T00:00:00Z")).is_some()
}

fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else {
        return false;
    };
    is_date(date) && is_time(time)
}

/// Checks `23:59:59.9z`, or a time with any offset.
fn is_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    let two = |at: usize, most: &[u8; 2]| {
        let digits = bytes.get(at..at + 2);
        digits.is_some_and(|two| two.iter().all(u8::is_ascii_digit) && two <= &most[..])
    };
    let colons = bytes.get(2) == Some(&b':') && bytes.get(5) == Some(&b':');
    if !(colons && two(0, b"23") && two(3, b"59") && two(6, b"59")) {
        return false;
    }
    let zone = |rest: &[u8]| match rest {
        [b'z'] => true,
        [b'+' | b'-', a, b, b':', c, d] => [a, b, c, d].iter().all(|digit| digit.is_ascii_digit()),
        _ => false,
    };
    let rest = &text[8..];
    if zone(rest.as_bytes()) {
        return true;
    }
    // Any character can precede a fraction.
    let Some(first) = rest.chars().next() else {
        return false;
    };
    let fraction = &rest[first.len_utf8()..];
    let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
    (1..=digits).any(|digits| zone(&fraction.as_bytes()[digits..]))
}

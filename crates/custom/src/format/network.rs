//! Host names and network addresses.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use regex::Regex;

/// A host name: letters and symbols of all scripts, with inner dashes.
pub(super) fn is_hostname(text: &str) -> bool {
    let short = text.len() <= 255 && text.split('.').all(|label| label.len() <= 63);
    short && (is_single_label(text) || is_domain(text))
}

/// One label. Only its second character may be a dash.
fn is_single_label(text: &str) -> bool {
    let mut letters = text.chars();
    let first = letters.next().is_some_and(is_host_letter);
    let rest = letters.as_str();
    let rest = rest.strip_prefix('-').unwrap_or(rest);
    first && rest.chars().count() <= 62 && rest.chars().all(is_host_letter)
}

/// Labels, and a top-level domain of letters only.
fn is_domain(text: &str) -> bool {
    let Some((labels, top)) = text.rsplit_once('.') else {
        return false;
    };
    let length = top.chars().count();
    (2..=63).contains(&length) && top.chars().all(is_letter) && labels.split('.').all(is_label)
}

fn is_label(text: &str) -> bool {
    let mut letters = text.chars();
    let ends = [letters.next(), letters.next_back()];
    let middle = letters.as_str();
    ends[0].is_some()
        && ends.into_iter().flatten().all(is_host_letter)
        && middle.chars().count() <= 61
        && middle
            .chars()
            .all(|letter| letter == '-' || is_host_letter(letter))
}

fn is_letter(letter: char) -> bool {
    static LETTER: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\p{L}$").ok());
    letter.is_ascii_alphabetic() || (!letter.is_ascii() && is_of(&LETTER, letter))
}

fn is_host_letter(letter: char) -> bool {
    static SYMBOL: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^[\p{S}\p{L}]$").ok());
    letter.is_ascii_alphanumeric() || (letter != '-' && is_of(&SYMBOL, letter))
}

fn is_of(class: &Option<Regex>, letter: char) -> bool {
    let mut buffer = [0; 4];
    let text = letter.encode_utf8(&mut buffer);
    class.as_ref().is_some_and(|class| class.is_match(text))
}

/// A dotted address. Leading zeros are allowed, as in older versions of Go.
pub(super) fn is_ipv4(text: &str) -> bool {
    text.contains('.') && is_sloppy_ip(text)
}

/// An address with colons, parsed as strictly as in Go.
pub(super) fn is_ipv6(text: &str) -> bool {
    text.contains(':') && text.parse::<Ipv6Addr>().is_ok()
}

/// An address with a prefix length.
pub(super) fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else {
        return false;
    };
    let most = if is_sloppy_ipv4(address) {
        32
    } else if is_sloppy_ipv6(address) {
        128
    } else {
        return false;
    };
    let digits = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
    // Leading zeros are ignored.
    let significant = length.trim_start_matches('0');
    digits && significant.len() <= 3 && significant.parse::<u32>().unwrap_or(0) <= most
}

fn is_sloppy_ip(text: &str) -> bool {
    is_sloppy_ipv4(text) || is_sloppy_ipv6(text)
}

fn is_sloppy_ipv4(text: &str) -> bool {
    sloppy_ipv4(text).is_some()
}

fn sloppy_ipv4(text: &str) -> Option<Ipv4Addr> {
    let mut parts = text.split('.');
    let mut numbers = [0; 4];
    for number in &mut numbers {
        let part = parts.next()?;
        let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        let significant = part.trim_start_matches('0');
        *number = match (digits, significant) {
            (true, "") => 0,
            (true, significant) => significant.parse().ok()?,
            (false, _) => return None,
        };
    }
    parts.next().is_none().then(|| Ipv4Addr::from(numbers))
}

/// The part after the last colon may be a dotted address with leading zeros.
fn is_sloppy_ipv6(text: &str) -> bool {
    let Some((before, last)) = text.rsplit_once(':') else {
        return false;
    };
    match sloppy_ipv4(last).filter(|_| last.contains('.')) {
        Some(address) => format!("{before}:{address}").parse::<Ipv6Addr>().is_ok(),
        None => text.parse::<Ipv6Addr>().is_ok(),
    }
}

/// 6, 8 or 20 bytes: separated by colons, by dashes, by a dot after every second byte, or not
/// at all.
pub(super) fn is_mac(text: &str) -> bool {
    let hexadecimal = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let groups = |separator: char, width: usize| {
        let mut count = 0;
        let right = text.split(separator).all(|group| {
            count += 1;
            group.len() == width && hexadecimal(group)
        });
        right.then_some(count * width / 2)
    };
    let bytes = match (text.as_bytes().get(2), text.as_bytes().get(4)) {
        (Some(b':'), _) => groups(':', 2),
        (Some(b'-'), _) => groups('-', 2),
        (_, Some(b'.')) => groups('.', 4),
        _ => (text.len().is_multiple_of(2) && hexadecimal(text)).then_some(text.len() / 2),
    };
    matches!(bytes, Some(6 | 8 | 20))
}

/// A lower-case label.
pub(super) fn is_short_name(text: &str) -> bool {
    text.len() <= 63 && is_lower_label(text)
}

/// Lower-case labels, separated by dots.
pub(super) fn is_long_name(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_lower_label)
}

fn is_lower_label(text: &str) -> bool {
    let is_letter = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.first().is_some_and(is_letter)
        && bytes.last().is_some_and(is_letter)
        && bytes.iter().all(|byte| *byte == b'-' || is_letter(byte))
}

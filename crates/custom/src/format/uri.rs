//! What a request can ask for: an absolute URI or an absolute path.

use std::net::{IpAddr, Ipv6Addr};

/// Whether Go takes it for the URI of a request.
pub(super) fn is_request_uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|byte| byte.is_ascii_control()) {
        return false;
    }
    if text == "*" {
        return true;
    }
    let Some((scheme, rest)) = scheme(text) else {
        return false;
    };
    let rest = rest.split_once('?').map_or(rest, |(rest, _)| rest);
    if !rest.starts_with('/') {
        return !scheme.is_empty();
    }
    match rest.strip_prefix("//").filter(|_| !scheme.is_empty()) {
        Some(rest) => {
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            is_authority(scheme, authority) && is_escaped(path)
        }
        None => is_escaped(rest),
    }
}

/// The scheme, which may be missing but not empty, and the rest.
fn scheme(text: &str) -> Option<(&str, &str)> {
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            byte if byte.is_ascii_alphabetic() => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if index > 0 => {}
            b':' if index == 0 => return None,
            b':' => return Some((&text[..index], &text[index + 1..])),
            _ => break,
        }
    }
    Some(("", text))
}

fn is_authority(scheme: &str, authority: &str) -> bool {
    let Some((user, host)) = authority.rsplit_once('@') else {
        return is_host(scheme, authority);
    };
    is_host(scheme, host) && user.bytes().all(is_of_user) && is_escaped(user)
}

fn is_of_user(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte)
}

fn is_host(scheme: &str, host: &str) -> bool {
    match (host.rfind('['), host.find(':')) {
        (Some(0), _) => {
            let Some((literal, port)) = host[1..].rsplit_once(']') else {
                return false;
            };
            is_port(port) && is_literal(literal)
        }
        (Some(_), _) => false,
        (None, Some(first)) => {
            let web = ["http", "https"]
                .iter()
                .any(|web| scheme.eq_ignore_ascii_case(web));
            let colon = match host.rfind(':') {
                Some(last) if !web => last,
                _ => first,
            };
            is_port(&host[colon..]) && is_of_host(host)
        }
        (None, None) => is_of_host(host),
    }
}

/// Nothing, or a colon and digits.
fn is_port(text: &str) -> bool {
    text.is_empty()
        || text
            .strip_prefix(':')
            .is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
}

/// An IPv6 address with or without a zone.
fn is_literal(text: &str) -> bool {
    match text.split_once("%25") {
        None => {
            is_of_host(text)
                && unescaped(text).is_some_and(|text| matches!(text.parse(), Ok(IpAddr::V6(_))))
        }
        Some((address, zone)) => {
            let zone = unescaped(zone);
            is_of_host(address)
                && address.parse::<Ipv6Addr>().is_ok()
                && zone.is_some_and(|zone| {
                    let is_right = |byte| is_host_byte(byte) || byte == b' ' || byte == b'%';
                    !zone.is_empty() && zone.bytes().all(|byte| byte >= 0x80 || is_right(byte))
                })
        }
    }
}

/// Escapes in hosts are for what is not ASCII, and for the percent sign.
fn is_of_host(text: &str) -> bool {
    is_escaped(text)
        && text.bytes().enumerate().all(|(index, byte)| match byte {
            b'%' => {
                let escape = &text[index..index + 3];
                escape == "%25" || escape.as_bytes()[1] >= b'8'
            }
            byte => byte >= 0x80 || is_host_byte(byte),
        })
}

fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:[]<>\"".contains(&byte)
}

/// Whether every percent sign is followed by two digits.
fn is_escaped(text: &str) -> bool {
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        let mut is_digit = || bytes.next().is_some_and(|byte| byte.is_ascii_hexdigit());
        if byte == b'%' && !(is_digit() && is_digit()) {
            return false;
        }
    }
    true
}

/// The text with escapes replaced by what they stand for, if that is text.
fn unescaped(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'%' {
            bytes.push(*byte);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        let digits = std::str::from_utf8(digits).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}

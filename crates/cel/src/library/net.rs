//! The functions of IP addresses and CIDRs. Zones and IPv4-mapped IPv6 addresses are refused.

use std::net::IpAddr;

use insula_gotext::netip::{parse_addr, parse_prefix};
use insula_gotext::quote;
use ipnet::IpNet;

use super::{Body, no_overload};
use crate::error::EvalError;
use crate::value::{Opaque, Outcome, Value};

pub(super) fn body(function: &str, arguments: usize) -> Option<Body> {
    Some(match (function, arguments) {
        ("ip", 1) => Body::One(|_, value| ip(&value)),
        ("isIP", 1) => Body::One(|_, value| {
            with_text("isIP", &value, |text| Ok(parse_ip(text).is_ok().into()))
        }),
        ("ip.isCanonical", 1) => Body::One(|_, value| {
            with_text("ip.isCanonical", &value, |text| {
                Ok(Value::Bool(parse_ip(text)?.to_string() == *text))
            })
        }),
        ("family", 1) => Body::One(|_, value| {
            let family = |ip: IpAddr| Value::Int(if ip.is_ipv4() { 4 } else { 6 });
            with_ip("family", &value, family)
        }),
        ("isUnspecified", 1) => {
            Body::One(|_, value| with_ip("isUnspecified", &value, |ip| ip.is_unspecified().into()))
        }
        ("isLoopback", 1) => {
            Body::One(|_, value| with_ip("isLoopback", &value, |ip| ip.is_loopback().into()))
        }
        ("isLinkLocalMulticast", 1) => Body::One(|_, value| {
            with_ip("isLinkLocalMulticast", &value, |ip| {
                is_link_local_multicast(ip).into()
            })
        }),
        ("isLinkLocalUnicast", 1) => Body::One(|_, value| {
            with_ip("isLinkLocalUnicast", &value, |ip| is_link_local(ip).into())
        }),
        ("isGlobalUnicast", 1) => {
            Body::One(|_, value| with_ip("isGlobalUnicast", &value, |ip| is_global(ip).into()))
        }
        ("cidr", 1) => Body::One(|_, value| {
            with_text("cidr", &value, |text| {
                Ok(Value::Opaque(Opaque::Cidr(make_cidr(text)?)))
            })
        }),
        ("isCIDR", 1) => Body::One(|_, value| {
            with_text("isCIDR", &value, |text| Ok(parse_cidr(text).is_ok().into()))
        }),
        ("containsIP", 2) => Body::Two(|_, range, other| contains_ip(&range, &other)),
        ("containsCIDR", 2) => Body::Two(|_, range, other| contains_cidr(&range, &other)),
        ("prefixLength", 1) => Body::One(|_, value| {
            with_cidr("prefixLength", &value, |cidr| {
                Value::Int(cidr.prefix_len().into())
            })
        }),
        ("masked", 1) => Body::One(|_, value| {
            with_cidr("masked", &value, |cidr| {
                Value::Opaque(Opaque::Cidr(cidr.trunc()))
            })
        }),
        _ => return None,
    })
}

fn with_text<'a>(
    function: &str,
    value: &Value<'_>,
    answer: fn(&str) -> Outcome<'static>,
) -> Outcome<'a> {
    match value {
        Value::String(text) => answer(text),
        _ => Err(no_overload(function, &[value])),
    }
}

fn with_ip<'a>(function: &str, value: &Value<'_>, answer: fn(IpAddr) -> Value<'a>) -> Outcome<'a> {
    match value {
        Value::Opaque(Opaque::Ip(ip)) => Ok(answer(*ip)),
        _ => Err(no_overload(function, &[value])),
    }
}

fn with_cidr<'a>(function: &str, value: &Value<'_>, answer: fn(IpNet) -> Value<'a>) -> Outcome<'a> {
    match value {
        Value::Opaque(Opaque::Cidr(cidr)) => Ok(answer(*cidr)),
        _ => Err(no_overload(function, &[value])),
    }
}

/// Converts a string or a CIDR to an IP address.
fn ip<'a>(value: &Value<'_>) -> Outcome<'a> {
    let ip = match value {
        Value::String(text) => parse_ip(text)?,
        Value::Opaque(Opaque::Cidr(cidr)) => cidr.addr(),
        _ => return Err(no_overload("ip", &[value])),
    };
    Ok(Value::Opaque(Opaque::Ip(ip)))
}

fn is_link_local_multicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.octets().starts_with(&[224, 0, 0]),
        IpAddr::V6(ip) => ip.segments()[0] & 0xff0f == 0xff02,
    }
}

fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.segments()[0] & 0xffc0 == 0xfe80,
    }
}

fn is_global(ip: IpAddr) -> bool {
    let broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    !broadcast
        && !ip.is_unspecified()
        && !ip.is_loopback()
        && !ip.is_multicast()
        && !is_link_local(ip)
}

fn contains_ip<'a>(range: &Value<'_>, other: &Value<'_>) -> Outcome<'a> {
    match (range, other) {
        (Value::Opaque(Opaque::Cidr(range)), Value::Opaque(Opaque::Ip(ip))) => {
            Ok(Value::Bool(range.contains(ip)))
        }
        // The error of the address is not reported.
        (Value::Opaque(Opaque::Cidr(range)), Value::String(text)) => match parse_ip(text) {
            Ok(ip) => Ok(Value::Bool(range.contains(&ip))),
            Err(_) => Err(EvalError::no_such_overload()),
        },
        _ => Err(no_overload("containsIP", &[range, other])),
    }
}

fn contains_cidr<'a>(range: &Value<'_>, other: &Value<'_>) -> Outcome<'a> {
    let within = |range: &IpNet, other: IpNet| Value::Bool(range.contains(&other));
    match (range, other) {
        (Value::Opaque(Opaque::Cidr(range)), Value::Opaque(Opaque::Cidr(other))) => {
            Ok(within(range, *other))
        }
        (Value::Opaque(Opaque::Cidr(range)), Value::String(text)) => {
            Ok(within(range, make_cidr(text)?))
        }
        _ => Err(no_overload("containsCIDR", &[range, other])),
    }
}

fn parse_ip(text: &str) -> Result<IpAddr, EvalError> {
    let address = parse_addr(text).map_err(|error| {
        EvalError::new(format!(
            "IP Address {} parse error during conversion from string: {error}",
            quote(text)
        ))
    })?;
    if text.contains('%') {
        let text = quote(text);
        let text = format!("IP address {text} with zone value is not allowed");
        return Err(EvalError::new(text));
    }
    refuse_mapped(address, text)?;
    Ok(address)
}

fn refuse_mapped(ip: IpAddr, text: &str) -> Result<(), EvalError> {
    match ip {
        IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some() => Err(EvalError::new(format!(
            "IPv4-mapped IPv6 address {} is not allowed",
            quote(text)
        ))),
        _ => Ok(()),
    }
}

const WRONG_NETWORK: &str = "network address parse error during conversion from string";

fn make_cidr(text: &str) -> Result<IpNet, EvalError> {
    parse_cidr(text).map_err(|error| EvalError::new(format!("{WRONG_NETWORK}: {error}")))
}

fn parse_cidr(text: &str) -> Result<IpNet, EvalError> {
    let wrong = |why: String| {
        let text = quote(text);
        EvalError::new(format!("{WRONG_NETWORK}: netip.ParsePrefix({text}): {why}"))
    };
    let (address, bits) = parse_prefix(text).map_err(wrong)?;
    refuse_mapped(address, text)?;
    IpNet::new(address, bits).map_err(|error| wrong(error.to_string()))
}

//! Addresses and ranges of addresses. Neither zones nor IPv4 in IPv6 are taken.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::format::quoted;
use super::{Body, EvalError, Outcome, no_overload};
use crate::value::{Opaque, Value};

/// A range of addresses, by one of them and how many bits they share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    pub(crate) ip: IpAddr,
    pub(crate) prefix: u8,
}

pub(super) fn body(function: &str, arguments: usize) -> Option<Body> {
    Some(match (function, arguments) {
        ("ip", 1) => Body::One(|_, value| ip(&value)),
        ("isIP", 1) => Body::One(|_, value| {
            with_text("isIP", &value, |text| Ok(parse_ip(text).is_ok().into()))
        }),
        ("ip.isCanonical", 1) => Body::One(|_, value| {
            with_text("ip.isCanonical", &value, |text| {
                Ok(Value::Bool(print(parse_ip(text)?) == *text))
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
                Value::Int(cidr.prefix.into())
            })
        }),
        ("masked", 1) => Body::One(|_, value| {
            with_cidr("masked", &value, |cidr| {
                Value::Opaque(Opaque::Cidr(cidr.masked()))
            })
        }),
        _ => return None,
    })
}

impl Cidr {
    fn bits(self) -> u8 {
        if self.ip.is_ipv4() { 32 } else { 128 }
    }

    fn masked(self) -> Self {
        let ip = match self.ip {
            IpAddr::V4(ip) => {
                let mask = u32::MAX
                    .checked_shl(32 - u32::from(self.prefix))
                    .unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(ip.to_bits() & mask))
            }
            IpAddr::V6(ip) => {
                let mask = u128::MAX
                    .checked_shl(128 - u32::from(self.prefix))
                    .unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() & mask))
            }
        };
        Self { ip, ..self }
    }

    fn contains(self, ip: IpAddr) -> bool {
        let other = Self { ip, ..self };
        self.ip.is_ipv4() == ip.is_ipv4() && self.masked().ip == other.masked().ip
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", print(self.ip), self.prefix)
    }
}

/// As Go writes it: Rust shows IPv4 in some addresses of IPv6.
pub(crate) fn print(ip: IpAddr) -> String {
    let text = ip.to_string();
    match ip {
        IpAddr::V6(ip) if text.contains('.') => {
            let [.., high, low] = ip.segments();
            let start = text.rfind(':').map_or(0, |at| at + 1);
            format!("{}{high:x}:{low:x}", &text[..start])
        }
        _ => text,
    }
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

fn with_cidr<'a>(function: &str, value: &Value<'_>, answer: fn(Cidr) -> Value<'a>) -> Outcome<'a> {
    match value {
        Value::Opaque(Opaque::Cidr(cidr)) => Ok(answer(*cidr)),
        _ => Err(no_overload(function, &[value])),
    }
}

/// An address, of a text or of a range.
fn ip<'a>(value: &Value<'_>) -> Outcome<'a> {
    let ip = match value {
        Value::String(text) => parse_ip(text)?,
        Value::Opaque(Opaque::Cidr(cidr)) => cidr.ip,
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
            Ok(Value::Bool(range.contains(*ip)))
        }
        // What is wrong with the address is not said.
        (Value::Opaque(Opaque::Cidr(range)), Value::String(text)) => match parse_ip(text) {
            Ok(ip) => Ok(Value::Bool(range.contains(ip))),
            Err(_) => Err(EvalError::no_such_overload()),
        },
        _ => Err(no_overload("containsIP", &[range, other])),
    }
}

fn contains_cidr<'a>(range: &Value<'_>, other: &Value<'_>) -> Outcome<'a> {
    let within = |range: &Cidr, other: Cidr| {
        Value::Bool(range.contains(other.ip) && range.prefix <= other.prefix)
    };
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
    let address = parse_address(text).map_err(|error| {
        EvalError::new(format!(
            "IP Address {} parse error during conversion from string: {error}",
            quoted(text)
        ))
    })?;
    if text.contains('%') {
        let text = quoted(text);
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
            quoted(text)
        ))),
        _ => Ok(()),
    }
}

const WRONG_NETWORK: &str = "network address parse error during conversion from string";

fn make_cidr(text: &str) -> Result<Cidr, EvalError> {
    parse_cidr(text).map_err(|error| EvalError::new(format!("{WRONG_NETWORK}: {error}")))
}

fn parse_cidr(text: &str) -> Result<Cidr, EvalError> {
    let cidr = parse_prefix(text).map_err(|why| {
        EvalError::new(format!(
            "{WRONG_NETWORK}: netip.ParsePrefix({}): {why}",
            quoted(text)
        ))
    })?;
    refuse_mapped(cidr.ip, text)?;
    Ok(cidr)
}

fn parse_prefix(text: &str) -> Result<Cidr, String> {
    let (address, bits) = text.rsplit_once('/').ok_or("no '/'")?;
    let ip = parse_address(address)?;
    if address.contains('%') {
        return Err("IPv6 zones cannot be present in a prefix".to_owned());
    }
    let wrong = bits.len() > 1 && !(b'1'..=b'9').contains(&bits.as_bytes()[0]);
    let digits = bits.bytes().all(|byte| byte.is_ascii_digit());
    let number = bits.parse::<u32>().ok().filter(|_| digits && !wrong);
    let number = number.ok_or_else(|| format!("bad bits after slash: {}", quoted(bits)))?;
    let cidr = Cidr { ip, prefix: 0 };
    match u8::try_from(number) {
        Ok(prefix) if prefix <= cidr.bits() => Ok(Cidr { prefix, ..cidr }),
        _ => Err("prefix length out of range".to_owned()),
    }
}

/// An address in the words of Go if it is none.
pub(super) fn parse_address(text: &str) -> Result<IpAddr, String> {
    let wrong = |(why, at): Fault<'_>| {
        let at = if at.is_empty() {
            String::new()
        } else {
            format!(" (at {})", quoted(at))
        };
        format!("ParseAddr({}): {why}{at}", quoted(text))
    };
    match text.bytes().find(|byte| matches!(byte, b'.' | b':' | b'%')) {
        Some(b'.') => parse_v4(text).map(IpAddr::V4).map_err(wrong),
        Some(b':') => parse_v6(text).map(IpAddr::V6).map_err(wrong),
        Some(_) => Err(wrong(("missing IPv6 address", ""))),
        None => Err(wrong(("unable to parse IP", ""))),
    }
}

/// What is wrong, and where.
type Fault<'a> = (&'static str, &'a str);

fn parse_v4(text: &str) -> Result<Ipv4Addr, Fault<'_>> {
    let mut fields = [0u8; 4];
    let (mut field, mut digits, mut value) = (0, 0, 0u32);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'0'..=b'9' => {
                if digits == 1 && value == 0 {
                    return Err(("IPv4 field has octet with leading zero", ""));
                }
                value = value * 10 + u32::from(byte - b'0');
                digits += 1;
                fields[field] =
                    u8::try_from(value).map_err(|_| ("IPv4 field has value >255", ""))?;
            }
            b'.' if digits == 0 || at + 1 == text.len() => {
                return Err(("IPv4 field must have at least one digit", &text[at..]));
            }
            b'.' if field == 3 => return Err(("IPv4 address too long", "")),
            b'.' => (field, digits, value) = (field + 1, 0, 0),
            _ => return Err(("unexpected character", text.get(at..).unwrap_or(""))),
        }
    }
    if field < 3 {
        return Err(("IPv4 address too short", ""));
    }
    Ok(fields.into())
}

fn parse_v6(text: &str) -> Result<Ipv6Addr, Fault<'_>> {
    let (mut rest, zone) = match text.split_once('%') {
        Some((rest, zone)) => (rest, Some(zone)),
        None => (text, None),
    };
    if zone == Some("") {
        return Err(("zone must be a non-empty string", ""));
    }
    let mut groups: Vec<u16> = Vec::with_capacity(8);
    let mut gap = None;
    if let Some(after) = rest.strip_prefix("::") {
        (rest, gap) = (after, Some(0));
        if rest.is_empty() {
            return Ok(Ipv6Addr::UNSPECIFIED);
        }
    }
    while groups.len() < 8 {
        let digits = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
        if digits > 4 {
            return Err(("each group must have 4 or less digits", rest));
        }
        if digits == 0 {
            return Err((
                "each colon-separated field must have at least one digit",
                rest,
            ));
        }
        if rest.as_bytes().get(digits) == Some(&b'.') {
            embedded_v4(rest, gap, &mut groups)?;
            rest = "";
            break;
        }
        // At most four digits of base 16 are sixteen bits.
        groups.push(u16::from_str_radix(&rest[..digits], 16).unwrap_or(0));
        rest = &rest[digits..];
        if rest.is_empty() {
            break;
        }
        if !rest.starts_with(':') {
            return Err(("unexpected character, want colon", rest));
        }
        if rest.len() == 1 {
            return Err(("colon must be followed by more characters", rest));
        }
        rest = &rest[1..];
        if rest.starts_with(':') {
            if gap.is_some() {
                return Err(("multiple :: in address", rest));
            }
            gap = Some(groups.len());
            rest = &rest[1..];
            if rest.is_empty() {
                break;
            }
        }
    }
    if !rest.is_empty() {
        return Err(("trailing garbage after address", rest));
    }
    fill(groups, gap)
}

fn embedded_v4<'a>(
    rest: &'a str,
    gap: Option<usize>,
    groups: &mut Vec<u16>,
) -> Result<(), Fault<'a>> {
    if gap.is_none() && groups.len() != 6 {
        let why = "embedded IPv4 address must replace the final 2 fields of the address";
        return Err((why, rest));
    }
    if groups.len() > 6 {
        let why = "too many hex fields to fit an embedded IPv4 at the end of the address";
        return Err((why, rest));
    }
    let [a, b, c, d] = parse_v4(rest)?.octets();
    groups.extend([u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])]);
    Ok(())
}

fn fill<'a>(mut groups: Vec<u16>, gap: Option<usize>) -> Result<Ipv6Addr, Fault<'a>> {
    match gap {
        None if groups.len() < 8 => return Err(("address string too short", "")),
        Some(_) if groups.len() == 8 => {
            let why = "the :: must expand to at least one field of zeros";
            return Err((why, ""));
        }
        Some(gap) => {
            let zeros = vec![0; 8 - groups.len()];
            groups.splice(gap..gap, zeros);
        }
        None => {}
    }
    let groups: [u16; 8] = groups.try_into().map_err(|_| ("unable to parse IP", ""))?;
    Ok(groups.into())
}

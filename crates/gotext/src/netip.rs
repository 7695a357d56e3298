//! IP addresses and prefixes as the package `netip` reads them. Rust displays addresses as
//! `netip.Addr.String` does, so that only the parser and its errors are here.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::quote;

/// Parses an IP address as `netip.ParseAddr` does. An IPv6 zone such as `%eth0` is accepted
/// and dropped: a caller that refuses zones looks for the `%`.
///
/// # Errors
///
/// Go's words for what is wrong with the address.
pub fn parse_addr(text: &str) -> Result<IpAddr, String> {
    let wrong = |(why, at): Fault<'_>| {
        let at = if at.is_empty() {
            String::new()
        } else {
            format!(" (at {})", quote(at))
        };
        format!("ParseAddr({}): {why}{at}", quote(text))
    };
    match text.bytes().find(|byte| matches!(byte, b'.' | b':' | b'%')) {
        Some(b'.') => parse_v4(text).map(IpAddr::V4).map_err(wrong),
        Some(b':') => parse_v6(text).map(IpAddr::V6).map_err(wrong),
        Some(_) => Err(wrong(("missing IPv6 address", ""))),
        None => Err(wrong(("unable to parse IP", ""))),
    }
}

/// Parses an address with the length of its prefix, such as `10.0.0.0/8`, as
/// `netip.ParsePrefix` does. The address may have bits set beyond the prefix.
///
/// # Errors
///
/// Go's words for what is wrong with the prefix.
pub fn parse_prefix(text: &str) -> Result<(IpAddr, u8), String> {
    let (address, bits) = text.rsplit_once('/').ok_or("no '/'")?;
    let ip = parse_addr(address)?;
    if address.contains('%') {
        return Err("IPv6 zones cannot be present in a prefix".to_owned());
    }
    let leading_zero = bits.len() > 1 && !(b'1'..=b'9').contains(&bits.as_bytes()[0]);
    let digits = bits.bytes().all(|byte| byte.is_ascii_digit());
    let number = bits.parse::<u32>().ok();
    let number = number.filter(|_| digits && !leading_zero);
    let number = number.ok_or_else(|| format!("bad bits after slash: {}", quote(bits)))?;
    let max = if ip.is_ipv4() { 32 } else { 128 };
    match u8::try_from(number) {
        Ok(bits) if bits <= max => Ok((ip, bits)),
        _ => Err("prefix length out of range".to_owned()),
    }
}

/// What is wrong with an address, and the text from there on.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_go_reads_them() {
        for (text, shown) in [
            ("10.0.0.1", "10.0.0.1"),
            ("::", "::"),
            ("::1.2.3.4", "::102:304"),
            ("::ffff:1.2.3.4", "::ffff:1.2.3.4"),
            ("1:0:0:2:0:0:0:3", "1:0:0:2::3"),
            ("fe80::1%eth0", "fe80::1"),
        ] {
            let address = parse_addr(text).map(|address| address.to_string());
            assert_eq!(address.as_deref(), Ok(shown));
        }
        for (text, why) in [
            ("", "unable to parse IP"),
            ("1.2.3", "IPv4 address too short"),
            ("1.2.3.4.5", "IPv4 address too long"),
            ("1.2.3.04", "IPv4 field has octet with leading zero"),
            ("1.2.3.256", "IPv4 field has value >255"),
            ("::1%", "zone must be a non-empty string"),
            ("::1::", "multiple :: in address (at \":\")"),
            ("1:2", "address string too short"),
        ] {
            let expected = format!("ParseAddr({}): {why}", quote(text));
            assert_eq!(parse_addr(text), Err(expected));
        }
    }

    #[test]
    fn prefixes_are_read_as_go_reads_them() {
        let ten = IpAddr::from([10, 1, 2, 3]);
        assert_eq!(parse_prefix("10.1.2.3/8"), Ok((ten, 8)));
        for (text, why) in [
            ("10.1.2.3", "no '/'"),
            ("10.1.2.3/08", "bad bits after slash: \"08\""),
            ("10.1.2.3/+8", "bad bits after slash: \"+8\""),
            ("10.1.2.3/", "bad bits after slash: \"\""),
            ("10.1.2.3/33", "prefix length out of range"),
            ("fe80::1%a/8", "IPv6 zones cannot be present in a prefix"),
        ] {
            assert_eq!(parse_prefix(text), Err(why.to_owned()));
        }
    }
}

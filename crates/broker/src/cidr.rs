//! Address ranges.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use ipnet::{IpNet, Ipv4Net};

/// An address range. The address is kept as given: `10.1.2.3/8` is the range `10.0.0.0/8`, and
/// is displayed as given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cidr(IpNet);

impl Cidr {
    /// Creates an IPv4 range; host bits are allowed. `None` for more than 32 bits.
    pub(crate) fn v4(address: Ipv4Addr, bits: u8) -> Option<Self> {
        let range = Ipv4Net::new(address, bits).ok()?;
        Some(Self(IpNet::V4(range)))
    }

    /// Returns the addresses of an IPv4 range.
    pub(crate) fn span(&self) -> Option<Span> {
        let IpNet::V4(range) = self.0 else {
            return None;
        };
        let start = u64::from(u32::from(range.network()));
        let length = 1_u64 << (32 - range.prefix_len());
        Some(Span { start, length })
    }

    /// Returns whether the ranges have an address in common.
    pub fn overlaps(&self, other: &Self) -> bool {
        // Of two ranges that overlap, one holds the other.
        self.0.contains(&other.0) || other.0.contains(&self.0)
    }

    /// Checks that addresses can be allocated from the range, by the address as given.
    ///
    /// # Errors
    ///
    /// The class of addresses that cannot be allocated.
    pub(crate) fn check_usable(&self) -> Result<(), UnusableRange> {
        let class = match self.0.addr().to_canonical() {
            address if address.is_unspecified() => "unspecified",
            address if address.is_loopback() => "in loopback range",
            address if is_link_local(address) => "in link-local range",
            address if is_link_local_multicast(address) => "in link-local multicast range",
            _ => return Ok(()),
        };
        let range = *self;
        Err(UnusableRange { range, class })
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Cidr {
    type Err = InvalidCidr;

    fn from_str(text: &str) -> Result<Self, InvalidCidr> {
        let refused = || InvalidCidr(text.chars().take(64).collect());
        let (address, bits) = text.split_once('/').ok_or_else(refused)?;
        let address: IpAddr = address.parse().map_err(|_| refused())?;
        let is_number = (1..=3).contains(&bits.len()) && bits.bytes().all(|b| b.is_ascii_digit());
        let bits = bits.parse().ok().filter(|_| is_number);
        let range = IpNet::new(address, bits.ok_or_else(refused)?);
        range.map(Self).map_err(|_| refused())
    }
}

/// A contiguous range of IPv4 addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first address.
    pub start: u64,
    /// The number of addresses.
    pub length: u64,
}

impl Span {
    /// Returns the address after the last one.
    pub const fn end(&self) -> u64 {
        self.start + self.length
    }
}

/// The error of a text that is not an address range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an address range such as 242.0.0.0/8")]
pub struct InvalidCidr(String);

/// The error of a range with addresses that cannot be allocated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{range} can't be {class}")]
pub struct UnusableRange {
    range: Cidr,
    class: &'static str,
}

const fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

/// The scope is link-local, whatever the flags in the second byte are.
const fn is_link_local_multicast(address: IpAddr) -> bool {
    const fn v6(address: Ipv6Addr) -> bool {
        address.segments()[0] & 0xff0f == 0xff02
    }
    match address {
        IpAddr::V4(address) => matches!(address.octets(), [224, 0, 0, _]),
        IpAddr::V6(address) => v6(address),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cidr(text: &str) -> Cidr {
        text.parse().unwrap()
    }

    #[test]
    fn r73_range_is_validated_by_the_address_as_given() {
        for (text, class) in [
            ("0.0.0.0/8", "unspecified"),
            ("::/0", "unspecified"),
            ("127.0.0.1/8", "in loopback range"),
            ("127.255.0.0/16", "in loopback range"),
            ("::1/128", "in loopback range"),
            ("::ffff:127.0.0.1/104", "in loopback range"),
            ("169.254.0.0/16", "in link-local range"),
            ("169.254.3.4/8", "in link-local range"),
            ("fe80::/10", "in link-local range"),
            ("febf::1/64", "in link-local range"),
            ("224.0.0.0/24", "in link-local multicast range"),
            ("ff02::1/16", "in link-local multicast range"),
            ("ff12::/16", "in link-local multicast range"),
        ] {
            let refused = cidr(text).check_usable().unwrap_err().to_string();
            let shown = cidr(text);
            assert_eq!(refused, format!("{shown} can't be {class}"));
        }
        for good in [
            "242.0.0.0/8",
            "10.1.2.3/8",
            "1.0.0.0/0",
            "169.0.0.0/8",
            "126.0.0.0/7",
            "224.0.1.0/24",
            "fd00::/8",
            "fec0::/10",
            "ff05::/16",
        ] {
            assert_eq!(cidr(good).check_usable(), Ok(()), "{good}");
            assert_eq!(cidr(good).to_string(), good);
        }
    }

    #[test]
    fn invalid_ranges_are_refused_and_quoted() {
        for bad in [
            "",
            "/",
            "10.0.0.0",
            "10.0.0.0/",
            "10.0.0.0/33",
            "10.0.0.0/+8",
            "10.0.0.0/ 8",
            "10.0.0.0/-1",
            "10.0.0/8",
            "010.0.0.0/8",
            "10.0.0.256/8",
            " 10.0.0.0/8",
            "::/129",
            "fe80::1%eth0/64",
            "10.0.0.0/8/8",
            "10.0.0.0/0000",
            "x/8",
            "10.0.0.0/٨",
        ] {
            let message = format!("{bad:?} is not an address range such as 242.0.0.0/8");
            assert_eq!(bad.parse::<Cidr>().unwrap_err().to_string(), message);
        }
        let huge = "9".repeat(1 << 20);
        assert!(huge.parse::<Cidr>().unwrap_err().to_string().len() < 200);
    }

    #[test]
    fn ranges_overlap_if_they_share_an_address() {
        for (one, other, overlap) in [
            ("10.0.0.0/8", "10.1.0.0/16", true),
            ("10.9.9.9/8", "10.0.0.0/24", true),
            ("10.0.0.0/16", "10.1.0.0/16", false),
            ("0.0.0.0/0", "255.255.255.255/32", true),
            ("10.0.0.1/32", "10.0.0.1/32", true),
            ("10.0.0.0/31", "10.0.0.2/31", false),
            ("fd00::/8", "fd12::/16", true),
            ("fd00::/16", "fd01::/16", false),
            ("::/0", "10.0.0.0/8", false),
        ] {
            assert_eq!(cidr(one).overlaps(&cidr(other)), overlap, "{one} {other}");
            assert_eq!(cidr(other).overlaps(&cidr(one)), overlap, "{other} {one}");
        }
    }

    #[test]
    fn span_starts_at_the_network_address() {
        let span = cidr("10.1.2.3/8").span().unwrap();
        assert_eq!((span.start, span.length), (10 << 24, 1 << 24));
        assert_eq!(cidr("1.2.3.4/0").span().unwrap().end(), 1 << 32);
        assert_eq!(cidr("fd00::/8").span(), None);
    }
}

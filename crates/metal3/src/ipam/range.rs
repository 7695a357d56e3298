//! The addresses of one entry of a pool.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::kinds::PoolEntry;

/// The version of the Internet Protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// Version 4.
    Ipv4,
    /// Version 6.
    Ipv6,
}

impl Family {
    /// Returns the number of bits of an address.
    pub const fn bits(self) -> u32 {
        match self {
            Self::Ipv4 => 32,
            Self::Ipv6 => 128,
        }
    }

    const fn max(self) -> u128 {
        match self {
            Self::Ipv4 => u32::MAX as u128,
            Self::Ipv6 => u128::MAX,
        }
    }
}

/// An address as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    /// The family.
    pub family: Family,
    /// The number.
    pub number: u128,
}

impl Address {
    /// Parses an address. An IPv4 address that is mapped to IPv6 is an IPv4 address.
    pub fn parse(text: &str) -> Option<Self> {
        let address: IpAddr = text.parse().ok()?;
        Some(match address.to_canonical() {
            IpAddr::V4(four) => Self {
                family: Family::Ipv4,
                number: u128::from(u32::from(four)),
            },
            IpAddr::V6(six) => Self {
                family: Family::Ipv6,
                number: u128::from(six),
            },
        })
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.family, u32::try_from(self.number)) {
            (Family::Ipv4, Ok(number)) => Ipv4Addr::from(number).fmt(out),
            _ => Ipv6Addr::from(self.number).fmt(out),
        }
    }
}

/// A range of addresses, which is not empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The family.
    pub family: Family,
    /// The first address.
    pub first: u128,
    /// The last address.
    pub last: u128,
}

impl Range {
    /// Returns the range of an entry; none if it is empty, has an invalid address, or addresses
    /// of both families.
    ///
    /// The first address is the start, or the one after the address in the subnet. The last one is
    /// the end, and the last of the subnet if that is smaller.
    pub fn of(entry: &PoolEntry) -> Option<Self> {
        let subnet = match &entry.subnet {
            Some(text) => Some(Subnet::parse(text)?),
            None => None,
        };
        let start = match (&entry.start, &subnet) {
            (Some(text), _) => Address::parse(text)?,
            (None, Some(subnet)) => Address {
                family: subnet.written.family,
                number: subnet.written.number.checked_add(1)?,
            },
            (None, None) => return None,
        };
        let family = start.family;
        let mut last = family.max();
        if let Some(text) = &entry.end {
            let end = Address::parse(text)?;
            if end.family != family {
                return None;
            }
            last = end.number;
        }
        if let Some(subnet) = &subnet {
            // The walk from the start ends where the subnet does, and it has to begin there.
            if subnet.written.family != family || start.number < subnet.first {
                return None;
            }
            last = last.min(subnet.last);
        }
        let first = start.number;
        (first <= last).then_some(Self {
            family,
            first,
            last,
        })
    }

    /// Returns whether an address is in the range.
    pub fn contains(&self, address: Address) -> bool {
        address.family == self.family && (self.first..=self.last).contains(&address.number)
    }

    /// Returns the highest offset in the range.
    pub(super) fn max_offset(&self) -> u128 {
        self.last - self.first
    }
}

/// A subnet, and the address that it is written with.
struct Subnet {
    written: Address,
    first: u128,
    last: u128,
}

impl Subnet {
    fn parse(text: &str) -> Option<Self> {
        let (address, length) = text.split_once('/')?;
        let written = Address::parse(address)?;
        let length: u32 = length.parse().ok()?;
        let bits = written.family.bits();
        let host_bits = bits.checked_sub(length)?;
        let hosts = match host_bits {
            128 => u128::MAX,
            host_bits => (1 << host_bits) - 1,
        };
        Some(Self {
            written,
            first: written.number & !hosts,
            last: written.number | hosts,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(start: &str, end: &str, subnet: &str) -> PoolEntry {
        let set = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        PoolEntry {
            start: set(start),
            end: set(end),
            subnet: set(subnet),
            ..PoolEntry::default()
        }
    }

    #[test]
    fn range_of_an_entry_is_bounded_by_start_end_and_subnet() {
        for (start, end, subnet, expected) in [
            ("", "", "", None),
            ("", "10.0.0.9", "", None),
            ("10.0.0.5", "", "", Some(("10.0.0.5", "255.255.255.255"))),
            ("10.0.0.5", "10.0.0.9", "", Some(("10.0.0.5", "10.0.0.9"))),
            ("10.0.0.5", "10.0.0.5", "", Some(("10.0.0.5", "10.0.0.5"))),
            ("10.0.0.5", "10.0.0.4", "", None),
            ("", "", "10.0.0.0/24", Some(("10.0.0.1", "10.0.0.255"))),
            ("", "", "10.0.0.17/24", Some(("10.0.0.18", "10.0.0.255"))),
            (
                "",
                "10.0.0.9",
                "10.0.0.0/24",
                Some(("10.0.0.1", "10.0.0.9")),
            ),
            (
                "10.0.0.5",
                "",
                "10.0.0.0/29",
                Some(("10.0.0.5", "10.0.0.7")),
            ),
            (
                "10.0.0.5",
                "10.0.9.9",
                "10.0.0.0/29",
                Some(("10.0.0.5", "10.0.0.7")),
            ),
            ("9.0.0.5", "", "10.0.0.0/29", None),
            ("11.0.0.5", "", "10.0.0.0/29", None),
            ("", "", "10.0.0.0/32", None),
            ("", "", "10.0.0.0/31", Some(("10.0.0.1", "10.0.0.1"))),
            ("", "", "0.0.0.0/0", Some(("0.0.0.1", "255.255.255.255"))),
            ("", "", "255.255.255.255/32", None),
            ("", "", "10.0.0.0/33", None),
            ("", "", "10.0.0.0", None),
            (
                "",
                "",
                "2001:db8::/64",
                Some(("2001:db8::1", "2001:db8::ffff:ffff:ffff:ffff")),
            ),
            (
                "",
                "",
                "::/0",
                Some(("::1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")),
            ),
            ("", "", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128", None),
            (
                "2001:DB8::A",
                "2001:db8::c",
                "",
                Some(("2001:db8::a", "2001:db8::c")),
            ),
            ("2001:db8::a", "10.0.0.1", "", None),
            ("10.0.0.1", "", "2001:db8::/64", None),
            (
                "::ffff:10.0.0.1",
                "10.0.0.2",
                "",
                Some(("10.0.0.1", "10.0.0.2")),
            ),
            ("ten", "", "", None),
        ] {
            let range = Range::of(&entry(start, end, subnet));
            let found = range.map(|range| {
                let address = |number| Address {
                    family: range.family,
                    number,
                };
                (
                    address(range.first).to_string(),
                    address(range.last).to_string(),
                )
            });
            let expected = expected.map(|(first, last)| (first.to_owned(), last.to_owned()));
            assert_eq!(found, expected, "{start} {end} {subnet}");
        }
    }
}

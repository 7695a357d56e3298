//! The range of cluster IPs, which is the same in every space: nothing routes them.

use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

use ipnet::IpNet;

/// The addresses that Services get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceRange(IpNet);

/// The error of a range that cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum InvalidServiceRange {
    /// It is no range in CIDR notation.
    #[error("`{0}` is no range in CIDR notation, such as 10.96.0.0/12")]
    Syntax(String),
    /// It has too few addresses.
    #[error("`{0}` has too few addresses; at least 256 are needed, such as a /24 has")]
    Small(String),
    /// Its address has bits behind the prefix.
    #[error("`{given}` has bits set behind its prefix; the range is `{range}`")]
    Host {
        /// The range as given.
        given: String,
        /// The range that contains it.
        range: String,
    },
}

/// The least number of bits that differ between addresses of a range.
const MIN_BITS: u8 = 8;

/// The most bits that differ between addresses that are allocated: kube-apiserver uses no more of
/// a larger IPv6 range either.
const MAX_BITS: u8 = 20;

impl Default for ServiceRange {
    /// The range of kubeadm.
    fn default() -> Self {
        let net = IpNet::new(Ipv4Addr::new(10, 96, 0, 0).into(), 12);
        Self(net.expect("12 is the length of a prefix"))
    }
}

impl FromStr for ServiceRange {
    type Err = InvalidServiceRange;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let net: IpNet = text
            .parse()
            .map_err(|_| InvalidServiceRange::Syntax(text.to_owned()))?;
        if net != net.trunc() {
            return Err(InvalidServiceRange::Host {
                given: text.to_owned(),
                range: net.trunc().to_string(),
            });
        }
        if net.max_prefix_len() - net.prefix_len() < MIN_BITS {
            return Err(InvalidServiceRange::Small(text.to_owned()));
        }
        Ok(Self(net))
    }
}

impl std::fmt::Display for ServiceRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl ServiceRange {
    /// Returns the IP family, as Kubernetes spells it.
    pub const fn family(&self) -> &'static str {
        match self.0 {
            IpNet::V4(_) => "IPv4",
            IpNet::V6(_) => "IPv6",
        }
    }

    /// Whether the range contains an address.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address)
    }

    /// Returns the address of the Service `kubernetes`: the first one that can be used.
    pub fn first(&self) -> IpAddr {
        self.nth(1)
    }

    /// Returns one of the addresses that are allocated, chosen by a random number. Those at the
    /// beginning are left to Services that request them, as those of DNS do by convention.
    pub fn choose(&self, random: u64) -> IpAddr {
        let size = 1_u64 << self.bits();
        // Of small ranges a sixteenth, of large ones 256, as in kube-apiserver.
        let reserved = (size / 16).clamp(16, 256);
        // The last address is a broadcast address in IPv4.
        self.nth(reserved + random % (size - reserved - 1))
    }

    /// Returns all addresses that can be allocated, also those that are left to Services that request
    /// them.
    pub fn all(&self) -> impl Iterator<Item = IpAddr> {
        (2..(1_u64 << self.bits()) - 1).map(|offset| self.nth(offset))
    }

    fn bits(&self) -> u8 {
        (self.0.max_prefix_len() - self.0.prefix_len()).min(MAX_BITS)
    }

    fn nth(&self, offset: u64) -> IpAddr {
        match self.0.network() {
            IpAddr::V4(first) => {
                // An offset has at most as many bits as the range has addresses.
                let offset = u32::try_from(offset).unwrap_or(u32::MAX);
                IpAddr::V4((u32::from(first) | offset).into())
            }
            IpAddr::V6(first) => IpAddr::V6((u128::from(first) | u128::from(offset)).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> ServiceRange {
        text.parse().unwrap()
    }

    #[test]
    fn chosen_addresses_are_inside_the_range_and_behind_the_reserved_ones() {
        for (text, first, least, most) in [
            ("10.96.0.0/12", "10.96.0.1", "10.96.1.0", "10.111.255.254"),
            ("10.0.0.0/24", "10.0.0.1", "10.0.0.16", "10.0.0.254"),
            ("10.0.0.0/8", "10.0.0.1", "10.0.1.0", "10.15.255.254"),
            ("fd00::/108", "fd00::1", "fd00::100", "fd00::f:fffe"),
            ("fd00::/64", "fd00::1", "fd00::100", "fd00::f:fffe"),
        ] {
            let range = range(text);
            let parsed = |text: &str| text.parse::<IpAddr>().unwrap();
            let size = 1_u64 << range.bits();
            let reserved = (size / 16).clamp(16, 256);
            assert_eq!(range.first(), parsed(first), "{text}");
            assert_eq!(range.choose(0), parsed(least), "{text}");
            assert_eq!(range.choose(size - reserved - 2), parsed(most), "{text}");
            for random in [1, 77, u64::MAX, u64::MAX / 3] {
                assert!(range.contains(range.choose(random)), "{text}");
            }
        }
        assert!(!range("10.0.0.0/24").contains([10, 0, 1, 0].into()));
        let all: Vec<_> = range("10.0.0.0/24").all().collect();
        assert_eq!(all.len(), 253);
        assert_eq!(
            [all[0], all[252]],
            [[10, 0, 0, 2], [10, 0, 0, 254]].map(IpAddr::from)
        );
        assert_eq!(ServiceRange::default(), range("10.96.0.0/12"));
        assert_eq!(range("fd00::/108").family(), "IPv6");
    }

    #[test]
    fn ranges_that_cannot_be_used_are_refused_with_the_reason() {
        for (text, why) in [
            ("10.96.0.0", "no range in CIDR notation"),
            ("10.96.0.0/33", "no range in CIDR notation"),
            ("ten", "no range in CIDR notation"),
            ("10.0.0.0/25", "at least 256"),
            ("fd00::/121", "at least 256"),
            ("10.96.0.1/12", "the range is `10.96.0.0/12`"),
        ] {
            let error = text.parse::<ServiceRange>().unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}

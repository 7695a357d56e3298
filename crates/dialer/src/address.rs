//! The addresses that a tenant's host may have.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::str::FromStr;

use ipnet::IpNet;

/// The private networks of IPv4 and IPv6, without the addresses of this machine and of its link.
pub const PRIVATE_NETWORKS: [&str; 4] =
    ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"];

/// A CIDR block, such as `10.0.0.0/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr(IpNet);

/// The text is not a CIDR block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is no block of addresses such as 10.0.0.0/8 or fd00::/8")]
pub struct InvalidCidr;

impl Cidr {
    /// Whether the block contains the address.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address)
    }
}

impl FromStr for Cidr {
    type Err = InvalidCidr;

    /// Parses a block. A single address is a block of one.
    fn from_str(text: &str) -> Result<Self, InvalidCidr> {
        let block = match text.parse::<IpAddr>() {
            Ok(address) => Ok(IpNet::from(address)),
            Err(_) => text.parse(),
        };
        block.map(Self).map_err(|_| InvalidCidr)
    }
}

/// The rules for addresses of hosts that tenants choose.
///
/// Loopback, link-local, private and reserved addresses are refused unless they are allowed, and
/// so are the addresses of this machine.
#[derive(Clone, Debug, Default)]
pub struct AddressRules {
    /// Addresses around this machine that may be called nevertheless.
    pub allow: Vec<Cidr>,
    /// Addresses that may never be called. Takes precedence over `allow`.
    pub deny: Vec<Cidr>,
    /// The address that this server listens on, which may never be called.
    pub own: Option<SocketAddr>,
}

impl AddressRules {
    /// Whether a tenant's host may have the address.
    pub(crate) fn allow(&self, address: SocketAddr) -> bool {
        let within = |list: &[Cidr], ip| list.iter().any(|block| block.contains(ip));
        let reached = reached(address.ip());
        if reached.iter().any(|ip| within(&self.deny, *ip)) || self.is_listener(address, &reached) {
            return false;
        }
        let around = is_this_machine(address.ip());
        reached
            .iter()
            .all(|ip| within(&self.allow, *ip) || !(around || surrounds(*ip)))
    }

    /// Whether this server listens on the address.
    fn is_listener(&self, address: SocketAddr, reached: &[IpAddr]) -> bool {
        self.own.is_some_and(|own| {
            let here = match own.ip().is_unspecified() {
                true => is_this_machine(address.ip()),
                false => reached.contains(&own.ip()) || address.ip().is_unspecified(),
            };
            here && address.port() == own.port()
        })
    }
}

/// Whether the address belongs to this machine. It is known without a connection, which would
/// tell open ports from closed ones: the kernel chooses the address itself as the source of
/// packets to it. Connecting a datagram socket sends none.
fn is_this_machine(address: IpAddr) -> bool {
    let address = address.to_canonical();
    if address.is_loopback() || address.is_unspecified() {
        return true;
    }
    let any: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let source = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect((address, 9))?;
        socket.local_addr()
    });
    // Without a route the address is not of this machine, and cannot be reached either.
    source.is_ok_and(|source| source.ip().to_canonical() == address)
}

/// Returns every address that a packet for this one may reach, including an embedded one.
fn reached(address: IpAddr) -> Vec<IpAddr> {
    let mut reached = vec![address.to_canonical()];
    if let IpAddr::V6(v6) = address
        && let Some(v4) = embedded(v6)
    {
        reached.push(v4.into());
    }
    reached
}

/// Returns the IPv4 address that is embedded in a translated or tunnelled IPv6 address.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let parts = address.segments();
    let v4 = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match parts {
        // IPv4-compatible, which is obsolete; `::` and `::1` are not among them.
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 => Some(v4(high, low)),
        [0, 0, 0, 0, 0xffff, 0, high, low] => Some(v4(high, low)),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some(v4(high, low)),
        [0x2002, high, low, ..] => Some(v4(high, low)),
        _ => None,
    }
}

/// Whether the address is loopback, private, link-local, multicast or reserved: there the
/// control plane and its neighbours may trust each other.
fn surrounds(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let [a, b, c, _] = v4.octets();
            v4.is_loopback()
                || v4.is_private()
                || v4.is_link_local()
                || v4.is_multicast()
                || v4.is_broadcast()
                || a == 0
                // Shared by carriers, and by clouds for their metadata.
                || (a == 100 && (64..128).contains(&b))
                || (a, b, c) == (192, 0, 0)
                || (a == 198 && (18..20).contains(&b))
                || a >= 240
        }
        IpAddr::V6(v6) => {
            let first = v6.segments()[0];
            v6.is_loopback()
                || v6.is_unspecified()
                || v6.is_multicast()
                || v6.is_unique_local()
                || v6.is_unicast_link_local()
                // Site-local, which is obsolete, and translation inside a site.
                || first & 0xffc0 == 0xfec0
                || v6.segments()[..3] == [0x64, 0xff9b, 1]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(allow: &[&str], deny: &[&str], own: &str) -> AddressRules {
        let blocks = |list: &[&str]| list.iter().map(|block| block.parse().unwrap()).collect();
        AddressRules {
            allow: blocks(allow),
            deny: blocks(deny),
            own: Some(own.parse().unwrap()),
        }
    }

    #[test]
    fn tenants_cannot_call_addresses_around_the_server() {
        let rules = rules(&[], &[], "127.0.0.1:6443");
        for address in [
            "127.0.0.1:80",
            "127.255.0.1:80",
            "0.0.0.0:80",
            "0.1.2.3:80",
            "10.1.2.3:443",
            "172.16.0.1:443",
            "172.31.255.255:443",
            "192.168.1.1:443",
            "169.254.169.254:80",
            "100.100.100.200:80",
            "192.0.0.192:80",
            "198.18.0.1:80",
            "224.0.0.1:80",
            "255.255.255.255:80",
            "240.0.0.1:80",
            "[::]:80",
            "[::1]:80",
            "[fe80::1]:80",
            "[fd00:ec2::254]:80",
            "[fc00::1]:80",
            "[fec0::1]:80",
            "[ff02::1]:80",
            "[::ffff:127.0.0.1]:80",
            "[::ffff:169.254.169.254]:80",
            "[::ffff:10.0.0.1]:80",
            "[::127.0.0.1]:80",
            "[::ffff:0:127.0.0.1]:80",
            "[64:ff9b::7f00:1]:80",
            "[64:ff9b::a9fe:a9fe]:80",
            "[64:ff9b:1::1]:80",
            "[2002:7f00:1::]:80",
            "[2002:a00:1::1]:80",
        ] {
            let address = address.parse().unwrap();
            assert!(!rules.allow(address), "{address}");
        }
        for address in [
            "8.8.8.8:443",
            "172.32.0.1:443",
            "100.128.0.1:443",
            "[2606:4700::1111]:443",
            "[::ffff:8.8.8.8]:443",
            "[64:ff9b::808:808]:443",
        ] {
            let address = address.parse().unwrap();
            assert!(rules.allow(address), "{address}");
        }
    }

    #[test]
    fn allowed_addresses_can_be_called_except_the_server_itself() {
        let rules = rules(
            &["127.0.0.0/8", "10.1.0.0/16"],
            &["10.1.9.0/24", "8.8.8.8"],
            "127.0.0.1:6443",
        );
        for (address, expected) in [
            ("127.0.0.1:8443", true),
            ("127.0.0.1:6443", false),
            ("[::ffff:127.0.0.1]:6443", false),
            ("127.0.0.2:6443", true),
            ("10.1.2.3:443", true),
            ("10.2.0.1:443", false),
            ("10.1.9.1:443", false),
            ("[2002:a01:901::]:443", false),
            ("8.8.8.8:443", false),
            ("[::1]:443", false),
            ("9.9.9.9:443", true),
        ] {
            let address = address.parse().unwrap();
            assert_eq!(rules.allow(address), expected, "{address}");
        }
    }

    #[test]
    fn server_on_all_addresses_is_refused_at_each_of_them() {
        let rules = rules(&["0.0.0.0/0", "::/0"], &[], "0.0.0.0:6443");
        for (address, expected) in [
            ("127.0.0.1:6443", false),
            ("127.0.0.2:6443", false),
            ("0.0.0.0:6443", false),
            ("[::1]:6443", false),
            ("[::ffff:127.0.0.1]:6443", false),
            ("127.0.0.1:8443", true),
            ("8.8.8.8:6443", true),
        ] {
            assert_eq!(rules.allow(address.parse().unwrap()), expected, "{address}");
        }
    }

    #[test]
    fn addresses_of_this_machine_are_refused_before_a_connection() {
        // The address that this machine reaches others with, if it has a network.
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        let own = match socket.connect("192.0.2.1:9") {
            Ok(()) => socket.local_addr().unwrap().ip(),
            Err(_) => "127.0.0.1".parse().unwrap(),
        };
        assert!(is_this_machine(own));
        assert!(!rules(&[], &[], "127.0.0.1:6443").allow((own, 443).into()));
        assert!(!is_this_machine("192.0.2.1".parse().unwrap()));
    }

    #[test]
    fn block_contains_exactly_its_addresses() {
        for (block, address, expected) in [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.0", false),
            ("10.1.2.3/8", "10.0.0.0", true),
            ("0.0.0.0/0", "8.8.8.8", true),
            ("0.0.0.0/0", "::1", false),
            ("127.0.0.1", "127.0.0.1", true),
            ("127.0.0.1", "127.0.0.2", false),
            ("::/0", "::1", true),
            ("fd00::/8", "fd12::1", true),
            ("fd00::/8", "fe80::1", false),
        ] {
            let block: Cidr = block.parse().unwrap();
            let address = address.parse().unwrap();
            assert_eq!(block.contains(address), expected, "{block:?} {address}");
        }
        for text in [
            "",
            "10",
            "10.0.0.0/33",
            "::/129",
            "10.0.0.0/-1",
            "10.0.0.0/",
            "a/8",
        ] {
            assert_eq!(text.parse::<Cidr>(), Err(InvalidCidr), "{text}");
        }
    }
}

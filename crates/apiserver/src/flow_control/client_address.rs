//! The address of a client, as far as limits distinguish clients before they authenticate.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use insula_dialer::Cidr;

/// The host and the network that a connection comes from.
///
/// A host is one IPv4 address or an IPv6 /64, which one machine can fill with addresses. A network
/// is a /24 or a /48, the smallest that is routed on its own: an attacker who has all of it must
/// not count as thousands of hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientAddress {
    pub(super) network: Network,
    pub(super) host: IpAddr,
}

/// A group of hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Network {
    /// Addresses that many clients share, such as a load balancer's.
    Shared,
    /// A prefix of addresses.
    Prefix(IpAddr),
}

impl ClientAddress {
    /// Returns the host and network of an address. Addresses in one of the blocks `shared` stand
    /// for many clients.
    pub fn new(address: IpAddr, shared: &[Cidr]) -> Self {
        // A socket for both families sees IPv4 clients as IPv6 addresses.
        let address = address.to_canonical();
        let (host, network) = match address {
            IpAddr::V4(v4) => (address, IpAddr::V4(truncate_v4(v4, 24))),
            IpAddr::V6(v6) => (
                IpAddr::V6(truncate_v6(v6, 64)),
                IpAddr::V6(truncate_v6(v6, 48)),
            ),
        };
        let network = match shared.iter().any(|block| block.contains(address)) {
            true => Network::Shared,
            false => Network::Prefix(network),
        };
        Self { network, host }
    }
}

const fn truncate_v4(address: Ipv4Addr, bits: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(address.to_bits() & (u32::MAX << (32 - bits)))
}

const fn truncate_v6(address: Ipv6Addr, bits: u32) -> Ipv6Addr {
    Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << (128 - bits)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(text: &str) -> ClientAddress {
        ClientAddress::new(text.parse().unwrap(), &["10.9.0.0/16".parse().unwrap()])
    }

    #[test]
    fn addresses_of_one_machine_are_one_host_and_those_of_one_site_one_network() {
        for (one, other, same_host, same_network) in [
            ("192.0.2.1", "192.0.2.1", true, true),
            ("192.0.2.1", "192.0.2.2", false, true),
            ("192.0.2.1", "192.0.3.1", false, false),
            ("192.0.2.1", "::ffff:192.0.2.1", true, true),
            ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", true, true),
            ("2001:db8:1:2::1", "2001:db8:1:3::1", false, true),
            ("2001:db8:1::1", "2001:db8:2::1", false, false),
            ("10.9.1.1", "10.9.2.2", false, true),
            ("10.8.1.1", "10.9.1.1", false, false),
        ] {
            let (one, other) = (client(one), client(other));
            assert_eq!(one.host == other.host, same_host, "{one:?} {other:?}");
            let networks = one.network == other.network;
            assert_eq!(networks, same_network, "{one:?} {other:?}");
        }
        assert_eq!(client("10.9.1.1").network, Network::Shared);
    }
}

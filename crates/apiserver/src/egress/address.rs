//! The addresses that a space may call, and connections to them.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use insula_core::Space;
use tokio::net::{TcpStream, lookup_host};

use super::cidr::Cidr;
use super::service::Backend;

/// The rules for the addresses that a space may call.
#[derive(Debug)]
pub(super) struct Rules {
    allow: Vec<Cidr>,
    deny: Vec<Cidr>,
    /// The address of this server.
    own: SocketAddr,
}

impl Rules {
    pub fn new(allow: Vec<Cidr>, deny: Vec<Cidr>, own: SocketAddr) -> Self {
        Self { allow, deny, own }
    }

    /// Connects to a backend. The name is resolved once, so that it cannot change between
    /// check and connection. The error is a message of Go's.
    pub async fn connect(&self, space: &Space, backend: &Backend) -> Result<TcpStream, String> {
        let Backend::Host(host, port) = backend;
        let found = lookup_host((host.as_str(), *port)).await;
        let Ok(found) = found else {
            return Err(format!("dial tcp: lookup {host}: no such host"));
        };
        // The error hides the address that the name resolves to.
        let refused = || format!("dial tcp: {host}:{port}: address is not allowed");
        let mut last = refused();
        for address in found.filter(|address| self.allows(space, *address)) {
            match TcpStream::connect(address).await {
                Ok(stream) if self.is_foreign(space, &stream) => return Ok(stream),
                Ok(_) => last = refused(),
                Err(error) => last = format!("dial tcp {address}: {}", failed(&error)),
            }
        }
        Err(last)
    }

    /// Whether the space may call the address.
    fn allows(&self, space: &Space, address: SocketAddr) -> bool {
        if space.is_system() {
            return true;
        }
        let within = |list: &[Cidr], ip| list.iter().any(|block| block.contains(ip));
        let reached = reached(address.ip());
        if reached.iter().any(|ip| within(&self.deny, *ip)) {
            return false;
        }
        let itself = reached.contains(&self.own.ip()) && address.port() == self.own.port();
        !itself
            && reached
                .iter()
                .all(|ip| within(&self.allow, *ip) || !surrounds(*ip))
    }

    /// Whether the peer is another machine. A server that listens on all addresses does not
    /// know its own, but both ends of a connection to itself have the same address.
    fn is_foreign(&self, space: &Space, stream: &TcpStream) -> bool {
        let (Ok(here), Ok(there)) = (stream.local_addr(), stream.peer_addr()) else {
            return false;
        };
        let (from, to) = (here.ip().to_canonical(), there.ip().to_canonical());
        let allowed = || self.allow.iter().any(|block| block.contains(to));
        space.is_system() || from != to || (there.port() != self.own.port() && allowed())
    }
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

fn failed(error: &io::Error) -> String {
    let why = match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused",
        io::ErrorKind::TimedOut => "connection timed out",
        io::ErrorKind::HostUnreachable => "no route to host",
        io::ErrorKind::NetworkUnreachable => "network is unreachable",
        io::ErrorKind::ConnectionReset => "connection reset by peer",
        io::ErrorKind::PermissionDenied => "permission denied",
        _ => return format!("connect: {error}"),
    };
    format!("connect: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use insula_core::TenantName;

    fn tenant() -> Space {
        Space::Tenant(TenantName::parse("t1").unwrap())
    }

    fn rules(allow: &[&str], deny: &[&str]) -> Rules {
        let blocks = |list: &[&str]| list.iter().map(|block| block.parse().unwrap()).collect();
        let own = "127.0.0.1:6443".parse().unwrap();
        Rules::new(blocks(allow), blocks(deny), own)
    }

    #[test]
    fn tenants_cannot_call_addresses_around_the_server() {
        let rules = rules(&[], &[]);
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
            assert!(!rules.allows(&tenant(), address), "{address}");
            assert!(rules.allows(&Space::System, address), "{address}");
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
            assert!(rules.allows(&tenant(), address), "{address}");
        }
    }

    #[test]
    fn allowed_addresses_can_be_called_except_the_server_itself() {
        let rules = rules(&["127.0.0.0/8", "10.1.0.0/16"], &["10.1.9.0/24", "8.8.8.8"]);
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
            assert_eq!(rules.allows(&tenant(), address), expected, "{address}");
        }
    }
}

//! CIDR blocks.

use std::net::IpAddr;
use std::str::FromStr;

use insula_kinds::validate::check::parse_cidr;
use ipnet::IpNet;

/// A CIDR block, such as `10.0.0.0/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr(IpNet);

/// The text is not a CIDR block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is no block of addresses such as 10.0.0.0/8 or fd00::/8")]
pub struct CidrError;

impl Cidr {
    /// Whether the block contains the address.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address)
    }
}

impl FromStr for Cidr {
    type Err = CidrError;

    /// Parses a block. A single address is a block of one.
    fn from_str(text: &str) -> Result<Self, CidrError> {
        let block = match text.parse::<IpAddr>() {
            Ok(address) => Some(IpNet::from(address)),
            Err(_) => parse_cidr(text),
        };
        block.map(Self).ok_or(CidrError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(text.parse::<Cidr>(), Err(CidrError), "{text}");
        }
    }
}

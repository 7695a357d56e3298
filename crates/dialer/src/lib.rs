//! Connections to hosts that tenants choose.
//!
//! A host name is resolved once, and the connection goes to an address that was checked, so that
//! a name server cannot change its answer in between. Lookups run on threads of their own, a
//! bounded number for each owner: a silent name server delays only the owner that names it.

mod address;
mod keyed_limit;
mod resolver;

use std::hash::Hash;
use std::io;
use std::net::{IpAddr, SocketAddr};

use tokio::net::TcpStream;

pub use address::{AddressRules, Cidr, InvalidCidr, PRIVATE_NETWORKS};
pub use keyed_limit::{KeyedLimit, KeyedPermit};
pub use resolver::Resolver;

/// Connects to hosts for owners, such as spaces.
#[derive(Debug)]
pub struct Dialer<O> {
    rules: AddressRules,
    resolver: Resolver<O>,
}

/// The addresses that a connection may go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Every address: an administrator chose the host.
    Any,
    /// What [`AddressRules`] allow: a tenant chose the host.
    Ruled,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// The name has no address.
    #[error("no such host")]
    NoSuchHost,
    /// The address is not allowed.
    #[error("address is not allowed")]
    AddressNotAllowed,
    /// The name has no address, or none that is allowed. It does not say which: that would
    /// reveal the names that exist in the network of this machine.
    #[error("no such host, or its address is not allowed")]
    NoAllowedHost,
    /// The peer cannot be reached.
    #[error("{address}: {error}")]
    Unreachable {
        /// The last address that was tried.
        address: SocketAddr,
        /// Why it cannot be reached.
        error: io::Error,
    },
}

impl<O: Clone + Eq + Hash + Send + 'static> Dialer<O> {
    /// Creates a dialer.
    pub fn new(rules: AddressRules, resolver: Resolver<O>) -> Self {
        Self { rules, resolver }
    }

    /// Connects to a port of a host, which is a name or an address without brackets.
    ///
    /// # Errors
    ///
    /// If the host cannot be resolved, called or reached.
    pub async fn connect(
        &self,
        owner: &O,
        reach: Reach,
        host: &str,
        port: u16,
    ) -> Result<TcpStream, DialError> {
        let mut last = None;
        for address in self.addresses(owner, reach, host, port).await? {
            match TcpStream::connect(address).await {
                Ok(stream) => return Ok(stream),
                Err(error) => last = Some(DialError::Unreachable { address, error }),
            }
        }
        Err(last.unwrap_or(DialError::NoSuchHost))
    }

    /// Returns the allowed addresses of a host, at least one.
    async fn addresses(
        &self,
        owner: &O,
        reach: Reach,
        host: &str,
        port: u16,
    ) -> Result<Vec<SocketAddr>, DialError> {
        let allowed = |address: &SocketAddr| reach == Reach::Any || self.rules.allow(*address);
        if let Ok(ip) = host.parse::<IpAddr>() {
            let address = SocketAddr::new(ip, port);
            return match allowed(&address) {
                true => Ok(vec![address]),
                false => Err(DialError::AddressNotAllowed),
            };
        }
        let mut found = self.resolver.resolve(owner, host, port).await;
        found.retain(allowed);
        match (found.is_empty(), reach) {
            (false, _) => Ok(found),
            (true, Reach::Any) => Err(DialError::NoSuchHost),
            (true, Reach::Ruled) => Err(DialError::NoAllowedHost),
        }
    }
}

#[cfg(test)]
mod tests;

//! The connections of clients: addresses that many clients share, and file handles.

use insula_apiserver::Limits;
use insula_apiserver::flow_control::Connections;
use insula_dialer::Cidr;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// The connections of clients.
#[derive(clap::Args)]
pub struct ConnectionArgs {
    /// Address ranges that many clients share, such as a load balancer's, which have no limit per address
    #[arg(long = "shared-addresses", value_name = "CIDR", value_delimiter = ',')]
    pub shared: Vec<Cidr>,
}

/// The file handles for anything but connections: the store, logs, calls of webhooks.
const RESERVED_HANDLES: usize = 256;

/// The fewest connections that the limits are reduced to.
const MIN_CONNECTIONS: usize = 64;

impl ConnectionArgs {
    /// Returns the limits with these addresses, and no more connections than file handles.
    pub fn apply(self, limits: Limits) -> Limits {
        let connections = match raise_file_limit() {
            Some(handles) => fit(limits.connections, handles),
            None => limits.connections,
        };
        if connections.total < limits.connections.total {
            let (connections, wanted) = (connections.total, limits.connections.total);
            tracing::info!(connections, wanted, "connections limited by file handles");
        }
        Limits {
            connections,
            shared_addresses: self.shared,
            ..limits
        }
    }
}

/// Raises the limit of file handles as far as it is allowed, and returns it. Shells set a lower one
/// for the sake of old programs.
fn raise_file_limit() -> Option<usize> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
    let raised = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    let handles = if raised.is_ok() { hard } else { soft };
    usize::try_from(handles).ok()
}

/// Returns the limits for so many file handles. Unauthenticated connections keep at most half of
/// all, so that a flood leaves room for clients with credentials.
fn fit(connections: Connections, handles: usize) -> Connections {
    let handles = handles
        .saturating_sub(RESERVED_HANDLES)
        .max(MIN_CONNECTIONS);
    let total = connections.total.min(handles);
    Connections {
        total,
        handshakes: connections.handshakes.min(total / 4),
        unauthenticated: connections.unauthenticated.min(total / 4),
        ..connections
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_file_handles_for_the_store() {
        let limits = |handles| {
            let fitted = fit(Connections::default(), handles);
            (fitted.total, fitted.handshakes, fitted.unauthenticated)
        };
        assert_eq!(limits(1_000_000), (20_000, 1_000, 1_000));
        assert_eq!(limits(1024), (768, 192, 192));
        assert_eq!(limits(20), (64, 16, 16));
    }

    #[test]
    fn file_limit_is_raised_to_what_is_allowed() {
        let handles = raise_file_limit().unwrap();
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        assert_eq!((soft, handles as u64), (hard, hard));
    }
}

//! The errors of connecting to a webhook, as Go words them.

use std::io;

use insula_dialer::DialError;

/// Returns Go's message for a failed connection. It hides the address of a refused name.
pub(super) fn failed(host: &str, port: u16, error: &DialError) -> String {
    match error {
        DialError::NoSuchHost | DialError::NoAllowedHost => {
            format!("dial tcp: lookup {host}: {error}")
        }
        DialError::AddressNotAllowed => format!("dial tcp: {host}:{port}: {error}"),
        DialError::Unreachable { address, error } => {
            format!("dial tcp {address}: {}", connect_error(error))
        }
    }
}

fn connect_error(error: &io::Error) -> String {
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

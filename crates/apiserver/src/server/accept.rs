//! Accepts connections, also when the process has no file handle left for them.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

use crate::flow_control::connection_tracker::ConnectionTracker;

/// The least time between two warnings.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);

/// The state of the loop that accepts.
#[derive(Debug, Default)]
pub struct Accepting {
    warned: Option<Instant>,
}

impl Accepting {
    /// Returns the next connection. Can be cancelled and called again.
    pub async fn next(
        &mut self,
        listener: &TcpListener,
        connections: &ConnectionTracker,
    ) -> (TcpStream, SocketAddr) {
        loop {
            match listener.accept().await {
                Ok(accepted) => return accepted,
                // The client has closed it already.
                Err(error) if is_of_client(&error) => {}
                Err(error) => {
                    self.warn(&error);
                    // The tasks of closed connections give their handles back at once. If only
                    // authenticated clients have handles, wait for one of them to leave.
                    let wait = match connections.make_room() {
                        true => Duration::from_millis(1),
                        false => Duration::from_millis(50),
                    };
                    tokio::time::sleep(wait).await;
                }
            }
        }
    }

    fn warn(&mut self, error: &io::Error) {
        let is_due = |warned: Instant| warned.elapsed() >= WARNING_INTERVAL;
        if self.warned.is_none_or(is_due) {
            self.warned = Some(Instant::now());
            tracing::warn!(%error, "connection not accepted");
        }
    }
}

/// Whether the error is of one connection, and not of the listener.
fn is_of_client(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    )
}

//! The signals that stop a process.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// SIGTERM and SIGINT.
pub struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

impl Stop {
    /// Starts to listen for the signals.
    pub fn listen() -> Result<Self, Failure> {
        let failed = |error| Failure::new("cannot listen for signals", error);
        Ok(Self {
            terminate: signal(SignalKind::terminate()).map_err(failed)?,
            interrupt: signal(SignalKind::interrupt()).map_err(failed)?,
        })
    }

    /// Waits for one of them.
    pub async fn recv(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

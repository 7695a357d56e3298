//! The lane of one connection.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use super::{CpuShare, Lane};

/// What decides the lane of a connection and its requests. Until a request is authenticated, that
/// is the interactive one: a flood of handshakes must not slow down other new clients.
#[derive(Debug, Default)]
pub struct ConnectionLane {
    /// Whether the connection stays interactive however much CPU time it uses.
    is_exempt: AtomicBool,
    /// The CPU time of the connection's space.
    space: OnceLock<Arc<CpuShare>>,
}

impl ConnectionLane {
    /// Notes that the connection belongs to a space, whose CPU time this is.
    pub fn set_space(&self, cpu: Arc<CpuShare>) {
        self.space.get_or_init(|| cpu);
    }

    /// Notes that the connection is interactive from now on.
    pub fn exempt(&self) {
        self.is_exempt.store(true, Ordering::Relaxed);
    }

    /// Returns the lane.
    pub fn current(&self, now: Instant) -> Lane {
        let is_over = self.space.get().is_some_and(|cpu| cpu.is_over(now));
        match is_over && !self.is_exempt.load(Ordering::Relaxed) {
            true => Lane::Bulk,
            false => Lane::Interactive,
        }
    }

    /// Adds the time since `began` to what the connection's space has used.
    pub fn charge(&self, began: Instant) {
        if let Some(cpu) = self.space.get() {
            let now = Instant::now();
            cpu.charge(now - began, now);
        }
    }
}

//! The lane of one connection.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use super::{CpuShare, Lane};

/// What decides the lane of a connection and its requests.
#[derive(Debug)]
pub struct ConnectionLane {
    /// Whether the connection stays interactive however much CPU time it uses.
    is_exempt: AtomicBool,
    /// The CPU time of all connections without an authenticated request.
    unauthenticated: Arc<CpuShare>,
    /// The CPU time of the connection's space.
    space: OnceLock<Arc<CpuShare>>,
}

impl ConnectionLane {
    /// Creates the lane of a new connection.
    pub fn new(unauthenticated: Arc<CpuShare>) -> Arc<Self> {
        Arc::new(Self {
            is_exempt: AtomicBool::new(false),
            unauthenticated,
            space: OnceLock::new(),
        })
    }

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
        match self.cpu().is_over(now) && !self.is_exempt.load(Ordering::Relaxed) {
            true => Lane::Bulk,
            false => Lane::Interactive,
        }
    }

    /// Adds the time since `began` to what the connection's space has used.
    pub fn charge(&self, began: Instant) {
        let now = Instant::now();
        self.cpu().charge(now - began, now);
    }

    fn cpu(&self) -> &CpuShare {
        self.space.get().unwrap_or(&self.unauthenticated)
    }
}

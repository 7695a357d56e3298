//! The faults requested of a vCenter.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::fault::Fault;

/// How a vCenter accepts connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConnectionMode {
    /// Normally.
    #[default]
    Open,
    /// It does not listen: connections are refused.
    Closed,
    /// Connections are accepted and never answered.
    Silent,
    /// Connections are accepted and closed immediately.
    HangUp,
}

/// All requested faults.
#[derive(Clone, Debug, Default)]
pub(super) struct RequestedFaults {
    pub connection_mode: ConnectionMode,
    pub delays: BTreeMap<String, Duration>,
    pub hangs: BTreeSet<String>,
    pub faults: VecDeque<(String, Fault)>,
    pub lost_answers: VecDeque<String>,
}

/// Matches every method.
pub(super) const EVERY: &str = "*";

impl RequestedFaults {
    /// The delay of a method.
    pub fn delay(&self, method: &str) -> Option<Duration> {
        let delay = self.delays.get(method).or_else(|| self.delays.get(EVERY));
        delay.copied()
    }

    pub fn hangs(&self, method: &str) -> bool {
        self.hangs.contains(method) || self.hangs.contains(EVERY)
    }

    /// Takes the fault for this call.
    pub fn take_fault(&mut self, method: &str) -> Option<Fault> {
        let at = self
            .faults
            .iter()
            .position(|(of, _)| of == method || of == EVERY)?;
        Some(self.faults.remove(at)?.1)
    }

    /// Takes whether the answer to this call is lost.
    pub fn take_lost_answer(&mut self, method: &str) -> bool {
        let at = self
            .lost_answers
            .iter()
            .position(|of| of == method || of == EVERY);
        at.and_then(|at| self.lost_answers.remove(at)).is_some()
    }
}

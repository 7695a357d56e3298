//! What a vCenter is told to do wrong.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::fault::Fault;

/// How a vCenter receives those who connect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Door {
    /// As it should.
    #[default]
    Open,
    /// Nobody listens: connections are refused.
    Closed,
    /// Connections are accepted, and then nothing is ever said.
    Silent,
    /// Connections are accepted and closed at once.
    HangUp,
}

/// All the trouble at once.
#[derive(Clone, Debug, Default)]
pub(super) struct Trouble {
    pub door: Door,
    pub delays: BTreeMap<String, Duration>,
    pub hangs: BTreeSet<String>,
    pub faults: VecDeque<(String, Fault)>,
    pub losses: VecDeque<String>,
}

/// Stands for every method.
pub(super) const EVERY: &str = "*";

impl Trouble {
    /// How long a method is to be delayed.
    pub fn delay(&self, method: &str) -> Option<Duration> {
        let delay = self.delays.get(method).or_else(|| self.delays.get(EVERY));
        delay.copied()
    }

    pub fn hangs(&self, method: &str) -> bool {
        self.hangs.contains(method) || self.hangs.contains(EVERY)
    }

    /// The fault that this call is to be answered with.
    pub fn take_fault(&mut self, method: &str) -> Option<Fault> {
        let at = self
            .faults
            .iter()
            .position(|(of, _)| of == method || of == EVERY)?;
        Some(self.faults.remove(at)?.1)
    }

    /// Whether the answer to this call is to be lost.
    pub fn take_loss(&mut self, method: &str) -> bool {
        let at = self
            .losses
            .iter()
            .position(|of| of == method || of == EVERY);
        at.and_then(|at| self.losses.remove(at)).is_some()
    }
}

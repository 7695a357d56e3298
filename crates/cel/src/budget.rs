//! What evaluating may cost, and what it did cost.

use crate::evaluate::EvalError;

/// The most that an evaluation may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget(pub u64);

impl Budget {
    /// What Kubernetes grants to one evaluation.
    pub const CALL: Self = Self(1_000_000);
}

/// Counts the cost of an evaluation and stops it.
#[derive(Debug)]
pub(crate) struct Meter {
    cost: u64,
    limit: u64,
    rounds: u64,
}

/// How many rounds of loops a unit of the budget is good for. Kubernetes' prices let a round
/// be free, and a loop of free rounds would have no end that anybody pays for.
const ROUNDS: u64 = 8;

impl Meter {
    pub(crate) const fn new(budget: Budget) -> Self {
        Self {
            cost: 0,
            limit: budget.0,
            rounds: 0,
        }
    }

    /// Adds to the cost. What is beyond the limit is counted, and nothing after it.
    pub(crate) fn charge(&mut self, cost: u64) -> Result<(), EvalError> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.limit {
            return Err(EvalError::Cancelled);
        }
        Ok(())
    }

    /// Refuses what cannot be paid for, before anything of that size is made.
    pub(crate) fn afford(&mut self, cost: u64) -> Result<(), EvalError> {
        if cost > self.limit - self.cost.min(self.limit) {
            return self.charge(cost);
        }
        Ok(())
    }

    /// Counts a round of a loop.
    pub(crate) fn tick(&mut self) -> Result<(), EvalError> {
        self.rounds(1)
    }

    /// Counts elements that are looked at or copied for less than they are worth.
    pub(crate) fn work(&mut self, elements: u64) -> Result<(), EvalError> {
        self.rounds(elements / 8)
    }

    fn rounds(&mut self, rounds: u64) -> Result<(), EvalError> {
        self.rounds = self.rounds.saturating_add(rounds);
        if self.rounds > self.limit.saturating_add(1).saturating_mul(ROUNDS) {
            return Err(EvalError::Cancelled);
        }
        Ok(())
    }

    /// Gives back what was charged for nothing.
    pub(crate) fn refund(&mut self, cost: u64) {
        self.cost = self.cost.saturating_sub(cost);
    }

    pub(crate) const fn cost(&self) -> u64 {
        self.cost
    }
}

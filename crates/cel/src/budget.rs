//! The cost budget of an evaluation.

use crate::error::EvalError;

/// The maximum cost of an evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget(pub u64);

impl Budget {
    /// The per-call limit of Kubernetes.
    pub const CALL: Self = Self(1_000_000);
}

/// Counts the cost of an evaluation and stops it at the limit.
#[derive(Debug)]
pub(crate) struct CostMeter {
    cost: u64,
    limit: u64,
    iterations: u64,
}

/// The number of loop iterations per unit of the budget. In Kubernetes' cost model an iteration can
/// be free; without this limit a loop of free iterations would not end.
const ITERATIONS_PER_UNIT: u64 = 8;

impl CostMeter {
    pub(crate) const fn new(budget: Budget) -> Self {
        Self {
            cost: 0,
            limit: budget.0,
            iterations: 0,
        }
    }

    /// Adds to the cost. The charge that exceeds the limit is still counted.
    pub(crate) fn charge(&mut self, cost: u64) -> Result<(), EvalError> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.limit {
            return Err(EvalError::Cancelled);
        }
        Ok(())
    }

    /// Fails if the cost would exceed the limit, before a result of that size is built.
    pub(crate) fn afford(&mut self, cost: u64) -> Result<(), EvalError> {
        if cost > self.limit - self.cost.min(self.limit) {
            return self.charge(cost);
        }
        Ok(())
    }

    /// Counts an iteration of a loop.
    pub(crate) fn count_iteration(&mut self) -> Result<(), EvalError> {
        self.add_iterations(1)
    }

    /// Counts elements that are read or copied without being charged in full.
    pub(crate) fn count_elements(&mut self, elements: u64) -> Result<(), EvalError> {
        self.add_iterations(elements / 8)
    }

    fn add_iterations(&mut self, iterations: u64) -> Result<(), EvalError> {
        self.iterations = self.iterations.saturating_add(iterations);
        if self.iterations
            > self
                .limit
                .saturating_add(1)
                .saturating_mul(ITERATIONS_PER_UNIT)
        {
            return Err(EvalError::Cancelled);
        }
        Ok(())
    }

    /// Subtracts a charge again.
    pub(crate) fn refund(&mut self, cost: u64) {
        self.cost = self.cost.saturating_sub(cost);
    }

    pub(crate) const fn cost(&self) -> u64 {
        self.cost
    }
}

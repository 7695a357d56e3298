//! What the exports of one object may cost: tenants write the expressions, and all tenants share the
//! operator.

use insula_cel::Budget;
use serde_json::Value;

use super::{ExportError, entries, entry_expressions};

/// The number of expressions of an object, with those of labels and annotations.
pub const MAX_EXPRESSIONS: usize = 256;
/// The size of an expression.
pub const MAX_EXPRESSION_BYTES: usize = 16 << 10;
/// The size of a Secret or ConfigMap, which is also the limit of Kubernetes.
pub const MAX_TARGET_BYTES: usize = 1 << 20;
/// The size of all Secrets and ConfigMaps of an object.
pub const MAX_TOTAL_BYTES: usize = 8 << 20;
/// The cost of all expressions of an object: as that of all expressions of a policy in Kubernetes.
const MAX_COST: u64 = 10 * Budget::CALL.0;

/// The cost of expressions that an object has left.
#[derive(Clone, Debug)]
pub struct CostBudget(u64);

impl Default for CostBudget {
    fn default() -> Self {
        Self(MAX_COST)
    }
}

impl CostBudget {
    /// Returns the budget of the next evaluation.
    pub fn next(&self) -> Budget {
        Budget(self.0.min(Budget::CALL.0))
    }

    /// Takes the cost of an evaluation from the budget.
    pub fn charge(&mut self, cost: u64) {
        self.0 = self.0.saturating_sub(cost);
    }

    /// Returns whether nothing is left.
    pub const fn is_exhausted(&self) -> bool {
        self.0 == 0
    }
}

/// Returns whether an object has expressions.
pub fn has_expressions(object: &Value) -> bool {
    all_entries(object).next().is_some()
}

fn all_entries(object: &Value) -> impl Iterator<Item = &Value> {
    let operator = &object["spec"]["operatorSpec"];
    let lists = ["secretExpressions", "configMapExpressions"].into_iter();
    lists.flat_map(|list| entries(operator, list))
}

/// Refuses objects with too many or too long expressions, before any of them is compiled.
///
/// # Errors
///
/// If there are too many, or one is too long.
pub fn check(object: &Value) -> Result<(), ExportError> {
    let mut count = 0;
    for entry in all_entries(object) {
        // An entry without a value counts too.
        count += entry_expressions(entry).count().max(1);
        if entry_expressions(entry).any(|it| it.len() > MAX_EXPRESSION_BYTES) {
            return Err(ExportError::LongExpression);
        }
    }
    match count > MAX_EXPRESSIONS {
        true => Err(ExportError::ManyExpressions { count }),
        false => Ok(()),
    }
}

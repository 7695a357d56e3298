//! The cost budget of a schema's rules, each and in total.

use std::cell::{Cell, RefCell};

use super::super::place::{Place, Report};
use super::super::props::Props;

/// Maximum cost of one expression.
const MAX_EXPRESSION_COST: u64 = 10_000_000;
/// Maximum total cost of all expressions of a schema.
const MAX_TOTAL_COST: u64 = 100_000_000;
/// How many of the most expensive expressions are reported.
const MAX_REPORTED: usize = 4;
/// Maximum estimated memory for the types of a schema. A type's name includes those of all
/// types above it, and types can be needed at every level: three megabytes of schema could
/// otherwise require gigabytes of types.
const MAX_TYPES_BYTES: u64 = 256 << 20;
/// The estimated size of a node's type, besides its name.
const TYPE_BYTES: u64 = 256;

/// The costs of the expressions of one schema.
#[derive(Debug)]
pub(crate) struct Budget {
    /// Whether the cost of a single expression is not limited.
    any_cost: bool,
    total: Cell<u64>,
    most_expensive: RefCell<Vec<(String, u64)>>,
    types: Cell<u64>,
}

impl Budget {
    /// An empty account. `any_cost` exempts single expressions from the limit, for an unchanged
    /// schema.
    pub fn new(any_cost: bool) -> Self {
        Self {
            any_cost,
            total: Cell::new(0),
            most_expensive: RefCell::default(),
            types: Cell::new(MAX_TYPES_BYTES),
        }
    }

    /// Reserves memory for the types of a schema, and reports whether there was enough.
    pub fn reserve_types(&self, schema: Props<'_>) -> bool {
        let left = take(schema, 0, self.types.get());
        self.types.set(left.unwrap_or(0));
        left.is_some()
    }

    /// Adds the estimated cost of an expression, and reports an error if it is too high.
    pub fn charge(&self, what: &str, cost: u64, place: Place<'_>, report: &mut Report) {
        if cost > MAX_EXPRESSION_COST && !self.any_cost {
            let detail = excess(&format!("estimated {what} cost"), cost, MAX_EXPRESSION_COST);
            report.forbidden(place, &detail);
        }
        self.total.set(self.total.get().saturating_add(cost));
        let mut most_expensive = self.most_expensive.borrow_mut();
        let least = most_expensive
            .get(MAX_REPORTED - 1)
            .map_or(0, |(_, cost)| *cost);
        if cost >= MAX_TOTAL_COST / 100 && cost > least {
            most_expensive.push((place.to_string(), cost));
            most_expensive.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
            most_expensive.truncate(MAX_REPORTED);
        }
    }

    /// Reports an error if the total cost is too high; `place` is the schema.
    pub fn report_excess(self, place: Place<'_>, report: &mut Report) {
        let total = self.total.get();
        if total <= MAX_TOTAL_COST {
            return;
        }
        for (field, _) in self.most_expensive.into_inner() {
            let detail = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            report.push(insula_kinds::FieldError::forbidden(field, detail));
        }
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        report.forbidden(place, &excess(what, total, MAX_TOTAL_COST));
    }
}

/// What is left of `room` after reserving memory for the types of all nodes.
fn take(schema: Props<'_>, names: u64, room: u64) -> Option<u64> {
    let mut room = room.checked_sub(TYPE_BYTES + names)?;
    for (name, property) in schema.entries("properties") {
        // Escaped names are longer: a dash takes eight bytes.
        room = take(property, names + 8 * name.len() as u64 + 1, room)?;
    }
    for below in ["items", "additionalProperties"] {
        if let Some(below) = schema.child(below) {
            room = take(below, names + 6, room)?;
        }
    }
    Some(room)
}

fn excess(what: &str, cost: u64, limit: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "Kubernetes loses it as well")]
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}

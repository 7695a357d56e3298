//! The cost budget of a schema's rules, each and in total.

use std::cell::{Cell, RefCell};

use super::super::place::{Place, Report};
use super::super::props::Props;

/// Maximum cost of one expression.
const MOST: u64 = 10_000_000;
/// Maximum total cost of all expressions of a schema.
const MOST_IN_ALL: u64 = 100_000_000;
/// How many of the most expensive expressions are reported.
const TOLD: usize = 4;
/// Maximum estimated memory for the types of a schema. A type's name includes those of all
/// types above it, and types can be needed at every level: three megabytes of schema could
/// otherwise require gigabytes of types.
const TYPES: u64 = 256 << 20;
/// The estimated size of a node's type, besides its name.
const NODE: u64 = 256;

/// The costs of the expressions of one schema.
#[derive(Debug)]
pub(crate) struct Budget {
    /// Whether the cost of a single expression is not limited.
    any_cost: bool,
    total: Cell<u64>,
    dearest: RefCell<Vec<(String, u64)>>,
    types: Cell<u64>,
}

impl Budget {
    /// An empty account. `any_cost` exempts single expressions from the limit, for an unchanged
    /// schema.
    pub fn new(any_cost: bool) -> Self {
        Self {
            any_cost,
            total: Cell::new(0),
            dearest: RefCell::default(),
            types: Cell::new(TYPES),
        }
    }

    /// Reserves memory for the types of a schema, and reports whether there was enough.
    pub fn affords(&self, schema: Props<'_>) -> bool {
        let left = take(schema, 0, self.types.get());
        self.types.set(left.unwrap_or(0));
        left.is_some()
    }

    /// Adds the estimated cost of an expression, and reports an error if it is too high.
    pub fn charge(&self, what: &str, cost: u64, place: Place<'_>, report: &mut Report) {
        if cost > MOST && !self.any_cost {
            let detail = excess(&format!("estimated {what} cost"), cost, MOST);
            report.forbidden(place, &detail);
        }
        self.total.set(self.total.get().saturating_add(cost));
        let mut dearest = self.dearest.borrow_mut();
        let least = dearest.get(TOLD - 1).map_or(0, |(_, cost)| *cost);
        if cost >= MOST_IN_ALL / 100 && cost > least {
            dearest.push((place.to_string(), cost));
            dearest.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
            dearest.truncate(TOLD);
        }
    }

    /// Reports an error if the total cost is too high; `place` is the schema.
    pub fn settle(self, place: Place<'_>, report: &mut Report) {
        let total = self.total.get();
        if total <= MOST_IN_ALL {
            return;
        }
        for (field, _) in self.dearest.into_inner() {
            let detail = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            report.push(insula_kinds::FieldError::forbidden(field, detail));
        }
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        report.forbidden(place, &excess(what, total, MOST_IN_ALL));
    }
}

/// What is left of `room` after reserving memory for the types of all nodes.
fn take(schema: Props<'_>, names: u64, room: u64) -> Option<u64> {
    let mut room = room.checked_sub(NODE + names)?;
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

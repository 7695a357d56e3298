//! Validation of objects, in Kubernetes' wording.

mod allowed;
mod error;
mod json_type;
mod junctor;
mod list;
mod number;
mod path;
pub(crate) mod print;
mod ratchet;
pub(crate) mod rule;
mod scale;
mod text;
mod value;

use path::ROOT_FIELD;
pub(crate) use path::{Path, Step, Style};

use insula_cel::{Budget, with_stack};
use insula_kinds::field::ErrorType;
use insula_kinds::{FieldError, Object};
use serde_json::Value;

use crate::embedded;
use crate::structural::{NodeId, Schema};
use value::Validator;

/// A write of an object.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// The new object.
    pub new: &'a Object,
    /// The stored object, unless this is a creation. Its violations are tolerated.
    pub old: Option<&'a Object>,
    /// Whether only the status is written.
    pub status_only: bool,
    /// Errors of the metadata found earlier. They come first in the result, and some of them
    /// prevent the evaluation of rules.
    pub known: &'a [FieldError],
    /// The paths of the scale subresource, if the kind has one.
    pub scale: Option<Scale<'a>>,
}

/// The paths of the scale subresource, such as `.spec.replicas`.
#[derive(Clone, Copy, Debug)]
pub struct Scale<'a> {
    /// The desired replicas.
    pub spec: &'a str,
    /// The observed replicas.
    pub status: &'a str,
    /// The label selector.
    pub selector: Option<&'a str>,
}

/// The result of validating an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The errors in Kubernetes' order.
    pub errors: Vec<FieldError>,
    /// Tolerated violations, which existed before.
    pub warnings: Vec<String>,
}

impl<'a> Change<'a> {
    /// The creation of an object.
    pub fn create(new: &'a Object) -> Self {
        Self {
            new,
            old: None,
            status_only: false,
            known: &[],
            scale: None,
        }
    }

    /// The update of an object.
    pub fn update(new: &'a Object, old: &'a Object) -> Self {
        Self {
            old: Some(old),
            ..Self::create(new)
        }
    }
}

/// The budget of one validation.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// The number of schema checks.
    checks: u64,
    /// The total cost of all rules.
    rules: u64,
    /// The cost of a single rule evaluation.
    call: Budget,
}

impl Limits {
    const FULL: Self = Self {
        checks: MAX_CHECKS,
        rules: rule::MAX_WRITE_COST,
        call: Budget::CALL,
    };

    /// A few milliseconds at most, which suffices for nearly all objects.
    const BRIEF: Self = Self {
        checks: 100_000,
        rules: 50_000,
        call: Budget(50_000),
    };
}

impl Schema {
    /// Validates a write.
    pub fn validate(&self, change: Change<'_>) -> Verdict {
        self.validate_within(&change, Limits::FULL).0
    }

    /// Validates a write if that is cheap enough for a thread with other work to do; otherwise
    /// returns `None`.
    pub fn validate_briefly(&self, change: Change<'_>) -> Option<Verdict> {
        let (verdict, sufficed) = self.validate_within(&change, Limits::BRIEF);
        sufficed.then_some(verdict)
    }

    /// Validates a write, and reports whether the budget sufficed.
    fn validate_within(&self, change: &Change<'_>, limits: Limits) -> (Verdict, bool) {
        let mut errors = change.known.to_vec();
        let mut sufficed = self.validate_values(change, limits.checks, &mut errors);
        if !sufficed && limits.checks < MAX_CHECKS {
            return (Verdict::default(), false);
        }
        if let Some(scale) = &change.scale {
            if !change.status_only {
                scale::spec(scale, change.new, &mut errors);
            }
            scale::status(scale, change.new, &mut errors);
        }
        if !change.status_only {
            embedded::validate(self, change.new, &mut errors);
        }
        self.validate_lists(change, &mut errors);
        let mut warnings = Vec::new();
        if self.is_ruled() {
            if errors.iter().any(|error| blocks_rules(error.error_type)) {
                errors.push(FieldError::invalid(ROOT_FIELD, &Value::Null, RULES_SKIPPED));
            } else {
                // Switch stacks once for all rules and values rather than for each.
                sufficed &= with_stack(self.max_rule_depth(), || {
                    rule::evaluate_rules(self, change, limits, &mut errors, &mut warnings)
                });
            }
        }
        (Verdict { errors, warnings }, sufficed)
    }

    /// Validates against the schema, and reports whether the budget sufficed.
    ///
    /// The object is first validated without ratcheting. Only if there are errors, it is
    /// validated again with it, because that costs more and is rarely needed.
    fn validate_values(
        &self,
        change: &Change<'_>,
        checks: u64,
        errors: &mut Vec<FieldError>,
    ) -> bool {
        if change.status_only {
            return self.validate_status(change, checks, errors);
        }
        let mut validator = Validator::with_checks(self, checks);
        let mut found = validator.validate_object(change.new, None);
        if change.old.is_some() && !found.is_empty() {
            validator = Validator::with_checks(self, checks);
            found = validator.validate_object(change.new, change.old);
        }
        errors.append(&mut found);
        validator.checks() > 0
    }

    /// Validates the status alone. Paths in errors are relative to it.
    fn validate_status(
        &self,
        change: &Change<'_>,
        checks: u64,
        errors: &mut Vec<FieldError>,
    ) -> bool {
        let id = self.root().property(STATUS);
        let (Some(id), Some(status)) = (id, change.new.get(STATUS)) else {
            return true;
        };
        let node = self.node(id);
        // Kubernetes treats a missing status like null.
        let old = change
            .old
            .map(|old| old.get(STATUS).unwrap_or(&Value::Null));
        let prefix = Some(STATUS);
        let new = || Validator {
            prefix,
            ..Validator::with_checks(self, checks)
        };
        let mut validator = new();
        let mut found = validator.validate(node, status, None);
        if old.is_some() && !found.is_empty() {
            validator = new();
            found = validator.validate(node, status, old);
        }
        errors.append(&mut found);
        validator.checks() > 0
    }

    /// Checks list types. If the old object has duplicates anywhere, those in the new one are
    /// tolerated.
    fn validate_lists(&self, change: &Change<'_>, errors: &mut Vec<FieldError>) {
        let mut found = list::duplicates(self, change.new);
        let tolerated = change
            .old
            .filter(|_| !found.is_empty())
            .is_some_and(|old| !list::duplicates(self, old).is_empty());
        if !tolerated {
            errors.append(&mut found);
        }
    }
}

/// Maximum number of schema checks in one validation.
pub(crate) const MAX_CHECKS: u64 = value::MAX_CHECKS;

/// Validates a value at a node, within the budget `left`.
pub(crate) fn validate_value(
    schema: &Schema,
    id: NodeId,
    value: &Value,
    left: &mut u64,
) -> Vec<FieldError> {
    let mut validator = Validator::with_checks(schema, *left);
    let errors = validator.validate(schema.node(id), value, None);
    *left = validator.checks();
    errors
}

const STATUS: &str = "status";
const RULES_SKIPPED: &str = "some validation rules were not checked because the object was invalid; \
    correct the existing errors to complete validation";

/// Rules are not evaluated for objects with these errors.
fn blocks_rules(fault: ErrorType) -> bool {
    matches!(
        fault,
        ErrorType::NotSupported
            | ErrorType::Required
            | ErrorType::TooLong
            | ErrorType::TooMany
            | ErrorType::TypeInvalid
    )
}

//! What is wrong with an object, in Kubernetes' words.

mod allowed;
mod fault;
mod junctor;
mod kind;
mod list;
mod number;
mod path;
pub(crate) mod print;
mod ratchet;
pub(crate) mod rule;
mod scale;
mod text;
mod value;

use path::NOWHERE;
pub(crate) use path::{Path, Step, Style};

use insula_cel::{Budget, with_room};
use insula_kinds::field::Fault;
use insula_kinds::{FieldError, Object};
use serde_json::Value;

use crate::embedded;
use crate::structural::{NodeId, Schema};
use value::Judge;

/// An object that is written.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// The object as it is to be.
    pub new: &'a Object,
    /// The object as it is, unless it is created: faults that it had are forgiven.
    pub old: Option<&'a Object>,
    /// Whether only the status is written.
    pub status_only: bool,
    /// What is already known to be wrong, of metadata: it stands first in the verdict, and
    /// some of it keeps rules from being asked.
    pub known: &'a [FieldError],
    /// Where the kind keeps what its scale shows, if it has one.
    pub scale: Option<Scale<'a>>,
}

/// Where a kind keeps what its scale shows: `.spec.replicas`.
#[derive(Clone, Copy, Debug)]
pub struct Scale<'a> {
    /// How many are wanted.
    pub spec: &'a str,
    /// How many there are.
    pub status: &'a str,
    /// Which they are.
    pub selector: Option<&'a str>,
}

/// What is wrong with an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// What is wrong, in Kubernetes' order.
    pub errors: Vec<FieldError>,
    /// What is wrong but was wrong before, and therefore forgiven.
    pub warnings: Vec<String>,
}

impl<'a> Change<'a> {
    /// A new object of which nothing is known.
    pub fn create(new: &'a Object) -> Self {
        Self {
            new,
            old: None,
            status_only: false,
            known: &[],
            scale: None,
        }
    }

    /// An object that takes the place of another.
    pub fn update(new: &'a Object, old: &'a Object) -> Self {
        Self {
            old: Some(old),
            ..Self::create(new)
        }
    }
}

/// How much may be done to judge one object.
#[derive(Clone, Copy, Debug)]
struct Effort {
    /// How many checks.
    checks: u64,
    /// What all rules may cost together.
    rules: u64,
    /// What one answer of a rule may cost.
    call: Budget,
}

impl Effort {
    const FULL: Self = Self {
        checks: MAX_CHECKS,
        rules: rule::WRITE,
        call: Budget::CALL,
    };

    /// A few milliseconds at most, and more than nearly all objects take.
    const BRIEF: Self = Self {
        checks: 100_000,
        rules: 50_000,
        call: Budget(50_000),
    };
}

impl Schema {
    /// What is wrong with the change.
    pub fn validate(&self, change: Change<'_>) -> Verdict {
        self.judge(&change, Effort::FULL).0
    }

    /// The same if it takes no longer than a thread with other things to do can spare, and
    /// otherwise nothing.
    pub fn validate_briefly(&self, change: Change<'_>) -> Option<Verdict> {
        let (verdict, sufficed) = self.judge(&change, Effort::BRIEF);
        sufficed.then_some(verdict)
    }

    /// What is wrong with the change, and whether the effort sufficed to tell.
    fn judge(&self, change: &Change<'_>, effort: Effort) -> (Verdict, bool) {
        let mut errors = change.known.to_vec();
        let mut sufficed = self.validate_values(change, effort.checks, &mut errors);
        if !sufficed && effort.checks < MAX_CHECKS {
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
            if errors.iter().any(|error| blocks_rules(error.fault)) {
                errors.push(FieldError::invalid(NOWHERE, &Value::Null, NOT_ASKED));
            } else {
                // Once for all rules and values, rather than for each.
                sufficed &= with_room(self.deepest(), || {
                    rule::ask(self, change, effort, &mut errors, &mut warnings)
                });
            }
        }
        (Verdict { errors, warnings }, sufficed)
    }

    /// Says whether the checks sufficed.
    ///
    /// Objects are judged as if they were new. Only if something is wrong it is asked what
    /// was wrong before, since that costs more and is rarely needed.
    fn validate_values(
        &self,
        change: &Change<'_>,
        checks: u64,
        errors: &mut Vec<FieldError>,
    ) -> bool {
        if change.status_only {
            return self.validate_status(change, checks, errors);
        }
        let mut judge = Judge::with_checks(self, checks);
        let mut found = judge.judge_object(change.new, None);
        if change.old.is_some() && !found.is_empty() {
            judge = Judge::with_checks(self, checks);
            found = judge.judge_object(change.new, change.old);
        }
        errors.append(&mut found);
        judge.checks() > 0
    }

    /// Of a write to the status only that is judged, and named as if it were the top.
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
        // A status that is missing and one that is null are the same to Kubernetes.
        let old = change
            .old
            .map(|old| old.get(STATUS).unwrap_or(&Value::Null));
        let under = Some(STATUS);
        let new = || Judge {
            under,
            ..Judge::with_checks(self, checks)
        };
        let mut judge = new();
        let mut found = judge.judge(node, status, None);
        if old.is_some() && !found.is_empty() {
            judge = new();
            found = judge.judge(node, status, old);
        }
        errors.append(&mut found);
        judge.checks() > 0
    }

    /// Lists that had something twice may keep it, whatever else has changed.
    fn validate_lists(&self, change: &Change<'_>, errors: &mut Vec<FieldError>) {
        let mut found = list::duplicates(self, change.new);
        let forgiven = change
            .old
            .filter(|_| !found.is_empty())
            .is_some_and(|old| !list::duplicates(self, old).is_empty());
        if !forgiven {
            errors.append(&mut found);
        }
    }
}

/// How many checks may be made in one go.
pub(crate) const MAX_CHECKS: u64 = value::MAX_CHECKS;

/// What is wrong with a value at a node, as far as the checks that are left suffice.
pub(crate) fn judge_value(
    schema: &Schema,
    id: NodeId,
    value: &Value,
    left: &mut u64,
) -> Vec<FieldError> {
    let mut judge = Judge::with_checks(schema, *left);
    let errors = judge.judge(schema.node(id), value, None);
    *left = judge.checks();
    errors
}

const STATUS: &str = "status";
const NOT_ASKED: &str = "some validation rules were not checked because the object was invalid; \
    correct the existing errors to complete validation";

/// Rules are not asked about objects that are not even of the right shape.
fn blocks_rules(fault: Fault) -> bool {
    matches!(
        fault,
        Fault::NotSupported
            | Fault::Required
            | Fault::TooLong
            | Fault::TooMany
            | Fault::TypeInvalid
    )
}

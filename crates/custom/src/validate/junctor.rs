//! Logical junctors: `allOf`, `anyOf`, `oneOf` and `not`.

use insula_gotext::quote;
use insula_kinds::FieldError;

use super::path::{Path, Style};
use super::value::{Subject, Validator};
use crate::structural::{Node, NodeId};

impl Validator<'_> {
    /// Validates a value against the junctors, and returns the number of passed checks.
    pub(super) fn junctors(
        &mut self,
        node: &Node,
        subject: Subject<'_>,
        path: &Path<'_>,
        errors: &mut Vec<FieldError>,
    ) -> u64 {
        let Some(junctors) = node.junctors.as_deref() else {
            return 0;
        };
        let mut passed = 0;
        if !junctors.any.is_empty() {
            passed += self.any(&junctors.any, subject, path, errors);
        }
        if !junctors.one.is_empty() {
            passed += self.one(&junctors.one, subject, path, errors);
        }
        if !junctors.all.is_empty() {
            passed += self.all(&junctors.all, subject, path, errors);
        }
        if let Some(not) = junctors.not {
            let mut below = Vec::new();
            self.branch(not, subject, path, &mut below);
            if below.is_empty() {
                self.unfit(path, "must not validate the schema (not)", errors);
            }
        }
        passed
    }

    fn any(
        &mut self,
        branches: &[NodeId],
        subject: Subject<'_>,
        path: &Path<'_>,
        errors: &mut Vec<FieldError>,
    ) -> u64 {
        let mut best = Best::default();
        for id in branches {
            let mut below = Vec::new();
            let passed = self.branch(*id, subject, path, &mut below);
            if below.is_empty() {
                return passed;
            }
            best.consider(passed, below);
        }
        self.unfit(path, "must validate at least one schema (anyOf)", errors);
        best.report(errors)
    }

    fn one(
        &mut self,
        branches: &[NodeId],
        subject: Subject<'_>,
        path: &Path<'_>,
        errors: &mut Vec<FieldError>,
    ) -> u64 {
        let mut best = Best::default();
        let mut fits = Vec::new();
        for id in branches {
            let mut below = Vec::new();
            let passed = self.branch(*id, subject, path, &mut below);
            if below.is_empty() {
                fits.push(passed);
            } else {
                best.consider(passed, below);
            }
        }
        let rule = "must validate one and only one schema (oneOf).";
        match fits.as_slice() {
            [passed] => *passed,
            [] => {
                self.unfit(path, &format!("{rule} Found none valid"), errors);
                best.report(errors)
            }
            several => {
                let count = several.len();
                self.unfit(
                    path,
                    &format!("{rule} Found {count} valid alternatives"),
                    errors,
                );
                0
            }
        }
    }

    fn all(
        &mut self,
        branches: &[NodeId],
        subject: Subject<'_>,
        path: &Path<'_>,
        errors: &mut Vec<FieldError>,
    ) -> u64 {
        let mut passed = 0;
        let mut fit = 0;
        for id in branches {
            let mut below = Vec::new();
            passed += self.branch(*id, subject, path, &mut below);
            fit += usize::from(below.is_empty());
            below
                .into_iter()
                .for_each(|error| self.push(errors, || error));
        }
        if fit < branches.len() {
            let none = if fit == 0 { ". None validated" } else { "" };
            let rule = format!("must validate all the schemas (allOf){none}");
            self.unfit(path, &rule, errors);
        }
        passed
    }

    fn unfit(&mut self, path: &Path<'_>, rule: &str, errors: &mut Vec<FieldError>) {
        self.push(errors, || {
            let name = quote(&path.print(Style::Schema));
            self.general(&format!("{name} {rule}"))
        });
    }
}

/// The failed branch that passed the most checks; the first one among equals.
#[derive(Default)]
struct Best {
    found: Option<(u64, Vec<FieldError>)>,
}

impl Best {
    fn consider(&mut self, passed: u64, errors: Vec<FieldError>) {
        let better = self.found.as_ref().is_none_or(|(most, _)| passed > *most);
        if better {
            self.found = Some((passed, errors));
        }
    }

    fn report(self, errors: &mut Vec<FieldError>) -> u64 {
        let Some((passed, mut found)) = self.found else {
            return 0;
        };
        errors.append(&mut found);
        passed
    }
}

//! Checks of strings: length, pattern and format.

use insula_gotext::quote;
use insula_kinds::FieldError;

use super::path::{Path, Style};
use super::value::Validator;
use crate::structural::{Checks, Node};

impl Validator<'_> {
    pub(super) fn text(
        &mut self,
        node: &Node,
        text: &str,
        path: &Path<'_>,
        errors: &mut Vec<FieldError>,
    ) -> u64 {
        let Some(checks) = node.checks.as_deref() else {
            return 1;
        };
        self.length_and_pattern(checks, text, path, errors);
        let Some(format) = &checks.format else {
            return 1;
        };
        if format.is_of_text() {
            if !format.fits(text) {
                self.push(errors, || {
                    self.wrong_type(path, format.name(), &quote(text), text)
                });
            }
            return 2;
        }
        1
    }

    /// Reports only the first violation.
    fn length_and_pattern(
        &mut self,
        checks: &Checks,
        text: &str,
        path: &Path<'_>,
        errors: &mut Vec<FieldError>,
    ) {
        let wrong = |body: String| {
            let name = path.print(Style::Schema);
            let detail = format!("{name} in body {body}");
            FieldError::invalid_text(self.field(path), text, &detail)
        };
        let length = match (checks.max_length, checks.min_length) {
            (None, None) => 0,
            _ => text.chars().count() as i64,
        };
        if let Some(most) = checks.max_length.filter(|most| length > *most) {
            self.push(errors, || self.too_long(path, most));
        } else if let Some(least) = checks.min_length.filter(|least| length < *least) {
            self.push(errors, || {
                wrong(format!("should be at least {least} chars long"))
            });
        } else if let Some(pattern) = &checks.pattern {
            let work = pattern.work(text);
            if self.left > work && !pattern.matches(text) {
                let shown = match pattern.fault() {
                    Some(fault) => format!("{}, but pattern is invalid: {fault}", pattern.text()),
                    None => pattern.text().to_owned(),
                };
                self.push(errors, || wrong(format!("should match '{shown}'")));
            }
            self.spend(work);
        }
    }
}

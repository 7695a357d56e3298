//! Typed access to the values of settings, which collects all problems.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

use insula_identity::credential::Hidden;

/// A setting that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The name of the setting.
    pub variable: String,
    /// Its value; none for a missing setting and for secrets.
    pub value: Option<String>,
    /// What is wrong, with the legal values.
    pub message: String,
}

impl Display for Problem {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            variable, message, ..
        } = self;
        match &self.value {
            Some(value) => write!(out, "{variable}={value:?}: {message}"),
            None => write!(out, "{variable}: {message}"),
        }
    }
}

/// The values of settings, with the problems and warnings that were found in them so far.
pub(super) struct Reader<'a> {
    values: &'a BTreeMap<String, String>,
    pub problems: Vec<Problem>,
    pub warnings: Vec<String>,
}

impl<'a> Reader<'a> {
    pub fn new(values: &'a BTreeMap<String, String>) -> Self {
        Self {
            values,
            problems: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Returns the text of a setting. An empty text is a setting that is absent.
    pub fn text(&self, variable: &str) -> Option<&'a str> {
        let text = self.values.get(variable)?.trim();
        (!text.is_empty()).then_some(text)
    }

    /// Returns the text of a secret setting.
    pub fn secret(&self, variable: &str) -> Option<Hidden> {
        // Passwords may begin or end with white space.
        let text = self.values.get(variable)?;
        (!text.is_empty()).then(|| Hidden::new(text.as_str()))
    }

    /// Adds a problem of a setting with a value that may be shown.
    pub fn problem(&mut self, variable: &str, message: impl Into<String>) {
        self.problems.push(Problem {
            variable: variable.to_owned(),
            value: self.text(variable).map(str::to_owned),
            message: message.into(),
        });
    }

    pub fn warn(&mut self, message: String) {
        self.warnings.push(message);
    }

    /// Returns a truth value as Go parses it. Other texts are false, with a warning.
    pub fn lenient_bool(&mut self, variable: &str) -> bool {
        let Some(text) = self.text(variable) else {
            return false;
        };
        parse_bool(text).unwrap_or_else(|| {
            self.warn(format!(
                "{variable}={text:?} is no truth value ({BOOLS}) and means false"
            ));
            false
        })
    }

    /// Returns a truth value as Go parses it. Other texts are a problem.
    pub fn strict_bool(&mut self, variable: &str) -> Option<bool> {
        let value = parse_bool(self.text(variable)?);
        if value.is_none() {
            self.problem(variable, format!("expected one of {BOOLS}"));
        }
        value
    }

    /// Returns the choice that a text names, in any case.
    pub fn choice<T: Copy>(&mut self, variable: &str, choices: &[(&str, T)], default: T) -> T {
        let Some(text) = self.text(variable) else {
            return default;
        };
        let mut found = choices.iter().filter(|it| it.0.eq_ignore_ascii_case(text));
        if let Some((_, choice)) = found.next() {
            return *choice;
        }
        let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
        self.problem(variable, format!("expected one of {}", names.join(", ")));
        default
    }

    /// Returns a number within a condition.
    pub fn number<T: FromStr + Copy>(
        &mut self,
        variable: &str,
        default: T,
        expected: &str,
        valid: impl Fn(T) -> bool,
    ) -> T {
        let Some(text) = self.text(variable) else {
            return default;
        };
        match text.parse().ok().filter(|number| valid(*number)) {
            Some(number) => number,
            None => {
                self.problem(variable, format!("expected {expected}"));
                default
            }
        }
    }

    /// Returns the items of a comma-separated list, without empty and repeated ones.
    pub fn list(&self, variable: &str) -> Vec<String> {
        let mut items = Vec::new();
        for item in self.text(variable).unwrap_or_default().split(',') {
            let item = item.trim();
            if !item.is_empty() && !items.iter().any(|it| it == item) {
                items.push(item.to_owned());
            }
        }
        items
    }
}

const BOOLS: &str = "1, t, T, TRUE, true, True, 0, f, F, FALSE, false, False";

/// Parses a truth value with the texts of Go's `strconv.ParseBool`.
pub(super) fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

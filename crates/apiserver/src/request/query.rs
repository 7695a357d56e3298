//! The query parameters of a request.

use insula_core::Revision;
use insula_kinds::FieldError;
use percent_encoding::percent_decode_str;
use serde_json::json;

use crate::status::{Result, StatusError};

/// The query of a URL, decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Parses `a=1&b=2`.
    pub fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        Self(
            pairs
                .map(|pair| {
                    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                    (decode(name), decode(value))
                })
                .collect(),
        )
    }

    /// Returns the first value of a parameter. An empty value counts as absent.
    pub fn get<'a>(&'a self, name: &str) -> Option<&'a str> {
        self.all(name).find(|value| !value.is_empty())
    }

    /// Returns every value of a parameter.
    pub fn all<'a, 'n>(&'a self, name: &'n str) -> impl Iterator<Item = &'a str> + use<'a, 'n> {
        let named = self.0.iter().filter(move |(found, _)| found == name);
        named.map(|(_, value)| value.as_str())
    }

    /// Whether a parameter is present with a value other than `false` and `0`.
    pub fn flag(&self, name: &str) -> bool {
        let value = self.all(name).next();
        value.is_some_and(|value| !value.eq_ignore_ascii_case("false") && value != "0")
    }

    /// Returns the boolean value of a parameter, if it is present.
    pub fn choice(&self, name: &str) -> Option<bool> {
        self.all(name).next()?;
        Some(self.flag(name))
    }

    /// Returns the integer value of a parameter, if it is present.
    pub fn integer(&self, name: &str) -> Result<Option<i64>> {
        let Some(text) = self.get(name) else {
            return Ok(None);
        };
        let parsed = text.parse().map(Some);
        parsed.map_err(|error| {
            let (text, why) = (insula_gotext::quote(text), go_reason(&error));
            StatusError::bad_request(format!("strconv.ParseInt: parsing {text}: {why}"))
        })
    }
}

fn decode(text: &str) -> String {
    let spaced = text.replace('+', " ");
    percent_decode_str(&spaced).decode_utf8_lossy().into_owned()
}

/// Parses a `resourceVersion` parameter. The error is the message for the client.
pub fn revision(text: &str) -> Result<Revision, String> {
    // Go's unsigned integers accept no sign.
    let why = match text.parse::<u64>() {
        Ok(number) if !text.starts_with('+') => return Ok(Revision::new(number)),
        Ok(_) => "invalid syntax",
        Err(error) => go_reason(&error),
    };
    let quoted = insula_gotext::quote(text);
    Err(format!(
        "resourceVersion: Invalid value: {quoted}: strconv.ParseUint: parsing {quoted}: {why}"
    ))
}

/// Returns Go's message for an integer that cannot be parsed.
fn go_reason(error: &std::num::ParseIntError) -> &'static str {
    use std::num::IntErrorKind::{NegOverflow, PosOverflow};
    match error.kind() {
        PosOverflow | NegOverflow => "value out of range",
        _ => "invalid syntax",
    }
}

/// The options of a write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// Does everything except the commit.
    pub dry_run: bool,
    /// What to do about unknown and duplicate fields.
    pub validation: FieldValidation,
}

/// What to do about unknown and duplicate fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// Drop them.
    Ignore,
    /// Drop them and warn the client.
    #[default]
    Warn,
    /// Reject the request.
    Strict,
}

impl WriteOptions {
    /// Parses and validates the options. Errors name them as `options`, such as
    /// `CreateOptions`.
    pub fn read(query: &Query, options: &str) -> Result<Self> {
        let mut errors = Vec::new();
        let dry_run = dry_run(query.all("dryRun"), &mut errors);
        let manager = query.get("fieldManager").unwrap_or_default();
        if manager.len() > 128 {
            errors.push(FieldError::too_long("fieldManager", 128));
        }
        let control = manager
            .chars()
            .enumerate()
            .find(|(_, letter)| letter.is_control());
        if let Some((at, letter)) = control {
            let detail = format!(
                "invalid character U+{:04X} (at position {at})",
                letter as u32
            );
            errors.push(FieldError::invalid_text("fieldManager", manager, &detail));
        }
        let validation = match query.get("fieldValidation") {
            None | Some("Warn") => FieldValidation::Warn,
            Some("Ignore") => FieldValidation::Ignore,
            Some("Strict") => FieldValidation::Strict,
            Some(other) => {
                let known = ["", "Ignore", "Strict", "Warn"];
                let value = json!(other);
                errors.push(FieldError::not_supported("fieldValidation", &value, &known));
                FieldValidation::Warn
            }
        };
        if errors.is_empty() {
            Ok(Self {
                dry_run,
                validation,
            })
        } else {
            Err(StatusError::invalid_options(options, &errors))
        }
    }
}

/// Whether `dryRun` is `All`, its only valid value.
pub fn dry_run<'a>(values: impl Iterator<Item = &'a str>, errors: &mut Vec<FieldError>) -> bool {
    let values: Vec<&str> = values.filter(|value| !value.is_empty()).collect();
    if values.iter().any(|value| *value != "All") {
        errors.push(FieldError::not_supported(
            "dryRun",
            &json!(values),
            &["All"],
        ));
    }
    !values.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flag_is_set_by_any_value_except_false_and_zero() {
        for (text, set) in [
            ("watch=true", true),
            ("watch=abc", true),
            ("watch=", true),
            ("watch", true),
            ("watch=false", false),
            ("watch=0", false),
            ("", false),
        ] {
            assert_eq!(Query::parse(text).flag("watch"), set, "{text}");
        }
    }

    #[test]
    fn invalid_options_have_the_errors_of_kubernetes() {
        let refused = |text| {
            let options = WriteOptions::read(&Query::parse(text), "CreateOptions");
            options.unwrap_err().message().to_owned()
        };
        assert_eq!(
            refused("dryRun=Foo"),
            "CreateOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: [\"Foo\"]: \
             supported values: \"All\""
        );
        assert_eq!(
            refused("fieldManager=%01"),
            "CreateOptions.meta.k8s.io \"\" is invalid: fieldManager: Invalid value: \"\\x01\": \
             invalid character U+0001 (at position 0)"
        );
        assert_eq!(
            refused("fieldValidation=Foo"),
            "CreateOptions.meta.k8s.io \"\" is invalid: fieldValidation: Unsupported value: \
             \"Foo\": supported values: \"\", \"Ignore\", \"Strict\", \"Warn\""
        );
    }
}

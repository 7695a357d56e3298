//! Which labels a host must have.

use std::collections::BTreeMap;
use std::fmt;

/// The labels that a host must have. All requirements count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
    GreaterThan,
    LessThan,
}

/// Why a selector cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSelector {
    /// The operator is not known.
    #[error(
        "hostSelector has operator {operator:?} for {key:?}, which is none of \
             !, =, ==, in, !=, notin, exists, gt and lt"
    )]
    Operator {
        /// The key.
        key: String,
        /// The operator.
        operator: String,
    },
    /// The operator needs another number of values.
    #[error(
        "hostSelector has {found} values for {key:?}, and operator {operator:?} needs {needed}"
    )]
    Values {
        /// The key.
        key: String,
        /// The operator.
        operator: String,
        /// How many values there are.
        found: usize,
        /// How many values it needs.
        needed: &'static str,
    },
    /// The value is not an integer.
    #[error("hostSelector compares {key:?} with {value:?}, which is no integer")]
    NotInteger {
        /// The key.
        key: String,
        /// The value.
        value: String,
    },
    /// The key cannot be that of a label.
    #[error("hostSelector has the key {0:?}, which no label can have")]
    Key(String),
    /// The value cannot be that of a label.
    #[error("hostSelector has the value {value:?} for {key:?}, which no label can have")]
    Value {
        /// The key.
        key: String,
        /// The value.
        value: String,
    },
}

impl Selector {
    /// Returns the selector of labels and expressions: key, operator and values. Operators may
    /// have any case.
    ///
    /// # Errors
    ///
    /// If an expression has an operator that is not known, or values that it cannot have.
    pub fn new<'a>(
        match_labels: &BTreeMap<String, String>,
        match_expressions: impl IntoIterator<Item = (&'a str, &'a str, &'a [String])>,
    ) -> Result<Self, InvalidSelector> {
        let mut requirements = Vec::new();
        for (key, value) in match_labels {
            let values = std::slice::from_ref(value);
            requirements.push(Requirement::new(key, "=", values)?);
        }
        for (key, operator, values) in match_expressions {
            requirements.push(Requirement::new(key, operator, values)?);
        }
        Ok(Self { requirements })
    }

    /// Returns whether a host with these labels is selected.
    pub fn selects(&self, labels: Option<&BTreeMap<String, String>>) -> bool {
        let none = BTreeMap::new();
        let labels = labels.unwrap_or(&none);
        self.requirements.iter().all(|one| one.is_met(labels))
    }
}

impl Requirement {
    fn new(key: &str, text: &str, values: &[String]) -> Result<Self, InvalidSelector> {
        let wrong = |needed| InvalidSelector::Values {
            key: key.to_owned(),
            operator: text.to_owned(),
            found: values.len(),
            needed,
        };
        let is_one = values.len() == 1;
        let operator = match text.to_lowercase().as_str() {
            "in" | "notin" if values.is_empty() => return Err(wrong("at least one")),
            "=" | "==" | "!=" | "gt" | "lt" if !is_one => return Err(wrong("one")),
            "exists" | "!" if !values.is_empty() => return Err(wrong("none")),
            "in" | "=" | "==" => Operator::In,
            "notin" | "!=" => Operator::NotIn,
            "exists" => Operator::Exists,
            "!" => Operator::DoesNotExist,
            "gt" => Operator::GreaterThan,
            "lt" => Operator::LessThan,
            _ => {
                return Err(InvalidSelector::Operator {
                    key: key.to_owned(),
                    operator: text.to_owned(),
                });
            }
        };
        if !is_key(key) {
            return Err(InvalidSelector::Key(key.to_owned()));
        }
        for value in values {
            let (key, value) = (key.to_owned(), value.clone());
            if matches!(operator, Operator::GreaterThan | Operator::LessThan) {
                if value.parse::<i64>().is_err() {
                    return Err(InvalidSelector::NotInteger { key, value });
                }
            } else if !is_value(&value) {
                return Err(InvalidSelector::Value { key, value });
            }
        }
        Ok(Self {
            key: key.to_owned(),
            operator,
            values: values.to_vec(),
        })
    }

    fn is_met(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        let limit = || {
            self.values
                .first()
                .and_then(|text| text.parse::<i64>().ok())
        };
        let number = || value.and_then(|text| text.parse::<i64>().ok());
        match self.operator {
            Operator::In => value.is_some_and(|value| self.values.contains(value)),
            Operator::NotIn => value.is_none_or(|value| !self.values.contains(value)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan => number().zip(limit()).is_some_and(|(a, b)| a > b),
            Operator::LessThan => number().zip(limit()).is_some_and(|(a, b)| a < b),
        }
    }
}

/// Writes the selector as the API server reads it.
impl fmt::Display for Selector {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, one) in self.requirements.iter().enumerate() {
            if at > 0 {
                out.write_str(",")?;
            }
            let (key, values) = (&one.key, one.values.join(","));
            match one.operator {
                Operator::In => write!(out, "{key} in ({values})")?,
                Operator::NotIn => write!(out, "{key} notin ({values})")?,
                Operator::Exists => out.write_str(key)?,
                Operator::DoesNotExist => write!(out, "!{key}")?,
                Operator::GreaterThan => write!(out, "{key}>{values}")?,
                Operator::LessThan => write!(out, "{key}<{values}")?,
            }
        }
        Ok(())
    }
}

fn is_key(key: &str) -> bool {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    let is_label = |label: &str| {
        let is_letter = |one: u8| one.is_ascii_lowercase() || one.is_ascii_digit() || one == b'-';
        !label.is_empty()
            && label.bytes().all(is_letter)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    !name.is_empty()
        && is_value(name)
        && prefix.is_none_or(|prefix| prefix.len() <= 253 && prefix.split('.').all(is_label))
}

fn is_value(value: &str) -> bool {
    let is_letter = |one: u8| one.is_ascii_alphanumeric() || b"-_.".contains(&one);
    let is_end = |one: Option<u8>| one.is_none_or(|one| one.is_ascii_alphanumeric());
    value.len() <= 63
        && value.bytes().all(is_letter)
        && is_end(value.bytes().next())
        && is_end(value.bytes().next_back())
}

//! Label selectors: as text in queries, as objects in specs.

use std::fmt;

use serde_json::Value;

use crate::Object;
use crate::field::{FieldError, message};
use crate::text;

/// A label selector: requirements that labels must all meet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<LabelRequirement>,
}

/// A requirement on one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelRequirement {
    /// The label key.
    pub key: String,
    /// The operator.
    pub operator: LabelOperator,
    /// The values.
    pub values: Vec<String>,
}

/// The operator of a label requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelOperator {
    /// `=`: the label has the value.
    Equals,
    /// `==`: like `=`, printed as it was written.
    DoubleEquals,
    /// `!=`: the label is absent or has another value.
    NotEquals,
    /// `in`: the label has one of the values.
    In,
    /// `notin`: the label is absent or has none of the values.
    NotIn,
    /// The label is present.
    Exists,
    /// `!`: the label is absent.
    DoesNotExist,
    /// `>`: the label is a greater integer. The bound is parsed once, not at each match.
    GreaterThan(i64),
    /// `<`: the label is a smaller integer.
    LessThan(i64),
}

impl LabelSelector {
    /// Parses a selector such as `app=web,tier in (a,b),!old`. The error is a message for
    /// the client.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parser = Parser::new(text);
        let mut requirements = parser.requirements()?;
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Self { requirements })
    }

    /// Reads a selector with `matchLabels` and `matchExpressions`; an empty one matches
    /// everything.
    pub fn from_object(selector: &Object) -> Result<Self, String> {
        let mut requirements = Vec::new();
        if let Some(Value::Object(labels)) = selector.get("matchLabels") {
            for (key, value) in labels {
                let values = vec![value.as_str().unwrap_or_default().to_owned()];
                requirements.push(requirement(key, Sign::Equals, values)?);
            }
        }
        if let Some(Value::Array(expressions)) = selector.get("matchExpressions") {
            for expression in expressions {
                requirements.push(expressed(expression)?);
            }
        }
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Self { requirements })
    }

    /// Creates a selector of exactly these labels, which are not validated; without
    /// labels it matches everything.
    pub fn from_labels(labels: &Object) -> Self {
        let requirements = labels.iter().map(|(key, value)| LabelRequirement {
            key: key.clone(),
            operator: LabelOperator::Equals,
            values: vec![value.as_str().unwrap_or_default().to_owned()],
        });
        Self {
            requirements: requirements.collect(),
        }
    }

    /// Whether the selector matches everything.
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Returns the requirements, ordered by key.
    pub fn requirements(&self) -> &[LabelRequirement] {
        &self.requirements
    }

    /// Whether the labels that `label` returns by key meet all requirements.
    pub fn matches<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements
            .iter()
            .all(|requirement| requirement.matches(label(&requirement.key)))
    }

    /// Whether the labels of an object (`metadata.labels`) meet all requirements.
    pub fn matches_labels(&self, labels: Option<&Object>) -> bool {
        self.matches(|key| labels?.get(key)?.as_str())
    }
}

impl LabelRequirement {
    /// Whether the label's value, if any, meets the requirement.
    pub fn matches(&self, value: Option<&str>) -> bool {
        let listed = |value: &str| self.values.iter().any(|one| one == value);
        let number = || value.and_then(|text| text.parse::<i64>().ok());
        match self.operator {
            LabelOperator::Equals | LabelOperator::DoubleEquals | LabelOperator::In => {
                value.is_some_and(listed)
            }
            LabelOperator::NotEquals | LabelOperator::NotIn => !value.is_some_and(listed),
            LabelOperator::Exists => value.is_some(),
            LabelOperator::DoesNotExist => value.is_none(),
            LabelOperator::GreaterThan(bound) => number().is_some_and(|number| number > bound),
            LabelOperator::LessThan(bound) => number().is_some_and(|number| number < bound),
        }
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for LabelRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        let mut values: Vec<_> = self.values.iter().map(String::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        match self.operator {
            LabelOperator::Equals => write!(f, "{key}={values}"),
            LabelOperator::DoubleEquals => write!(f, "{key}=={values}"),
            LabelOperator::NotEquals => write!(f, "{key}!={values}"),
            LabelOperator::In => write!(f, "{key} in ({values})"),
            LabelOperator::NotIn => write!(f, "{key} notin ({values})"),
            LabelOperator::Exists => f.write_str(key),
            LabelOperator::DoesNotExist => write!(f, "!{key}"),
            LabelOperator::GreaterThan(_) => write!(f, "{key}>{values}"),
            LabelOperator::LessThan(_) => write!(f, "{key}<{values}"),
        }
    }
}

/// An operator as written, before its values are known.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sign {
    Equals,
    DoubleEquals,
    NotEquals,
    In,
    NotIn,
    Exists,
    DoesNotExist,
    GreaterThan,
    LessThan,
}

fn expressed(expression: &Value) -> Result<LabelRequirement, String> {
    let text = |field: &str| {
        expression
            .get(field)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let sign = match text("operator") {
        "In" => Sign::In,
        "NotIn" => Sign::NotIn,
        "Exists" => Sign::Exists,
        "DoesNotExist" => Sign::DoesNotExist,
        other => {
            let other = insula_gotext::quote(other);
            return Err(format!("{other} is not a valid label selector operator"));
        }
    };
    let values = expression.get("values").and_then(Value::as_array);
    let values = values.into_iter().flatten();
    let values = values.map(|value| value.as_str().unwrap_or_default().to_owned());
    requirement(text("key"), sign, values.collect())
}

/// Validates a parsed requirement.
fn requirement(key: &str, sign: Sign, values: Vec<String>) -> Result<LabelRequirement, String> {
    let mut errors = Vec::new();
    errors.extend(bad_key("key", key));
    count_values(sign, &values, &mut errors);
    let mut bound = 0;
    if matches!(sign, Sign::GreaterThan | Sign::LessThan) {
        for (index, value) in values.iter().enumerate() {
            match value.parse::<i64>() {
                Ok(number) => bound = number,
                Err(_) => errors.push(FieldError::invalid_text(
                    format!("values[{index}]"),
                    value,
                    "for 'Gt', 'Lt' operators, the value must be an integer",
                )),
            }
        }
    }
    for (index, value) in values.iter().enumerate() {
        let faults = text::label_value(value);
        if !faults.is_empty() {
            let place = format!("values[{index}][{key}]");
            errors.push(FieldError::invalid_text(place, value, &faults.join("; ")));
        }
    }
    if !errors.is_empty() {
        return Err(message(&errors));
    }
    Ok(LabelRequirement {
        key: key.to_owned(),
        operator: sign.operator(bound),
        values,
    })
}

fn count_values(sign: Sign, values: &[String], errors: &mut Vec<FieldError>) {
    let detail = match sign {
        Sign::In | Sign::NotIn if values.is_empty() => {
            "for 'in', 'notin' operators, values set can't be empty"
        }
        Sign::Exists | Sign::DoesNotExist if !values.is_empty() => {
            "values set must be empty for exists and does not exist"
        }
        _ => return,
    };
    errors.push(FieldError::invalid(
        "values",
        &Value::from(values.to_vec()),
        detail,
    ));
}

fn bad_key(place: &str, key: &str) -> Option<FieldError> {
    let faults = text::qualified_name(key);
    if faults.is_empty() {
        return None;
    }
    Some(FieldError::invalid_text(place, key, &faults.join("; ")))
}

impl Sign {
    fn operator(self, bound: i64) -> LabelOperator {
        match self {
            Self::Equals => LabelOperator::Equals,
            Self::DoubleEquals => LabelOperator::DoubleEquals,
            Self::NotEquals => LabelOperator::NotEquals,
            Self::In => LabelOperator::In,
            Self::NotIn => LabelOperator::NotIn,
            Self::Exists => LabelOperator::Exists,
            Self::DoesNotExist => LabelOperator::DoesNotExist,
            Self::GreaterThan => LabelOperator::GreaterThan(bound),
            Self::LessThan => LabelOperator::LessThan(bound),
        }
    }
}

/// A token of the selector text.
#[derive(Clone, Copy)]
enum Token<'a> {
    End,
    /// `in` and `notin` are words, too, as they can be keys and values.
    Word(&'a str),
    Sign(&'a str),
}

impl<'a> Token<'a> {
    fn literal(self) -> &'a str {
        match self {
            Self::End => "",
            Self::Word(text) | Self::Sign(text) => text,
        }
    }
}

/// A parser with one token of lookahead.
struct Parser<'a> {
    rest: &'a str,
    next: Token<'a>,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Self {
        let mut parser = Self {
            rest: text,
            next: Token::End,
        };
        parser.take();
        parser
    }

    fn requirements(&mut self) -> Result<Vec<LabelRequirement>, String> {
        let mut requirements = Vec::new();
        loop {
            match self.next {
                Token::End => return Ok(requirements),
                Token::Word(_) | Token::Sign("!") => {}
                Token::Sign(sign) => {
                    return Err(format!(
                        "found '{sign}', expected: !, identifier, or 'end of string'"
                    ));
                }
            }
            let one = self.requirement();
            requirements
                .push(one.map_err(|error| format!("unable to parse requirement: {error}"))?);
            match (self.take(), self.next) {
                (Token::End, _) => return Ok(requirements),
                (Token::Sign(","), Token::Word(_) | Token::Sign("!")) => {}
                (Token::Sign(","), other) => {
                    let found = other.literal();
                    return Err(format!("found '{found}', expected: identifier after ','"));
                }
                (other, _) => {
                    let found = other.literal();
                    return Err(format!("found '{found}', expected: ',' or 'end of string'"));
                }
            }
        }
    }

    fn requirement(&mut self) -> Result<LabelRequirement, String> {
        let mut token = self.take();
        let absent = matches!(token, Token::Sign("!"));
        if absent {
            token = self.take();
        }
        let Token::Word(key) = token else {
            return Err(format!("found '{}', expected: identifier", token.literal()));
        };
        if let Some(error) = bad_key("<nil>", key) {
            return Err(error.to_string());
        }
        if absent {
            return requirement(key, Sign::DoesNotExist, Vec::new());
        }
        if matches!(self.next, Token::End | Token::Sign(",")) {
            return requirement(key, Sign::Exists, Vec::new());
        }
        let sign = self.sign()?;
        let mut values = match sign {
            Sign::In | Sign::NotIn => self.values()?,
            _ => vec![self.value()?],
        };
        values.sort_unstable();
        values.dedup();
        requirement(key, sign, values.into_iter().map(str::to_owned).collect())
    }

    fn sign(&mut self) -> Result<Sign, String> {
        Ok(match self.take() {
            Token::Word("in") => Sign::In,
            Token::Word("notin") => Sign::NotIn,
            Token::Sign("=") => Sign::Equals,
            Token::Sign("==") => Sign::DoubleEquals,
            Token::Sign("!=") => Sign::NotEquals,
            Token::Sign(">") => Sign::GreaterThan,
            Token::Sign("<") => Sign::LessThan,
            other => {
                let found = other.literal();
                return Err(format!(
                    "found '{found}', expected: in, notin, =, ==, !=, gt, lt"
                ));
            }
        })
    }

    fn value(&mut self) -> Result<&'a str, String> {
        if matches!(self.next, Token::End | Token::Sign(",")) {
            return Ok("");
        }
        match self.take() {
            Token::Word(value) => Ok(value),
            other => Err(format!("found '{}', expected: identifier", other.literal())),
        }
    }

    fn values(&mut self) -> Result<Vec<&'a str>, String> {
        match self.take() {
            Token::Sign("(") => {}
            other => return Err(format!("found '{}' expected: '('", other.literal())),
        }
        match self.next {
            Token::Word(_) | Token::Sign(",") => self.listed(),
            Token::Sign(")") => {
                self.take();
                Ok(vec![""])
            }
            other => {
                let found = other.literal();
                Err(format!("found '{found}', expected: ',', ')' or identifier"))
            }
        }
    }

    /// Parses values up to the closing parenthesis; between two commas is an empty value.
    fn listed(&mut self) -> Result<Vec<&'a str>, String> {
        let mut values = Vec::new();
        loop {
            match (self.take(), self.next) {
                (Token::Word(value), Token::Sign(",")) => values.push(value),
                (Token::Word(value), Token::Sign(")")) => {
                    values.push(value);
                    break;
                }
                (Token::Word(_), other) => {
                    let found = other.literal();
                    return Err(format!("found '{found}', expected: ',' or ')'"));
                }
                (Token::Sign(","), Token::Sign(")")) => {
                    values.push("");
                    break;
                }
                (Token::Sign(","), next) => {
                    if values.is_empty() || matches!(next, Token::Sign(",")) {
                        values.push("");
                    }
                }
                (other, _) => {
                    let found = other.literal();
                    return Err(format!("found '{found}', expected: ',', or identifier"));
                }
            }
        }
        self.take();
        Ok(values)
    }

    /// Returns the current token and reads the next one.
    fn take(&mut self) -> Token<'a> {
        let token = self.next;
        self.next = self.read();
        token
    }

    fn read(&mut self) -> Token<'a> {
        let text = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
        let signs = ["==", "!=", "=", "!", "(", ")", ",", ">", "<"];
        if let Some(sign) = signs.into_iter().find(|sign| text.starts_with(sign)) {
            self.rest = &text[sign.len()..];
            return Token::Sign(sign);
        }
        let ends = [' ', '\t', '\r', '\n', '=', '!', '(', ')', ',', '>', '<'];
        let (word, rest) = text.split_at(text.find(ends).unwrap_or(text.len()));
        self.rest = rest;
        if word.is_empty() {
            return Token::End;
        }
        Token::Word(word)
    }
}

//! Semantic versions.

use std::cmp::Ordering;
use std::fmt;

use insula_gotext::quote;

use crate::error::EvalError;

/// A semantic version: `1.2.3-alpha.1+build`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Semver {
    pub(crate) numbers: [u64; 3],
    before: Vec<Part>,
    build: Vec<String>,
}

/// An identifier of a pre-release.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Number(u64),
    Name(String),
}

impl Semver {
    /// Compares by precedence; build metadata is ignored.
    pub(crate) fn order(&self, other: &Self) -> Ordering {
        let finished = |version: &Self| version.before.is_empty();
        self.numbers
            .cmp(&other.numbers)
            // A version follows its pre-releases.
            .then(finished(self).cmp(&finished(other)))
            .then_with(|| self.before.cmp(&other.before))
    }

    pub(crate) fn parse(text: &str) -> Result<Self, EvalError> {
        if text.is_empty() {
            return Err(EvalError::new("Version string empty"));
        }
        let mut parts = text.splitn(3, '.');
        let (Some(major), Some(minor), Some(rest)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(EvalError::new("No Major.Minor.Patch elements found"));
        };
        let (major, minor) = (part("major", major)?, part("minor", minor)?);
        let (rest, build) = match rest.split_once('+') {
            Some((rest, build)) => (rest, Some(build)),
            None => (rest, None),
        };
        let (patch, before) = match rest.split_once('-') {
            Some((patch, before)) => (patch, Some(before)),
            None => (rest, None),
        };
        let patch = part("patch", patch)?;
        let before = before.into_iter().flat_map(|before| before.split('.'));
        let build = build.into_iter().flat_map(|build| build.split('.'));
        Ok(Self {
            numbers: [major, minor, patch],
            before: before.map(Part::parse).collect::<Result<_, _>>()?,
            build: build.map(build_part).collect::<Result<_, _>>()?,
        })
    }

    /// Parses a version without `v` and leading zeros, and fills in missing numbers.
    pub(crate) fn parse_tidy(text: &str) -> Result<Self, EvalError> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text.splitn(3, '.').map(trim_zeros).collect();
        if parts.len() < 3 && parts.last().is_some_and(|last| last.contains(['+', '-'])) {
            return Err(EvalError::new(
                "short version cannot contain PreRelease/Build meta data",
            ));
        }
        parts.resize(3, "0".to_owned());
        Self::parse(&parts.join("."))
    }
}

fn trim_zeros(part: &str) -> String {
    if part.len() < 2 {
        return part.to_owned();
    }
    let trimmed = part.trim_start_matches('0');
    if trimmed.starts_with(|first: char| first.is_ascii_digit()) {
        trimmed.to_owned()
    } else {
        format!("0{trimmed}")
    }
}

fn part(name: &str, text: &str) -> Result<u64, EvalError> {
    let title = format!("{}{}", name[..1].to_ascii_uppercase(), &name[1..]);
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        let text = quote(text);
        let text = format!("Invalid character(s) found in {name} number {text}");
        return Err(EvalError::new(text));
    }
    if text.len() > 1 && text.starts_with('0') {
        let text = quote(text);
        let text = format!("{title} number must not contain leading zeroes {text}");
        return Err(EvalError::new(text));
    }
    digits(text)
}

fn digits(text: &str) -> Result<u64, EvalError> {
    text.parse().map_err(|_| {
        let why = if text.is_empty() {
            "invalid syntax"
        } else {
            "value out of range"
        };
        EvalError::new(format!("strconv.ParseUint: parsing {}: {why}", quote(text)))
    })
}

fn is_word(text: &str) -> bool {
    text.bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

impl Part {
    fn parse(text: &str) -> Result<Self, EvalError> {
        if text.is_empty() {
            return Err(EvalError::new("Prerelease is empty"));
        }
        if text.bytes().all(|byte| byte.is_ascii_digit()) {
            if text.len() > 1 && text.starts_with('0') {
                let text = quote(text);
                return Err(EvalError::new(format!(
                    "Numeric PreRelease version must not contain leading zeroes {text}"
                )));
            }
            return digits(text).map(Self::Number);
        }
        if !is_word(text) {
            let text = quote(text);
            let text = format!("Invalid character(s) found in prerelease {text}");
            return Err(EvalError::new(text));
        }
        Ok(Self::Name(text.to_owned()))
    }
}

fn build_part(text: &str) -> Result<String, EvalError> {
    if text.is_empty() {
        return Err(EvalError::new("Build meta data is empty"));
    }
    if !is_word(text) {
        let text = quote(text);
        let text = format!("Invalid character(s) found in build meta data {text}");
        return Err(EvalError::new(text));
    }
    Ok(text.to_owned())
}

impl fmt::Display for Semver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.numbers;
        write!(f, "{major}.{minor}.{patch}")?;
        for (at, part) in self.before.iter().enumerate() {
            f.write_str(if at == 0 { "-" } else { "." })?;
            match part {
                Part::Number(number) => write!(f, "{number}")?,
                Part::Name(name) => f.write_str(name)?,
            }
        }
        for (at, part) in self.build.iter().enumerate() {
            f.write_str(if at == 0 { "+" } else { "." })?;
            f.write_str(part)?;
        }
        Ok(())
    }
}

//! Compiled regular expressions of schemas.

use std::borrow::Cow;

use insula_gotext::regexp;
use regex::Regex;

/// A regular expression in Go's syntax. An invalid one matches nothing.
#[derive(Debug)]
pub struct Pattern {
    text: Box<str>,
    /// The compiled form. `None` if it is compiled on each use.
    cached: Option<Compiled>,
    /// An estimate of the number of states that are active during matching.
    weight: u64,
}

type Compiled = Result<Regex, Box<str>>;

/// Texts up to this length are matched in negligible time by any expression.
const MAX_SHORT_LENGTH: usize = 256;
/// The cost of compiling, in validation steps.
const COMPILATION_COST: u64 = 20_000;

impl Pattern {
    /// Compiles an expression.
    pub fn new(text: &str) -> Self {
        Self {
            cached: Some(compile(text)),
            ..Self::uncached(text)
        }
    }

    /// A pattern that is compiled on each use, trading time for memory. For schemas with too
    /// many patterns.
    pub(crate) fn uncached(text: &str) -> Self {
        Self {
            text: text.into(),
            cached: None,
            weight: text.len() as u64 * largest_count(text),
        }
    }

    /// The source text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The compilation error, if the expression is invalid.
    pub fn fault(&self) -> Option<String> {
        match &*self.compiled() {
            Ok(_) => None,
            Err(fault) => Some(fault.to_string()),
        }
    }

    /// A relative estimate of the memory that the compiled form takes.
    pub(crate) fn weight(&self) -> u64 {
        self.weight
    }

    fn compiled(&self) -> Cow<'_, Compiled> {
        match &self.cached {
            Some(cached) => Cow::Borrowed(cached),
            None => Cow::Owned(compile(&self.text)),
        }
    }

    /// An upper bound on the cost of matching the text, in validation steps. Counted
    /// repetitions, such as `.*a.{900}b`, are expensive for long texts.
    pub(crate) fn work(&self, text: &str) -> u64 {
        let length = text.len() as u64;
        let matching = match text.len() <= MAX_SHORT_LENGTH {
            true => length / 32,
            false => length.saturating_mul(self.weight) / 512,
        };
        let compiling = if self.cached.is_none() {
            COMPILATION_COST
        } else {
            0
        };
        matching.saturating_add(compiling)
    }

    /// Reports whether it matches anywhere in the text.
    pub fn matches(&self, text: &str) -> bool {
        let compiled = self.compiled();
        compiled
            .as_ref()
            .as_ref()
            .is_ok_and(|regex| regex.is_match(text))
    }
}

fn compile(text: &str) -> Compiled {
    regexp::compile(text).map_err(|error| error.to_string().into())
}

/// The largest repetition count in braces, at least one.
fn largest_count(text: &str) -> u64 {
    let counts = text.split('{').skip(1).flat_map(|after| {
        let (counts, _) = after.split_once('}').unwrap_or(("", ""));
        counts.split(',').filter_map(|count| count.parse().ok())
    });
    counts.max().unwrap_or(1).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_and_counted_repetitions_cost_more() {
        let plain = Pattern::new("^[a-z]+$");
        let counting = Pattern::new(".*a.{3,900}b");
        for (pattern, length, work) in [
            (&plain, 20, 0),
            (&plain, 256, 8),
            (&plain, 1 << 20, 16_384),
            (&counting, 256, 8),
            (&counting, 1 << 20, 22_118_400),
        ] {
            assert_eq!(pattern.work(&"a".repeat(length)), work);
        }
    }

    #[test]
    fn unkept_pattern_matches_alike_at_a_higher_cost() {
        let pattern = Pattern::uncached("^a{1,3}$");
        assert!(pattern.matches("aaa") && !pattern.matches("aaaa"));
        assert_eq!(pattern.fault(), None);
        assert_eq!(pattern.work("aaa"), 20_000);
    }

    #[test]
    fn invalid_expression_matches_nothing() {
        let pattern = Pattern::new("(a");
        assert!(!pattern.matches("(a"));
        let fault = "error parsing regexp: missing closing ): `(a`";
        assert_eq!(pattern.fault().as_deref(), Some(fault));
    }
}

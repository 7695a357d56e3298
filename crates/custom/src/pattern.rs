//! Patterns of texts.

use std::borrow::Cow;

use insula_cel::compile_regex;
use regex::Regex;

/// A regular expression in the syntax of Go, compiled. One that cannot be compiled matches
/// nothing.
#[derive(Debug)]
pub struct Pattern {
    text: Box<str>,
    /// None if it is compiled whenever it is needed.
    kept: Option<Compiled>,
    /// About how many places of the expression a text can be at, at the same time.
    weight: u64,
}

type Compiled = Result<Regex, Box<str>>;

/// Texts up to this length are matched in no time, whatever the expression.
const SHORT: usize = 256;
/// What compiling takes, in checks of plain values.
const COMPILING: u64 = 20_000;

impl Pattern {
    /// Compiles an expression.
    pub fn new(text: &str) -> Self {
        Self {
            kept: Some(compile(text)),
            ..Self::unkept(text)
        }
    }

    /// An expression that takes no memory beside its text, but is slow: for schemas that have
    /// too many of them.
    pub(crate) fn unkept(text: &str) -> Self {
        Self {
            text: text.into(),
            kept: None,
            weight: text.len() as u64 * largest_count(text),
        }
    }

    /// The expression as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Why it cannot be compiled, if it cannot.
    pub fn fault(&self) -> Option<String> {
        match &*self.compiled() {
            Ok(_) => None,
            Err(fault) => Some(fault.to_string()),
        }
    }

    /// About how much memory it takes to keep it, in no unit.
    pub(crate) fn weight(&self) -> u64 {
        self.weight
    }

    fn compiled(&self) -> Cow<'_, Compiled> {
        match &self.kept {
            Some(kept) => Cow::Borrowed(kept),
            None => Cow::Owned(compile(&self.text)),
        }
    }

    /// What matching the text takes, in checks of plain values. Expressions that count, such
    /// as `.*a.{900}b`, take long for long texts, though never longer than this says.
    pub(crate) fn work(&self, text: &str) -> u64 {
        let length = text.len() as u64;
        let matching = match text.len() <= SHORT {
            true => length / 32,
            false => length.saturating_mul(self.weight) / 512,
        };
        let compiling = if self.kept.is_none() { COMPILING } else { 0 };
        matching.saturating_add(compiling)
    }

    /// Whether it matches somewhere in the text.
    pub fn matches(&self, text: &str) -> bool {
        let compiled = self.compiled();
        compiled
            .as_ref()
            .as_ref()
            .is_ok_and(|regex| regex.is_match(text))
    }
}

fn compile(text: &str) -> Compiled {
    compile_regex(text).map_err(|error| error.to_string().into())
}

/// The largest number that stands in braces, or one.
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
    fn long_texts_and_counts_take_more_work() {
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
    fn what_is_not_kept_matches_the_same_but_takes_more_work() {
        let pattern = Pattern::unkept("^a{1,3}$");
        assert!(pattern.matches("aaa") && !pattern.matches("aaaa"));
        assert_eq!(pattern.fault(), None);
        assert_eq!(pattern.work("aaa"), 20_000);
    }

    #[test]
    fn what_is_no_expression_matches_nothing() {
        let pattern = Pattern::new("(a");
        assert!(!pattern.matches("(a"));
        let fault = "error parsing regexp: missing closing ): `(a`";
        assert_eq!(pattern.fault().as_deref(), Some(fault));
    }
}

//! Regular expressions in the syntax of Go's `regexp`, which is that of RE2.
//!
//! [`check`] accepts and refuses what Go does, in Go's words, because users see them.
//! [`compile`] also translates the expression for the crate `regex`, in which `\d` and the
//! like mean more than ASCII, classes have operators, and `\Q…\E` does not quote.

mod class;
mod syntax;
mod translate;

use std::fmt;

use regex::{Regex, RegexBuilder};

/// The memory limit of a compiled expression, in bytes.
const MAX_COMPILED_SIZE: usize = 4 << 20;

/// The error for a text that is no regular expression, as Go prints it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    problem: &'static str,
    part: String,
}

impl SyntaxError {
    fn new(problem: &'static str, part: &str) -> Self {
        let part = part.to_owned();
        Self { problem, part }
    }
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error parsing regexp: {}: `{}`", self.problem, self.part)
    }
}

impl std::error::Error for SyntaxError {}

/// Checks whether Go would compile an expression, without compiling it.
///
/// # Errors
///
/// Go's words for what is wrong with the expression.
pub fn check(pattern: &str) -> Result<(), SyntaxError> {
    syntax::check(pattern)
}

/// Compiles an expression. Matching takes time in proportion to the text.
///
/// # Errors
///
/// If [`check`] refuses the expression, or if it takes too much memory.
pub fn compile(pattern: &str) -> Result<Regex, SyntaxError> {
    check(pattern)?;
    let compiled = RegexBuilder::new(&translate::translate(pattern))
        .size_limit(MAX_COMPILED_SIZE)
        .build();
    compiled.map_err(|_| SyntaxError::new("expression too large", pattern))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_those_of_go() {
        for (text, why) in [
            ("(", "missing closing ): `(`"),
            ("a)", "unexpected ): `a)`"),
            ("x[a", "missing closing ]: `[a`"),
            ("a**", "invalid nested repetition operator: `**`"),
            ("*a", "missing argument to repetition operator: `*`"),
            ("a{1001}", "invalid repeat count: `{1001}`"),
            ("(a{100}){11}", "invalid repeat count: `{11}`"),
            ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
            ("(?<n-m>a)", "invalid named capture: `(?<n-m>`"),
            ("\\Z", "invalid escape sequence: `\\Z`"),
            ("a\\", "trailing backslash at end of expression: ``"),
            ("[z-a]", "invalid character class range: `z-a`"),
            ("[[:foo:]]", "invalid character class range: `[:foo:]`"),
            (
                "\\p{sc=Greek}",
                "invalid character class range: `\\p{sc=Greek}`",
            ),
        ] {
            let error = check(text).expect_err(text);
            assert_eq!(error.to_string(), format!("error parsing regexp: {why}"));
        }
        for good in [
            "",
            "a{,5}",
            "[]a]",
            "\\Q(\\E",
            "(?i)a",
            "(?P<n>a)",
            "\\p{Greek}",
            "a{2}?",
            "x{",
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
    }

    #[test]
    fn every_class_name_of_go_can_be_compiled() {
        let names = include_str!("../data/unicode-classes.txt").split_whitespace();
        let refused: Vec<_> = names
            .filter(|name| compile(&format!("\\p{{{name}}}")).is_err())
            .collect();
        assert_eq!(refused, [""; 0]);
    }

    #[test]
    fn properties_and_their_negations_match_as_in_go() {
        for (pattern, text, matches) in [
            ("^\\pL$", "ä", true),
            ("^\\PL$", "ä", false),
            ("^\\p{^L}$", "1", true),
            ("^\\P{^L}$", "1", false),
            ("^\\p{greek}$", "λ", true),
            ("\\p{Cs}", "a", false),
            ("^\\P{Cs}$", "a", true),
            ("^[\\p{Cs}b]$", "b", true),
            ("^[^\\p{Cs}b]$", "b", false),
        ] {
            let regex = compile(pattern).expect(pattern);
            assert_eq!(regex.is_match(text), matches, "{pattern}");
        }
    }
}

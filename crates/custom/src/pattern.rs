//! Patterns of texts.

use insula_cel::compile_regex;
use regex::Regex;

/// A regular expression in the syntax of Go, compiled. One that cannot be compiled matches
/// nothing.
#[derive(Debug)]
pub struct Pattern {
    text: Box<str>,
    compiled: Result<Regex, Box<str>>,
}

impl Pattern {
    /// Compiles an expression.
    pub fn new(text: &str) -> Self {
        let compiled = compile_regex(text).map_err(|error| error.to_string().into());
        Self {
            text: text.into(),
            compiled,
        }
    }

    /// The expression as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Why it cannot be compiled, if it cannot.
    pub fn fault(&self) -> Option<&str> {
        self.compiled.as_ref().err().map(AsRef::as_ref)
    }

    /// Whether it matches somewhere in the text.
    pub fn matches(&self, text: &str) -> bool {
        self.compiled
            .as_ref()
            .is_ok_and(|regex| regex.is_match(text))
    }
}

//! Parsing of source text into a tree, with macros expanded.
//!
//! ```text
//! lexer     characters -> tokens
//! grammar   tokens -> tree, by recursive descent
//! recover   error messages and recovery after an unexpected token
//! expand    macros -> loops
//! build     numbers and positions of nodes
//! literal   values of literals
//! ```

mod build;
mod expand;
mod grammar;
mod lexer;
mod literal;
mod recover;
#[cfg(test)]
mod tests;
mod token;

use crate::ast::Expr;
use crate::issue::{Issue, Source};
use crate::stack::with_stack;
use grammar::Parser;

/// The maximum length of an expression in characters.
const MAX_LENGTH: usize = 100_000;

/// A tree and the positions of its nodes.
pub(crate) struct Parsed {
    /// The tree.
    pub(crate) expr: Expr,
    /// The position of each node, by its number.
    pub(crate) places: Vec<usize>,
}

/// Parses an expression.
pub(crate) fn parse(source: &Source) -> Result<Parsed, Vec<Issue>> {
    let size = source.text.len();
    if size > MAX_LENGTH {
        let message =
            format!("expression code point size exceeds limit: size: {size}, limit {MAX_LENGTH}");
        return Err(vec![Issue {
            offset: None,
            message,
        }]);
    }
    with_stack(nesting(&source.text), || Parser::new(&source.text).parse())
}

/// Returns an upper bound of the parser's recursion depth.
fn nesting(text: &[char]) -> usize {
    let (mut open, mut deepest, mut choices) = (0_usize, 0, 0);
    for c in text {
        match c {
            '(' | '[' | '{' => open += 1,
            ')' | ']' | '}' => open = open.saturating_sub(1),
            '?' => choices += 1,
            _ => {}
        }
        deepest = deepest.max(open);
    }
    deepest + choices
}

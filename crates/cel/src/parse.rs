//! From text to a tree, with macros expanded.
//!
//! ```text
//! lexer     characters -> words
//! grammar   words -> tree, by recursive descent
//! recover   what to say about a word that does not fit, and where to go on
//! expand    macros -> loops
//! build     numbers and places of nodes
//! literal   what a literal stands for
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
use crate::deep::with_room;
use crate::issue::{Issue, Source};
use grammar::Parser;

/// An expression may have this many characters.
const LONGEST: usize = 100_000;

/// A tree and where its nodes come from.
pub(crate) struct Parsed {
    /// The tree.
    pub(crate) expr: Expr,
    /// The place of each node, by its number.
    pub(crate) places: Vec<usize>,
}

/// Parses an expression.
pub(crate) fn parse(source: &Source) -> Result<Parsed, Vec<Issue>> {
    let size = source.text.len();
    if size > LONGEST {
        let message =
            format!("expression code point size exceeds limit: size: {size}, limit {LONGEST}");
        return Err(vec![Issue {
            offset: None,
            message,
        }]);
    }
    with_room(nesting(&source.text), || Parser::new(&source.text).parse())
}

/// About how deep the parser has to go: no less than that.
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

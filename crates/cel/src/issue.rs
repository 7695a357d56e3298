//! Compilation errors and their positions.

use std::fmt;

/// The maximum number of messages; further ones are only counted.
const MAX_SHOWN: usize = 100;

/// The maximum length of a line that is quoted, in bytes.
const MAX_QUOTED_LINE: usize = 16_384;

/// The source text of an expression, which messages quote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    /// The characters, in which positions are counted.
    pub(crate) text: Vec<char>,
}

impl Source {
    pub(crate) fn new(text: &str) -> Self {
        Self {
            text: text.chars().collect(),
        }
    }

    fn locate(&self, offset: usize) -> Location {
        let before = &self.text[..offset.min(self.text.len())];
        let line = before.iter().filter(|c| **c == '\n').count();
        let start = before
            .iter()
            .rposition(|c| *c == '\n')
            .map_or(0, |at| at + 1);
        Location {
            line: line + 1,
            column: offset - start,
            start,
        }
    }

    fn line(&self, start: usize) -> String {
        self.text[start..]
            .iter()
            .take_while(|c| **c != '\n')
            .collect()
    }
}

struct Location {
    line: usize,
    column: usize,
    start: usize,
}

/// A compilation error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    /// The position in characters; none if the error is about the whole expression.
    pub offset: Option<usize>,
    /// The message.
    pub message: String,
}

/// All errors of an expression, displayed as Kubernetes prints them after `compilation failed: `.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issues {
    source: Source,
    issues: Vec<Issue>,
    more: usize,
}

impl Issues {
    /// Creates the errors of a source text. Those that are shown are sorted by position.
    pub(crate) fn new(source: Source, mut issues: Vec<Issue>) -> Self {
        let more = issues.len().saturating_sub(MAX_SHOWN);
        issues.truncate(MAX_SHOWN);
        issues.sort_by_key(|issue| issue.offset);
        Self {
            source,
            issues,
            more,
        }
    }

    /// Iterates over the errors.
    pub fn iter(&self) -> std::slice::Iter<'_, Issue> {
        self.issues.iter()
    }
}

impl fmt::Display for Issues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, issue) in self.issues.iter().enumerate() {
            if at > 0 {
                f.write_str("\n")?;
            }
            show(f, &self.source, issue)?;
        }
        match self.more {
            0 => Ok(()),
            more => write!(f, "\n{more} more errors were truncated"),
        }
    }
}

impl std::error::Error for Issues {}

fn show(f: &mut fmt::Formatter<'_>, source: &Source, issue: &Issue) -> fmt::Result {
    let Some(offset) = issue.offset else {
        return write!(f, "ERROR: <input>:-1:0: {}", issue.message);
    };
    let Location {
        line,
        column,
        start,
    } = source.locate(offset);
    write!(f, "ERROR: <input>:{line}:{}: {}", column + 1, issue.message)?;
    let quoted = source.line(start);
    if source.text.is_empty() || quoted.len() > MAX_QUOTED_LINE {
        return Ok(());
    }
    let quoted = quoted.replace('\t', " ");
    let mut pointer = String::new();
    let mut characters = quoted.chars();
    for c in characters.by_ref().take(column) {
        pointer.push(if c.is_ascii() { '.' } else { '\u{ff0e}' });
    }
    let at = characters.next().unwrap_or(' ');
    pointer.push(if at.is_ascii() { '^' } else { '\u{ff3e}' });
    write!(f, "\n | {quoted}\n | {pointer}")
}

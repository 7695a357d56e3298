//! What is wrong with an expression, and where.

use std::fmt;

/// Messages beyond this many are counted, not shown.
const SHOWN: usize = 100;

/// A line longer than this is not quoted. In bytes.
const LONGEST_LINE: usize = 16_384;

/// The text of an expression, which messages quote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    /// Its characters. Places are counted in these.
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

/// One complaint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    /// The place it is about, in characters from the beginning; none if it is about all of it.
    pub offset: Option<usize>,
    /// What is wrong.
    pub message: String,
}

/// Everything that is wrong with an expression. Its text is what Kubernetes prints after
/// `compilation failed: `.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issues {
    source: Source,
    issues: Vec<Issue>,
    more: usize,
}

impl Issues {
    /// Complaints about a text. The first of them are put into the order of their places.
    pub(crate) fn new(source: Source, mut issues: Vec<Issue>) -> Self {
        let more = issues.len().saturating_sub(SHOWN);
        issues.truncate(SHOWN);
        issues.sort_by_key(|issue| issue.offset);
        Self {
            source,
            issues,
            more,
        }
    }

    /// The complaints one by one.
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
    if source.text.is_empty() || quoted.len() > LONGEST_LINE {
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

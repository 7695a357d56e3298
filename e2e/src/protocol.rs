//! What a writer says of itself, line by line.
//!
//! ```text
//! 1 opened 812 640 3150                     revision, floor, microseconds it took
//! 2 watching 0 812                          watcher, from which revision
//! 3 asked 7 ?/crash/001@absent +/crash/001=9f1c.20 -/crash/002
//! 4 told 0 813 +/crash/001@813@813=9f1c.20 -/crash/002
//! 5 answered 7 committed 813
//! 6 answered 8 conflict 0 813 /crash/001@813@813=9f1c.20
//! 7 raising 700
//! 8 raised 700
//! ```
//!
//! Lines are numbered in the order they were said, which is the order of events: a
//! question is said before it is asked, an answer after it came.

mod parse;

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use bytes::Bytes;
use insula_store::{Change, Changed, Entry, Expect, Outcome, Revision, Transaction};

use crate::content::Content;

/// One thing that happened to a writer.
#[derive(Clone, Debug)]
pub enum Line {
    /// It has the store open.
    Opened(Opened),
    /// A watcher of everything begins after this revision.
    Watching {
        /// Which.
        watcher: usize,
        /// The revision.
        after: Revision,
    },
    /// It is about to commit.
    Asked {
        /// The number that the answer will name.
        call: u64,
        /// What is committed.
        transaction: Transaction,
    },
    /// A commit was answered.
    Answered {
        /// Its number.
        call: u64,
        /// The answer.
        outcome: Outcome,
    },
    /// A watcher was told.
    Told {
        /// Which.
        watcher: usize,
        /// When the changes were made.
        revision: Revision,
        /// What changed.
        changes: Vec<Changed>,
    },
    /// It is about to raise the floor.
    Raising(Revision),
    /// It has raised the floor.
    Raised(Revision),
    /// Something that must not go wrong went wrong.
    Failed(String),
}

/// What a writer found when it opened the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The store's revision.
    pub revision: Revision,
    /// The store's floor.
    pub floor: Revision,
    /// How long opening took.
    pub took: Duration,
}

impl Display for Line {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Opened(Opened {
                revision,
                floor,
                took,
            }) => write!(f, "opened {revision} {floor} {}", took.as_micros()),
            Self::Watching { watcher, after } => write!(f, "watching {watcher} {after}"),
            Self::Asked { call, transaction } => {
                write!(f, "asked {call}")?;
                write_transaction(f, transaction)
            }
            Self::Answered { call, outcome } => {
                write!(f, "answered {call} ")?;
                write_outcome(f, outcome)
            }
            Self::Told {
                watcher,
                revision,
                changes,
            } => {
                write!(f, "told {watcher} {revision}")?;
                changes.iter().try_for_each(|change| match change {
                    Changed::Put(entry) => {
                        f.write_str(" +")?;
                        write_entry(f, entry)
                    }
                    Changed::Deleted(key) => write!(f, " -{}", name(key)),
                })
            }
            Self::Raising(floor) => write!(f, "raising {floor}"),
            Self::Raised(floor) => write!(f, "raised {floor}"),
            Self::Failed(why) => write!(f, "failed {}", why.replace('\n', " ")),
        }
    }
}

fn write_transaction(f: &mut Formatter<'_>, transaction: &Transaction) -> fmt::Result {
    for check in transaction.checks() {
        let key = name(&check.key);
        match check.expect {
            Expect::Absent => write!(f, " ?{key}@absent")?,
            Expect::At(revision) => write!(f, " ?{key}@{revision}")?,
        }
    }
    for change in transaction.changes() {
        let key = name(change.key());
        match change {
            Change::Put { value, .. } => write!(f, " +{key}={}", content(value))?,
            Change::Delete { .. } => write!(f, " -{key}")?,
        }
    }
    Ok(())
}

fn write_outcome(f: &mut Formatter<'_>, outcome: &Outcome) -> fmt::Result {
    match outcome {
        Outcome::Committed(revision) => write!(f, "committed {revision}"),
        Outcome::Unchanged(revision) => write!(f, "unchanged {revision}"),
        Outcome::Conflict(conflict) => {
            write!(f, "conflict {} {}", conflict.check, conflict.revision)?;
            let Some(found) = &conflict.found else {
                return Ok(());
            };
            f.write_str(" ")?;
            write_entry(f, found)
        }
    }
}

fn write_entry(f: &mut Formatter<'_>, entry: &Entry) -> fmt::Result {
    let Entry {
        key,
        value,
        created,
        modified,
    } = entry;
    write!(f, "{}@{created}@{modified}={}", name(key), content(value))
}

/// Keys of writers are words; anything else would not be read back and so be found.
fn name(key: &Bytes) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(key)
}

/// A value that nobody wrote has no content, and the line is not read back.
fn content(value: &Bytes) -> String {
    match Content::of(value) {
        Some(content) => content.to_string(),
        None => format!("damaged-{}-bytes", value.len()),
    }
}

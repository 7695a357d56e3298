//! The lines that a writer prints.
//!
//! ```text
//! 1 opened 812 640 3150                     revision, floor, microseconds it took
//! 2 watching 0 812                          watcher, start revision
//! 3 request 7 ?/crash/001@absent +/crash/001=9f1c.20 -/crash/002
//! 4 event 0 813 +/crash/001@813@813=9f1c.20 -/crash/002
//! 5 response 7 committed 813
//! 6 response 8 conflict 0 813 /crash/001@813@813=9f1c.20
//! 7 compacting 700
//! 8 compacted 700
//! ```
//!
//! Lines are numbered in the order in which they were printed, which is the order of events: a
//! request is printed before it is sent, a response after it arrived.

mod parse;

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use bytes::Bytes;
use insula_store::{Change, Changed, Entry, Expect, Outcome, Revision, Transaction};

use crate::content::Content;

/// One event in the life of a writer.
#[derive(Clone, Debug)]
pub enum Line {
    /// The store is open.
    Opened(Opened),
    /// A watcher of all keys starts after this revision.
    Watching {
        /// The watcher's number.
        watcher: usize,
        /// The revision.
        after: Revision,
    },
    /// A commit is about to be sent.
    Request {
        /// The number that the answer refers to.
        call: u64,
        /// The transaction.
        transaction: Transaction,
    },
    /// A commit was answered.
    Response {
        /// The commit's number.
        call: u64,
        /// The outcome.
        outcome: Outcome,
    },
    /// A watcher received an event.
    Event {
        /// The watcher's number.
        watcher: usize,
        /// The revision of the changes.
        revision: Revision,
        /// The changes.
        changes: Vec<Changed>,
    },
    /// A compaction is about to be sent.
    Compacting(Revision),
    /// A compaction was acknowledged.
    Compacted(Revision),
    /// An operation failed that must not fail.
    Failed(String),
}

/// The state in which a writer opened the store.
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
            Self::Request { call, transaction } => {
                write!(f, "request {call}")?;
                write_transaction(f, transaction)
            }
            Self::Response { call, outcome } => {
                write!(f, "response {call} ")?;
                write_outcome(f, outcome)
            }
            Self::Event {
                watcher,
                revision,
                changes,
            } => {
                write!(f, "event {watcher} {revision}")?;
                changes.iter().try_for_each(|change| match change {
                    Changed::Put(entry) => {
                        f.write_str(" +")?;
                        write_entry(f, entry)
                    }
                    Changed::Deleted(key) => write!(f, " -{}", name(key)),
                })
            }
            Self::Compacting(floor) => write!(f, "compacting {floor}"),
            Self::Compacted(floor) => write!(f, "compacted {floor}"),
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

/// Writers' keys are plain words; anything else fails to parse and is thereby detected.
fn name(key: &Bytes) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(key)
}

/// A value that no writer wrote has no description, and its line fails to parse.
fn content(value: &Bytes) -> String {
    match Content::of(value) {
        Some(content) => content.to_string(),
        None => format!("damaged-{}-bytes", value.len()),
    }
}

//! What others own that an apply would change, and how that is told.

use insula_gotext::quote;

use super::ApplyError;
use super::record::{Entry, Operation};
use crate::Set;

/// So much text is told, whatever somebody made up to conflict with. All conflicts are
/// counted.
const MOST_TEXT: usize = 256 * 1024;

/// What others own that would change.
#[derive(Debug, Default)]
pub(super) struct Conflicts {
    of: Vec<Conflict>,
}

#[derive(Debug)]
struct Conflict {
    identity: String,
    owner: String,
    fields: Set,
}

/// The lines of a message, up to a limit.
struct Lines {
    message: String,
    causes: Vec<(String, String)>,
    room: usize,
}

impl Conflicts {
    pub(super) fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// Adds fields of an entry that would change, if there are any.
    pub(super) fn add(&mut self, entry: &Entry<'_>, fields: Set) {
        if !fields.is_empty() {
            self.of.push(Conflict {
                identity: entry.identity(),
                owner: owner(entry),
                fields,
            });
        }
    }

    /// Without those about these fields.
    pub(super) fn except(self, allowed: &Set) -> Self {
        let rest = |conflict: Conflict| {
            let fields = conflict.fields.difference(allowed);
            (!fields.is_empty()).then_some(Conflict { fields, ..conflict })
        };
        Self {
            of: self.of.into_iter().filter_map(rest).collect(),
        }
    }

    pub(super) fn into_error(mut self) -> ApplyError {
        self.of.sort_by(|a, b| a.identity.cmp(&b.identity));
        let count: usize = self.of.iter().map(|conflict| conflict.fields.len()).sum();
        let mut lines = Lines {
            message: String::new(),
            causes: Vec::new(),
            room: MOST_TEXT,
        };
        for conflict in &self.of {
            lines.tell(conflict);
        }
        let message = match &lines.causes[..] {
            [(cause, field)] if count == 1 => format!("1 conflict: {cause}: {field}"),
            _ => format!("{count} conflicts: {}", lines.message),
        };
        ApplyError::Conflict {
            message: format!("Apply failed with {message}"),
            causes: lines.causes,
        }
    }
}

impl Lines {
    fn tell(&mut self, conflict: &Conflict) {
        if self.room == 0 {
            return;
        }
        let line = if self.message.is_empty() { "" } else { "\n" };
        self.message += &format!("{line}conflicts with {}:", conflict.owner);
        self.list(&conflict.owner, &conflict.fields, "");
    }

    /// At every place first the members there, then those below.
    fn list(&mut self, owner: &str, fields: &Set, prefix: &str) {
        for (element, _, _) in fields.entries().filter(|(_, member, _)| *member) {
            if self.room == 0 {
                return;
            }
            let path = format!("{prefix}{element}");
            self.room = self.room.saturating_sub(path.len());
            self.message += "\n- ";
            self.message += &path;
            self.causes.push((format!("conflict with {owner}"), path));
        }
        for (element, _, below) in fields.entries().filter(|(_, _, below)| !below.is_empty()) {
            if self.room == 0 {
                return;
            }
            self.list(owner, below, &format!("{prefix}{element}"));
        }
    }
}

/// As a message calls the owner.
fn owner(entry: &Entry<'_>) -> String {
    let mut text = quote(&entry.manager);
    if !entry.subresource.is_empty() {
        text += &format!(" with subresource {}", quote(&entry.subresource));
    }
    if entry.operation == Operation::Update {
        text += &format!(" using {}", entry.api_version);
    }
    text
}

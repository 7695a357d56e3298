//! Conflicts of an apply, and their messages.

use insula_gotext::quote;

use super::ApplyError;
use super::record::{Entry, Operation};
use crate::Set;

/// The maximum length of the message. All conflicts are counted.
const MAX_MESSAGE_LENGTH: usize = 256 * 1024;

/// The fields of other managers that would change.
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

    /// Adds the fields of an entry that would change.
    pub(super) fn add(&mut self, entry: &Entry<'_>, fields: Set) {
        if !fields.is_empty() {
            self.of.push(Conflict {
                identity: entry.identity(),
                owner: owner(entry),
                fields,
            });
        }
    }

    /// Returns the conflicts without those about these fields.
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
            room: MAX_MESSAGE_LENGTH,
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

    /// Lists the fields: at every level first the members, then those below them.
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

/// Returns the owner as messages name it.
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

//! The lines of a watch: events as the client selects and reads them.

use bytes::Bytes;
use insula_cache::{Change, Event, Stored};
use insula_core::Revision;

use crate::codec::view::View;
use crate::read::Selection;
use crate::status::StatusError;

/// Turns events into lines.
pub(super) struct Encoder {
    pub view: View,
    pub selection: Selection,
    /// The prefix of the keys that are watched.
    pub prefix: String,
    /// Events up to this revision are part of the initial state.
    pub after: Revision,
    /// Whether built-in objects are watched: over all spaces only stored ones are.
    pub built_in: bool,
    /// Whether no line was written yet: the first line of a Table has its columns.
    pub first: bool,
}

impl Encoder {
    /// The line of an object that exists when the watch begins, if the client selects it.
    pub fn initial(&mut self, object: &Stored) -> Option<Bytes> {
        if !self.selection.is_everything() && !self.selection.chooses(&self.view, object) {
            return None;
        }
        let first = std::mem::take(&mut self.first);
        Some(self.view.event_of(Change::Added, object, first))
    }

    /// The line of an event. An object that enters the selection is added, one that leaves it
    /// is deleted.
    pub fn event(&mut self, event: &Event) -> Option<Bytes> {
        if event.revision <= self.after || !event.object.key.starts_with(&self.prefix) {
            return None;
        }
        let line = if self.selection.is_everything() {
            let change = match event.before.as_deref() {
                Some(before) if !self.watches(before) => Change::Added,
                _ => event.change,
            };
            self.view.event(event, change, &event.object, self.first)
        } else {
            let chosen = |object: &Stored| self.selection.chooses(&self.view, object);
            let before = event.before.as_deref();
            let before = before.is_some_and(|before| self.watches(before) && chosen(before));
            let now = event.change != Change::Deleted && chosen(&event.object);
            let change = match (before, now) {
                (false, false) => return None,
                (false, true) => Change::Added,
                (true, true) => Change::Modified,
                (true, false) => Change::Deleted,
            };
            match (change, event.change, &event.before) {
                (Change::Deleted, Change::Modified, Some(before)) => {
                    let last = before.deleted(event.revision);
                    self.view.event_of(Change::Deleted, &last, self.first)
                }
                _ => self.view.event(event, change, &event.object, self.first),
            }
        };
        self.first = false;
        Some(line)
    }

    /// The line of a bookmark; `initial_end` marks the end of the initial state.
    pub fn bookmark(&mut self, revision: Revision, initial_end: bool) -> Bytes {
        let first = std::mem::take(&mut self.first);
        self.view.bookmark(revision, initial_end, first)
    }

    /// The line of an error, which ends the watch.
    pub fn error(&self, error: &StatusError) -> Bytes {
        self.view.error(error)
    }

    fn watches(&self, before: &Stored) -> bool {
        self.built_in || !before.built_in
    }
}

//! Writes of the operator itself, which need not trigger the objects that were written.
//!
//! A watch reports every write, also those of the reconciliation that made them. While an object is
//! reconciled, its events are deferred; those with a version that the reconciliation read or wrote
//! are dropped when it ends. This is safe because every write is guarded by the version that was
//! read: a write of another client in between makes the next one of the operator fail.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The versions of objects that the operator knows already.
#[derive(Debug, Default)]
pub(super) struct OwnWrites(Mutex<HashMap<Arc<str>, Versions>>);

#[derive(Debug, Default)]
struct Versions {
    is_running: bool,
    /// The version of the last event during the reconciliation.
    deferred: Option<String>,
    /// The versions that were read or written.
    known: Vec<String>,
    /// Whether one of them was written.
    has_written: bool,
}

/// The reconciliation of an object. When it is dropped without an end, no event is dropped.
pub(super) struct Running<'a> {
    writes: &'a OwnWrites,
    name: Arc<str>,
}

/// Objects to trigger after a reconciliation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Missed {
    /// The object itself: another client has written it.
    pub object: bool,
    /// The objects that depend on it.
    pub dependents: bool,
}

impl OwnWrites {
    /// Begins the reconciliation of an object.
    pub(super) fn begin(&self, name: &Arc<str>) -> Running<'_> {
        let running = Versions {
            is_running: true,
            ..Versions::default()
        };
        self.all().insert(Arc::clone(name), running);
        Running {
            writes: self,
            name: Arc::clone(name),
        }
    }

    /// Records the version of an object that was read.
    pub(super) fn read(&self, name: &Arc<str>, version: &str) {
        let mut all = self.all();
        let versions = all.entry(Arc::clone(name)).or_default();
        versions.known.push(version.to_owned());
    }

    /// Records the version of an object that was written.
    pub(super) fn written(&self, name: &Arc<str>, version: &str) {
        let mut all = self.all();
        let versions = all.entry(Arc::clone(name)).or_default();
        if !versions.is_running {
            versions.known.clear();
        }
        versions.known.push(version.to_owned());
        versions.has_written = true;
    }

    /// Returns whether an event triggers nothing: its version is known, or is examined when the
    /// reconciliation ends.
    pub(super) fn is_handled(&self, name: &str, version: &str) -> bool {
        let mut all = self.all();
        let Some(versions) = all.get_mut(name) else {
            return false;
        };
        if versions.is_running {
            versions.deferred = Some(version.to_owned());
            return true;
        }
        versions.known.iter().any(|known| known == version)
    }

    /// Forgets an object.
    pub(super) fn forget(&self, name: &str) {
        self.all().remove(name);
    }

    /// Forgets all objects.
    pub(super) fn clear(&self) {
        self.all().clear();
    }

    fn all(&self) -> MutexGuard<'_, HashMap<Arc<str>, Versions>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Running<'_> {
    /// Ends the reconciliation, and returns what its events have to trigger.
    pub(super) fn end(self) -> Missed {
        let mut all = self.writes.all();
        let Some(versions) = all.get_mut(&self.name) else {
            return Missed::default();
        };
        versions.is_running = false;
        let deferred = versions.deferred.take();
        let is_known = |version: &String| versions.known.contains(version);
        let object = deferred.is_some_and(|version| !is_known(&version));
        Missed {
            object,
            dependents: object || versions.has_written,
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut all = self.writes.all();
        if all.get(&self.name).is_some_and(|it| it.is_running) {
            all.remove(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name() -> Arc<str> {
        "a".into()
    }

    #[test]
    fn own_write_triggers_only_dependents_whenever_its_event_arrives() {
        let writes = OwnWrites::default();
        let running = writes.begin(&name());
        writes.read(&name(), "1");
        assert!(writes.is_handled("a", "1"));
        // The event may be faster than the response.
        assert!(writes.is_handled("a", "2"));
        writes.written(&name(), "2");
        writes.written(&name(), "3");
        let expected = Missed {
            object: false,
            dependents: true,
        };
        assert_eq!(running.end(), expected);
        assert!(writes.is_handled("a", "2"));
        assert!(writes.is_handled("a", "3"));
        assert!(!writes.is_handled("a", "4"));
        assert!(!writes.is_handled("b", "3"));
    }

    #[test]
    fn write_of_another_client_during_a_reconciliation_triggers_the_object_afterwards() {
        let writes = OwnWrites::default();
        let running = writes.begin(&name());
        writes.read(&name(), "1");
        assert!(writes.is_handled("a", "2"));
        let both = Missed {
            object: true,
            dependents: true,
        };
        assert_eq!(running.end(), both);
        let running = writes.begin(&name());
        writes.read(&name(), "2");
        assert!(writes.is_handled("a", "2"));
        assert_eq!(running.end(), Missed::default());
    }

    #[test]
    fn reconciliation_that_is_dropped_knows_no_version() {
        let writes = OwnWrites::default();
        let running = writes.begin(&name());
        writes.written(&name(), "1");
        drop(running);
        assert!(!writes.is_handled("a", "1"));
    }
}

//! Problems that were reported with events: each once, where no condition tells.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The problems of objects that were reported last.
#[derive(Debug, Default)]
pub(super) struct ReportedProblems {
    reasons: Mutex<HashMap<Arc<str>, &'static str>>,
}

impl ReportedProblems {
    /// Records a problem of an object. Returns whether another one, or none, was reported last.
    pub(super) fn is_new(&self, key: &Arc<str>, reason: &'static str) -> bool {
        self.reasons().insert(Arc::clone(key), reason) != Some(reason)
    }

    /// Records that an object has no problem.
    pub(super) fn forget(&self, key: &str) {
        self.reasons().remove(key);
    }

    fn reasons(&self) -> MutexGuard<'_, HashMap<Arc<str>, &'static str>> {
        self.reasons.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m09_problem_is_reported_once_until_it_is_over() {
        let reported = ReportedProblems::default();
        let key: Arc<str> = "a".into();
        assert!(reported.is_new(&key, "IdentityUnreachable"));
        assert!(!reported.is_new(&key, "IdentityUnreachable"));
        assert!(reported.is_new(&key, "IdentityForbidden"));
        reported.forget(&key);
        assert!(reported.is_new(&key, "IdentityForbidden"));
    }
}

//! When sessions were last checked. Objects that only want to know whether their server answers
//! share the check; without it, an expired session that no other object uses would never be found.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use insula_identity::session::Key;

/// When each session was last checked.
#[derive(Debug)]
pub struct SessionLiveness {
    valid_for: Duration,
    last_checked: Mutex<HashMap<Key, Instant>>,
}

impl SessionLiveness {
    /// Creates a record in which a check is valid for this long.
    pub fn new(valid_for: Duration) -> Self {
        let last_checked = Mutex::default();
        Self {
            valid_for,
            last_checked,
        }
    }

    /// Returns whether the caller has to check the session. Other callers rely on its check.
    pub fn is_check_due(&self, key: &Key, now: Instant) -> bool {
        let mut last_checked = self
            .last_checked
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let is_old = |at: &Instant| now.saturating_duration_since(*at) >= self.valid_for;
        if last_checked.get(key).is_some_and(|at| !is_old(at)) {
            return false;
        }
        // Outdated entries are dropped.
        last_checked.retain(|_, at| !is_old(at));
        last_checked.insert(key.clone(), now);
        true
    }

    /// Forgets a failed check: the next caller checks the session again.
    pub fn forget(&self, key: &Key) {
        let mut last_checked = self
            .last_checked
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        last_checked.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use insula_identity::credential::Credential;
    use insula_identity::endpoint::Endpoint;

    use super::*;

    fn key(host: &str) -> Key {
        let endpoint = Endpoint::parse(host, 443).unwrap();
        Key::of(None, &Credential::of_operator(BTreeMap::new(), endpoint))
    }

    #[test]
    fn one_caller_checks_and_old_entries_are_dropped() {
        let (liveness, begin) = (
            SessionLiveness::new(Duration::from_secs(60)),
            Instant::now(),
        );
        let after = |seconds| begin + Duration::from_secs(seconds);
        assert!(liveness.is_check_due(&key("a"), after(0)));
        assert!((1..60).all(|second| !liveness.is_check_due(&key("a"), after(second))));
        assert!(liveness.is_check_due(&key("b"), after(30)));
        assert!(liveness.is_check_due(&key("a"), after(60)));
        liveness.forget(&key("a"));
        assert!(liveness.is_check_due(&key("a"), after(61)));
        assert!(liveness.is_check_due(&key("c"), after(500)));
        assert_eq!(liveness.last_checked.lock().unwrap().len(), 1);
    }
}

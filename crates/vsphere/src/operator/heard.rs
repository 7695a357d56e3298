//! When sessions were last checked. Clusters that only want to know whether their vCenter answers
//! share the check; without it, an expired session that no machine uses would never be found.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use insula_identity::session::Key;

/// When each session was last checked.
#[derive(Debug)]
pub(super) struct Heard {
    long: Duration,
    last: Mutex<HashMap<Key, Instant>>,
}

impl Heard {
    /// Creates a record in which a check is valid for this long.
    pub fn new(long: Duration) -> Self {
        let last = Mutex::default();
        Self { long, last }
    }

    /// Returns whether the caller has to check the session. Other callers rely on its check.
    pub fn is_due(&self, key: &Key, now: Instant) -> bool {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let is_old = |at: &Instant| now.saturating_duration_since(*at) >= self.long;
        if last.get(key).is_some_and(|at| !is_old(at)) {
            return false;
        }
        // Outdated entries are dropped.
        last.retain(|_, at| !is_old(at));
        last.insert(key.clone(), now);
        true
    }

    /// Forgets a failed check: the next caller checks the session again.
    pub fn forget(&self, key: &Key) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use insula_identity::credential::{Fingerprint, Source};
    use insula_identity::endpoint::{Endpoint, Trust};

    use super::*;

    fn key(host: &str) -> Key {
        Key {
            space: None,
            source: Source::Operator,
            endpoint: Endpoint::parse(host, 443).unwrap(),
            trust: Trust::Verified,
            fingerprint: Fingerprint::of(&BTreeMap::new()),
        }
    }

    #[test]
    fn one_of_many_asks_and_nothing_is_kept_for_ever() {
        let (heard, begin) = (Heard::new(Duration::from_secs(60)), Instant::now());
        let after = |seconds| begin + Duration::from_secs(seconds);
        assert!(heard.is_due(&key("a"), after(0)));
        assert!((1..60).all(|second| !heard.is_due(&key("a"), after(second))));
        assert!(heard.is_due(&key("b"), after(30)));
        assert!(heard.is_due(&key("a"), after(60)));
        heard.forget(&key("a"));
        assert!(heard.is_due(&key("a"), after(61)));
        assert!(heard.is_due(&key("c"), after(500)));
        assert_eq!(heard.last.lock().unwrap().len(), 1);
    }
}

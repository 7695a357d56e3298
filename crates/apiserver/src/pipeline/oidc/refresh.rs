//! The state that requests share with the task that fetches keys.

use std::sync::Arc;
use std::time::Duration;

use insula_access::jwt::{KeySet, TokenCache};
use tokio::time::Instant;

use super::Keys;

/// The current keys, and the state of the fetches.
#[derive(Default)]
pub struct State {
    /// The last fetched keys.
    keys: Option<Arc<Keys>>,
    /// When the last fetch began.
    began: Option<Instant>,
    fetching: bool,
    /// Whether a request needs newer keys.
    asked: bool,
    /// The number of finished fetches.
    fetches: u64,
}

/// The availability of newer keys.
pub enum Next {
    /// Newer keys are fetched already.
    Here(Arc<Keys>),
    /// Newer keys come with the fetch after this many.
    Soon { after: u64 },
    /// The next fetch is not due yet.
    Later,
}

impl State {
    /// Returns the last fetched keys.
    pub fn keys(&self) -> Option<Arc<Keys>> {
        self.keys.clone()
    }

    /// Whether there are any keys.
    pub const fn is_ready(&self) -> bool {
        self.keys.is_some()
    }

    /// Returns the number of finished fetches.
    pub const fn fetches(&self) -> u64 {
        self.fetches
    }

    /// Whether a request needs newer keys.
    pub const fn is_asked(&self) -> bool {
        self.asked
    }

    /// Asks for keys that are newer than these.
    pub fn ask(&mut self, than: &Arc<Keys>, apart: Duration) -> Next {
        if let Some(keys) = &self.keys
            && !Arc::ptr_eq(keys, than)
        {
            return Next::Here(Arc::clone(keys));
        }
        let after = self.fetches;
        if self.fetching {
            return Next::Soon { after };
        }
        // Also if it is too early, so that a later retry finds them.
        self.asked = true;
        match self.began.is_none_or(|began| began.elapsed() >= apart) {
            true => Next::Soon { after },
            false => Next::Later,
        }
    }

    /// Starts a fetch for all requests so far.
    pub const fn begin(&mut self, now: Instant) {
        self.began = Some(now);
        self.fetching = true;
        self.asked = false;
    }

    /// Ends a fetch. The last keys stay if it failed, and so does their token cache if the
    /// keys are unchanged.
    pub fn end(&mut self, fetched: Option<KeySet>) {
        self.fetching = false;
        self.fetches += 1;
        let Some(set) = fetched else {
            return;
        };
        if self.keys.as_ref().is_none_or(|keys| keys.set != set) {
            self.keys = Some(Arc::new(Keys {
                set,
                verified: TokenCache::default(),
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    use insula_access::jwt::PublicKey;

    use super::*;

    const APART: Duration = Duration::from_secs(10);

    fn some_keys() -> KeySet {
        let jwk = serde_json::json!({
            "kty": "EC", "crv": "P-256",
            "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
            "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
        });
        let jwk = serde_json::from_value(jwk).unwrap();
        [PublicKey::from_jwk(&jwk).unwrap()].into_iter().collect()
    }

    fn fetched(state: &mut State, keys: Option<KeySet>) {
        state.begin(Instant::now());
        state.end(keys);
    }

    #[test]
    fn keys_stay_until_other_keys_are_fetched() {
        let mut state = State::default();
        fetched(&mut state, None);
        assert!(state.keys().is_none());
        fetched(&mut state, Some(some_keys()));
        let first = state.keys().unwrap();
        fetched(&mut state, None);
        fetched(&mut state, Some(some_keys()));
        assert!(Arc::ptr_eq(&first, &state.keys().unwrap()));
        fetched(&mut state, Some(KeySet::default()));
        let second = state.keys().unwrap();
        assert_eq!(second.set, KeySet::default());
        assert_eq!(state.fetches(), 5);
        // A request with the old keys gets the new ones without a fetch.
        let next = state.ask(&first, APART);
        assert!(matches!(next, Next::Here(keys) if Arc::ptr_eq(&keys, &second)));
        assert!(!state.is_asked());
    }

    #[test]
    fn request_joins_a_fetch_that_is_under_way_or_due() {
        let mut state = State::default();
        fetched(&mut state, Some(some_keys()));
        let keys = state.keys().unwrap();
        assert!(matches!(state.ask(&keys, APART), Next::Later));
        assert!(state.is_asked());
        assert!(matches!(
            state.ask(&keys, Duration::ZERO),
            Next::Soon { after: 1 }
        ));
        state.begin(Instant::now());
        assert!(!state.is_asked());
        assert!(matches!(state.ask(&keys, APART), Next::Soon { after: 1 }));
        assert!(
            !state.is_asked(),
            "the fetch that is under way is for this one too"
        );
    }
}

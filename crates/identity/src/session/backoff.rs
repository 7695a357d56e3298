//! Backoff after failures, by what each failure is attributed to.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::time::Instant;

use super::{Key, LoginError, Settings};
use crate::credential::{Fingerprint, Source};
use crate::endpoint::{Endpoint, Trust};
use crate::reason::Reason;

/// How many credentials of one source may be refused before the others are not tried. Servers
/// lock an account after a handful of failed logins.
const MAX_REFUSALS: u32 = 3;

/// What a failure is attributed to. No attempt is made in this scope until the backoff ends.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Scope {
    /// An endpoint that does not respond: its circuit breaker is open.
    Endpoint(Endpoint),
    /// A server certificate that is not accepted.
    Certificate(Endpoint, Trust),
    /// One key: the server responds to others, or without a session.
    Key(Arc<Key>),
    /// A refused credential of a space. Neither trust nor source are part of the scope: a
    /// requester must not be able to lock an account by varying them. For the same reason, the
    /// space is that of the account's owner, however many tenants it is lent to.
    Account(Option<Arc<str>>, Endpoint, Fingerprint),
    /// A source of refused credentials.
    Source(Option<Arc<str>>, Endpoint, Source),
}

/// A backoff and its cause.
#[derive(Clone, Debug)]
pub(super) struct Backoff {
    pub error: LoginError,
    pub until: Instant,
    /// Consecutive failures.
    failures: u32,
}

/// All backoffs. Expired ones are kept for a while, because the next failure doubles them.
#[derive(Debug)]
pub(super) struct Backoffs {
    settings: Settings,
    pub scopes: HashMap<Scope, Backoff>,
}

impl Scope {
    /// Returns all scopes of a key; the last two concern logins only.
    fn all(key: &Arc<Key>) -> [Self; 5] {
        let (owner, endpoint) = (|| owning_space(key), || key.endpoint.clone());
        [
            Self::Endpoint(endpoint()),
            Self::Certificate(endpoint(), key.trust.clone()),
            Self::Key(Arc::clone(key)),
            Self::Account(owner(), endpoint(), key.fingerprint.clone()),
            Self::Source(owner(), endpoint(), key.source.clone()),
        ]
    }

    /// Returns the number of failures from which on the backoff applies.
    fn min_failures(&self) -> u32 {
        match self {
            Self::Source(..) => MAX_REFUSALS,
            _ => 1,
        }
    }
}

/// Returns the space that owns the credential of a key; none for the operator's own.
fn owning_space(key: &Key) -> Option<Arc<str>> {
    match key.source {
        Source::Identity { lent: true, .. } | Source::Operator => None,
        Source::Identity { .. } | Source::Secret { .. } => key.space.clone(),
    }
}

impl Backoffs {
    pub fn new(settings: Settings) -> Self {
        let scopes = HashMap::new();
        Self { settings, scopes }
    }

    /// Returns the backoff that ends last of those that apply to a key.
    pub fn active(&self, key: &Arc<Key>, has_session: bool, now: Instant) -> Option<&Backoff> {
        // A session that is open was not refused.
        let relevant = if has_session { 3 } else { 5 };
        let scopes = Scope::all(key);
        let backoffs = scopes.iter().take(relevant).filter_map(|scope| {
            let backoff = self.scopes.get(scope)?;
            let active = backoff.until > now && backoff.failures >= scope.min_failures();
            active.then_some(backoff)
        });
        backoffs.max_by_key(|backoff| backoff.until)
    }

    /// Returns the last backoff of an endpoint since it responded, active or expired.
    pub fn last_of(&self, endpoint: &Endpoint) -> Option<&Backoff> {
        self.scopes.get(&Scope::Endpoint(endpoint.clone()))
    }

    /// Records a failure and doubles the backoff. Returns when it ends.
    pub fn increase(&mut self, scope: Scope, error: LoginError, now: Instant) -> Instant {
        let failures = match self.scopes.get(&scope) {
            // A concurrent attempt has recorded the failure.
            Some(backoff) if backoff.until > now => return backoff.until,
            Some(backoff) => backoff.failures,
            None => 0,
        };
        let (first, max) = self.settings.unreachable_backoff;
        let until = now + first.saturating_mul(1 << failures.min(16)).min(max);
        self.insert(scope, error, until, failures.saturating_add(1));
        until
    }

    /// Sets a backoff that ends at a given time.
    pub fn set(&mut self, scope: Scope, error: LoginError, until: Instant) {
        self.insert(scope, error, until, 1);
    }

    /// Records a refused credential.
    pub fn refuse(&mut self, key: &Arc<Key>, error: &LoginError, now: Instant) {
        let until = now + self.settings.refused_backoff;
        let [_, _, _, account, source] = Scope::all(key);
        let before = self.scopes.get(&source);
        let before = before.filter(|backoff| backoff.until > now);
        let failures = before.map_or(0, |backoff| backoff.failures) + 1;
        let message = format!("{failures} other contents of this credential were refused");
        let too_many = LoginError {
            reason: Reason::InvalidCredentials,
            message,
            answered: true,
        };
        self.insert(source, too_many, until, failures);
        self.set(account, error.clone(), until);
    }

    pub fn clear(&mut self, scope: &Scope) {
        self.scopes.remove(scope);
    }

    /// Removes expired backoffs, except those that a running retry may still increase.
    pub fn purge(&mut self, now: Instant) {
        let keep = self.settings.unreachable_backoff.1 + self.settings.request_timeout;
        self.scopes.retain(|_, backoff| backoff.until + keep > now);
    }

    /// Returns the number of endpoints that do not respond or are not trusted.
    pub fn failing_endpoints(&self) -> usize {
        let failing = |scope: &&Scope| matches!(scope, Scope::Endpoint(_) | Scope::Certificate(..));
        self.scopes.keys().filter(failing).count()
    }

    fn insert(&mut self, scope: Scope, error: LoginError, until: Instant, failures: u32) {
        let backoff = Backoff {
            error,
            until,
            failures,
        };
        self.scopes.insert(scope, backoff);
    }
}

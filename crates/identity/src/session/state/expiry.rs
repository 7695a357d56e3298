//! Clean-up of sessions and of expired entries.

use std::sync::Arc;

use tokio::time::Instant;

use super::super::Key;
use super::super::entry::{Entry, Phase};
use super::{Action, Expiry, PoolState, Route};

impl<S> PoolState<S> {
    /// Closes a session without requesters, and removes an unused entry.
    pub(super) fn close_if_unused(&mut self, key: &Arc<Key>, now: Instant) {
        let Some(entry) = self.entries.get(key) else {
            return;
        };
        if self.closed || entry.requesters.is_empty() {
            self.log_out_if_free(key);
        }
        if self
            .entries
            .get(key)
            .is_some_and(|entry| entry.is_unused(now))
        {
            self.entries.remove(key);
            if let Some(health) = self.routes.get_mut(&key.route()) {
                health.keys = health.keys.saturating_sub(1);
            }
            self.forget_route_if_unused(&key.route(), now);
        }
    }

    pub(super) fn forget_route_if_unused(&mut self, route: &Route, now: Instant) {
        if self
            .routes
            .get(route)
            .is_some_and(|health| health.is_unused(now))
        {
            self.routes.remove(route);
        }
    }

    /// Starts the logout of a session that is neither held nor being checked.
    pub(super) fn log_out_if_free(&mut self, key: &Arc<Key>) {
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        match std::mem::replace(&mut entry.phase, Phase::Closing) {
            Phase::Open(open) if open.held == 0 => {
                let key = Arc::clone(key);
                self.actions.push(Action::LogOut {
                    key,
                    session: open.session,
                });
            }
            other => entry.phase = other,
        }
    }

    /// Returns whether a session is too old. It is closed when it is no longer held.
    pub(super) fn retire_if_expired(&mut self, key: &Arc<Key>, now: Instant) -> bool {
        let open = self.entries.get_mut(key).and_then(Entry::open_mut);
        let Some(open) = open else {
            return false;
        };
        if !open.is_older_than(self.settings.lifetime, now) {
            return false;
        }
        self.log_out_if_free(key);
        true
    }

    /// Schedules a clean-up.
    pub(super) fn schedule_expiry(&mut self, when: Instant, what: Expiry) {
        let ticket = self.next_ticket();
        self.expiries.insert((when, ticket), what);
    }

    pub(super) fn expire(&mut self, now: Instant) {
        while let Some(first) = self.expiries.first_entry() {
            if first.key().0 > now {
                return;
            }
            match first.remove() {
                Expiry::Entry(key) => self.close_if_unused(&key, now),
                Expiry::Route(route) => self.forget_route_if_unused(&route, now),
                Expiry::Suspicion(endpoint) => {
                    self.limits.expire_suspect(&endpoint, now);
                    self.grant_seats(now);
                }
                Expiry::RefusalSource(refusal_source) => {
                    if let Some(counting) = self.refusals.get_mut(&refusal_source) {
                        counting.retain(|until| *until > now);
                        if counting.is_empty() {
                            self.refusals.remove(&refusal_source);
                        }
                    }
                }
                Expiry::Account(account) => {
                    if self
                        .refused
                        .get(&account)
                        .is_some_and(|pause| pause.until <= now)
                    {
                        self.refused.remove(&account);
                    }
                }
            }
        }
    }
}

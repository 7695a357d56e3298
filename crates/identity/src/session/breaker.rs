//! A circuit breaker per endpoint.

use tokio::time::Instant;

use super::limits::SeatKind;

/// The circuit breaker of one endpoint.
///
/// It is open while the endpoint is backed off ([`Scope::Endpoint`]). Otherwise it is closed if
/// the endpoint responded the last time, and half-open if not, also before the first contact:
/// then one login or check at a time probes the endpoint for all requesters.
///
/// [`Scope::Endpoint`]: super::backoff::Scope::Endpoint
#[derive(Debug, Default)]
pub(super) struct Breaker {
    closed: bool,
    /// Whether a login is running as a probe, and whether a check is.
    login_probe: bool,
    check_probe: bool,
    last_response: Option<Instant>,
}

impl Breaker {
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Returns whether a requester has to wait for a running probe. A login may be slow because
    /// of its account, so a requester with a session does not wait for logins.
    pub fn is_probing(&self, kind: SeatKind) -> bool {
        match kind {
            SeatKind::Login => self.login_probe || self.check_probe,
            SeatKind::Check | SeatKind::Use => self.check_probe,
        }
    }

    /// Records the start or the end of a probe.
    pub fn set_probing(&mut self, kind: SeatKind, running: bool) {
        match kind {
            SeatKind::Login => self.login_probe = running,
            SeatKind::Check | SeatKind::Use => self.check_probe = running,
        }
    }

    /// Closes the breaker after a response.
    pub fn record_response(&mut self, now: Instant) {
        self.closed = true;
        self.last_response = Some(now);
    }

    /// Requires a probe before further requests.
    pub fn half_open(&mut self) {
        self.closed = false;
    }

    pub fn responded_since(&self, since: Instant) -> bool {
        self.last_response.is_some_and(|at| at > since)
    }
}

//! Metrics of the pool.

use std::fmt::Write as _;

use super::super::entry::Phase;
use super::{PoolState, WaitPoint};

impl<S> PoolState<S> {
    /// Returns all metrics in the Prometheus text format.
    pub fn metrics(&self) -> String {
        let open = self.entries.values().filter(|entry| {
            matches!(
                entry.phase,
                Phase::Open(_) | Phase::Checking(_) | Phase::Closing
            )
        });
        let waits = self.requesters.values().filter(|requester| {
            let place = requester.waiting_at.map(|(place, _)| place);
            place.is_some_and(|place| place != WaitPoint::Recovery)
        });
        let paused = self.routes.values().filter(|health| health.pause.is_some());
        let counts = &self.counts;
        let mut text = String::new();
        for (name, kind, help, lines) in [
            (
                "sessions_open",
                "gauge",
                "Sessions that are open.",
                vec![("", open.count() as u64)],
            ),
            (
                "sessions_waiting",
                "gauge",
                "Objects that wait for a session.",
                vec![("", waits.count() as u64)],
            ),
            (
                "session_endpoints_failing",
                "gauge",
                "Endpoints that do not answer.",
                vec![("", paused.count() as u64)],
            ),
            (
                "session_logins_total",
                "counter",
                "Logins, by what became of them.",
                vec![
                    ("{result=\"opened\"}", counts.opened),
                    ("{result=\"refused\"}", counts.refused),
                    ("{result=\"failed\"}", counts.failed),
                ],
            ),
            (
                "session_checks_total",
                "counter",
                "Sessions that were checked before use.",
                vec![("", counts.checks)],
            ),
            (
                "session_logouts_total",
                "counter",
                "Sessions that were closed.",
                vec![("", counts.closed)],
            ),
        ] {
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "# HELP insula_{name} {help}\n# TYPE insula_{name} {kind}"
            );
            for (label, value) in lines {
                let _ = writeln!(text, "insula_{name}{label} {value}");
            }
        }
        text
    }
}

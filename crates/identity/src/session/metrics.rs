//! Metrics of the pool.

/// The results of all actions since the start.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub opened: u64,
    pub refused: u64,
    pub failed: u64,
    pub checks: u64,
    pub closed: u64,
}

/// Returns the metrics in the Prometheus text format.
pub(super) fn text(counts: &Counts, open: usize, waiting: usize, failing: usize) -> String {
    let Counts {
        opened,
        refused,
        failed,
        checks,
        closed,
    } = counts;
    format!(
        "# HELP insula_sessions_open Sessions that are open.
# TYPE insula_sessions_open gauge
insula_sessions_open {open}
# HELP insula_sessions_waiting Objects that wait for a session.
# TYPE insula_sessions_waiting gauge
insula_sessions_waiting {waiting}
# HELP insula_session_endpoints_failing Endpoints that do not respond or are not trusted.
# TYPE insula_session_endpoints_failing gauge
insula_session_endpoints_failing {failing}
# HELP insula_session_logins_total Logins, by result.
# TYPE insula_session_logins_total counter
insula_session_logins_total{{result=\"opened\"}} {opened}
insula_session_logins_total{{result=\"refused\"}} {refused}
insula_session_logins_total{{result=\"failed\"}} {failed}
# HELP insula_session_checks_total Sessions that were checked before use.
# TYPE insula_session_checks_total counter
insula_session_checks_total {checks}
# HELP insula_session_logouts_total Sessions that were closed.
# TYPE insula_session_logouts_total counter
insula_session_logouts_total {closed}
"
    )
}

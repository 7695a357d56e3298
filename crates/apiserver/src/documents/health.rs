//! The health checks, by the names that kube-apiserver has for what is true of this server.

use bytes::Bytes;
use http::StatusCode;

use super::metrics::Metrics;
use crate::codec::answer::Answer;
use crate::pipeline::route::Health;
use crate::registry::Registry;
use crate::request::query::Query;
use crate::status::{Result, StatusError};

/// One check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Check {
    name: &'static str,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Passed,
    /// It passes, and says more.
    PassedWith(&'static str),
    Failed,
}

/// The checks that pass because the server answers: it listens only when its cache follows the
/// store, when definitions are compiled and when the bootstrap objects exist.
const STARTED: [&str; 7] = [
    "ping",
    "log",
    "etcd",
    "poststarthook/generic-apiserver-start-informers",
    "poststarthook/crd-informer-synced",
    "poststarthook/rbac/bootstrap-roles",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
];

/// Those that only `/readyz` has.
const READY: [&str; 2] = ["etcd-readiness", "informer-sync"];

fn checks(endpoint: Health, registry: &Registry, metrics: &Metrics) -> Vec<Check> {
    let passed = |name| Check {
        name,
        state: State::Passed,
    };
    let mut checks: Vec<_> = STARTED.map(passed).into();
    if endpoint == Health::Readyz {
        checks.extend(READY.map(passed));
    }
    let with = |name, detail: Option<_>| Check {
        name,
        state: detail.map_or(State::Passed, State::PassedWith),
    };
    checks.push(with("store", metrics.store_detail()));
    if let Some(detail) = metrics.encryption_detail() {
        checks.push(with("encryption", detail));
    }
    if endpoint == Health::Readyz {
        checks.push(Check {
            name: "shutdown",
            state: match registry.closing().is_closed() {
                true => State::Failed,
                false => State::Passed,
            },
        });
    }
    checks
}

const fn name_of(endpoint: Health) -> &'static str {
    match endpoint {
        Health::Healthz => "healthz",
        Health::Livez => "livez",
        Health::Readyz => "readyz",
    }
}

/// Answers with the result of all checks of an endpoint, or of the one that the path names.
///
/// # Errors
///
/// If the endpoint has no such check.
pub fn answer(
    endpoint: Health,
    named: Option<&str>,
    registry: &Registry,
    metrics: &Metrics,
    query: &Query,
) -> Result<Answer> {
    let checks = checks(endpoint, registry, metrics);
    let (code, text) = match named {
        Some(named) => {
            let mut checks = checks.iter();
            let check = checks.find(|check| check.name == named);
            single(*check.ok_or_else(StatusError::no_such_path)?)
        }
        None => {
            let excluded: Vec<_> = query.all("exclude").collect();
            let is_verbose = query.all("verbose").next().is_some();
            report(endpoint, &checks, &excluded, is_verbose)
        }
    };
    Ok(Answer::new(code, Bytes::from(text).into()).typed("text/plain; charset=utf-8"))
}

fn single(check: Check) -> (StatusCode, String) {
    match check.state {
        State::Failed => (
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("internal server error: {} failed\n", check.name),
        ),
        State::Passed | State::PassedWith(_) => (StatusCode::OK, "ok".to_owned()),
    }
}

fn report(
    endpoint: Health,
    checks: &[Check],
    excluded: &[&str],
    is_verbose: bool,
) -> (StatusCode, String) {
    let endpoint = name_of(endpoint);
    let mut lines = String::new();
    let mut failed = false;
    for Check { name, state } in checks {
        let line = match state {
            _ if excluded.contains(name) => format!("[+]{name} excluded: ok\n"),
            State::Passed => format!("[+]{name} ok\n"),
            State::PassedWith(detail) => format!("[+]{name} ok: {detail}\n"),
            State::Failed => {
                failed = true;
                format!("[-]{name} failed: reason withheld\n")
            }
        };
        lines.push_str(&line);
    }
    let unknown: Vec<_> = excluded
        .iter()
        .filter(|name| !checks.iter().any(|check| check.name == **name))
        .map(|name| format!("{name:?}"))
        .collect();
    if !unknown.is_empty() {
        let unknown = unknown.join(",");
        lines.push_str(&format!(
            "warn: some health checks cannot be excluded: no matches for {unknown}\n"
        ));
    }
    match (failed, is_verbose) {
        (true, _) => (
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("{lines}{endpoint} check failed\n"),
        ),
        (false, true) => (StatusCode::OK, format!("{lines}{endpoint} check passed\n")),
        (false, false) => (StatusCode::OK, "ok".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn check(name: &'static str, state: State) -> Check {
        Check { name, state }
    }

    #[test]
    fn failed_check_fails_the_endpoint_unless_it_is_excluded() {
        let checks = [
            check("ping", State::Passed),
            check("store", State::PassedWith("disk space low")),
            check("shutdown", State::Failed),
        ];
        let failed = "[+]ping ok\n[+]store ok: disk space low\n[-]shutdown failed: reason \
                      withheld\nreadyz check failed\n";
        let excluded = "[+]ping ok\n[+]store ok: disk space low\n[+]shutdown excluded: ok\nwarn: \
                        some health checks cannot be excluded: no matches for \"x\"\nreadyz \
                        check passed\n";
        for (without, is_verbose, code, text) in [
            (&[][..], false, 500, failed),
            (&[], true, 500, failed),
            (&["shutdown", "x"], true, 200, excluded),
            (&["shutdown"], false, 200, "ok"),
        ] {
            let (found, report) = report(Health::Readyz, &checks, without, is_verbose);
            assert_eq!((found.as_u16(), report.as_str()), (code, text));
        }
        let (code, text) = single(checks[2]);
        let failed = "internal server error: shutdown failed\n";
        assert_eq!((code.as_u16(), text.as_str()), (500, failed));
    }
}

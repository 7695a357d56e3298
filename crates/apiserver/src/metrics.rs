//! What is counted, in Prometheus' text.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use http::{Method, StatusCode};

use crate::audit;
use crate::registry::Registry;

/// Counters that cost the same however many tenants there are.
#[derive(Debug, Default)]
pub struct Metrics {
    requests: [[AtomicU64; 5]; METHODS.len()],
}

const METHODS: [&str; 6] = ["GET", "POST", "PUT", "PATCH", "DELETE", "other"];

impl Metrics {
    /// Counts an answer.
    pub fn count(&self, method: &Method, status: StatusCode) {
        let known = METHODS.iter().position(|known| *known == method.as_str());
        let class = usize::from(status.as_u16() / 100).clamp(1, 5) - 1;
        self.requests[known.unwrap_or(METHODS.len() - 1)][class].fetch_add(1, Ordering::Relaxed);
    }

    /// Everything that is counted.
    pub fn text(&self, registry: &Registry, audit: Option<&audit::Sink>) -> String {
        let mut text = String::from(
            "# HELP apiserver_request_total Answers by method and class of status code.\n\
             # TYPE apiserver_request_total counter\n",
        );
        for (method, classes) in METHODS.iter().zip(&self.requests) {
            for (class, count) in (1..).zip(classes) {
                let count = count.load(Ordering::Relaxed);
                if count > 0 {
                    let labels = format!("verb=\"{method}\",code=\"{class}xx\"");
                    writeln!(text, "apiserver_request_total{{{labels}}} {count}").ok();
                }
            }
        }
        let revision = registry.cache().applied();
        text.push_str(
            "# HELP insula_cache_revision The revision up to which the cache has everything.\n\
             # TYPE insula_cache_revision gauge\n",
        );
        writeln!(text, "insula_cache_revision {revision}").ok();
        if let Some(audit) = audit {
            audit_text(audit.counts(), &mut text);
        }
        text
    }
}

fn audit_text(counts: audit::Counts, text: &mut String) {
    for (name, help, count) in [
        ("events", "Events in the audit log.", counts.written),
        (
            "lost",
            "Events that the audit log did not take.",
            counts.lost,
        ),
        (
            "errors",
            "Writes to the audit log that failed.",
            counts.errors,
        ),
    ] {
        let name = format!("insula_audit_{name}_total");
        writeln!(text, "# HELP {name} {help}\n# TYPE {name} counter").ok();
        writeln!(text, "{name} {count}").ok();
    }
}

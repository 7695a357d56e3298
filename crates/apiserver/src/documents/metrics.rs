//! Metrics in Prometheus' text format.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::{Method, StatusCode};
use insula_store::DiskSpace;

use crate::flow_control::connection_tracker::ConnectionTracker;
use crate::flow_control::unsent::{UnsentPool, UnsentStats};
use crate::flow_control::{FlowControl, SeatStats};
use crate::pipeline::audit;
use crate::registry::Registry;

/// The metrics of the server. Their number does not grow with the number of tenants.
pub struct Metrics {
    requests: [[AtomicU64; 5]; METHODS.len()],
    registry: Arc<Registry>,
    audit: Option<Arc<audit::Sink>>,
    flow_control: FlowControl,
    connections: Arc<ConnectionTracker>,
    unsent: Arc<UnsentPool>,
}

/// The unsent bytes from which on a space is named: more than responses hold that are being read,
/// so that there is no series for every tenant.
const MIN_SPACE_UNSENT: usize = 256 << 10;

const METHODS: [&str; 6] = ["GET", "POST", "PUT", "PATCH", "DELETE", "other"];

impl Metrics {
    /// Returns metrics with counters at zero and the sources of the gauges.
    pub fn new(
        registry: Arc<Registry>,
        audit: Option<Arc<audit::Sink>>,
        flow_control: FlowControl,
        connections: Arc<ConnectionTracker>,
        unsent: Arc<UnsentPool>,
    ) -> Self {
        Self {
            requests: Default::default(),
            registry,
            audit,
            flow_control,
            connections,
            unsent,
        }
    }

    /// Counts a response.
    pub fn count(&self, method: &Method, status: StatusCode) {
        let known = METHODS.iter().position(|known| *known == method.as_str());
        let class = usize::from(status.as_u16() / 100).clamp(1, 5) - 1;
        self.requests[known.unwrap_or(METHODS.len() - 1)][class].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the line of the health checks about the store. A full store still serves reads and
    /// deletions, so it is ready. Every client may read this: it names no sizes.
    pub fn store_check(&self) -> &'static str {
        let space = self.registry.store().disk_space();
        match space.is_some_and(|space| space.is_low) {
            true => "[+]store ok: disk space low, growing writes are refused",
            false => "[+]store ok",
        }
    }

    /// Returns all metrics as text.
    pub fn text(&self) -> String {
        let mut text = String::from(
            "# HELP apiserver_request_total Responses by method and class of status code.\n\
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
        let revision = self.registry.cache().applied();
        text.push_str(
            "# HELP insula_cache_revision Revision that the cache has applied.\n\
             # TYPE insula_cache_revision gauge\n",
        );
        writeln!(text, "insula_cache_revision {revision}").ok();
        if let Some(audit) = &self.audit {
            audit_text(audit.counts(), &mut text);
        }
        if let Some(space) = self.registry.store().disk_space() {
            write_disk_space(&mut text, space);
        }
        write_seats(&mut text, &self.flow_control);
        write_connections(&mut text, &self.connections);
        write_unsent(&mut text, &self.unsent.stats());
        text
    }
}

fn audit_text(counts: audit::Counts, text: &mut String) {
    for (name, help, count) in [
        ("events", "Events in the audit log.", counts.written),
        ("lost", "Events lost by the audit log.", counts.lost),
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

fn write_disk_space(text: &mut String, space: DiskSpace) {
    for (name, kind, help, value) in [
        (
            "free_bytes",
            "gauge",
            "Room on the store's disk, as last measured.",
            space.free_bytes,
        ),
        (
            "reserved_bytes",
            "gauge",
            "Room that growing writes leave free, for flushes and merges.",
            space.reserved_bytes,
        ),
        (
            "refused_writes_total",
            "counter",
            "Writes refused with 507 for lack of room.",
            space.refused_writes,
        ),
    ] {
        let name = format!("insula_store_{name}");
        writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}").ok();
        writeln!(text, "{name} {value}").ok();
    }
}

fn write_seats(text: &mut String, flow_control: &FlowControl) {
    let seat_stats = flow_control.seat_stats();
    let mut family = |name: &str, kind: &str, help: &str, of: &dyn Fn(&SeatStats) -> u64| {
        writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}").ok();
        for (work, stats) in &seat_stats {
            writeln!(text, "{name}{{work=\"{work}\"}} {}", of(stats)).ok();
        }
    };
    let name = "insula_seats_in_use";
    let help = "Seats in use, by kind of work.";
    family(name, "gauge", help, &|stats| stats.used.into());
    let name = "insula_seats_waiting";
    let help = "Requests and responses waiting for a seat, by kind of work.";
    family(name, "gauge", help, &|stats| stats.waiting as u64);
    let name = "insula_seats_refused_total";
    let help = "Requests rejected with 429 for lack of a seat, by kind of work.";
    family(name, "counter", help, &|stats| stats.refused);
}

fn write_connections(text: &mut String, connections: &ConnectionTracker) {
    let open = connections.open();
    write!(
        text,
        "# HELP insula_connections Open connections.\n\
         # TYPE insula_connections gauge\n\
         insula_connections {open}\n\
         # HELP insula_connections_ended_total Connections closed by a limit, by reason.\n\
         # TYPE insula_connections_ended_total counter\n"
    )
    .ok();
    for (reason, count) in connections.ended() {
        let labels = format!("reason=\"{reason}\"");
        writeln!(text, "insula_connections_ended_total{{{labels}}} {count}").ok();
    }
}

fn write_unsent(text: &mut String, stats: &UnsentStats) {
    let total = stats.total;
    write!(
        text,
        "# HELP insula_unsent_bytes Bytes of responses that clients have yet to take.\n\
         # TYPE insula_unsent_bytes gauge\n\
         insula_unsent_bytes {total}\n\
         # HELP insula_space_unsent_bytes The same of the spaces that hold most.\n\
         # TYPE insula_space_unsent_bytes gauge\n"
    )
    .ok();
    let shown = stats.costliest.iter();
    for (space, bytes) in shown.filter(|(_, bytes)| *bytes >= MIN_SPACE_UNSENT) {
        let space = space.as_ref().map(ToString::to_string).unwrap_or_default();
        writeln!(
            text,
            "insula_space_unsent_bytes{{space=\"{space}\"}} {bytes}"
        )
        .ok();
    }
    text.push_str(
        "# HELP insula_responses_cut_total Responses cut off before their end, by reason.\n\
         # TYPE insula_responses_cut_total counter\n",
    );
    for (reason, count) in stats.cut {
        writeln!(
            text,
            "insula_responses_cut_total{{reason=\"{reason}\"}} {count}"
        )
        .ok();
    }
    let refused = stats.refused;
    write!(
        text,
        "# HELP insula_unsent_refused_total Requests rejected with 429 for the unsent bytes of \
         their space.\n\
         # TYPE insula_unsent_refused_total counter\n\
         insula_unsent_refused_total {refused}\n"
    )
    .ok();
}

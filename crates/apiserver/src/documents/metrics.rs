//! Metrics in Prometheus' text format.

mod encryption;
mod spaces;

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::{Method, StatusCode};
use insula_store::DiskSpace;

use crate::flow_control::connection_tracker::ConnectionTracker;
use crate::flow_control::handshake_turns::HandshakeStats;
use crate::flow_control::unsent::{UnsentPool, UnsentStats};
use crate::flow_control::{FlowControl, SeatStats};
use crate::pipeline::audit;
use crate::pipeline::trust::CurrentTrust;
use crate::registry::Registry;

/// The metrics of the server. Their number does not grow with the number of tenants.
pub struct Metrics {
    requests: [[AtomicU64; 5]; METHODS.len()],
    registry: Arc<Registry>,
    audit: Option<Arc<audit::Audit>>,
    flow_control: FlowControl,
    connections: Arc<ConnectionTracker>,
    unsent: Arc<UnsentPool>,
    trust: Arc<CurrentTrust>,
}

/// The unsent bytes from which on a space is named: more than responses hold that are being read,
/// so that there is no series for every tenant.
const MIN_SPACE_UNSENT: usize = 256 << 10;

const METHODS: [&str; 6] = ["GET", "POST", "PUT", "PATCH", "DELETE", "other"];

impl Metrics {
    /// Returns metrics with counters at zero and the sources of the gauges.
    pub fn new(
        registry: Arc<Registry>,
        audit: Option<Arc<audit::Audit>>,
        flow_control: FlowControl,
        connections: Arc<ConnectionTracker>,
        unsent: Arc<UnsentPool>,
        trust: Arc<CurrentTrust>,
    ) -> Self {
        Self {
            requests: Default::default(),
            registry,
            audit,
            flow_control,
            connections,
            unsent,
            trust,
        }
    }

    /// Counts a response.
    pub fn count(&self, method: &Method, status: StatusCode) {
        let known = METHODS.iter().position(|known| *known == method.as_str());
        let class = usize::from(status.as_u16() / 100).clamp(1, 5) - 1;
        self.requests[known.unwrap_or(METHODS.len() - 1)][class].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns what the health checks say of the store beside that it works. A full store still
    /// serves reads and deletions, so it is ready. Every client may read this: it names no sizes.
    pub fn store_detail(&self) -> Option<&'static str> {
        let space = self.registry.store().disk_space();
        let is_low = space.is_some_and(|space| space.is_low);
        is_low.then_some("disk space low, growing writes are refused")
    }

    /// Returns what the health checks say of encryption, if it is enabled. Nothing of it keeps the
    /// server from serving.
    pub fn encryption_detail(&self) -> Option<Option<&'static str>> {
        let stats = self.registry.encryption()?.stats();
        Some(match (stats.reload_failed, stats.undestroyed_keys) {
            (true, _) => Some("the configuration file was refused"),
            (false, 0) => None,
            (false, _) => Some("keys of deleted tenants are yet to be destroyed"),
        })
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
            write_audit(&mut text, &audit.stats());
        }
        if let Some(space) = self.registry.store().disk_space() {
            write_disk_space(&mut text, space);
        }
        if let Some(encryption) = self.registry.encryption() {
            encryption::write(&mut text, &encryption.stats());
        }
        write_seats(&mut text, &self.flow_control);
        write_connections(&mut text, &self.connections);
        write_unsent(&mut text, &self.unsent.stats());
        spaces::write(
            &mut text,
            &self.registry,
            &self.flow_control,
            &self.connections,
        );
        write_reloads(&mut text, self.trust.reloads());
        text
    }
}

fn write_reloads(text: &mut String, [succeeded, failed]: [u64; 2]) {
    text.push_str(
        "# HELP insula_credential_file_reloads_total Reloads of client CAs, token files and the \
         CA of the OpenID provider.\n\
         # TYPE insula_credential_file_reloads_total counter\n",
    );
    for (result, count) in [("ok", succeeded), ("error", failed)] {
        let name = "insula_credential_file_reloads_total";
        writeln!(text, "{name}{{result=\"{result}\"}} {count}").ok();
    }
}

fn write_audit(text: &mut String, stats: &audit::Stats) {
    let log = stats.log.unwrap_or_default();
    for (name, help, count) in [
        (
            "apiserver_audit_event_total",
            "Audit events generated and sent to the audit backends.",
            stats.events,
        ),
        (
            "apiserver_audit_requests_rejected_total",
            "Requests rejected because an audit backend did not take their event.",
            stats.rejected,
        ),
        (
            "insula_audit_events_total",
            "Events in the audit log.",
            log.written,
        ),
        (
            "insula_audit_lost_total",
            "Events lost by the audit log.",
            log.lost,
        ),
        (
            "insula_audit_errors_total",
            "Writes to the audit log that failed.",
            log.errors,
        ),
    ] {
        writeln!(text, "# HELP {name} {help}\n# TYPE {name} counter").ok();
        writeln!(text, "{name} {count}").ok();
    }
    let name = "apiserver_audit_level_total";
    let help = "Requests by the level that the audit policy gives them.";
    writeln!(text, "# HELP {name} {help}\n# TYPE {name} counter").ok();
    for (level, count) in stats.levels {
        writeln!(text, "{name}{{level=\"{level}\"}} {count}").ok();
    }
    let name = "apiserver_audit_error_total";
    let help = "Audit events that were not audited properly, by plugin.";
    writeln!(text, "# HELP {name} {help}\n# TYPE {name} counter").ok();
    let webhook = stats.webhook.unwrap_or_default();
    for (plugin, count) in [
        ("buffered", webhook.dropped),
        ("log", log.lost),
        ("truncate", stats.oversized),
        ("webhook", webhook.failed),
    ] {
        writeln!(text, "{name}{{plugin=\"{plugin}\"}} {count}").ok();
    }
    if let Some(webhook) = stats.webhook {
        write_audit_webhook(text, webhook);
    }
}

fn write_audit_webhook(text: &mut String, counts: audit::WebhookCounts) {
    for (name, kind, help, count) in [
        (
            "sent_total",
            "counter",
            "Events that the audit webhook has taken.",
            counts.sent,
        ),
        (
            "dropped_total",
            "counter",
            "Events dropped because the buffer of the audit webhook was full.",
            counts.dropped,
        ),
        (
            "failed_total",
            "counter",
            "Events that the audit webhook did not take after all retries.",
            counts.failed,
        ),
        (
            "buffered_events",
            "gauge",
            "Events that wait for the audit webhook.",
            counts.buffered,
        ),
    ] {
        let name = format!("insula_audit_webhook_{name}");
        writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}").ok();
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
    write_handshakes(text, &connections.handshake_turns().stats());
}

fn write_handshakes(text: &mut String, stats: &HandshakeStats) {
    let HandshakeStats {
        running, waiting, ..
    } = stats;
    write!(
        text,
        "# HELP insula_handshakes_running TLS handshakes that are worked on.\n\
         # TYPE insula_handshakes_running gauge\n\
         insula_handshakes_running {running}\n\
         # HELP insula_handshakes_waiting TLS handshakes that wait for their turn.\n\
         # TYPE insula_handshakes_waiting gauge\n\
         insula_handshakes_waiting {waiting}\n\
         # HELP insula_handshakes_total TLS handshakes begun, by rate of the client address.\n\
         # TYPE insula_handshakes_total counter\n"
    )
    .ok();
    for (rate, count) in stats.begun {
        let labels = format!("rate=\"{rate}\"");
        writeln!(text, "insula_handshakes_total{{{labels}}} {count}").ok();
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

//! Pods: one status word derived from the states of all containers.

use super::row::{At, Row};
use crate::Value;

pub(super) fn pod(row: &Row<'_>) -> Vec<Value> {
    let pod = Pod::new(row);
    let summary = pod.summarize();
    vec![
        row.name(),
        Value::from(format!("{}/{}", summary.ready, pod.total())),
        Value::from(pod.status(summary.status)),
        Value::from(restarts(row, &summary.restarts)),
        row.age(),
        Value::from(pod.ip()),
        Value::from(row.at("spec.nodeName").text_or_none()),
        Value::from(row.at("status.nominatedNodeName").text_or_none()),
        Value::from(pod.readiness_gates()),
    ]
}

/// Formats restarts as `3`, or as `3 (5m ago)` if the time of the last one is known.
fn restarts(row: &Row<'_>, restarts: &Restarts<'_>) -> String {
    match restarts.last {
        Some((_, last)) if restarts.count != 0 => {
            format!("{} ({} ago)", restarts.count, row.since(last))
        }
        _ => restarts.count.to_string(),
    }
}

struct Pod<'a> {
    row: &'a Row<'a>,
    init_containers: At<'a>,
    conditions: At<'a>,
}

/// Status, readiness and restarts of all containers.
struct Summary<'a> {
    status: String,
    ready: usize,
    restarts: Restarts<'a>,
}

/// The number of restarts and the time of the last one.
#[derive(Default)]
struct Restarts<'a> {
    count: i64,
    last: Option<(i64, At<'a>)>,
}

/// Progress of the init containers.
struct InitSummary<'a> {
    /// Why the regular containers do not run yet.
    status: Option<String>,
    /// The number of ready sidecars.
    ready: usize,
    restarts: Restarts<'a>,
    /// Restarts of sidecars only.
    sidecar_restarts: Restarts<'a>,
}

impl<'a> Restarts<'a> {
    fn add(&mut self, container: At<'a>) {
        self.count += container.get("restartCount").number();
        let ended = container.at("lastState.terminated.finishedAt");
        let Some(seconds) = ended.seconds() else {
            return;
        };
        if self.last.is_none_or(|(last, _)| last < seconds) {
            self.last = Some((seconds, ended));
        }
    }
}

impl<'a> Pod<'a> {
    fn new(row: &'a Row<'a>) -> Self {
        Self {
            row,
            init_containers: row.at("spec.initContainers"),
            conditions: row.at("status.conditions"),
        }
    }

    fn summarize(&self) -> Summary<'a> {
        let init = self.summarize_init();
        let initialized = self.conditions.has_true("Initialized");
        match init.status {
            Some(status) if !initialized => Summary {
                status,
                ready: init.ready,
                restarts: init.restarts,
            },
            status => {
                let before = status.unwrap_or_else(|| self.phase());
                self.summarize_containers(before, init.ready, init.sidecar_restarts)
            }
        }
    }

    /// Returns the status of a pod without container states.
    fn phase(&self) -> String {
        let scheduled = self.conditions.items();
        let gated = scheduled
            .filter(|condition| condition.get("type").text() == "PodScheduled")
            .any(|condition| condition.get("reason").text() == "SchedulingGated");
        if gated {
            return "SchedulingGated".to_owned();
        }
        let phase = self.row.at("status.phase").text();
        self.row.at("status.reason").text_or(phase).to_owned()
    }

    /// Init containers run in sequence: the first unfinished one determines the status.
    fn summarize_init(&self) -> InitSummary<'a> {
        let mut init = InitSummary {
            status: None,
            ready: 0,
            restarts: Restarts::default(),
            sidecar_restarts: Restarts::default(),
        };
        let statuses = self.row.at("status.initContainerStatuses");
        for (index, container) in statuses.items().enumerate() {
            let sidecar = self.is_sidecar(container.get("name").text());
            init.restarts.add(container);
            if sidecar {
                init.sidecar_restarts.add(container);
            }
            let terminated = container.at("state.terminated");
            if terminated.exists() && terminated.get("exitCode").number() == 0 {
                continue;
            }
            if sidecar && container.get("started").is_true() {
                init.ready += usize::from(container.get("ready").is_true());
                continue;
            }
            init.status = Some(self.init_status(index, container));
            break;
        }
        init
    }

    fn init_status(&self, index: usize, container: At<'_>) -> String {
        let terminated = container.at("state.terminated");
        if terminated.exists() {
            return format!("Init:{}", termination_reason(terminated));
        }
        match container.at("state.waiting.reason").text() {
            "" | "PodInitializing" => format!("Init:{index}/{}", self.init_containers.len()),
            reason => format!("Init:{reason}"),
        }
    }

    /// Containers are visited in reverse, so the status of the first one with a state
    /// wins.
    fn summarize_containers(
        &self,
        before: String,
        ready: usize,
        restarts: Restarts<'a>,
    ) -> Summary<'a> {
        let mut summary = Summary {
            status: before,
            ready,
            restarts,
        };
        let mut running = false;
        let mut error = None;
        let statuses = self.row.at("status.containerStatuses");
        for container in statuses.items().rev() {
            summary.restarts.add(container);
            let state = container.get("state");
            let waiting = state.at("waiting.reason").text();
            let terminated = state.get("terminated");
            if !waiting.is_empty() {
                summary.status = waiting.to_owned();
            } else if terminated.exists() {
                summary.status = termination_reason(terminated);
                if terminated.get("exitCode").number() != 0 {
                    error = Some(summary.status.clone());
                }
            } else if container.get("ready").is_true() && state.get("running").exists() {
                running = true;
                summary.ready += 1;
            }
        }
        if summary.status == "Completed" {
            summary.status = self.completed(running, error);
        }
        summary
    }

    /// Returns the status when a container has completed.
    fn completed(&self, running: bool, error: Option<String>) -> String {
        let ready = self.conditions.items().any(|condition| {
            condition.get("type").text() == "Ready" && condition.get("status").text() == "True"
        });
        match error {
            _ if running && ready => "Running".to_owned(),
            Some(error) => error,
            None if running => "NotReady".to_owned(),
            None => "Completed".to_owned(),
        }
    }

    /// Returns the status, considering a deletion in progress.
    fn status(&self, summary: String) -> String {
        if !self.row.deleting() {
            return summary;
        }
        let lost = self.row.at("status.reason").text() == "NodeLost";
        let over = ["Succeeded", "Failed"].contains(&self.row.at("status.phase").text());
        match (lost, over) {
            (true, _) => "Unknown".to_owned(),
            (false, true) => summary,
            (false, false) => "Terminating".to_owned(),
        }
    }

    /// Whether the init container is a sidecar.
    fn is_sidecar(&self, name: &str) -> bool {
        // Names are unique; of duplicates the last one would count.
        let mut named = self.init_containers.items().rev();
        let container = named.find(|container| container.get("name").text() == name);
        container.is_some_and(keeps_running)
    }

    fn total(&self) -> usize {
        let sidecars = self.init_containers.items();
        let sidecars = sidecars.filter(|container| keeps_running(*container));
        self.row.at("spec.containers").len() + sidecars.count()
    }

    fn ip(&self) -> &'a str {
        let first = self.row.at("status.podIPs").items().next();
        let ip = first.map_or("", |ip| ip.get("ip").text());
        if ip.is_empty() { "<none>" } else { ip }
    }

    fn readiness_gates(&self) -> String {
        let gates = self.row.at("spec.readinessGates");
        if gates.len() == 0 {
            return "<none>".to_owned();
        }
        let open = gates.items().filter(|gate| {
            let condition = gate.get("conditionType").text();
            self.conditions.has_true(condition)
        });
        format!("{}/{}", open.count(), gates.len())
    }
}

fn keeps_running(container: At<'_>) -> bool {
    container.get("restartPolicy").text() == "Always"
}

/// Returns the reason of a container's termination.
fn termination_reason(terminated: At<'_>) -> String {
    let reason = terminated.get("reason").text();
    let signal = terminated.get("signal").number();
    match (reason, signal) {
        ("", 0) => format!("ExitCode:{}", terminated.get("exitCode").number()),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

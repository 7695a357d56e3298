//! The watch of hosts, and one task for each of them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::ensure;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::decide::{Action, next, state_of};
use super::knobs::{Knobs, Problem};
use super::secrets::{self, Failure, HostData};
use super::state::State;
use super::{FINALIZER, REBOOT, STATUS, hardware, status};
use crate::server::Client;

/// How long a failed step is not tried again, unless the host changes.
const RETRY: Duration = Duration::from_millis(50);

/// What the watch, the tasks and the test share.
pub(super) struct Shared {
    client: Client,
    collection: String,
    state: Mutex<Hosts>,
}

struct Hosts {
    knobs: Knobs,
    known: BTreeMap<String, Known>,
    /// The number of hosts that were ever seen.
    count: u16,
}

/// What is known about a host.
#[derive(Clone)]
struct Known {
    changed: Arc<Notify>,
    number: u16,
    data: Option<HostData>,
    path: Vec<State>,
    /// How it was switched on and off.
    power: Vec<bool>,
    /// Whether a task works on it.
    is_driven: bool,
}

impl Shared {
    pub(super) fn new(client: Client, namespace: Option<&str>, delay: Duration) -> Self {
        let collection = match namespace {
            None => "/apis/metal3.io/v1alpha1/baremetalhosts".to_owned(),
            Some(name) => format!("/apis/metal3.io/v1alpha1/namespaces/{name}/baremetalhosts"),
        };
        Self {
            client,
            collection,
            state: Mutex::new(Hosts {
                knobs: Knobs::new(delay),
                known: BTreeMap::new(),
                count: 0,
            }),
        }
    }

    /// Changes what is requested, and lets all hosts look at it.
    pub(super) fn change(&self, change: impl FnOnce(&mut Knobs)) {
        let mut state = self.state();
        change(&mut state.knobs);
        for known in state.known.values() {
            known.changed.notify_one();
        }
    }

    pub(super) fn data(&self, host: &str) -> Option<HostData> {
        self.state().known.get(host)?.data.clone()
    }

    pub(super) fn path(&self, host: &str) -> Vec<State> {
        let state = self.state();
        let known = state.known.get(host);
        known.map(|known| known.path.clone()).unwrap_or_default()
    }

    pub(super) fn power(&self, host: &str) -> Vec<bool> {
        let state = self.state();
        let known = state.known.get(host);
        known.map(|known| known.power.clone()).unwrap_or_default()
    }

    /// Notes that a host changed. Returns whether it needs a task.
    fn observe(&self, key: &str) -> bool {
        let mut state = self.state();
        let number = state.count + 1;
        let known = state.known.entry(key.to_owned());
        let mut is_new = false;
        let known = known.or_insert_with(|| {
            is_new = true;
            Known {
                changed: Arc::default(),
                number,
                data: None,
                path: Vec::new(),
                power: Vec::new(),
                is_driven: false,
            }
        });
        known.changed.notify_one();
        let needs_task = !std::mem::replace(&mut known.is_driven, true);
        if is_new {
            state.count = number;
        }
        needs_task
    }

    fn with_known<T>(&self, key: &str, act: impl FnOnce(&mut Known) -> T) -> Option<T> {
        self.state().known.get_mut(key).map(act)
    }

    fn state(&self) -> MutexGuard<'_, Hosts> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Watches the hosts, and drives each of them in its own task.
pub(super) async fn run(shared: Arc<Shared>) {
    let mut tasks = JoinSet::new();
    loop {
        if let Err(error) = watch(&shared, &mut tasks).await {
            tracing::debug!(%error, "watch of hosts ended");
        }
        sleep(RETRY).await;
        while tasks.try_join_next().is_some() {}
    }
}

async fn watch(shared: &Arc<Shared>, tasks: &mut JoinSet<()>) -> anyhow::Result<()> {
    let listed = shared.client.get(&shared.collection).await?;
    ensure!(listed.status == 200, "{}", listed.text());
    let listed = listed.json();
    let hosts = listed["items"].as_array();
    for host in hosts.into_iter().flatten() {
        observe(shared, tasks, host);
    }
    let version = listed["metadata"]["resourceVersion"].as_str();
    let version = version.unwrap_or_default();
    let path = format!("{}?watch=true&resourceVersion={version}", shared.collection);
    let mut events = shared.client.watch(&path).await?;
    while let Some(event) = events.next().await? {
        ensure!(event["type"] != "ERROR", "{event}");
        observe(shared, tasks, &event["object"]);
    }
    Ok(())
}

fn observe(shared: &Arc<Shared>, tasks: &mut JoinSet<()>, host: &Value) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &host["metadata"];
    let (namespace, name) = (text(&metadata["namespace"]), text(&metadata["name"]));
    let key = format!("{namespace}/{name}");
    if shared.observe(&key) {
        let path = format!("/apis/metal3.io/v1alpha1/namespaces/{namespace}/baremetalhosts/{name}");
        tasks.spawn(drive(Arc::clone(shared), key, path));
    }
}

/// How a step ended.
enum Step {
    /// The host was written, or is to be looked at again.
    Done,
    /// The host has changed since it was read.
    Conflict,
    /// Nothing is to be done until the host changes.
    Rest,
    /// It is tried again soon.
    Retry,
    /// The host does not exist any more.
    Gone,
}

/// Drives a host until it is deleted.
async fn drive(shared: Arc<Shared>, key: String, path: String) {
    let Some((changed, number)) =
        shared.with_known(&key, |known| (Arc::clone(&known.changed), known.number))
    else {
        return;
    };
    let mut host = Host {
        shared: &shared,
        key: &key,
        path: &path,
        number,
        waited: None,
    };
    loop {
        let step = host.step().await.unwrap_or_else(|error| {
            tracing::debug!(host = key, %error, "step of a host failed");
            Step::Retry
        });
        match step {
            Step::Done | Step::Conflict => {}
            Step::Rest => changed.notified().await,
            // Either is a reason to look again.
            Step::Retry => drop(timeout(RETRY, changed.notified()).await),
            Step::Gone => break,
        }
    }
    shared.with_known(&key, |known| known.is_driven = false);
}

/// One host and its task.
struct Host<'a> {
    shared: &'a Shared,
    key: &'a str,
    path: &'a str,
    number: u16,
    /// The state whose delay is over.
    waited: Option<State>,
}

impl Host<'_> {
    async fn step(&mut self) -> anyhow::Result<Step> {
        let found = self.shared.client.get(self.path).await?;
        if found.status == 404 {
            return Ok(Step::Gone);
        }
        ensure!(found.status == 200, "{}", found.text());
        let host = found.json();
        let action = next(&host);
        let state = state_of(&host);
        if matches!(action, Action::Rest | Action::Enter(_) | Action::Refresh)
            && host["metadata"]["annotations"][super::PAUSED].is_null()
            && let Some(problem) = self.requested_problem(state)
        {
            return self.report(&host, &problem).await;
        }
        match action {
            Action::Rest => Ok(Step::Rest),
            Action::AddFinalizer => {
                let finalizers = &host["metadata"]["finalizers"];
                let mut all = finalizers.as_array().cloned().unwrap_or_default();
                all.push(FINALIZER.into());
                self.write_finalizers(&host, all).await
            }
            Action::RemoveFinalizer => {
                secrets::release(&self.shared.client, &host).await?;
                hardware::release(&self.shared.client, &host).await?;
                let finalizers = &host["metadata"]["finalizers"];
                let mut all = finalizers.as_array().cloned().unwrap_or_default();
                all.retain(|one| one != FINALIZER);
                self.write_finalizers(&host, all).await
            }
            Action::Restore(status) => {
                let mut status = status::complete(&status);
                let hardware = hardware::recorded(&self.shared.client, &host).await?;
                if let Some(hardware) = hardware {
                    status["hardware"] = hardware;
                }
                self.write(&host, status).await
            }
            Action::DropStatusAnnotation => {
                self.patch(json!({"metadata": {"annotations": {STATUS: null}}}))
                    .await
            }
            Action::DropRebootAnnotation => {
                // One that must not be switched off has restarted.
                if host["spec"]["disablePowerOff"] == true {
                    self.record_power(&[false, true]);
                }
                self.patch(json!({"metadata": {"annotations": {REBOOT: null}}}))
                    .await
            }
            Action::Detach => self.write(&host, status::detached(&host)).await,
            Action::Refuse(problem) => self.report(&host, &problem).await,
            Action::Refresh => {
                let status = status::entered(&host, state, self.number);
                self.write(&host, status).await
            }
            Action::Enter(target) => self.enter(&host, state, target).await,
        }
    }

    fn requested_problem(&self, state: State) -> Option<Problem> {
        let shared = self.shared.state();
        shared.knobs.problem(self.key, state).cloned()
    }

    /// Enters a state after the delay of the present one.
    async fn enter(&mut self, host: &Value, state: State, target: State) -> anyhow::Result<Step> {
        let (is_held, delay) = {
            let shared = self.shared.state();
            let knobs = &shared.knobs;
            (knobs.is_held(self.key, state), knobs.delay_of(state))
        };
        if is_held {
            return Ok(Step::Rest);
        }
        // A stable state is left at once.
        if self.waited != Some(state) && !state.is_stable() {
            sleep(delay).await;
            self.waited = Some(state);
            return Ok(Step::Done);
        }
        let client = &self.shared.client;
        let read = match (state, target) {
            (State::Registering, State::Inspecting | State::ExternallyProvisioned) => {
                let checked = secrets::controller(client, host).await;
                checked.map(|()| None)
            }
            (_, State::Provisioned) => secrets::read(client, host).await.map(Some),
            _ => Ok(None),
        };
        let read = match read {
            Ok(read) => read,
            Err(Failure::Problem(problem)) => {
                self.report(host, &problem).await?;
                return Ok(Step::Retry);
            }
            Err(Failure::Request(error)) => return Err(error),
        };
        let mut host = host.clone();
        if let Some(data) = read {
            match self.record(&host, data).await? {
                Some(annotated) => host = annotated,
                None => return Ok(Step::Conflict),
            }
        }
        let status = status::entered(&host, target, self.number);
        if target == State::Preparing {
            hardware::record(client, &host, &status["hardware"]).await?;
        }
        let step = self.write(&host, status).await?;
        if matches!(step, Step::Done) {
            self.waited = None;
            self.shared
                .with_known(self.key, |known| known.path.push(target));
        }
        Ok(step)
    }

    /// Records what a host is provisioned with. Returns the annotated host, unless it has changed.
    async fn record(&self, host: &Value, data: HostData) -> anyhow::Result<Option<Value>> {
        let metadata = json!({
            "annotations": data.annotations(),
            "resourceVersion": host["metadata"]["resourceVersion"],
        });
        self.shared
            .with_known(self.key, |known| known.data = Some(data));
        let patch = json!({"metadata": metadata});
        let written = self.shared.client.patch(self.path, "merge", &patch).await?;
        let step = self.outcome(&written)?;
        Ok(matches!(step, Step::Done).then(|| written.json()))
    }

    /// Reports a problem, unless it is reported.
    async fn report(&self, host: &Value, problem: &Problem) -> anyhow::Result<Step> {
        if status::has_problem(host, problem) {
            return Ok(Step::Rest);
        }
        self.write(host, status::failed(host, problem)).await
    }

    /// Writes the status of a host in the version that was read.
    async fn write(&self, host: &Value, status: Value) -> anyhow::Result<Step> {
        let was_on = host["status"]["poweredOn"] == true;
        let mut host = host.clone();
        host["status"] = status;
        let path = format!("{}/status", self.path);
        let written = self.shared.client.put(&path, &host).await?;
        let outcome = self.outcome(&written)?;
        let is_on = host["status"]["poweredOn"] == true;
        if matches!(outcome, Step::Done) && is_on != was_on {
            self.record_power(&[is_on]);
        }
        Ok(outcome)
    }

    fn record_power(&self, changes: &[bool]) {
        self.shared
            .with_known(self.key, |known| known.power.extend(changes));
    }

    async fn write_finalizers(&self, host: &Value, all: Vec<Value>) -> anyhow::Result<Step> {
        let version = &host["metadata"]["resourceVersion"];
        let metadata = json!({"finalizers": all, "resourceVersion": version});
        self.patch(json!({"metadata": metadata})).await
    }

    async fn patch(&self, patch: Value) -> anyhow::Result<Step> {
        let written = self.shared.client.patch(self.path, "merge", &patch).await?;
        self.outcome(&written)
    }

    fn outcome(&self, written: &crate::server::Answer) -> anyhow::Result<Step> {
        match written.status {
            200 => Ok(Step::Done),
            409 => Ok(Step::Conflict),
            404 => Ok(Step::Gone),
            _ => anyhow::bail!("{}: {}", self.path, written.text()),
        }
    }
}

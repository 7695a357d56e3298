//! What is done next with a host.

use serde_json::Value;

use super::knobs::{ErrorType, Problem};
use super::state::State;
use super::{DETACHED, FINALIZER, PAUSED, STATUS, power};

/// What is done next with a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Nothing, until the host changes.
    Rest,
    /// Adds the finalizer.
    AddFinalizer,
    /// Removes the finalizer.
    RemoveFinalizer,
    /// Writes this status, which an annotation has.
    Restore(Value),
    /// Removes the annotation with a status.
    DropStatusAnnotation,
    /// Removes the annotation that requested a restart.
    DropRebootAnnotation,
    /// Reports the host as detached.
    Detach,
    /// Reports that a spec cannot be used.
    Refuse(Problem),
    /// Enters a state.
    Enter(State),
    /// Switches it on or off, or clears the report of a problem that is gone.
    Refresh,
}

/// Returns what is done next with a host.
pub(super) fn next(host: &Value) -> Action {
    let annotation = |name: &str| host["metadata"]["annotations"][name].as_str();
    if annotation(PAUSED).is_some() {
        return Action::Rest;
    }
    let state = state_of(host);
    match annotation(STATUS) {
        Some(text) if host["status"].is_null() => {
            if let Ok(status) = serde_json::from_str::<Value>(text) {
                return Action::Restore(status);
            }
        }
        Some(_) => return Action::DropStatusAnnotation,
        None => {}
    }
    let finalizers = host["metadata"]["finalizers"].as_array();
    let has_finalizer = finalizers.is_some_and(|all| all.iter().any(|one| one == FINALIZER));
    let is_deleted = host["metadata"]["deletionTimestamp"].is_string();
    let is_detached = annotation(DETACHED).is_some() && state.is_stable();
    if is_deleted {
        return match has_finalizer {
            true if is_detached => Action::RemoveFinalizer,
            true => delete(state),
            false => Action::Rest,
        };
    }
    if !has_finalizer {
        return Action::AddFinalizer;
    }
    let operational = host["status"]["operationalStatus"].as_str();
    if is_detached {
        return match operational {
            Some("detached") => Action::Rest,
            _ => Action::Detach,
        };
    }
    if let Some(problem) = foreign_secret(host) {
        return Action::Refuse(problem);
    }
    let rest = match is_settled(host, state) {
        _ if power::is_restarted(host, state) => Action::DropRebootAnnotation,
        true => Action::Rest,
        false => Action::Refresh,
    };
    target(host, state).map_or(rest, Action::Enter)
}

/// Returns the provisioning state of a host.
pub(super) fn state_of(host: &Value) -> State {
    let state = host["status"]["provisioning"]["state"].as_str();
    State::parse(state.unwrap_or_default())
}

/// Returns whether an image or another way to deploy it is requested.
fn is_requested(host: &Value) -> bool {
    host["spec"]["image"]["url"].is_string() || host["spec"]["customDeploy"].is_object()
}

/// Returns whether it has what is requested.
fn is_current(host: &Value) -> bool {
    let (spec, deployed) = (&host["spec"], &host["status"]["provisioning"]);
    spec["image"]["url"] == deployed["image"]["url"]
        && spec["customDeploy"] == deployed["customDeploy"]
}

/// Returns the next state of a host, if it leaves this one.
fn target(host: &Value, state: State) -> Option<State> {
    let spec = &host["spec"];
    let is_filled = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
    let has_controller =
        is_filled(&spec["bmc"]["address"]) || is_filled(&spec["bmc"]["credentialsName"]);
    let is_external = spec["externallyProvisioned"] == true;
    let is_online = spec["online"] == true;
    match state {
        State::None if !has_controller => Some(State::Unmanaged),
        State::None => Some(State::Registering),
        State::Unmanaged => has_controller.then_some(State::Registering),
        State::Registering if is_external => Some(State::ExternallyProvisioned),
        State::Registering => Some(State::Inspecting),
        State::Inspecting => Some(State::Preparing),
        State::Preparing => Some(State::Available),
        State::Available if is_external => Some(State::ExternallyProvisioned),
        State::Available => (is_requested(host) && is_online).then_some(State::Provisioning),
        State::Provisioning if !is_requested(host) => Some(State::Deprovisioning),
        State::Provisioning => Some(State::Provisioned),
        State::Provisioned => (!is_current(host)).then_some(State::Deprovisioning),
        State::ExternallyProvisioned => (!is_external).then_some(State::Inspecting),
        State::Deprovisioning => Some(State::Available),
        // A deletion cannot be taken back.
        State::PoweringOffBeforeDelete | State::Deleting => None,
    }
}

/// Returns the next step of the deletion of a host.
fn delete(state: State) -> Action {
    match state {
        State::Provisioning | State::Provisioned => Action::Enter(State::Deprovisioning),
        State::PoweringOffBeforeDelete
        | State::None
        | State::Unmanaged
        | State::ExternallyProvisioned => Action::Enter(State::Deleting),
        State::Deleting => Action::RemoveFinalizer,
        _ => Action::Enter(State::PoweringOffBeforeDelete),
    }
}

/// Returns whether the status of a host that stays in its state is as its spec requests.
fn is_settled(host: &Value, state: State) -> bool {
    let status = &host["status"];
    let is_powered = !state.is_stable() || status["poweredOn"] == power::is_wanted_on(host, state);
    is_powered && status["operationalStatus"] == operational(state)
}

/// Returns the operational status of a host without problems.
pub(super) const fn operational(state: State) -> &'static str {
    match state {
        State::Unmanaged => "discovered",
        _ => "OK",
    }
}

/// Returns the problem of a host that refers to a Secret of another namespace.
fn foreign_secret(host: &Value) -> Option<Problem> {
    let own = host["metadata"]["namespace"].as_str().unwrap_or_default();
    let mut fields = ["userData", "metaData", "networkData"].into_iter();
    fields.find_map(|field| {
        let named = host["spec"][field]["namespace"]
            .as_str()
            .unwrap_or_default();
        let is_own = named.is_empty() || named == own;
        (!is_own).then(|| Problem {
            kind: ErrorType::Provisioning,
            message: format!(
                "spec.{field}.namespace: is {named}, but only Secrets of namespace {own} are \
                 allowed"
            ),
        })
    })
}

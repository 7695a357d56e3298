//! Whether a host is switched on: as its spec requests, except while an annotation requests that it
//! restarts.

use serde_json::Value;

use super::REBOOT;
use super::state::State;

/// Returns whether a host in a state is to be switched on.
///
/// A request with a suffix keeps it switched off until the annotation is removed. One without a
/// suffix ends when it is off. A host that must not be switched off restarts instead.
pub(super) fn is_wanted_on(host: &Value, state: State) -> bool {
    let must_stay_on = host["spec"]["disablePowerOff"] == true;
    host["spec"]["online"] == true && (must_stay_on || !is_restart_requested(host, state))
}

/// Returns whether a request without a suffix is done, so that its annotation is removed.
pub(super) fn is_restarted(host: &Value, state: State) -> bool {
    let is_requested = !host["metadata"]["annotations"][REBOOT].is_null();
    let is_off = host["status"]["poweredOn"] != true;
    is_requested && state.is_stable() && (is_off || host["spec"]["disablePowerOff"] == true)
}

/// Returns whether annotations request that a host restarts. Only those with `force` count for a
/// host that is not provisioned.
fn is_restart_requested(host: &Value, state: State) -> bool {
    let is_provisioned = matches!(state, State::Provisioned | State::ExternallyProvisioned);
    let annotations = host["metadata"]["annotations"].as_object();
    let mut annotations = annotations.into_iter().flatten();
    annotations.any(|(name, value)| {
        let suffix = name.strip_prefix(REBOOT);
        let is_request = suffix.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        is_request && (is_provisioned || is_forced(value))
    })
}

fn is_forced(value: &Value) -> bool {
    let text = value.as_str().unwrap_or_default();
    let arguments: Value = serde_json::from_str(text).unwrap_or_default();
    arguments["force"] == true
}

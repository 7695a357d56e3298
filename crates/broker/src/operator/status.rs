//! The status of a tenant, computed without I/O.

use insula_operator::condition::{self, NewCondition, seconds};
use k8s_openapi::jiff::Timestamp;

use super::desired::Desired;
use super::observe::Location;
use super::plan::State;
use crate::columns;
use crate::names::{ADMIN, ADMIN_TOKEN};
use crate::tenant::{Phase, TenantStatus};

/// The condition that tools wait for.
const READY: &str = "Ready";
/// The maximum length of a message, in bytes: more than a reader needs, less than the server
/// accepts.
const MAX_LENGTH: usize = 2048;

/// Returns the status of a tenant in this state; `None` if it is unchanged.
pub(super) fn desired_status(
    desired: Desired<'_>,
    state: &State,
    now: Timestamp,
) -> Option<TenantStatus> {
    let before = desired.tenant.status.clone().unwrap_or_default();
    let mut status = before.clone();
    let (phase, reason, message) = describe(state)?;
    let message = sanitize(&message);
    status.phase = Some(phase);
    status.message = (phase != Phase::Provisioned).then(|| message.clone());
    status.observed_generation = desired.tenant.metadata.generation;
    if matches!(state, State::Provisioning | State::Provisioned) {
        set_location(&mut status, desired);
    }
    if phase == Phase::Provisioned && status.provisioned_at.is_none() {
        status.provisioned_at = Some(seconds(now));
    }
    let condition = NewCondition {
        kind: READY,
        status: phase == Phase::Provisioned,
        reason,
        message,
        generation: desired.tenant.metadata.generation,
    };
    condition::set(status.conditions.get_or_insert_default(), condition, now);
    (status != before).then_some(status)
}

/// Truncates and sanitizes a message that contains text of others, so that it can be shown
/// anywhere.
fn sanitize(message: &str) -> String {
    let cut = &message[..message.floor_char_boundary(MAX_LENGTH)];
    cut.chars().map(columns::sanitize).collect()
}

/// Sets the location of the tenant's objects.
fn set_location(status: &mut TenantStatus, desired: Desired<'_>) {
    let name = desired.id.namespace();
    status.space = (Location::desired(desired) == Location::Space).then(|| name.clone());
    status.namespace = Some(name);
    status.service_account = Some(ADMIN.to_owned());
    status.token_secret = Some(ADMIN_TOKEN.to_owned());
}

/// Returns phase, reason and message; `None` once the tenant is removed.
fn describe(state: &State) -> Option<(Phase, &'static str, String)> {
    Some(match state {
        State::Provisioning => (
            Phase::Provisioning,
            "Provisioning",
            "the broker's prerequisites are being created".to_owned(),
        ),
        State::Provisioned => (
            Phase::Provisioned,
            "Provisioned",
            "all prerequisites of the broker are in place".to_owned(),
        ),
        State::Problem(problem) => {
            let phase = match problem.resolves_itself() {
                true => Phase::Provisioning,
                false => Phase::Failed,
            };
            (phase, problem.reason(), problem.to_string())
        }
        State::Deleting(progress) => (Phase::Deleting, progress.reason, progress.message.clone()),
        State::Removed => return None,
    })
}

//! The status of a tenant, computed without I/O.

use insula_operator::condition::{self, Said, seconds};
use k8s_openapi::jiff::Timestamp;

use super::observe::Ground;
use super::plan::State;
use super::wanted::Wanted;
use crate::columns;
use crate::names::{ADMIN, ADMIN_TOKEN};
use crate::tenant::{Phase, TenantStatus};

/// The condition that tools wait for.
const READY: &str = "Ready";
/// The maximum length of a message, in bytes: more than a reader needs, less than the server
/// accepts.
const LONGEST: usize = 2048;

/// Returns the status of a tenant in this state; `None` if it is unchanged.
pub(super) fn conclude(wanted: Wanted<'_>, state: &State, now: Timestamp) -> Option<TenantStatus> {
    let before = wanted.tenant.status.clone().unwrap_or_default();
    let mut status = before.clone();
    let (phase, reason, message) = tell(state)?;
    let message = harmless(&message);
    status.phase = Some(phase);
    status.message = (phase != Phase::Provisioned).then(|| message.clone());
    status.observed_generation = wanted.tenant.metadata.generation;
    if matches!(state, State::Provisioning | State::Provisioned) {
        place(&mut status, wanted);
    }
    if phase == Phase::Provisioned && status.provisioned_at.is_none() {
        status.provisioned_at = Some(seconds(now));
    }
    let said = Said {
        kind: READY,
        is: phase == Phase::Provisioned,
        reason,
        message,
        generation: wanted.tenant.metadata.generation,
    };
    condition::set(status.conditions.get_or_insert_default(), said, now);
    (status != before).then_some(status)
}

/// Truncates and sanitizes a message that contains text of others, so that it can be shown
/// anywhere.
fn harmless(message: &str) -> String {
    let cut = &message[..message.floor_char_boundary(LONGEST)];
    cut.chars().map(columns::harmless).collect()
}

/// Sets the location of the tenant's objects.
fn place(status: &mut TenantStatus, wanted: Wanted<'_>) {
    let name = wanted.id.namespace();
    status.space = (Ground::wanted(wanted) == Ground::Space).then(|| name.clone());
    status.namespace = Some(name);
    status.service_account = Some(ADMIN.to_owned());
    status.token_secret = Some(ADMIN_TOKEN.to_owned());
}

/// Returns phase, reason and message; `None` once the tenant is removed.
fn tell(state: &State) -> Option<(Phase, &'static str, String)> {
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
        State::Hindered(problem) => {
            let phase = match problem.passes() {
                true => Phase::Provisioning,
                false => Phase::Failed,
            };
            (phase, problem.reason(), problem.to_string())
        }
        State::Deleting(going) => (Phase::Deleting, going.reason, going.message.clone()),
        State::Removed => return None,
    })
}

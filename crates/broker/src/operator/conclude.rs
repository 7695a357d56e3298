//! What is said of a tenant in its status. Nothing here talks to anybody.

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
/// Of what others say much can be passed on: more than anybody reads, and less than the
/// server takes.
const LONGEST: usize = 2048;

/// The status of a tenant that is like this; `None` if it says so already.
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

/// What others had a hand in, so that it can be shown anywhere: cut, on one line, and without
/// what changes how the rest is shown.
fn harmless(message: &str) -> String {
    let cut = &message[..message.floor_char_boundary(LONGEST)];
    cut.chars().map(columns::harmless).collect()
}

/// Where everything is.
fn place(status: &mut TenantStatus, wanted: Wanted<'_>) {
    let name = wanted.id.namespace();
    status.space = (Ground::wanted(wanted) == Ground::Space).then(|| name.clone());
    status.namespace = Some(name);
    status.service_account = Some(ADMIN.to_owned());
    status.token_secret = Some(ADMIN_TOKEN.to_owned());
}

/// Phase, reason and message. Of a tenant of which nothing is left nothing is said.
fn tell(state: &State) -> Option<(Phase, &'static str, String)> {
    Some(match state {
        State::Provisioning => (
            Phase::Provisioning,
            "Provisioning",
            "what the broker needs is being made".to_owned(),
        ),
        State::Provisioned => (
            Phase::Provisioned,
            "Provisioned",
            "everything that the broker needs is there".to_owned(),
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

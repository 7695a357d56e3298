//! The plan for a tenant that is being deleted, computed without I/O.
//!
//! Its credentials are deleted first, so that its token is invalid at once, however long the
//! rest takes. This does not depend on what their holders wrote in the meantime; their
//! finalizers are removed at the end.

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::object::{Act, delete, release};
use super::observe::{Inside, Observed};
use super::plan::{Going, Plan, State};
use super::wanted::Wanted;

/// After this long, an administrator should look at what blocks the deletion.
const LONG: SignedDuration = SignedDuration::from_mins(3);

/// Plans the deletion of a tenant. Objects that were not created for it stay.
pub(super) fn plan(wanted: Wanted<'_>, observed: &Observed, now: Timestamp) -> Plan {
    let namespace = observed.namespace.as_ref();
    let namespace = namespace.filter(|found| wanted.owns(&found.metadata));
    let space = observed.space.as_ref();
    let space = space.filter(|found| wanted.owns(&found.metadata));
    let mut acts = Vec::new();
    if namespace.is_some() {
        acts.extend(revoke(&observed.inside));
    }
    let holds = match (space, namespace) {
        (Some(space), _) => {
            acts.extend(delete(space));
            said(&space.data["status"]["conditions"])
        }
        (None, Some(namespace)) => {
            acts.extend(delete(namespace));
            let status = namespace.status.as_ref();
            let conditions = status.and_then(|status| status.conditions.as_ref());
            said(&serde_json::to_value(conditions).unwrap_or_default())
        }
        (None, None) => {
            return Plan {
                state: State::Removed,
                acts,
            };
        }
    };
    let what = match space {
        Some(_) => "space",
        None => "namespace",
    };
    if namespace.is_some() {
        acts.extend(let_go(&observed.inside));
    }
    let going = going(wanted, what, &holds, now);
    Plan {
        state: State::Deleting(going),
        acts,
    }
}

/// Deletes every credential: the account, its token, and the binding.
fn revoke(inside: &Inside) -> impl Iterator<Item = Act> {
    let account = inside.account.as_ref().and_then(delete);
    let token = inside.token.as_ref().and_then(delete);
    let binding = inside.admin_binding.as_ref().and_then(delete);
    account.into_iter().chain(token).chain(binding)
}

/// Removes finalizers, which every holder of a credential could have added.
fn let_go(inside: &Inside) -> impl Iterator<Item = Act> {
    let account = inside.account.as_ref().and_then(release);
    let token = inside.token.as_ref().and_then(release);
    let binding = inside.admin_binding.as_ref().and_then(release);
    account.into_iter().chain(token).chain(binding)
}

/// Returns the messages of the conditions that block a deletion: those that are true.
fn said(conditions: &Value) -> Vec<String> {
    let conditions = conditions.as_array().into_iter().flatten();
    let mut said: Vec<_> = conditions
        .filter(|condition| condition["status"] == "True")
        .filter_map(|condition| condition["message"].as_str())
        .map(|message| message.trim_end_matches('.').to_owned())
        .collect();
    said.sort();
    said.dedup();
    said
}

fn going(wanted: Wanted<'_>, what: &str, holds: &[String], now: Timestamp) -> Going {
    let name = wanted.id.namespace();
    let since = wanted.tenant.metadata.deletion_timestamp.as_ref();
    let long = since.is_some_and(|since| now.duration_since(since.0) > LONG);
    let message = match (holds, long) {
        ([], false) => format!("{what} {name} is being deleted"),
        ([], true) => format!("{what} {name} is being deleted, which takes unusually long"),
        (holds, false) => format!("{what} {name} is blocked: {}", holds.join("; ")),
        (holds, true) => format!(
            "{what} {name} is blocked, which takes unusually long: {}",
            holds.join("; ")
        ),
    };
    let reason = match long {
        true => "DeletionTakesLong",
        false => "Deleting",
    };
    Going { reason, message }
}

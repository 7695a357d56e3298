//! What is to be done for a tenant that goes. Nothing here talks to anybody.
//!
//! Its credentials go first: from then on its token is worth nothing, however long the rest
//! takes. Nothing of that depends on what whoever had them wrote meanwhile; what they hold is
//! let go of at the end.

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::object::{Act, delete, release};
use super::observe::{Inside, Observed};
use super::plan::{Going, Plan, State};
use super::wanted::Wanted;

/// After this long somebody should look what holds it.
const LONG: SignedDuration = SignedDuration::from_mins(3);

/// What is to be done for a tenant that is to be gone. What was not made for it stays.
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

/// Takes away every credential: the account, its token, and what others may by it.
fn revoke(inside: &Inside) -> impl Iterator<Item = Act> {
    let account = inside.account.as_ref().and_then(delete);
    let token = inside.token.as_ref().and_then(delete);
    let binding = inside.admin_binding.as_ref().and_then(delete);
    account.into_iter().chain(token).chain(binding)
}

/// Whoever had a credential could have put finalizers on it.
fn let_go(inside: &Inside) -> impl Iterator<Item = Act> {
    let account = inside.account.as_ref().and_then(release);
    let token = inside.token.as_ref().and_then(release);
    let binding = inside.admin_binding.as_ref().and_then(release);
    account.into_iter().chain(token).chain(binding)
}

/// What the conditions of something that goes say that it waits for: those that are true
/// are what is in the way.
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
        ([], true) => format!("{what} {name} is being deleted, and it takes long"),
        (holds, false) => format!("{what} {name} is held: {}", holds.join("; ")),
        (holds, true) => format!(
            "{what} {name} is held, and it takes long: {}",
            holds.join("; ")
        ),
    };
    let reason = match long {
        true => "DeletionTakesLong",
        false => "Deleting",
    };
    Going { reason, message }
}

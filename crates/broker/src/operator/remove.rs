//! The plan for a tenant that is being deleted, computed without I/O.
//!
//! Its credentials are deleted first, so that its token is invalid at once, however long the
//! rest takes. This does not depend on what their holders wrote in the meantime; their
//! finalizers are removed at the end.

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::desired::Desired;
use super::object::{Action, delete, remove_finalizers};
use super::observe::{NamespaceContents, Observed};
use super::plan::{DeletionProgress, Plan, State};

/// After this long, an administrator should look at what blocks the deletion.
const LONG_DELETION: SignedDuration = SignedDuration::from_mins(3);

/// Plans the deletion of a tenant. Objects that were not created for it stay.
pub(super) fn plan(desired: Desired<'_>, observed: &Observed, now: Timestamp) -> Plan {
    let namespace = observed.namespace.as_ref();
    let namespace = namespace.filter(|found| desired.owns(&found.metadata));
    let space = observed.space.as_ref();
    let space = space.filter(|found| desired.owns(&found.metadata));
    let mut actions = Vec::new();
    if namespace.is_some() {
        actions.extend(revoke(&observed.contents));
    }
    let holds = match (space, namespace) {
        (Some(space), _) => {
            actions.extend(delete(space));
            blocking_messages(&space.data["status"]["conditions"])
        }
        (None, Some(namespace)) => {
            actions.extend(delete(namespace));
            let status = namespace.status.as_ref();
            let conditions = status.and_then(|status| status.conditions.as_ref());
            blocking_messages(&serde_json::to_value(conditions).unwrap_or_default())
        }
        (None, None) => {
            return Plan {
                state: State::Removed,
                actions,
            };
        }
    };
    let what = match space {
        Some(_) => "space",
        None => "namespace",
    };
    if namespace.is_some() {
        actions.extend(remove_all_finalizers(&observed.contents));
    }
    let progress = progress(desired, what, &holds, now);
    Plan {
        state: State::Deleting(progress),
        actions,
    }
}

/// Deletes every credential: the account, its token, and the binding.
fn revoke(contents: &NamespaceContents) -> impl Iterator<Item = Action> {
    let account = contents.account.as_ref().and_then(delete);
    let token = contents.token.as_ref().and_then(delete);
    let binding = contents.admin_binding.as_ref().and_then(delete);
    account.into_iter().chain(token).chain(binding)
}

/// Removes finalizers, which every holder of a credential could have added.
fn remove_all_finalizers(contents: &NamespaceContents) -> impl Iterator<Item = Action> {
    let account = contents.account.as_ref().and_then(remove_finalizers);
    let token = contents.token.as_ref().and_then(remove_finalizers);
    let binding = contents.admin_binding.as_ref().and_then(remove_finalizers);
    account.into_iter().chain(token).chain(binding)
}

/// Returns the messages of the conditions that block a deletion: those that are true.
fn blocking_messages(conditions: &Value) -> Vec<String> {
    let conditions = conditions.as_array().into_iter().flatten();
    let mut blocking_messages: Vec<_> = conditions
        .filter(|condition| condition["status"] == "True")
        .filter_map(|condition| condition["message"].as_str())
        .map(|message| message.trim_end_matches('.').to_owned())
        .collect();
    blocking_messages.sort();
    blocking_messages.dedup();
    blocking_messages
}

fn progress(
    desired: Desired<'_>,
    what: &str,
    holds: &[String],
    now: Timestamp,
) -> DeletionProgress {
    let name = desired.id.namespace();
    let since = desired.tenant.metadata.deletion_timestamp.as_ref();
    let is_long = since.is_some_and(|since| now.duration_since(since.0) > LONG_DELETION);
    let message = match (holds, is_long) {
        ([], false) => format!("{what} {name} is being deleted"),
        ([], true) => format!("{what} {name} is being deleted, which takes unusually long"),
        (holds, false) => format!("{what} {name} is blocked: {}", holds.join("; ")),
        (holds, true) => format!(
            "{what} {name} is blocked, which takes unusually long: {}",
            holds.join("; ")
        ),
    };
    let reason = match is_long {
        true => "DeletionTakesLong",
        false => "Deleting",
    };
    DeletionProgress { reason, message }
}

//! What some kinds need besides a PUT.

mod removal;
mod role;
mod vault;

use serde_json::{Map, Value};
use tracing::warn;

use super::access::Azure;
use super::object::{Object, Status};
use super::ready::Problem;
use crate::arm::client::Limits;
use crate::arm::error::ArmError;
use crate::arm::{RequestFailure, ResourceId};
use crate::mapping;
use crate::table::{Behaviour, Kind, Merge, Owner, Path};

pub(super) use removal::delete;
use vault::Deleted;

/// The reason of a resource that cannot be sent in its present state.
const BLOCKED: &str = "ReconciliationBlocked";
/// The reason of a resource that is not usable although Azure has accepted it.
const NOT_USABLE: &str = "PostReconciliationFailure";

/// A body that was prepared for a request.
pub(super) enum Prepared {
    /// It can be sent.
    Send(Value),
    /// It cannot be sent now.
    Blocked(Problem),
}

/// Prepares the body of a request as the behaviours of its kind ask for.
///
/// # Errors
///
/// If a request to Azure that is needed before fails.
pub(super) async fn prepare(
    object: &Object<'_>,
    azure: &Azure,
    id: &ResourceId,
    mut body: Value,
) -> Result<Prepared, RequestFailure> {
    let mut current = Current::new(object, azure, id);
    for behaviour in object.kind.behaviours() {
        match behaviour {
            Behaviour::WaitForState { path, states } => {
                let state = current.state(path).await?;
                if let Some(state) = state.filter(|state| !is_one_of(state, states)) {
                    return Ok(blocked("the resource", &state));
                }
            }
            Behaviour::WaitWhileState { path, states } => {
                let state = current.state(path).await?;
                if let Some(state) = state.filter(|state| is_one_of(state, states)) {
                    return Ok(blocked("the resource", &state));
                }
            }
            Behaviour::WaitForOwnerState { path, states } => {
                let state = owner_state(object, azure, id, path).await?;
                if let Some(state) = state.filter(|state| !is_one_of(state, states)) {
                    return Ok(blocked("the owner", &state));
                }
            }
            Behaviour::KeepFromAzure {
                path,
                merge,
                fields,
            } => {
                let theirs = current
                    .read()
                    .await?
                    .and_then(|all| path.select(all).cloned());
                if let Some(mut theirs) = theirs {
                    fields.retain(&mut theirs);
                    keep(path, *merge, &mut body, &theirs);
                }
            }
            Behaviour::RecoverDeletedVault { path, api } => {
                let deleted = vault::recover(azure, id, &mut body, path, api).await?;
                if deleted == Deleted::Purging {
                    let message = "a deleted vault of this name is being purged";
                    return Ok(Prepared::Blocked(Problem::warning(BLOCKED, message)));
                }
            }
            Behaviour::ResolveBuiltInRole { path, api } => {
                role::resolve(azure, id, &mut body, path, api).await?;
            }
            // The others are about the time after the PUT, about deletions, or about ids.
            _ => {}
        }
    }
    Ok(Prepared::Send(body))
}

/// The resource as it is in Azure, which is read at most once.
struct Current<'a> {
    object: &'a Object<'a>,
    azure: &'a Azure,
    id: &'a ResourceId,
    read: Option<Option<Value>>,
}

impl<'a> Current<'a> {
    fn new(object: &'a Object<'a>, azure: &'a Azure, id: &'a ResourceId) -> Self {
        Self {
            object,
            azure,
            id,
            read: None,
        }
    }

    /// Returns the resource, if it exists.
    async fn read(&mut self) -> Result<Option<&Value>, RequestFailure> {
        if self.read.is_none() {
            let version = self.object.version.api_version();
            self.read = Some(find(self.azure, self.id, &version).await?);
        }
        Ok(self.read.as_ref().and_then(Option::as_ref))
    }

    /// Returns a state of the resource, at a path of the status.
    async fn state(&mut self, path: &Path) -> Result<Option<String>, RequestFailure> {
        let (kind, version) = (self.object.kind, self.object.version);
        let resource = self.read().await?;
        let status = resource.map(|it| Value::Object(mapping::status(kind, version, it)));
        Ok(status.and_then(|status| state(path, &status)))
    }
}

/// Reads a resource, if it exists.
async fn find(
    azure: &Azure,
    id: &ResourceId,
    api_version: &str,
) -> Result<Option<Value>, RequestFailure> {
    match azure.session.client().get(id, api_version).await {
        Ok(response) => Ok(Some(response.body)),
        Err(failure) if failure.is_not_found() => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Returns a state of the resource that an id is below, at a path of its status.
async fn owner_state(
    object: &Object<'_>,
    azure: &Azure,
    id: &ResourceId,
    path: &Path,
) -> Result<Option<String>, RequestFailure> {
    let Owner::Kind { group, kind } = object.kind.owner() else {
        return Ok(None);
    };
    let served = object.of.context.provider.served.find(group, kind);
    let version = served.and_then(|served| {
        let version = served.kind.version(&served.watched().version)?;
        Some((served.kind, version))
    });
    let owner = id.as_str().rsplitn(3, '/').nth(2);
    let owner: Option<ResourceId> = owner.and_then(|owner| owner.parse().ok());
    let (Some((kind, version)), Some(owner)) = (version, owner) else {
        return Ok(None);
    };
    let found = find(azure, &owner, &version.api_version()).await?;
    let status = found.map(|found| Value::Object(mapping::status(kind, version, &found)));
    Ok(status.and_then(|status| state(path, &status)))
}

/// Returns a failure as if Azure had refused a request, for one that is not sent because Azure would
/// refuse it with less to say.
fn refusal(status: http::StatusCode, code: &str, message: &str) -> RequestFailure {
    RequestFailure::Refused {
        error: Box::new(ArmError::new(status, code, message)),
        limits: Limits::default(),
    }
}

fn blocked(what: &str, state: &str) -> Prepared {
    let message = format!("{what} is in the state {state:?}, in which it cannot be changed");
    Prepared::Blocked(Problem::warning(BLOCKED, message))
}

fn state(path: &Path, status: &Value) -> Option<String> {
    path.select(status)
        .and_then(Value::as_str)
        .map(str::to_owned)
}

fn is_one_of(state: &str, states: &[String]) -> bool {
    states.iter().any(|one| one.eq_ignore_ascii_case(state))
}

/// Takes the elements of a list from the resource in Azure: a PUT without them would delete them.
fn keep(path: &Path, merge: Merge, body: &mut Value, in_azure: &Value) {
    let Some(theirs) = in_azure.as_array() else {
        return;
    };
    let own = path.select(body).and_then(Value::as_array);
    let own = own.cloned().unwrap_or_default();
    let list = match merge {
        Merge::Replace => theirs.clone(),
        Merge::ByName => {
            let names = |one: &Value| one["name"].as_str().map(str::to_lowercase);
            let is_new = |one: &&Value| !own.iter().any(|known| names(known) == names(one));
            let added: Vec<Value> = theirs.iter().filter(is_new).cloned().collect();
            own.into_iter().chain(added).collect()
        }
    };
    set(path, body, Value::Array(list));
}

/// Sets a value at a path of members.
fn set(path: &Path, body: &mut Value, value: Value) {
    let Some(members) = path.members() else {
        return;
    };
    let mut place = body;
    for member in members {
        if !place.is_object() {
            *place = Value::Object(Map::new());
        }
        place = &mut place[member];
    }
    *place = value;
}

/// Removes lists that are too long to be kept in the status.
pub(super) fn trim_status(kind: &Kind, status: &mut Status) {
    for behaviour in kind.behaviours() {
        if let Behaviour::DropLargeStatus { path, above } = behaviour {
            let mut value = Value::Object(std::mem::take(status));
            let length = path.select(&value).and_then(Value::as_array).map(Vec::len);
            if length.is_some_and(|length| length > *above) {
                set(path, &mut value, Value::Null);
            }
            if let Value::Object(trimmed) = value {
                *status = trimmed;
            }
        }
    }
}

/// Checks whether the resource is usable.
///
/// # Errors
///
/// If the status has a state in which it is not.
pub(super) fn check_status(kind: &Kind, status: &Status) -> Result<(), Problem> {
    let status = Value::Object(status.clone());
    for behaviour in kind.behaviours() {
        match behaviour {
            Behaviour::RequireState { path, states, .. } => {
                // A resource without the state is not known to be unusable.
                let found = state(path, &status);
                if let Some(found) = found.filter(|found| !is_one_of(found, states)) {
                    let message = format!("the resource is in the state {found:?}");
                    return Err(Problem::warning(NOT_USABLE, message));
                }
            }
            Behaviour::RequireEach { list, path, values } => {
                let elements = list.select(&status).and_then(Value::as_array);
                let bad = elements.into_iter().flatten().find_map(|element| {
                    let found = state(path, element).unwrap_or_default();
                    (!is_one_of(&found, values)).then_some(found)
                });
                if let Some(found) = bad {
                    let message = format!("a part of the resource is in the state {found:?}");
                    return Err(Problem::warning(NOT_USABLE, message));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Lets Azure look again at a resource that is not usable, if its kind has a request for that. A
/// failure is logged only: the state is what users have to know.
pub(super) async fn request_sync(object: &Object<'_>, azure: &Azure, status: &Status) {
    let status = Value::Object(status.clone());
    let syncs = object.kind.behaviours().iter();
    let sync = syncs.filter_map(|behaviour| match behaviour {
        Behaviour::RequireState { path, sync_on, .. } => Some((path, sync_on)),
        _ => None,
    });
    for (path, sync) in sync {
        let Some(id) = object.arm_id().filter(|_| sync.applies(path, &status)) else {
            continue;
        };
        let client = azure.session.client();
        let sent = client.post(&id, &sync.post, &sync.api, Some(&sync.body));
        if let Err(error) = sent.await {
            warn!(key = %object.of.key, %error, "sync request refused");
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn path(text: &str) -> Path {
        Path::parse(text).unwrap()
    }

    #[test]
    fn lists_are_kept_from_azure() {
        let in_azure = json!([{"name": "A"}, {"name": "b"}]);
        let subnets = path("properties.subnets");
        let mut body = json!({"properties": {"x": 1}});
        keep(&subnets, Merge::Replace, &mut body, &in_azure);
        let expected = json!({"properties": {"x": 1, "subnets": [{"name": "A"}, {"name": "b"}]}});
        assert_eq!(body, expected);
        let mut body = json!({"properties": {"subnets": [{"name": "a", "own": true}]}});
        keep(&subnets, Merge::ByName, &mut body, &in_azure);
        let expected = json!([{"name": "a", "own": true}, {"name": "b"}]);
        assert_eq!(body["properties"]["subnets"], expected);
        let mut body = json!({});
        keep(&subnets, Merge::Replace, &mut body, &Value::Null);
        assert_eq!(body, json!({}));
    }

    #[test]
    fn r31_backup_instance_is_usable_in_final_states_and_synced_after_errors_of_users() {
        let group = "dataprotection.azure.com";
        let kind = crate::table::find(group, "BackupVaultsBackupInstance").unwrap();
        let status = |state: &str, code: &str| {
            let status = json!({"properties": {"protectionStatus": {
                "status": state, "errorDetails": {"code": code},
            }}});
            status.as_object().cloned().unwrap()
        };
        let syncs = |status: &Status| {
            kind.behaviours().iter().any(|behaviour| match behaviour {
                Behaviour::RequireState { path, sync_on, .. } => {
                    sync_on.applies(path, &Value::Object(status.clone()))
                }
                _ => false,
            })
        };
        for (status, usable, synced) in [
            (status("ProtectionConfigured", ""), true, false),
            (status("ProtectionError", "UserErrorDisabled"), false, true),
            (status("ProtectionError", "InternalError"), false, false),
            (
                status("ConfiguringProtection", "UserErrorDisabled"),
                false,
                false,
            ),
            (Status::new(), true, false),
        ] {
            assert_eq!(check_status(kind, &status).is_ok(), usable, "{status:?}");
            assert_eq!(syncs(&status), synced, "{status:?}");
        }
    }

    #[test]
    fn states_are_compared_without_case() {
        let states = ["Succeeded".to_owned(), "Failed".to_owned()];
        assert!(is_one_of("succeeded", &states) && !is_one_of("Creating", &states));
    }
}

//! Deleted key vaults, which Azure keeps for some time.

use serde_json::Value;

use super::{find, refusal, set};
use crate::arm::id::ResourceType;
use crate::arm::{RequestFailure, ResourceId};
use crate::operator::access::Azure;
use crate::table::Path;

/// The type of deleted vaults, below a location.
const DELETED_VAULTS: &str = "Microsoft.KeyVault/locations/deletedVaults";

/// Whether a deleted vault is in the way of a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deleted {
    /// There is none, or it is recovered, or Azure decides.
    Clear,
    /// It is being purged, which takes some time.
    Purging,
}

/// Replaces the create mode of a vault that depends on whether a deleted one of its name exists.
pub(super) async fn recover(
    azure: &Azure,
    id: &ResourceId,
    body: &mut Value,
    path: &Path,
    api: &str,
) -> Result<Deleted, RequestFailure> {
    let mode = path
        .select(body)
        .and_then(Value::as_str)
        .unwrap_or_default();
    let (is_recovery, is_purge) = (mode == "createOrRecover", mode == "purgeThenCreate");
    if !is_recovery && !is_purge {
        return Ok(Deleted::Clear);
    }
    let location = body["location"].as_str().unwrap_or_default().to_owned();
    let deleted = deleted_vault(azure, &location, id.name());
    let Some(deleted) = deleted else {
        return Ok(Deleted::Clear);
    };
    let client = azure.session.client();
    let found = find(azure, &deleted, api).await?;
    let mode = match &found {
        None => "default",
        Some(found) if is_recovery => {
            check_recoverable(id, found)?;
            "recover"
        }
        Some(_) => {
            client.post(&deleted, "purge", api, None).await?;
            return Ok(Deleted::Purging);
        }
    };
    set(path, body, mode.into());
    Ok(Deleted::Clear)
}

fn deleted_vault(azure: &Azure, location: &str, name: &str) -> Option<ResourceId> {
    let of_type: ResourceType = DELETED_VAULTS.parse().ok()?;
    let subscription = ResourceId::of_subscription(azure.session.subscription()).ok()?;
    subscription.extension(&of_type, &[location, name]).ok()
}

/// A deleted vault can be recovered in its own resource group only.
fn check_recoverable(id: &ResourceId, deleted: &Value) -> Result<(), RequestFailure> {
    let former = deleted["properties"]["vaultId"]
        .as_str()
        .unwrap_or_default();
    let former: Option<ResourceId> = former.parse().ok();
    if former.is_some_and(|former| former == *id) {
        return Ok(());
    }
    let message = "a deleted vault of this name exists in another resource group: purge it there, \
                   or choose another name";
    Err(refusal(
        http::StatusCode::CONFLICT,
        "PropertyChangeNotAllowed",
        message,
    ))
}
